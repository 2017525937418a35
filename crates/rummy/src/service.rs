//! Serves hostcalls of the plugins' realm on the entry store, and reports changes.
//!
//! A delivery carries a ticket, which the realm passes with each call to the store on behalf of that delivery. The ticket
//! identifies the origin of the call: a handler that acts for the model, a hook, or a client's call. A call without a valid
//! ticket is attributed to the plugin. So a plugin that keeps a ticket can lower the writer of its calls, but never raise it.

use crate::error::RummyError;
use pijs_dialect_rummy::{Audit, Options, Profile, Store, StoreError, WaiterId, Writer};
use pijs_environment::Ambient;
use pijs_hostcall::{BoxFuture, ChunkSink, Connector, Output, Request};
use pijs_protocol::{ErrorCode, HostcallError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Origin of a call to the store, which limits the writers that the call may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallPath {
    /// A handler for a command of the model.
    Model,
    /// A call of a client.
    Client,
    /// A hook, or a call that a plugin makes by itself.
    Plugin,
}

impl CallPath {
    /// Returns the highest writer that this origin allows.
    pub fn ceiling(self) -> Writer {
        match self {
            Self::Model => Writer::Model,
            Self::Client => Writer::Client,
            Self::Plugin => Writer::Plugin,
        }
    }
}

/// Identifies a delivery in calls of the realm to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket(pub String);

/// Serves `rummy.entries` and `rummy.db` from a single store, which clones share.
#[derive(Clone)]
pub struct EntryConnector(Arc<Shared>);

struct Shared {
    inner: Mutex<Inner>,
    ambient: Ambient,
}

struct Inner {
    store: Store,
    tickets: Tickets,
    waiters: Waiting,
    /// Changes that realms have not received yet, by extension.
    undelivered: BTreeMap<String, Vec<Value>>,
}

#[derive(Default)]
struct Tickets {
    issued: u64,
    paths: BTreeMap<String, CallPath>,
}

#[derive(Default)]
struct Waiting {
    issued: u64,
    parked: BTreeMap<WaiterId, oneshot::Sender<()>>,
}

impl Inner {
    /// Wakes the waiters of resolved entries. Returns the changes.
    fn settle(&mut self) -> Vec<Value> {
        for waiter in self.store.take_woken().into_iter().flat_map(|woken| woken.waiters) {
            // The waiter may have been dropped.
            let _ = self.waiters.parked.remove(&waiter).map(|parked| parked.send(()));
        }
        let changes = self.store.take_changes();
        changes.iter().filter_map(|change| serde_json::to_value(change).ok()).collect()
    }

    /// Queues changes for every realm except the one that made them.
    fn keep_untold(&mut self, changes: &[Value], by: Option<&str>) {
        for (_, undelivered) in self.undelivered.iter_mut().filter(|(realm, _)| Some(realm.as_str()) != by) {
            undelivered.extend_from_slice(changes);
        }
    }
}

fn millis(ambient: &Ambient) -> i64 {
    i64::try_from(ambient.epoch_ms()).unwrap_or(i64::MAX)
}

impl EntryConnector {
    /// Opens the database at a path, or one in memory for `None`; `profile` is the generation of rummy that the plugins are
    /// written for.
    ///
    /// # Errors
    ///
    /// Fails when the database belongs to another program, is damaged, or cannot be opened.
    pub fn open(path: Option<&Path>, profile: &str, divisor: u32, ambient: Ambient) -> Result<Self, RummyError> {
        let profile = Profile::named(profile)
            .ok_or_else(|| RummyError::Store(format!("there is no rummy profile `{profile}`: use 2.x or 0.5")))?;
        let options = Options { profile, token_divisor: divisor, ..Options::default() };
        let store = match path {
            Some(path) => Store::open(path, options)?,
            None => Store::in_memory(options)?,
        };
        let (tickets, waiters, undelivered) = (Tickets::default(), Waiting::default(), BTreeMap::new());
        let inner = Mutex::new(Inner { store, tickets, waiters, undelivered });
        Ok(Self(Arc::new(Shared { inner, ambient })))
    }

    /// Sets the audit that records each operation.
    pub fn set_audit(&self, audit: Box<dyn Audit>) {
        self.locked().store.set_audit(audit);
    }

    /// Locks the store and sets the time of this call. Ignores poisoning, since the store is consistent between calls.
    fn locked(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.0.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.store.set_now(millis(&self.0.ambient));
        inner
    }

    /// Issues the ticket of a delivery, valid until it is withdrawn.
    pub fn issue(&self, path: CallPath) -> Ticket {
        let mut inner = self.locked();
        inner.tickets.issued += 1;
        let ticket = format!("t{}", inner.tickets.issued);
        inner.tickets.paths.insert(ticket.clone(), path);
        Ticket(ticket)
    }

    /// Withdraws a ticket.
    pub fn withdraw(&self, ticket: &Ticket) {
        self.locked().tickets.paths.remove(&ticket.0);
    }

    /// Works on the store as the host.
    ///
    /// # Errors
    ///
    /// Fails when the work fails.
    pub fn with<T>(&self, work: impl FnOnce(&mut Store) -> Result<T, StoreError>) -> Result<T, RummyError> {
        let mut inner = self.locked();
        let done = work(&mut inner.store);
        let changes = inner.settle();
        inner.keep_untold(&changes, None);
        Ok(done?)
    }

    /// Starts to queue changes for a realm.
    pub(crate) fn subscribe(&self, extension: &str) {
        self.locked().undelivered.entry(extension.to_owned()).or_default();
    }

    /// Takes the changes that others have made since the last call for this realm.
    pub(crate) fn take_untold(&self, extension: &str) -> Vec<Value> {
        self.locked().undelivered.get_mut(extension).map(std::mem::take).unwrap_or_default()
    }

    /// Returns whether there are changes that a realm has not received.
    pub(crate) fn has_undelivered_changes(&self, extension: &str) -> bool {
        self.locked().undelivered.get(extension).is_some_and(|undelivered| !undelivered.is_empty())
    }

    /// Waits until an entry is no longer proposed, or is removed.
    pub async fn resolved(&self, run_id: i64, path: &str) {
        let parked = {
            let mut inner = self.locked();
            inner.waiters.issued += 1;
            let waiter = WaiterId(inner.waiters.issued);
            match inner.store.wait(run_id, path, waiter) {
                Ok(true) => {
                    let (wake, parked) = oneshot::channel();
                    inner.waiters.parked.insert(waiter, wake);
                    Parked { connector: self, waiter, woken: parked }
                }
                _ => return,
            }
        };
        parked.wait().await;
    }

    fn serve(&self, request: &Request) -> Result<Output, HostcallError> {
        let params = &request.params;
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
        let mut inner = self.locked();
        let caller = request.caller.profile.extension.to_string();
        if request.method.as_str() == "rummy.db" {
            let none = json!({});
            let values = params.get("params").unwrap_or(&none);
            let value = inner.store.plugin_statement(text("statement"), text("op"), values);
            return value.map(|value| Output::new(json!({ "value": value }))).map_err(|error| refusal(&error));
        }
        let ticket = params.get("ticket").and_then(Value::as_str);
        let path = inner.tickets.path_of(ticket);
        let args = params.get("args").filter(|args| args.is_array()).cloned().unwrap_or_else(|| json!([]));
        inner.store.set_caller(Some(caller.clone()));
        let value = inner.store.entries(text("method"), &args, path.ceiling());
        inner.store.set_caller(None);
        let changes = inner.settle();
        inner.keep_untold(&changes, Some(&caller));
        value.map(|value| Output::new(json!({ "value": value, "changes": changes }))).map_err(|error| refusal(&error))
    }
}

impl Tickets {
    fn path_of(&self, ticket: Option<&str>) -> CallPath {
        ticket.and_then(|ticket| self.paths.get(ticket).copied()).unwrap_or(CallPath::Plugin)
    }
}

/// A waiter that is removed on drop.
struct Parked<'c> {
    connector: &'c EntryConnector,
    waiter: WaiterId,
    woken: oneshot::Receiver<()>,
}

