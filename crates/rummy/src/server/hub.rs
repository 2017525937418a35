//! Performs the work that client calls delegate to the host: runs, decisions about proposals, tools and methods of plugins.
//!
//! | state | belongs to |
//! |---|---|
//! | [`Peer`] | one connection: its queue of messages, and the project that the client selected |
//! | [`ServedFolder`] | one folder: its session, the driver of its runs, the methods and tools of its plugins |
//! | [`Hub`] | the server: all connections, runs in progress, and waiting runs |
//!
//! A client receives only notifications about runs of its project.

use crate::error::RummyError;
use crate::proposals::{Decision, Proposal};
use crate::realm::ClientEvent;
use crate::run::{RunClient, RunDriver, RunOutcome};
use crate::service::CallPath;
use crate::session::RummySession;
use crate::settings;
use futures_util::future::{FutureExt as _, LocalBoxFuture};
use pijs_dialect_rummy::rpc::{self, Connection, Incoming, Notification, Offered, Reply, ToolCall, Work};
use pijs_environment::Wait;
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Maximum number of concurrent runs; further ones wait.
const MAX_RUNS: usize = 32;

/// A client's connection.
struct Peer {
    out: mpsc::Sender<String>,
    rpc: Connection,
    /// Index of the folder that the client selected with `rummy/hello`; `None` before that.
    folder: Option<usize>,
}

/// State that all requests share.
#[derive(Default)]
pub(super) struct Hub {
    peers: RefCell<BTreeMap<u64, Peer>>,
    /// Runs in progress, by folder and number, with the tokens that cancel them.
    runs: RefCell<BTreeMap<(usize, i64), CancellationToken>>,
    /// Runs that wait to start.
    waiting: RefCell<VecDeque<(usize, i64)>>,
    contexts: Cell<u64>,
}

/// The clients of one folder.
pub(super) struct Audience<'h> {
    pub(super) hub: &'h Hub,
    pub(super) session: usize,
}

impl RunClient for Audience<'_> {
    fn notify(&self, project: i64, notification: &Notification) {
        self.hub.send_to_clients(self.session, Some(project), &notification.message());
    }

    /// Never resolves: clients decide with a call that resolves the entry.
    fn decide<'a>(&'a self, _: &'a Proposal) -> LocalBoxFuture<'a, Decision> {
        std::future::pending().boxed_local()
    }

    fn runs_commands(&self) -> bool {
        true
    }
}

/// A folder that the server serves, with its session.
pub(super) struct ServedFolder<'s> {
    session: &'s RummySession,
    driver: RunDriver<'s>,
    root: PathBuf,
    offered: Offered,
}

impl<'s> ServedFolder<'s> {
    pub(super) async fn open(session: &'s RummySession, audience: &'s Audience<'s>) -> Result<Self, RummyError> {
        let driver = session.driver(audience).await?;
        let root = session.environment().dirs.cwd.clone();
        let mut catalogue = session.realm().deliver("discover", json!({})).await?.value;
        let mut part = |name: &str| match catalogue[name].take() {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        let offered = Offered {
            methods: part("methods"),
            notifications: part("notifications"),
            tools: session.realm().loaded().await?.tools,
            model: Some(driver.models.open(None).await?.model().id.clone()),
        };
        Ok(Self { session, driver, root, offered })
    }

    fn now(&self) -> i64 {
        i64::try_from(self.session.ambient().epoch_ms()).unwrap_or(i64::MAX)
    }
}

impl Hub {
    pub(super) fn opened(&self, id: u64, out: mpsc::Sender<String>) {
        self.peers.borrow_mut().insert(id, Peer { out, rpc: Connection::default(), folder: None });
        self.send(id, &Notification::Hello { rummy_version: rpc::PROTOCOL.to_owned() }.message());
    }

    pub(super) fn closed(&self, id: u64) {
        self.peers.borrow_mut().remove(&id);
    }

    /// Cancels all runs.
    pub(super) fn stop(&self) {
        self.waiting.take();
        self.runs.borrow().values().for_each(CancellationToken::cancel);
    }

    /// Queues runs that have queued loops.
    pub(super) fn ready(&self, folder: usize, runs: &[i64]) {
        self.waiting.borrow_mut().extend(runs.iter().map(|run| (folder, *run)));
    }

    /// Takes the runs that may start, oldest first. A run in progress is skipped, because it takes its next loops itself.
    pub(super) fn take_ready(&self) -> Vec<(usize, i64, CancellationToken)> {
        let (mut waiting, mut runs) = (self.waiting.borrow_mut(), self.runs.borrow_mut());
        let mut ready = Vec::new();
        while runs.len() < MAX_RUNS
            && let Some(key) = waiting.pop_front()
        {
            runs.entry(key).or_insert_with(|| {
                let cancel = CancellationToken::new();
                ready.push((key.0, key.1, cancel.clone()));
                cancel
            });
        }
        ready
    }

