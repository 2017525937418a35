//! What the keys of a scenario come before, and after.
//!
//! The reference presses the first key of a custom component as soon as it is drawn, some microtasks before a question
//! that the component's making asks a model is on its way, and each further key once nothing is left that can go on at
//! once. Here questions travel while components are drawn, and runs take turns with realms.

use super::Driver;
use pijs_agent::AgentControl;
use pijs_connectors::ports::{PortAnswer, SessionCall, SessionOp, SessionPort};
use pijs_hostcall::{Caller, CancelToken, ChunkSink};
use pijs_protocol::HostcallError;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// First keys that were not pressed yet, and questions of extensions that have no answer yet.
#[derive(Clone, Default)]
pub(super) struct Keys {
    first: Pending,
    questions: Pending,
}

impl Keys {
    /// A component is about to be made for which keys are scripted.
    pub(super) fn expect(&self) -> Open {
        self.first.open()
    }
}

#[derive(Clone, Default)]
struct Pending(Arc<watch::Sender<usize>>);

/// Something that is pending until this is dropped.
pub(super) struct Open(Pending);

impl Pending {
    fn open(&self) -> Open {
        self.0.send_modify(|open| *open += 1);
        Open(self.clone())
    }

    fn is_none(&self) -> bool {
        *self.0.borrow() == 0
    }

    async fn none(&self) {
        // The sender is this one, so it is there.
        let _ = self.0.subscribe().wait_for(|open| *open == 0).await;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.send_modify(|open| *open -= 1);
    }
}

/// The session, whose models are asked after the first key.
pub(super) struct SessionAfterKeys {
    pub(super) session: AgentControl,
    pub(super) keys: Keys,
    /// A component may wait for its question before it is drawn.
    pub(super) patience: Duration,
}

impl SessionPort for SessionAfterKeys {
    fn call(&self, caller: &Caller, call: SessionCall, cancel: CancelToken) -> PortAnswer {
        SessionPort::call(&self.session, caller, call, cancel)
    }

    fn call_in_pieces(&self, caller: &Caller, call: SessionCall, cancel: CancelToken, pieces: ChunkSink) -> PortAnswer {
        if !matches!(call.op, SessionOp::AskModel | SessionOp::AskModelAt) {
            return self.session.call_in_pieces(caller, call, cancel, pieces);
        }
        let (session, keys, caller, patience) =
            (self.session.clone(), self.keys.clone(), caller.clone(), self.patience);
        Box::pin(async move {
            // Who gives the question up meanwhile drops this call.
            let _question = keys.questions.open();
            let _ = tokio::time::timeout(patience, keys.first.none()).await;
            session.call_in_pieces(&caller, call, cancel, pieces).await
        })
    }

    fn call_sync(&self, caller: &Caller, call: SessionCall) -> Result<Value, HostcallError> {
        SessionPort::call_sync(&self.session, caller, call)
    }
}

impl Driver {
    /// Waits, after a key, for what it began or let go on: until runs and questions are over, or wait for a program, or
    /// nothing happens.
    pub(super) async fn after_key(&self, was_idle: bool) {
        let _ = tokio::time::timeout(self.scenario.limit(), self.host.at_rest()).await;
        let quiet = self.scenario.quiet();
        let is_over = || (!was_idle || self.control.is_idle()) && self.keys.questions.is_none();
        while !is_over() && !self.trace.runs_programs() && self.trace.quiet_for() < quiet {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let _ = tokio::time::timeout(self.scenario.limit(), self.host.at_rest()).await;
        }
    }
}
