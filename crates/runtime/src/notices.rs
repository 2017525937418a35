//! Lines for the user while a session is put together and runs: warnings, notes, progress.

use std::fmt;
use std::sync::Arc;

/// Takes lines for the user. Cheap to clone; lines may come from any thread.
///
/// A line can quote an extension, a file or a server: whoever shows it on a terminal cleans it first ([`clean`](crate::clean)).
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(&str) + Send + Sync>);

impl Notices {
    /// Hands each line to `show`.
    pub fn new(show: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }

    /// Writes each line to stderr, cleaned for a terminal.
    pub fn to_stderr() -> Self {
        use std::io::Write as _;
        Self::new(|line| drop(writeln!(std::io::stderr().lock(), "{}", crate::clean(line))))
    }

    /// Shows one line, or several that belong together.
    pub fn show(&self, line: &str) {
        self.0(line);
    }

    /// Shows a warning.
    pub fn warn(&self, message: impl fmt::Display) {
        self.show(&format!("warning: {message}"));
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}
