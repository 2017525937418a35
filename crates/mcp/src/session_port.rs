//! The interface between servers and their session.

use crate::oauth::SignIn;
use crate::pins::{Pins, ToolDigests};
use pijs_hostcall::Caller;
use std::path::PathBuf;

/// The start of a server's program, for whoever finds its files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramStart {
    /// A name, or a path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The folder that it starts in; without it, the session's.
    pub cwd: Option<String>,
    /// A folder whose files are bound to grants already: that of the package whose server it is.
    pub bound: Option<PathBuf>,
}

/// The part of a session that servers need.
pub trait SessionPort: Send + Sync {
    /// Folders that servers are told of.
    fn roots(&self) -> Vec<PathBuf>;
    /// Takes a line that a server logs.
    fn log(&self, caller: &Caller, level: &str, logger: Option<&str>, text: &str);
    /// Takes a value that is not to be shown or recorded.
    fn learn(&self, _secret: &str) {}
    /// Takes a value of `env` or `headers`, which may be a key however short it is.
    fn learn_setting(&self, value: &str) {
        self.learn(value);
    }
    /// Takes out of a text what is not to be shown or recorded.
    fn redacted(&self, text: &str) -> String {
        text.to_owned()
    }
    /// Takes a line for the user about a server.
    fn notice(&self, line: String);
    /// Reads what was agreed to.
    fn pins(&self) -> Pins;
    /// Changes what was agreed to.
    fn change_pins(&self, change: &mut dyn FnMut(&mut Pins));
    /// Finds the files of a program and says what each is now: `sha256:HEX STAMP`. One whose stamp is known is not read again. Files that
    /// only the system's administrator changes are left out.
    ///
    /// # Errors
    ///
    /// A file cannot be read; the message names it.
    fn program(&self, _start: &ProgramStart, _known: &ToolDigests) -> Result<ToolDigests, String> {
        Ok(ToolDigests::new())
    }
    /// The sign-in that is kept under a key.
    fn sign_in(&self, _key: &str) -> Option<SignIn> {
        None
    }
    /// Keeps a sign-in.
    fn keep_sign_in(&self, _key: &str, _sign_in: &SignIn) {}
    /// Whether a user can be asked for input.
    fn asks_users(&self) -> bool {
        false
    }
    /// Provider and id of the session's model, which servers may ask.
    fn model(&self) -> Option<(String, String)> {
        None
    }
}
