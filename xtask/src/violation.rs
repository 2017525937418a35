//! A broken rule of the workspace, as every check reports it.

use std::fmt;

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Crate or file.
    pub place: String,
    /// The violation, and the rule.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

pub(crate) fn violation(place: impl Into<String>, what: impl Into<String>) -> Violation {
    Violation { place: place.into(), what: what.into() }
}
