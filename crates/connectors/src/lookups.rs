//! Limits the number of different host names that an extension looks up.
//!
//! A grant with a wildcard (`http`, `*.example.org`) lets an extension choose names. Each lookup sends the name to a name server,
//! even if no such host exists, so names can leak data. The names are counted for the whole run, across restarts of the
//! extension; repeated lookups of a name are free.

use pijs_protocol::{ExtensionId, HostcallError, guard};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Maximum number of different names that one extension may look up.
pub const LOOKUPS: usize = 256;

/// The names that extensions have looked up.
#[derive(Default)]
pub(crate) struct Lookups {
    names: Mutex<BTreeMap<ExtensionId, BTreeSet<String>>>,
}

/// Error for a name over the limit.
#[derive(Debug)]
pub(crate) struct TooManyNames;

impl fmt::Display for TooManyNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this extension has looked up {LOOKUPS} different names; it may use these, and no others")
    }
}

impl std::error::Error for TooManyNames {}

impl TooManyNames {
    /// Returns the error for the extension.
    pub(crate) fn refusal(&self, method: &str) -> HostcallError {
        HostcallError::denied("quota", format!("{method}: quota used up: lookups {LOOKUPS}: {self}"))
            .with("quota", "lookups")
            .with("limit", LOOKUPS)
    }
}

impl Lookups {
    /// Counts a name; fails if the limit is exceeded.
    pub(crate) fn note(&self, extension: &ExtensionId, name: &str) -> Result<(), TooManyNames> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let mut all = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let names = all.entry(extension.clone()).or_default();
        if names.len() >= LOOKUPS && !names.contains(&name) && guard!(NetResolvedNames) {
            return Err(TooManyNames);
        }
        names.insert(name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_not_counted_and_limits_are_per_extension() {
        let lookups = Lookups::default();
        let (one, other) = (ExtensionId::new("one"), ExtensionId::new("other"));
        for number in 0..LOOKUPS {
            assert!(lookups.note(&one, &format!("{number}.example")).is_ok());
        }
        assert!(lookups.note(&one, "more.example").is_err());
        assert!(lookups.note(&one, "0.EXAMPLE.").is_ok());
        assert!(lookups.note(&other, "more.example").is_ok());
    }
}
