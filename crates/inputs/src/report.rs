//! Backpressure of what front ends are shown of the queues.
//!
//! Each report says all that waits: reports of many messages grow with their square. Past [`MAX_IN_FLIGHT`] bytes that front
//! ends have not taken, reports are left out, and one that makes up for them follows once all are taken.

use serde_json::Value;

/// Bytes of reports that front ends have not taken yet.
const MAX_IN_FLIGHT: usize = 4 << 20;

/// Texts of what waits to steer, and to follow.
type QueuedTexts = (Vec<String>, Vec<String>);

/// The queues as front ends know them.
#[derive(Debug, Default)]
pub(crate) struct QueueReport {
    texts: QueuedTexts,
    in_flight: usize,
    /// Something changed that was not reported.
    is_behind: bool,
}

impl QueueReport {
    /// Takes over the texts where they have changed, or `always`. Returns the size of the report that is due.
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

    /// Records that front ends have taken a report. Returns whether a report is due that makes up for those left out.
    pub(crate) fn shown(&mut self, bytes: usize) -> bool {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.in_flight == 0 && std::mem::take(&mut self.is_behind)
    }
}
