//! The interface between servers and their session.

use crate::oauth::SignIn;
use crate::pins::{Pins, ToolDigests};
use pijs_hostcall::Caller;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A program start, for which the session determines the program's files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramStart {
    /// A name or a path.
    pub command: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment variables of the program.
    pub env: BTreeMap<String, String>,
    /// Working folder; if absent, the session's folder.
    pub cwd: Option<String>,
    /// Folder of the package that registers the server. Files in it are not pinned here, because the package's grants are bound
    /// to them.
    pub bound: Option<PathBuf>,
}

/// The interface of the session that servers use.
pub trait SessionPort: Send + Sync {
    /// Returns the roots for servers.
    fn roots(&self) -> Vec<PathBuf>;
    /// Records a line that a server logs.
    fn log(&self, caller: &Caller, level: &str, logger: Option<&str>, text: &str);
    /// Registers a secret for redaction.
    fn learn(&self, _secret: &str) {}
    /// Registers a value of `env` or `headers` for redaction. Unlike other secrets it is redacted even if it is short.
    fn learn_setting(&self, value: &str) {
        self.learn(value);
    }
    /// Redacts registered secrets in a text.
    fn redacted(&self, text: &str) -> String {
        text.to_owned()
    }
    /// Shows a line about a server to the user.
    fn notice(&self, line: String);
    /// Reads the stored pins.
    fn pins(&self) -> Pins;
    /// Changes the stored pins.
    fn change_pins(&self, change: &mut dyn FnMut(&mut Pins));
    /// Returns the files of a program, each with `sha256:HEX STAMP`. Does not read a file again if its stamp equals the one in
    /// `known`. Omits files that only the system's administrator can change.
    ///
    /// # Errors
    ///
    /// Fails when a file cannot be read.
    fn program(&self, _start: &ProgramStart, _known: &ToolDigests) -> Result<ToolDigests, String> {
        Ok(ToolDigests::new())
    }
    /// Returns the sign-in stored under a key.
    fn sign_in(&self, _key: &str) -> Option<SignIn> {
        None
    }
    /// Stores a sign-in under a key.
    fn keep_sign_in(&self, _key: &str, _sign_in: &SignIn) {}
    /// Returns whether the user can be asked for input.
    fn asks_users(&self) -> bool {
        false
    }
    /// Returns the provider and id of the model for sampling requests, if there is one.
    fn model(&self) -> Option<(String, String)> {
        None
    }
}
