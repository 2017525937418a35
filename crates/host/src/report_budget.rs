//! Limits the reports of an extension in one turn of the agent.
//!
//! An extension that throws or prints endlessly must not flood the terminal, the client or the ledger. Past the budget its
//! reports are only counted, and the next turn reports the number. Stops, strikes and restarts have their own limits and always
//! pass.

use crate::report::ReportKind;

/// Limits on reports of one extension in one turn of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportBudget {
    /// Maximum number of errors and warnings.
    pub errors: u32,
    /// Maximum number of lines of console output.
    pub lines: u32,
}

impl Default for ReportBudget {
    /// Returns 100 errors, more than a user reads, and 5,000 lines, a long table.
    fn default() -> Self {
        Self { errors: 100, lines: 5_000 }
    }
}

/// Number of reports of one extension since the turn began.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    errors: u64,
    lines: u64,
}

/// Decision about a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportFate {
    Passes,
    /// The report is the first dropped one; a notice about the limit replaces it.
    Last,
    Counted,
}

impl Reported {
    pub(crate) fn take(&mut self, kind: &ReportKind, budget: ReportBudget) -> ReportFate {
        let (count, most) = match kind {
            ReportKind::Error(_) | ReportKind::Warning { .. } | ReportKind::Conflict { .. } => {
                (&mut self.errors, budget.errors)
            }
            ReportKind::Log(_) => (&mut self.lines, budget.lines),
            _ => return ReportFate::Passes,
        };
        *count += 1;
        match u64::from(most) {
            most if *count <= most => ReportFate::Passes,
            most if *count == most + 1 => ReportFate::Last,
            _ => ReportFate::Counted,
        }
    }

    pub(crate) fn has_room_for_an_error(&self, budget: ReportBudget) -> bool {
        self.errors < u64::from(budget.errors)
    }

    /// Returns the numbers of dropped errors and lines.
    pub(crate) fn left_out(&self, budget: ReportBudget) -> (u64, u64) {
        (self.errors.saturating_sub(budget.errors.into()), self.lines.saturating_sub(budget.lines.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_past_the_budget_is_said_once_and_counted() {
        let budget = ReportBudget { errors: 2, lines: 1 };
        let mut reported = Reported::default();
        let warning = ReportKind::Warning { message: String::new() };
        let mut had_room = Vec::new();
        let fates: Vec<ReportFate> = (0..4)
            .map(|_| {
                had_room.push(reported.has_room_for_an_error(budget));
                reported.take(&warning, budget)
            })
            .collect();
        assert_eq!(fates, [ReportFate::Passes, ReportFate::Passes, ReportFate::Last, ReportFate::Counted]);
        assert_eq!(had_room, [true, true, false, false], "it is known beforehand");
        assert_eq!(reported.left_out(budget), (2, 0));
        assert_eq!(reported.take(&ReportKind::Restarted, budget), ReportFate::Passes);
    }
}
