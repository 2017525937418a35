//! Answers dialogs of a session without a user.
//!
//! An extension gets pi's defaults (`false`, no selection, no input) at once. The ledger records that the user was not asked, so
//! that a default is not taken for an answer.

use pijs_agent::ports::NoUi;
use pijs_connectors::ports::{PortAnswer, UiCall, UiOp, UiPort};
use pijs_environment::Timer;
use pijs_hostcall::{Caller, CancelToken, Ledger, Reason};
use pijs_protocol::log::Level;
use pijs_protocol::{ErrorCode, HostcallError};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// [`NoUi`], with a line in the ledger for each dialog.
pub(crate) struct LoggingNoUi {
    pub(crate) ledger: Ledger,
    pub(crate) timer: Arc<dyn Timer>,
}

impl UiPort for LoggingNoUi {
    fn call(&self, caller: &Caller, call: UiCall, _cancel: CancelToken) -> PortAnswer {
        Box::pin(std::future::ready(self.call_sync(caller, call)))
    }

    fn call_sync(&self, caller: &Caller, call: UiCall) -> Result<Value, HostcallError> {
        if matches!(call.op, UiOp::Select | UiOp::Confirm | UiOp::Input | UiOp::Editor) {
            let data = Map::from_iter([
                ("op".to_owned(), json!(call.op.as_str())),
                ("code".to_owned(), json!(ErrorCode::Denied)),
                ("reason".to_owned(), json!(Reason::NonInteractive.as_str())),
            ]);
            let message = "this session has no user to answer dialogs";
            self.ledger.event(self.timer.now(), caller, Level::Info, "ui.unanswered", message, data);
        }
        NoUi.call_sync(caller, call)
    }
}
