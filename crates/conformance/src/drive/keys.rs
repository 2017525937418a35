//! Orders the keys of a scenario among other events.
//!
//! The reference presses the first key of a custom component as soon as it is drawn, some microtasks before a model request from
//! the component's constructor is sent, and each further key once no task can continue at once. In PiJS, requests are in flight
//! while components are drawn, and runs alternate with realms.

use super::Driver;
use pijs_agent::AgentControl;
use pijs_connectors::ports::{PortAnswer, SessionCall, SessionOp, SessionPort};
use pijs_hostcall::{Caller, CancelToken, ChunkSink};
use pijs_protocol::HostcallError;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Counts the components whose first key has not been pressed yet, and the model requests of extensions that have no reply yet.
#[derive(Clone, Default)]
pub(super) struct Keys {
    first: PendingCount,
    questions: PendingCount,
}

impl Keys {
    /// Notes that a component with scripted keys is about to be made.
    pub(super) fn expect(&self) -> PendingGuard {
        self.first.open()
    }
}

#[derive(Clone, Default)]
struct PendingCount(Arc<watch::Sender<usize>>);

/// Keeps an operation pending until it is dropped.
pub(super) struct PendingGuard(PendingCount);

impl PendingCount {
    fn open(&self) -> PendingGuard {
        self.0.send_modify(|open| *open += 1);
        PendingGuard(self.clone())
    }

    fn is_none(&self) -> bool {
        *self.0.borrow() == 0
    }

    async fn none(&self) {
        // `self` holds the sender, so the channel is open.
        let _ = self.0.subscribe().wait_for(|open| *open == 0).await;
    }
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|open| *open -= 1);
    }
}

/// A session that sends model requests after the first key.
pub(super) struct SessionAfterKeys {
    pub(super) session: AgentControl,
    pub(super) keys: Keys,
    /// Maximum wait for the first key, in which a component may wait for its own request before it is drawn.
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
            // A cancelled request drops this future, and the guard with it.
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
    /// Waits for the effects of a key: until runs and model requests are over, a program is running, or nothing has been recorded
    /// for a while.
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