    /// Sends a message to the clients of a folder, or of one of its projects. A client that does not read is disconnected.
    fn send_to_clients(&self, folder: usize, project: Option<i64>, message: &Value) {
        let text = message.to_string();
        self.peers.borrow_mut().retain(|_, peer| {
            let of_project = |id| peer.rpc.project().is_some_and(|own| own.id == id);
            let hears = peer.folder == Some(folder) && project.is_none_or(of_project);
            !hears || peer.out.try_send(text.clone()).is_ok()
        });
    }

    /// Forwards a notification of a plugin to clients.
    pub(super) fn forward(&self, number: usize, event: &ClientEvent) {
        let mut params = event.payload.clone();
        let project = params.as_object_mut().and_then(|members| members.remove("projectId"));
        let message = json!({ "jsonrpc": "2.0", "method": event.hook.replace('.', "/"), "params": params });
        self.send_to_clients(number, project.and_then(|id| id.as_i64()), &message);
    }

    /// Runs the queued loops of a run.
    pub(super) async fn drain(
        &self,
        folder: &ServedFolder<'_>,
        number: usize,
        run_id: i64,
        cancel: CancellationToken,
    ) -> Result<(), RummyError> {
        let drained = folder.driver.with_cancel(cancel).drain(run_id).await;
        self.runs.borrow_mut().remove(&(number, run_id));
        // Each turn of a long run creates and drops copies of its history.
        #[cfg(target_os = "linux")]
        pijs_engine::return_free_memory();
        let why = match drained {
            Ok(Some(RunOutcome { status, reason: Some(reason), .. })) => format!("ended with {status}: {reason}"),
            Ok(_) => return Ok(()),
            Err(RummyError::Ended(reason)) => return Err(RummyError::Ended(reason)),
            // The failure of one run does not end the others.
            Err(error) => format!("failed: {error}"),
        };
        let row = folder.driver.run_row(run_id)?;
        let text = format!("the run {} {why}", row["alias"].as_str().unwrap_or_default());
        let notification = Notification::UiNotify { text, level: "error".to_owned() };
        self.send_to_clients(number, row["project_id"].as_i64(), &notification.message());
        Ok(())
    }

