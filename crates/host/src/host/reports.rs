//! Applies the budget of reports, and resets it with each turn of the agent.

use super::Host;
use crate::extension::Slot;
use crate::record;
use crate::report::ReportKind;
use crate::report_budget::{ReportBudget, ReportFate};
use pijs_protocol::guard;
use pijs_protocol::message::ErrorReport;
use std::rc::Rc;

/// Events that reset the budget.
const TURNS: &[&str] = &["agent_start", "turn_start", "agent_end", "session_shutdown"];

impl Host {
    /// Decides whether a report is delivered.
    pub(crate) fn fate(&self, slot: &Rc<Slot>, kind: &ReportKind) -> ReportFate {
        let budget = self.0.services.options.reports;
        match slot.cell.borrow_mut().progress.reported.take(kind, budget) {
            _ if !guard!(ReportBudget) => ReportFate::Passes,
            fate => fate,
        }
    }

    /// Returns whether one more error would be delivered, without counting it.
    fn passes_error(&self, slot: &Rc<Slot>) -> bool {
        slot.cell.borrow().progress.reported.has_room_for_an_error(self.0.services.options.reports)
            || !guard!(ReportBudget)
    }

    /// Reports an error of an extension with its source position, which is not looked up if the report is dropped.
    pub(crate) fn report_thrown(&self, slot: &Rc<Slot>, error: ErrorReport) {
        let error = if self.passes_error(slot) { self.located(slot, error) } else { error };
        self.report(slot, error.entry, ReportKind::Error(error));
    }

    /// Creates the notice that replaces the first report over the limit.
    pub(crate) fn too_many(&self, kind: &ReportKind) -> ReportKind {
        let ReportBudget { errors, lines } = self.0.services.options.reports;
        let message = match kind {
            ReportKind::Log(_) => format!("it prints more than {lines} lines in one turn; the others are only counted"),
            _ => format!("it reports more than {errors} errors in one turn; the others are only counted"),
        };
        ReportKind::Warning { message }
    }

    /// Resets the budget at the start or end of a turn, and reports the number of dropped reports.
    pub(crate) fn count_reports_anew(&self, event: &str) {
        if !TURNS.contains(&event) {
            return;
        }
        for slot in self.slots() {
            let reported = std::mem::take(&mut slot.cell.borrow_mut().progress.reported);
            let (errors, lines) = reported.left_out(self.0.services.options.reports);
            if errors == 0 && lines == 0 {
                continue;
            }
            record::left_out(&self.0.services, &slot.cell.borrow().caller, errors, lines);
            let counted = |count: u64, noun: &str| format!("{count} more {noun}{}", if count == 1 { "" } else { "s" });
            let message = format!(
                "the last turn reported {} and {} of output, which are not shown",
                counted(errors, "error"),
                counted(lines, "line")
            );
            self.report(&slot, None, ReportKind::Warning { message });
        }
    }
}
