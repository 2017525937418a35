//! Dialogs of a session where nobody can answer.
//!
//! An extension gets what pi gives it there (`false`, nothing chosen, nothing typed), at once. That nobody was asked is
//! in the ledger, so that such an answer is not taken for a person's.

use pijs_agent::ports::NoUi;
use pijs_connectors::ports::{PortAnswer, UiCall, UiOp, UiPort};
use pijs_environment::Timer;
use pijs_hostcall::{Caller, CancelToken, Ledger, Reason};
use pijs_protocol::log::Level;
use pijs_protocol::{ErrorCode, HostcallError};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// [`NoUi`], with a line in the ledger for each dialog.
pub(crate) struct Unanswered {
    pub(crate) ledger: Ledger,
    pub(crate) timer: Arc<dyn Timer>,
}

impl UiPort for Unanswered {
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
            let message = "nobody can answer a dialog here";
            self.ledger.event(self.timer.now(), caller, Level::Info, "ui.unanswered", message, data);
        }
        NoUi.call_sync(caller, call)
    }
}
