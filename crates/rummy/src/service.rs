//! The entry store as the realm of the plugins reaches it: hostcalls in, changes out.
//!
//! A delivery carries a ticket, and the realm names it with what it asks of the store on that delivery's behalf. The ticket
//! stands for a path: a handler that acts for the model, a hook, a client's call. A call without a ticket, or with one that
//! nobody issued, is a plugin's own. So a plugin that keeps a ticket can write as less than it is, and never as more.

use pijs_hostcall::{BoxFuture, ChunkSink, Connector, Output, Request};
use pijs_protocol::{ErrorCode, HostcallError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// On whose behalf the store is called, which bounds as whom a call may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallPath {
    /// A handler that runs what the model wrote.
    Model,
    /// A call of a client.
    Client,
    /// A hook, or a plugin by itself.
    Plugin,
    /// The host; no call of a realm counts as this.
    System,
}

impl CallPath {
    /// The name of the writer that it allows at most.
    pub fn writer(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Client => "client",
            Self::Plugin => "plugin",
            Self::System => "system",
        }
    }
}

/// The value that a method of the store returned, and what it changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EntryAnswer {
    /// The value.
    pub value: Value,
    /// `{runId, path, changeType}` of each change, in order.
    pub changes: Vec<Value>,
}

/// A refusal of the store: what the plugin's promise is rejected with.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceError {
    /// The message, which plugins read.
    pub message: String,
    /// Further members: `name`, `status`, `outcome`, ...
    pub details: Value,
}

/// An entry store.
pub trait EntryService: Send {
    /// Calls a method of the store with the arguments that a plugin gave.
    fn entries(&mut self, method: &str, args: &[Value], path: CallPath) -> Result<EntryAnswer, ServiceError>;

    /// Runs a named statement; `op` is `run`, `get` or `all`. Some are the host's alone.
    fn statement(&mut self, name: &str, op: &str, params: &Value, path: CallPath) -> Result<Value, ServiceError>;

    /// Reports whether an entry is still to be resolved. `None`: there is no such entry.
    fn is_unresolved(&mut self, run_id: i64, path: &str) -> Option<bool>;
}

/// A name under which the realm calls the store on behalf of one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket(pub String);

/// Serves `rummy.entries` and `rummy.db` from one store. Clones are the same one.
#[derive(Clone)]
pub struct EntryConnector(Arc<Shared>);

struct Shared {
    service: Mutex<Box<dyn EntryService>>,
    tickets: Mutex<Tickets>,
    /// Some call changed the store: whoever waits for a resolution looks again.
    changed: Notify,
}

#[derive(Default)]
struct Tickets {
    issued: u64,
    paths: BTreeMap<String, CallPath>,
}

/// A lock that a panic left behind is used on: what it guards is whole between calls.
fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EntryConnector {
    /// Lends a store.
    pub fn new(service: Box<dyn EntryService>) -> Self {
        Self(Arc::new(Shared { service: Mutex::new(service), tickets: Mutex::default(), changed: Notify::new() }))
    }

    /// Issues the ticket of a delivery, good until it is withdrawn.
    pub fn issue(&self, path: CallPath) -> Ticket {
        let mut tickets = locked(&self.0.tickets);
        tickets.issued += 1;
        let ticket = format!("t{}", tickets.issued);
        tickets.paths.insert(ticket.clone(), path.min(CallPath::Plugin));
        Ticket(ticket)
    }

    /// Withdraws a ticket.
    pub fn withdraw(&self, ticket: &Ticket) {
        locked(&self.0.tickets).paths.remove(&ticket.0);
    }

    /// Works on the store as the host.
    pub fn with<T>(&self, work: impl FnOnce(&mut dyn EntryService) -> T) -> T {
        let done = work(locked(&self.0.service).as_mut());
        self.0.changed.notify_waiters();
        done
    }

    /// Waits until an entry is no longer proposed or streaming, or is gone.
    pub async fn resolved(&self, run_id: i64, path: &str) {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            // Whoever changes it after this line is heard.
            changed.as_mut().enable();
            if locked(&self.0.service).is_unresolved(run_id, path) != Some(true) {
                return;
            }
            changed.await;
        }
    }

    fn path_of(&self, ticket: Option<&str>) -> CallPath {
        let found = ticket.and_then(|ticket| locked(&self.0.tickets).paths.get(ticket).copied());
        found.unwrap_or(CallPath::Plugin)
    }

    fn serve(&self, request: &Request) -> Result<Output, HostcallError> {
        let params = &request.params;
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
        let answer = if request.method.as_str() == "rummy.db" {
            let none = json!({});
            let value = self.with(|store| {
                store.statement(text("statement"), text("op"), params.get("params").unwrap_or(&none), CallPath::Plugin)
            });
            value.map(|value| json!({ "value": value }))
        } else {
            let path = self.path_of(params.get("ticket").and_then(Value::as_str));
            let args = params.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
            let answer = self.with(|store| store.entries(text("method"), &args, path));
            answer.map(|EntryAnswer { value, changes }| json!({ "value": value, "changes": changes }))
        };
        answer.map(Output::new).map_err(refusal)
    }
}

/// A refusal as the realm gets it. A store that refuses a writer is no gate that denies: the reason says whose move it is.
fn refusal(error: ServiceError) -> HostcallError {
    HostcallError::new(ErrorCode::InvalidRequest, error.message).with("reason", "store").with("store", error.details)
}

impl Connector for EntryConnector {
    fn call(&self, request: Request, _: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let connector = self.clone();
        Box::pin(async move {
            let method = request.params.get("method").and_then(Value::as_str).unwrap_or_default();
            if method == "waitForResolution" {
                let args = request.params.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
                let run = args.first().and_then(Value::as_i64).unwrap_or_default();
                let path = args.get(1).and_then(Value::as_str).unwrap_or_default();
                connector.resolved(run, path).await;
            }
            connector.serve(&request)
        })
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        self.serve(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl EntryService for Nothing {
        fn entries(&mut self, _: &str, _: &[Value], path: CallPath) -> Result<EntryAnswer, ServiceError> {
            Ok(EntryAnswer { value: path.writer().into(), changes: Vec::new() })
        }

        fn statement(&mut self, _: &str, _: &str, _: &Value, _: CallPath) -> Result<Value, ServiceError> {
            Ok(Value::Null)
        }

        fn is_unresolved(&mut self, _: i64, _: &str) -> Option<bool> {
            None
        }
    }

    /// Follows rummy's specification, "Four Writer Tiers": the path of a call bounds its writer.
    #[test]
    fn a_ticket_lowers_what_a_call_counts_as_and_never_raises_it() {
        let connector = EntryConnector::new(Box::new(Nothing));
        let model = connector.issue(CallPath::Model);
        let system = connector.issue(CallPath::System);
        assert_eq!(connector.path_of(Some(&model.0)), CallPath::Model);
        assert_eq!(connector.path_of(Some(&system.0)), CallPath::Plugin);
        assert_eq!(connector.path_of(Some("t999")), CallPath::Plugin);
        assert_eq!(connector.path_of(None), CallPath::Plugin);
        connector.withdraw(&model);
        assert_eq!(connector.path_of(Some(&model.0)), CallPath::Plugin);
    }
}
