//! The violation of a workspace rule, as reported by every check.

use std::fmt;

/// A violation of a workspace rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The crate or file that violates the rule.
    pub place: String,
    /// Description of the violation and the rule.
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
