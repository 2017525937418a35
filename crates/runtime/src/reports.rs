//! Shows reports of extensions as notices, where no observer receives them.

use crate::notices::Notices;
use crate::repeated_reports::RepeatedReports;
use crate::text::indented;
use pijs_host::{ExtensionReport, ReportKind, Reports};
use pijs_redact::Redactor;
use std::cell::RefCell;
use std::rc::Rc;

/// Shows reports as notices, each text once. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PrintedReports {
    reports: Reports,
    repeated: Rc<RefCell<RepeatedReports>>,
    notices: Notices,
}

impl PrintedReports {
    pub(crate) fn new(reports: Reports, notices: Notices) -> Self {
        Self { reports, repeated: Rc::default(), notices }
    }

    /// Shows reports as they come, for as long as the session lasts.
    pub(crate) async fn watch(self, secrets: Redactor) {
        loop {
            self.show(&self.reports.next().await, &secrets);
        }
    }

    /// Shows queued reports, and a summary of repetitions.
    pub(crate) fn print(&self, secrets: &Redactor) {
        self.reports.drain().iter().for_each(|report| self.show(report, secrets));
        let counted = self.repeated.borrow_mut().counted();
        counted.iter().for_each(|line| self.notices.warn(line));
    }

    /// Shows a report without the secrets that pi knows: its output ends up in logs.
    fn show(&self, report: &ExtensionReport, secrets: &Redactor) {
        let words = secrets.text(&report.to_string()).to_string();
        if !self.repeated.borrow_mut().shows(report, &words) {
            return;
        }
        let level = match &report.kind {
            ReportKind::Log(_) | ReportKind::Restarted => "",
            ReportKind::Warning { .. }
            | ReportKind::Conflict { .. }
            | ReportKind::LateVerdict
            | ReportKind::SlowVerdict { .. } => "warning: ",
            _ => "error: ",
        };
        self.notices.show(&format!("{level}{}", indented(&words)));
    }
}
