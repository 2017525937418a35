//! Backpressure for reports of the queues to front ends.
//!
//! Each report contains all waiting messages, so the total size of the reports of many messages is quadratic. When front ends
//! have not received [`MAX_IN_FLIGHT`] bytes, reports are skipped; one report with the current state follows once all earlier
//! ones have been received.

use serde_json::Value;

/// Maximum size of reports that front ends have not received, in bytes.
const MAX_IN_FLIGHT: usize = 4 << 20;

/// Texts of steering and follow-up messages.
type QueuedTexts = (Vec<String>, Vec<String>);

/// The queues as last reported to front ends.
#[derive(Debug, Default)]
pub(crate) struct QueueReport {
    texts: QueuedTexts,
    in_flight: usize,
    /// Whether a change has not been reported yet.
    is_behind: bool,
}

impl QueueReport {
    /// Stores the texts if they have changed, or if `always` is set. Returns the size of the report to send.
    pub(crate) fn changed(&mut self, texts: impl FnOnce() -> QueuedTexts, always: bool) -> Option<usize> {
        if self.in_flight > MAX_IN_FLIGHT {
            self.is_behind = true;
            return None;
        }
        let texts = texts();
        if !always && self.texts == texts {
            return None;
        }
        let bytes = texts.0.iter().chain(&texts.1).map(|text| text.len() + size_of::<Value>()).sum();
        self.in_flight += bytes;
        self.texts = texts;
        Some(bytes)
    }

    pub(crate) fn texts(&self) -> &QueuedTexts {
        &self.texts
    }

    /// Records that front ends have received a report. Returns whether a report that replaces skipped ones is due.
    pub(crate) fn shown(&mut self, bytes: usize) -> bool {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.in_flight == 0 && std::mem::take(&mut self.is_behind)
    }
}
