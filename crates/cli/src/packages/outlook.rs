//! Says in one line what an installed package is going to do: it works, works without something, or will not work.
//!
//! The scan knows which imports lead nowhere and what a realm refuses. An import that is evaluated when an entry is loaded
//! ends the entry; one that may never run is something that the package does without, as is what a realm refuses and what
//! its user has not granted.

use pijs_protocol::artifact::{Finding, Verdict};
use std::collections::BTreeSet;
use std::fmt;

/// Parts that are named; a package that lacks more lacks too much to read.
const MOST_NAMED: usize = 6;
/// The finding of an import that leads nowhere.
const UNRESOLVED: &str = "BD_UNRESOLVED";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    Works,
    WorksWithout(Vec<String>),
    /// And why.
    WillNotWork(String),
}

impl Outlook {
    /// Judges by what the scan found. `is_useful`: pi loads something of it; `lacks_grants`: it asked for what it was not
    /// granted.
    pub(super) fn new(findings: &[Finding], is_useful: bool, lacks_grants: bool) -> Self {
        if !is_useful {
            return Self::WillNotWork("pi loads nothing of it".to_owned());
        }
        let ends = findings.iter().find(|finding| finding.code == UNRESOLVED && finding.class == Verdict::Blocked);
        if let Some(finding) = ends {
            return Self::WillNotWork(format!("{} ({}:{})", finding.message, finding.file, finding.line));
        }
        let mut without = BTreeSet::new();
        without.extend(findings.iter().filter(|finding| !is_probe(finding)).filter_map(part));
        let more = without.len().saturating_sub(MOST_NAMED);
        let mut without: Vec<String> = without.into_iter().take(MOST_NAMED).collect();
        if more > 0 {
            without.push(format!("{more} more parts (pi ext show)"));
        }
        if lacks_grants {
            without.push("what it was not granted".to_owned());
        }
        if without.is_empty() { Self::Works } else { Self::WorksWithout(without) }
    }
}

/// Libraries probe for what they can do without.
fn is_probe(finding: &Finding) -> bool {
    let is_dependency = finding.file.starts_with("dep:") || finding.file.split('/').any(|part| part == "node_modules");
    is_dependency && finding.class != Verdict::Blocked
}

/// Names the part that a package has to do without, by a finding.
fn part(finding: &Finding) -> Option<String> {
    match finding.code.as_str() {
        UNRESOLVED => finding.message.split('`').nth(1).map(|name| format!("`{name}` (not there)")),
        "BD_NATIVE" => Some("native code".to_owned()),
        "BD_WASM" => Some("WebAssembly".to_owned()),
        "BD_WORKER" => Some("worker threads".to_owned()),
        "BD_EVAL" => Some("code made from text".to_owned()),
        _ => None,
    }
}

impl fmt::Display for Outlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works => f.write_str("works"),
            Self::WorksWithout(parts) => match parts.as_slice() {
                [first @ .., last] if !first.is_empty() => write!(f, "works without {} and {last}", first.join(", ")),
                parts => write!(f, "works without {}", parts.concat()),
            },
            Self::WillNotWork(why) => write!(f, "will not work: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(code: &str, class: Verdict, file: &str, message: &str) -> Finding {
        let (code, file, message) = (code.to_owned(), file.to_owned(), message.to_owned());
        Finding { code, class, file, line: 3, column: 1, message, help: None, ends_load: false }
    }

    #[test]
    fn one_line_says_what_a_package_is_going_to_do() {
        let absent = |class, file| finding(UNRESOLVED, class, file, "`leaf` is not installed: no such package");
        let said = |findings: &[Finding], lacks| Outlook::new(findings, true, lacks).to_string();
        assert_eq!(said(&[], false), "works");
        assert_eq!(said(&[], true), "works without what it was not granted");
        assert_eq!(
            said(&[absent(Verdict::Blocked, "a.ts")], true),
            "will not work: `leaf` is not installed: no such package (a.ts:3)"
        );
        let native = finding("BD_NATIVE", Verdict::Blocked, "dep:x@1.0.0/a.js", "loads native code");
        let dynamic = finding("BD_DYNAMIC_IMPORT", Verdict::Warning, "a.ts", "computed");
        assert_eq!(
            said(&[absent(Verdict::Warning, "a.ts"), native.clone(), native, dynamic], false),
            "works without `leaf` (not there) and native code"
        );
        // A library tries it and goes on without.
        assert_eq!(said(&[absent(Verdict::Warning, "node_modules/x/a.js")], false), "works");
        assert_eq!(Outlook::new(&[], false, false).to_string(), "will not work: pi loads nothing of it");
    }
}
