//! Shows a report of an extension once, and counts its repetitions.
//!
//! An extension that fails at every event would bury the conversation. Reports with equal texts count as one report; output that
//! an extension prints as a warning or an error counts as a report. At the end of a turn [`RepeatedReports::counted`] summarises
//! the repetitions.

use pijs_host::{ExtensionReport, ReportKind};
use pijs_protocol::ExtensionId;
use pijs_protocol::log::Level;
use std::collections::BTreeMap;

/// Maximum number of distinct reports of a session that are tracked. Further ones are always shown.
const MAX_KNOWN: usize = 1024;
/// Maximum number of characters of a report in a summary.
const SHOWN: usize = 100;

/// Reports of a session that were shown.
#[derive(Debug, Default)]
pub struct RepeatedReports {
    /// Repetitions of each report since the last summary.
    known: BTreeMap<(ExtensionId, String), u64>,
}

impl RepeatedReports {
    /// Returns whether a report is to be shown; `words` is its text without secrets. A repetition is counted instead.
    pub fn shows(&mut self, report: &ExtensionReport, words: &str) -> bool {
        let can_be_counted = match &report.kind {
            ReportKind::Error(_) | ReportKind::Warning { .. } | ReportKind::Conflict { .. } => true,
            ReportKind::Log(entry) => matches!(entry.level, Level::Warn | Level::Error),
            _ => false,
        };
        let key = (report.extension.clone(), words.to_owned());
        if !can_be_counted {
            return true;
        }
        if let Some(count) = self.known.get_mut(&key) {
            *count += 1;
            return false;
        }
        if self.known.len() < MAX_KNOWN {
            self.known.insert(key, 0);
        }
        true
    }

    /// Returns a line for each report that was repeated since the last call.
    pub fn counted(&mut self) -> Vec<String> {
        let again = self.known.iter_mut().filter(|(_, count)| **count > 0);
        again
            .map(|((_, text), count)| {
                let times = if *count == 1 { "time" } else { "times" };
                let line = format!("{} … and {count} more {times}", first_line(text));
                *count = 0;
                line
            })
            .collect()
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(extension: &str, message: &str) -> ExtensionReport {
        let kind = ReportKind::Warning { message: message.to_owned() };
        ExtensionReport { extension: ExtensionId::new(extension), path: "a.ts".to_owned(), kind }
    }

    #[test]
    fn repeated_reports_are_shown_once_and_counted_at_the_end_of_a_turn() {
        let mut repeated = RepeatedReports::default();
        let shows =
            |repeated: &mut RepeatedReports, report: &ExtensionReport| repeated.shows(report, &report.to_string());
        let failure = warning("a", "EACCES: permission denied\n  at a.ts:1");
        let shown = (0..10).filter(|_| shows(&mut repeated, &failure)).count();
        assert_eq!(shown, 1);
        assert!(shows(&mut repeated, &warning("b", "EACCES: permission denied\n  at a.ts:1")), "another one says it");
        assert!(shows(&mut repeated, &warning("a", "something else")));
        assert_eq!(repeated.counted(), ["Extension \"a.ts\": EACCES: permission denied … and 9 more times"]);
        assert!(repeated.counted().is_empty(), "it is said once");
        assert!(!shows(&mut repeated, &warning("a", "something else")), "it was seen in an earlier turn");
        assert_eq!(repeated.counted(), ["Extension \"a.ts\": something else … and 1 more time"]);
        let restarted = ExtensionReport { kind: ReportKind::Restarted, ..warning("a", "") };
        assert!(shows(&mut repeated, &restarted) && shows(&mut repeated, &restarted), "an event is no repetition");
    }
}
