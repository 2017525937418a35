//! The conversation: transcript, its visible part, queued messages, and reported errors.

use crate::transcript::{Style, Transcript};
use pijs_runtime::repeated_reports::RepeatedReports;

/// The transcript with the scroll state, and the errors that were shown.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    pub(crate) transcript: Transcript,
    /// Reports of extensions that were already shown.
    pub(crate) repeated: RepeatedReports,
    /// Number of lines below the visible part of the transcript.
    pub(crate) scroll: usize,
    /// Whether results are expanded.
    pub(crate) expanded: bool,
    /// Texts of the queued messages.
    pub(crate) queued: Vec<String>,
    /// Error of the last reply, as shown.
    failure: Option<String>,
    /// Address and cause of failures since the last prompt, as shown.
    told_cause: Option<String>,
}

impl Conversation {
    /// Appends a notice.
    pub(crate) fn say(&mut self, style: Style, text: &str) {
        self.transcript.say(style, text);
    }

    pub(crate) fn scroll_back(&mut self, lines: usize) {
        self.scroll += lines;
    }

    pub(crate) fn scroll_forward(&mut self, lines: usize) {
        self.scroll = self.scroll.saturating_sub(lines);
    }

    /// Removes a queued message that was sent.
    pub(crate) fn unqueue(&mut self, text: &str) {
        self.queued.retain(|queued| queued != text);
    }

    /// Shows a message of the user and removes it from the queue.
    pub(crate) fn say_prompt(&mut self, text: &str) {
        self.unqueue(text);
        self.told_cause = None;
        self.say(Style::User, text);
    }

    /// Shows the error of a reply.
    pub(crate) fn say_failure(&mut self, error: String) {
        self.say(Style::Error, &error);
        self.failure = Some(error);
    }

    /// Returns the parts of a retry's reason that are not shown yet.
    pub(crate) fn new_reasons(&mut self, error: String, cause: Option<String>) -> Vec<String> {
        // The error of a failed reply is already shown.
        let error = Some(error).filter(|error| self.failure.take().as_ref() != Some(error));
        let cause = cause.filter(|cause| self.told_cause.as_ref() != Some(cause));
        self.told_cause = cause.clone().or(self.told_cause.take());
        error.into_iter().chain(cause).collect()
    }

    /// Takes the cause of failures that is shown.
    pub(crate) fn take_told_cause(&mut self) -> Option<String> {
        self.told_cause.take()
    }
}