impl Parked<'_> {
    async fn wait(mut self) {
        // A dropped sender means that the store is gone and no entry will be resolved.
        let _ = (&mut self.woken).await;
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        let mut inner = self.connector.locked();
        if inner.waiters.parked.remove(&self.waiter).is_some() {
            inner.store.leave(self.waiter);
        }
    }
}

/// Converts an error of the store for the realm. The reason differs from those of the gate, which has allowed the call.
fn refusal(error: &StoreError) -> HostcallError {
    let denied = HostcallError::new(ErrorCode::InvalidRequest, error.to_string());
    denied.with("reason", "store").with("store", error.to_json())
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

    /// Follows rummy's specification, "Four Writer Tiers": the origin of a call limits its writer.
    #[test]
    fn a_ticket_lowers_the_writer_of_a_call_and_never_raises_it() {
        let connector = EntryConnector::open(None, "2.x", 2, Ambient::system()).expect("a store");
        let model = connector.issue(CallPath::Model);
        let path_of = |ticket: Option<&str>| connector.locked().tickets.path_of(ticket);
        assert_eq!(path_of(Some(&model.0)), CallPath::Model);
        assert_eq!(path_of(Some("t999")), CallPath::Plugin);
        assert_eq!(path_of(None), CallPath::Plugin);
        connector.withdraw(&model);
        assert_eq!(path_of(Some(&model.0)), CallPath::Plugin);
    }

    #[tokio::test]
    async fn a_waiter_wakes_when_its_entry_is_resolved_and_is_removed_when_dropped() {
        use pijs_dialect_rummy::{Set, State};
        let connector = EntryConnector::open(None, "2.x", 2, Ambient::system()).expect("a store");
        let path = "log://turn_1/sh/ls";
        connector.subscribe("plugins");
        let run = connector.with(|store| {
            let project = store.upsert_project("demo", None, None)?;
            let run = store.create_run(project, "demo", None, None)?;
            store.set(&Set::new(run, path).body("").state(State::Proposed), Writer::Plugin)?;
            Ok(run)
        });
        let run = run.expect("made");
        let waits = |connector: &EntryConnector| connector.locked().waiters.parked.len();
        {
            let mut dropped = Box::pin(connector.resolved(run, path));
            assert!(futures_util::poll!(dropped.as_mut()).is_pending());
            assert_eq!(waits(&connector), 1);
        }
        assert_eq!(waits(&connector), 0);
        let waiting = connector.resolved(run, path);
        let resolving = async {
            connector
                .with(|store| store.set(&Set::new(run, path).state(State::Resolved), Writer::Plugin))
                .expect("set");
        };
        tokio::join!(waiting, resolving);
        assert_eq!((waits(&connector), connector.take_untold("plugins").len()), (0, 2));
    }
}
