//! The user interface of a session.

use pijs_agent::{FrontEnd, NoFrontEnd, StateSink};
use pijs_connectors::ports::UiPort;
use pijs_host::Observer;
use pijs_hostcall::Prompter;
use std::rc::Rc;
use std::sync::Arc;

/// The user interface of a session: a program, a user at a terminal, or none.
pub struct Interface {
    /// `ctx.mode`: `print`, `json`, `rpc` or `tui`.
    pub mode: &'static str,
    /// `ctx.hasUI`.
    pub has_ui: bool,
    /// Whether the user can choose a model later, so that a session may start without one.
    pub is_interactive: bool,
    /// Receives the events of the session.
    pub front_end: Box<dyn FrontEnd>,
    /// Answers `ctx.ui`; without it dialogs get pi's defaults, and the ledger records that the user was not asked.
    pub ui: Option<Arc<dyn UiPort>>,
    /// Whether extensions are notified when one of them prompts the user, and when the prompt closes.
    pub announces_dialogs: bool,
    /// Answers the gate's questions; without it they are answered with a denial.
    pub prompter: Option<Arc<dyn Prompter>>,
    /// Receives reports of extensions; without it they are notices.
    pub observer: Option<Rc<dyn Observer>>,
    /// Wraps the sink that the session publishes its state to.
    pub wrap_state: Option<WrapState>,
}

/// Wraps the sink that a session publishes its state to.
pub type WrapState = Box<dyn FnOnce(Arc<dyn StateSink>) -> Arc<dyn StateSink>>;

impl Default for Interface {
    /// Returns an interface without a user, like `pi -p` without a terminal.
    fn default() -> Self {
        Self {
            mode: "print",
            has_ui: false,
            is_interactive: false,
            front_end: Box::new(NoFrontEnd),
            ui: None,
            announces_dialogs: false,
            prompter: None,
            observer: None,
            wrap_state: None,
        }
    }
}
