//! Handles keys with a special meaning: shortcuts of extensions, and keys that are pressed twice.

use crate::input::{self, TerminalInput};
use crate::picker::ListKind;
use pijs_protocol::guard;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Maximum time between two Ctrl-C that end the program.
const EXIT_CHORD: Duration = Duration::from_millis(1_000);
/// Maximum time between two Escapes that open a list.
const DOUBLE_ESCAPE: Duration = Duration::from_millis(500);

/// Shortcuts, and the time of the previous press of keys that are pressed twice.
#[derive(Debug, Default)]
pub(crate) struct KeyState {
    /// Keys with shortcuts of extensions.
    shortcuts: BTreeSet<String>,
    shortcut_warnings: Vec<String>,
    interrupted: Option<Instant>,
    escaped: Option<Instant>,
    /// List that two Escapes open; `None` if they open none.
    pub(crate) escapes_to: Option<ListKind>,
}

impl KeyState {
    /// Sets the keys with shortcuts and the problems with them. Returns whether anything has changed.
    pub(crate) fn set_shortcuts(&mut self, shortcuts: BTreeSet<String>, warnings: Vec<String>) -> bool {
        let has_changed = self.shortcuts != shortcuts || self.shortcut_warnings != warnings;
        (self.shortcuts, self.shortcut_warnings) = (shortcuts, warnings);
        has_changed
    }

    pub(crate) fn is_shortcut(&self, key: &str) -> bool {
        self.shortcuts.contains(key)
    }

    /// Returns whether the input is the second Ctrl-C of two.
    pub(crate) fn is_exit_chord(&mut self, input: &TerminalInput, now: Instant) -> bool {
        let is_interrupt = matches!(input, TerminalInput::Key(data) if input::name(data).as_deref() == Some("ctrl+c"));
        let before = std::mem::replace(&mut self.interrupted, is_interrupt.then_some(now));
        is_interrupt && before.is_some_and(|before| now.duration_since(before) <= EXIT_CHORD) && guard!(TuiExitChord)
    }

    /// Returns whether this Escape is the second of two.
    pub(crate) fn is_double_escape(&mut self, now: Instant) -> bool {
        let before = self.escaped.take();
        let is_double = before.is_some_and(|before| now.duration_since(before) <= DOUBLE_ESCAPE);
        self.escaped = (!is_double).then_some(now);
        is_double
    }
}
