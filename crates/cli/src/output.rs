//! Writes to stdout and stderr. All output to a terminal is sanitised here, regardless of its source.

use pijs_protocol::guard;
use pijs_runtime::Notices;
pub(crate) use pijs_runtime::{clean, indented, option_text};
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

/// Writes one line to stdout. A closed pipe (`pi list | head -1`) is not an error.
///
/// A pipe gets the bytes unchanged; a terminal gets sanitised text.
pub(crate) fn stdout(line: &str) {
    let mut out = std::io::stdout().lock();
    let line = if out.is_terminal() { clean(line) } else { line.to_owned() };
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Writes a complete reply of the model to stdout.
pub(crate) fn reply(text: &str) {
    let mut out = std::io::stdout().lock();
    let text = match out.is_terminal() {
        true => pijs_terminal::within(text, pijs_terminal::Limits::unbounded()),
        false => text.to_owned(),
    };
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Writes a message to stderr, sanitised.
pub(crate) fn stderr(line: &str) {
    match &*DIVERTED.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(elsewhere) => elsewhere.show(line),
        None => drop(writeln!(std::io::stderr().lock(), "{}", clean(line))),
    }
}

/// Shows a line about progress, which a terminal removes at the end of the work; `None` at that end.
pub(crate) fn progress(line: Option<&str>) {
    match (&*DIVERTED.lock().unwrap_or_else(PoisonError::into_inner), line) {
        (Some(elsewhere), line) => elsewhere.progress(line),
        (None, Some(line)) => drop(writeln!(std::io::stderr().lock(), "{}", clean(line))),
        (None, None) => {}
    }
}

static DIVERTED: Mutex<Option<Notices>> = Mutex::new(None);

/// Redirects messages for stderr, or restores stderr. The receiver sanitises them.
pub(crate) fn divert(to: Option<Notices>) {
    *DIVERTED.lock().unwrap_or_else(PoisonError::into_inner) = to;
}

/// Writes lines of JSON. Escapes characters that could control a terminal, without changing the values.
pub(crate) struct Json<W>(pub(crate) W);

impl<W: Write> Write for Json<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) if guard!(OutputJson) => self.0.write_all(pijs_terminal::json(text).as_bytes())?,
            _ => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}
