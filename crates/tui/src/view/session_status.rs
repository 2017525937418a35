//! Facts about the session around the conversation: its name, model and usage, and whether it has begun or ends.

use crate::clip::clipped;
use crate::footer::FooterData;

/// Maximum length in bytes of the displayed name of a session or model.
const LONGEST_NAME: usize = 1 << 10;

/// The current model.
#[derive(Debug, Default)]
pub(crate) struct ModelStatus {
    /// Name as `provider/id`.
    pub(crate) name: String,
    /// Thinking level.
    pub(crate) thinking: String,
}

/// Data about the session for header, footer, status row and title.
#[derive(Debug, Default)]
pub(crate) struct SessionStatus {
    /// Lines at the top if no extension has a header.
    pub(crate) welcome: Vec<String>,
    pub(crate) footer: FooterData,
    /// Git branch for footers.
    pub(crate) branch: Option<String>,
    pub(crate) model: ModelStatus,
    /// Title of the terminal.
    pub(crate) title: Option<String>,
    /// Whether the `session_start` handlers have run.
    pub(crate) has_begun: bool,
    /// Whether the session is being closed.
    pub(crate) is_leaving: bool,
}

impl SessionStatus {
    /// Sets the name of the session.
    pub(crate) fn set_name(&mut self, name: Option<&str>) {
        self.footer.name = name.map(|name| clipped(name, LONGEST_NAME).to_owned());
    }

    /// Sets the current model by its name.
    pub(crate) fn set_model(&mut self, name: &str) {
        self.model.name = clipped(name, LONGEST_NAME).to_owned();
    }
}