    /// Answers one message of a client.
    pub(super) async fn answer(&self, folders: &[ServedFolder<'_>], id: u64, text: String) -> Result<(), RummyError> {
        let incoming = match Incoming::read(&text) {
            Ok(incoming) => incoming,
            Err(refusal) => {
                self.send(id, &refusal);
                return Ok(());
            }
        };
        let done = self.perform(folders, id, &incoming).await;
        // The server cannot continue without the plugins' realms.
        if let Err(RummyError::Ended(reason)) = done {
            return Err(RummyError::Ended(reason));
        }
        // A notification has no response.
        let Some(of_call) = &incoming.id else { return Ok(()) };
        let answer = match &done {
            Ok(value) => rpc::result(of_call, value),
            Err(error) => rpc::error(of_call, &error.to_string()),
        };
        self.send(id, &answer);
        Ok(())
    }

    /// Sends a message to one client; disconnects it if its queue is full.
    fn send(&self, id: u64, message: &Value) {
        let mut peers = self.peers.borrow_mut();
        if peers.get(&id).is_some_and(|peer| peer.out.try_send(message.to_string()).is_err()) {
            peers.remove(&id);
        }
    }

    async fn perform(&self, folders: &[ServedFolder<'_>], id: u64, incoming: &Incoming) -> Result<Value, RummyError> {
        let gone = || RummyError::Absent("such connection".to_owned());
        let number = self.peers.borrow().get(&id).ok_or_else(gone)?.folder;
        let number = match incoming.method.as_str() {
            "rummy/hello" => self.greeted(folders, incoming).await?,
            _ => number.unwrap_or_default(),
        };
        let folder = &folders[number];
        let (log, reply) = {
            let mut peers = self.peers.borrow_mut();
            let peer = peers.get_mut(&id).ok_or_else(gone)?;
            let called = folder
                .session
                .realm()
                .entries()
                .with(|store| peer.rpc.call(store, incoming, &folder.offered, folder.now()))?;
            if incoming.method == "rummy/hello" && called.1.is_ok() {
                peer.folder = Some(number);
            }
            called
        };
        if let (true, Ok(Reply::Done(value))) = (incoming.method == "rummy/hello", &reply) {
            let made = json!({
                "id": value["projectId"], "name": incoming.params.get("name"), "project_root": value["projectRoot"],
            });
            folder.driver.emit("project.init.completed", made).await?;
        }
        match reply? {
            Reply::Done(value) => Ok(value),
            Reply::Begun(value, work) => {
                self.begun(folder, number, work).await?;
                Ok(value)
            }
            Reply::Work(work) => {
                let project = self.peers.borrow().get(&id).and_then(|peer| peer.rpc.project().cloned());
                let done = self.work(folder, project.map(|project| project.id), work).await;
                folder.session.realm().entries().with(|store| match &done {
                    Ok(value) => store.log_rpc_end(log, Ok(value)),
                    Err(error) => store.log_rpc_end(log, Err(&error.to_string())),
                })?;
                done
            }
        }
    }

    /// Returns the index of the folder that a client names.
    async fn greeted(&self, folders: &[ServedFolder<'_>], incoming: &Incoming) -> Result<usize, RummyError> {
        let text = |key: &str| incoming.params.get(key).and_then(Value::as_str);
        let Some(root) = text("projectRoot") else { return Ok(0) };
        let named = Path::new(root).canonicalize().unwrap_or_else(|_| root.into());
        let is_it = |folder: &ServedFolder<'_>| {
            folder.root == named || folder.root.canonicalize().is_ok_and(|own| own == named)
        };
        let Some(number) = folders.iter().position(is_it) else {
            let served: Vec<String> = folders.iter().map(|folder| folder.root.display().to_string()).collect();
            let served = served.join(", ");
            return Err(RummyError::Store(format!(
                "rummy/hello: this server serves {served}; start one for {root}: pi rummy serve --project {root}"
            )));
        };
        let about = json!({ "projectName": text("name"), "projectRoot": root });
        folders[number].driver.emit("project.init.started", about).await?;
        Ok(number)
    }

    /// Performs the work that a call started.
    async fn begun(&self, folder: &ServedFolder<'_>, number: usize, work: Work) -> Result<(), RummyError> {
        match work {
            Work::Drain { run_id, .. } => self.ready(number, &[run_id]),
            Work::Abort { run_id, .. } => {
                if let Some(cancel) = self.runs.borrow().get(&(number, run_id)) {
                    cancel.cancel();
                }
            }
            Work::Cancelled { run, path, reason } => {
                let row = folder
                    .session
                    .realm()
                    .entries()
                    .with(|store| store.statement("get_run_by_alias", "get", &json!({ "alias": run })))?;
                let payload = json!({ "projectId": row["project_id"], "run": run, "path": path, "reason": reason });
                folder.driver.emit("stream.cancelled", payload).await?;
            }
            _ => {}
        }
        Ok(())
    }

    async fn work(&self, folder: &ServedFolder<'_>, project: Option<i64>, work: Work) -> Result<Value, RummyError> {
        match work {
            // A command on the host may take long, so it runs as a task.
            Work::Resolve(resolution) => {
                let settled = folder.driver.resolve(&resolution, false).await?;
                Ok(json!({ "ok": true, "state": settled.state, "outcome": settled.outcome }))
            }
            Work::Tool(call) => self.in_time(folder, &call.name, self.tool(folder, project, &call)).await,
            Work::Plugin { method, params } => {
                let context = json!({
                    "projectId": project, "projectRoot": folder.root, "db": { "$db": true }, "entries": { "$entries": null },
                });
                let call = json!({ "method": method, "params": params, "context": context });
                let called = async { Ok(folder.session.realm().deliver("rpc", call).await?.value) };
                self.in_time(folder, &method, called).await
            }
            begun => self.begun(folder, 0, begun).await.map(|()| json!({ "ok": true })),
        }
    }

    /// Calls a plugin's method with a timeout.
    async fn in_time(
        &self,
        folder: &ServedFolder<'_>,
        method: &str,
        call: impl Future<Output = Result<Value, RummyError>>,
    ) -> Result<Value, RummyError> {
        let limit = settings::number(folder.session.environment(), "RUMMY_RPC_TIMEOUT").unwrap_or(30_000);
        let late = folder.session.ambient().timer.sleep(Wait::Call, Duration::from_millis(limit));
        tokio::select! {
            result = call => result,
            () = late => Err(RummyError::Store(format!("{method} took longer than {limit} ms"))),
        }
    }

    /// Dispatches a tool that a client called.
    async fn tool(
        &self,
        folder: &ServedFolder<'_>,
        project: Option<i64>,
        call: &ToolCall,
    ) -> Result<Value, RummyError> {
        let realm = folder.session.realm();
        self.contexts.set(self.contexts.get() + 1);
        let facts = json!({
            "runId": call.run_id, "projectId": project, "sequence": 0, "writer": "client", "type": "act",
            "project": { "id": project, "project_root": folder.root },
        });
        let rummy = realm.context(&format!("call{}", self.contexts.get()), facts, CallPath::Client).await?;
        let logged = realm.entries().with(|store| store.log_path(call.run_id, 0, &call.name, &call.path))?;
        let mut attributes = call.attributes.clone();
        attributes.insert("path".to_owned(), call.path.as_str().into());
        let entry = json!({
            "scheme": call.name, "path": call.path, "body": call.body, "attributes": attributes, "resultPath": logged,
        });
        let done = realm.dispatch(&call.name, entry, &rummy).await;
        rummy.close().await?;
        match done?.refused {
            Some(refusal) => Err(RummyError::Store(refusal.message)),
            None => Ok(json!({ "status": "ok" })),
        }
    }
}
