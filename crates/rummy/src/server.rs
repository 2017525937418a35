//! The client protocol: JSON-RPC 2.0 over a WebSocket, on this machine only.
//!
//! A connection needs the token that the server prints when it starts, and a browser's pages reach it only from this machine
//! (`Origin`). A client says `rummy/hello` first; before that only `ping` and `discover` are answered. Errors have the code
//! -32603. Each connection has its own queue of messages; one that does not read is closed when it is full, so that a slow
//! client holds up nobody.
//!
//! Runs go on when their client leaves. A proposal waits until a client sets its entry to a state.

use crate::error::RummyError;
use crate::run::{Decision, Proposal, RunClient, RunDriver, RunFlags, RunMode, RunRequest};
use crate::service::CallPath;
use crate::session::RummySession;
use crate::settings;
use futures_util::future::{BoxFuture, FutureExt as _, LocalBoxFuture};
use futures_util::stream::FuturesUnordered;
use futures_util::{SinkExt as _, StreamExt as _};
use pijs_environment::Wait;
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_util::sync::CancellationToken;

/// Version of the protocol; a client of another major version is refused.
pub const PROTOCOL: &str = "2.0.0";

const MOST_CONNECTIONS: usize = 64;
/// Messages that one client may leave unread.
const MOST_UNREAD: usize = 1024;
/// Bytes of one message of a client.
const MOST_BYTES: usize = 16 << 20;
/// Requests and runs at a time.
const MOST_WORK: usize = 1024;
/// Runs at a time.
const MOST_RUNS: usize = 32;
/// How long a client may take to say who it is.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The messages of a connection to the server.
enum Said {
    Opened(u64, mpsc::Sender<String>),
    Text(u64, String),
    Closed(u64),
}

struct Connection {
    out: mpsc::Sender<String>,
    greeted: bool,
}

/// Everything that requests share.
struct Hub {
    connections: RefCell<BTreeMap<u64, Connection>>,
    /// Proposals that wait for a client, by run and path.
    waiting: RefCell<BTreeMap<(String, String), oneshot::Sender<Decision>>>,
    /// Runs under way, with what cancels them.
    runs: RefCell<BTreeMap<String, CancellationToken>>,
    /// Runs that are to begin.
    queued: RefCell<Vec<(RunRequest, CancellationToken)>>,
    contexts: Cell<u64>,
}

impl RunClient for Hub {
    fn notify(&self, method: &str, params: &Value) {
        let text = json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string();
        // A client that does not read is let go.
        self.connections.borrow_mut().retain(|_, one| !one.greeted || one.out.try_send(text.clone()).is_ok());
    }

    fn decide<'a>(&'a self, proposal: &'a Proposal) -> LocalBoxFuture<'a, Decision> {
        let (sender, receiver) = oneshot::channel();
        let key = (proposal.alias.clone(), proposal.path.clone());
        self.waiting.borrow_mut().insert(key, sender);
        async move { receiver.await.unwrap_or(Decision::Reject(Some("interrupted".to_owned()))) }.boxed_local()
    }
}

/// Serves a session's runs on 127.0.0.1 until `stop` comes; `say` is told the address, with the token.
///
/// Call it inside [`PluginRealm::run`](crate::PluginRealm::run).
///
/// # Errors
///
/// The port is taken, no model can be asked, or the store or the plugins fail.
pub async fn serve(
    session: &RummySession,
    port: u16,
    say: impl Fn(&str),
    stop: impl Future<Output = ()>,
) -> Result<(), RummyError> {
    let hub = Hub {
        connections: RefCell::default(),
        waiting: RefCell::default(),
        runs: RefCell::default(),
        queued: RefCell::default(),
        contexts: Cell::new(0),
    };
    let driver = session.driver(&hub).await?;
    let cannot = |source| RummyError::File { path: format!("127.0.0.1:{port}").into(), source };
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let mut bytes = [0; 24];
    session.ambient().random.fill(&mut bytes);
    let token: Arc<str> = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
    say(&format!("ws://{address}/?token={token}"));
    let (said, mut heard) = mpsc::channel(256);
    let mut work: FuturesUnordered<LocalBoxFuture<'_, Result<(), RummyError>>> = FuturesUnordered::new();
    let mut next = 0;
    tokio::pin!(stop);
    loop {
        for (request, cancel) in hub.queued.take() {
            let driver = driver.with_cancel(cancel);
            let hub = &hub;
            work.push(
                async move {
                    let ended = driver.run(&request).await;
                    hub.runs.borrow_mut().remove(&request.alias);
                    match ended {
                        // A fault of one run ends no other.
                        Err(error) if !matches!(error, RummyError::Ended(_)) => {
                            let text = format!("the run {} failed: {error}", request.alias);
                            hub.notify("ui/notify", &json!({ "text": text, "level": "error" }));
                            Ok(())
                        }
                        ended => ended.map(drop),
                    }
                }
                .boxed_local(),
            );
        }
        tokio::select! {
            () = &mut stop => {
                hub.runs.borrow().values().for_each(CancellationToken::cancel);
                hub.waiting.take();
                while let Some(done) = work.next().await {
                    done?;
                }
                return Ok(());
            }
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                if hub.connections.borrow().len() < MOST_CONNECTIONS {
                    next += 1;
                    let late = session.ambient().timer.sleep(Wait::Idle, HANDSHAKE);
                    tokio::spawn(connection(stream, next, Arc::clone(&token), said.clone(), late));
                }
            }
            Some(done) = work.next(), if !work.is_empty() => done?,
            // The requests of clients beyond this wait in their sockets.
            Some(event) = heard.recv(), if work.len() < MOST_WORK => match event {
                Said::Opened(id, out) => drop(hub.connections.borrow_mut().insert(id, Connection { out, greeted: false })),
                Said::Closed(id) => drop(hub.connections.borrow_mut().remove(&id)),
                Said::Text(id, text) => {
                    let Some(out) = hub.connections.borrow().get(&id).map(|one| one.out.clone()) else { continue };
                    let (session, driver, hub) = (session, &driver, &hub);
                    work.push(async move { answer(session, driver, hub, id, &text, &out).await }.boxed_local());
                }
            },
        }
    }
}

/// Carries one connection: what it says goes to the server, what the server says goes out.
async fn connection(
    stream: TcpStream,
    id: u64,
    token: Arc<str>,
    said: mpsc::Sender<Said>,
    late: BoxFuture<'static, ()>,
) {
    #[expect(clippy::result_large_err, reason = "tungstenite says what the refusal is")]
    let check = move |request: &Request, response: Response| match may_connect(request, &token) {
        Ok(()) => Ok(response),
        Err(why) => {
            let mut refusal = ErrorResponse::new(Some(why.to_owned()));
            *refusal.status_mut() = tokio_tungstenite::tungstenite::http::StatusCode::FORBIDDEN;
            Err(refusal)
        }
    };
    let config = WebSocketConfig::default().max_message_size(Some(MOST_BYTES)).max_frame_size(Some(MOST_BYTES));
    let shaken = tokio_tungstenite::accept_hdr_async_with_config(stream, check, Some(config));
    let socket = tokio::select! {
        shaken = shaken => match shaken {
            Ok(socket) => socket,
            Err(_) => return,
        },
        () = late => return,
    };
    let (mut sink, mut source) = socket.split();
    let (out, mut lines) = mpsc::channel::<String>(MOST_UNREAD);
    if said.send(Said::Opened(id, out)).await.is_err() {
        return;
    }
    loop {
        tokio::select! {
            line = lines.recv() => {
                let Some(line) = line else { break };
                if sink.send(Message::text(line)).await.is_err() {
                    break;
                }
            }
            message = source.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    if said.send(Said::Text(id, text.to_string())).await.is_err() {
                        break;
                    }
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => break,
            },
        }
    }
    let _ = sink.close().await;
    let _ = said.send(Said::Closed(id)).await;
}

/// Decides about a connection by what its first request says.
fn may_connect(request: &Request, token: &str) -> Result<(), &'static str> {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    if let Some(origin) = header("origin") {
        let host = origin.split_once("://").map_or(origin, |(_, rest)| rest);
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        if !matches!(host, "localhost" | "127.0.0.1" | "[::1]") {
            return Err("pages of other machines may not connect");
        }
    }
    let in_query = request.uri().query().into_iter().flat_map(|query| query.split('&'));
    let mut given = in_query.filter_map(|pair| pair.strip_prefix("token="));
    let bearer = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    match given.next().or(bearer) {
        Some(given) if is_same(given.as_bytes(), token.as_bytes()) => Ok(()),
        _ => Err("the token is missing or wrong: it stands in the address that pi rummy serve prints"),
    }
}

/// Compares in a time that does not depend on where the two differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Answers one message of a client.
async fn answer(
    session: &RummySession,
    driver: &RunDriver<'_>,
    hub: &Hub,
    connection: u64,
    text: &str,
    out: &mpsc::Sender<String>,
) -> Result<(), RummyError> {
    let message: Value = serde_json::from_str(text).unwrap_or_default();
    let id = message["id"].clone();
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    let params = message["params"].as_object().cloned().unwrap_or_default();
    let logged = json!({
        "project_id": driver.project().id, "method": method, "rpc_id": id.to_string(),
        "params": Value::Object(params.clone()).to_string(),
    });
    let row = session.realm().statement("log_rpc_call", "get", logged)?;
    let call = Call { session, driver, hub, connection, method: &method, params };
    let limit = settings::number(session.environment(), "RUMMY_RPC_TIMEOUT").unwrap_or(30_000);
    let late = session.ambient().timer.sleep(Wait::Call, Duration::from_millis(limit));
    let result = tokio::select! {
        result = call.run() => result,
        () = late => Err(RummyError::Store(format!("{method} took longer than {limit} ms"))),
    };
    // The plugins are gone, and everything with them.
    if let Err(RummyError::Ended(reason)) = result {
        return Err(RummyError::Ended(reason));
    }
    let (log, reply) = match &result {
        Ok(value) => (
            ("log_rpc_result", json!({ "id": row["id"], "result": value.to_string() })),
            json!({ "jsonrpc": "2.0", "id": id, "result": value }),
        ),
        Err(error) => (
            ("log_rpc_error", json!({ "id": row["id"], "error": error.to_string() })),
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32603, "message": error.to_string() } }),
        ),
    };
    session.realm().statement(log.0, "run", log.1)?;
    // A notification gets no answer; a client that does not read is let go.
    if !id.is_null() && out.try_send(reply.to_string()).is_err() {
        hub.connections.borrow_mut().remove(&connection);
    }
    Ok(())
}

/// One request of a client.
struct Call<'c> {
    session: &'c RummySession,
    driver: &'c RunDriver<'c>,
    hub: &'c Hub,
    connection: u64,
    method: &'c str,
    params: Map<String, Value>,
}

impl Call<'_> {
    async fn run(&self) -> Result<Value, RummyError> {
        let greeted = self.hub.connections.borrow().get(&self.connection).is_some_and(|one| one.greeted);
        if !greeted && !matches!(self.method, "ping" | "discover" | "rummy/hello") {
            return Err(self.wrong("say rummy/hello first"));
        }
        match self.method {
            "ping" => Ok(json!({ "pong": true })),
            "discover" => self.discover().await,
            "rummy/hello" => self.hello(),
            "set" => self.set().await,
            "get" | "rm" | "cp" | "mv" | "update" => self.verb(self.method),
            "getRuns" => {
                let about = json!({
                    "project_id": self.driver.project().id, "limit": self.params.get("limit"),
                    "offset": self.params.get("offset"),
                });
                self.session.realm().statement("get_runs_by_project", "all", about)
            }
            "getRun" => self.session.realm().statement("get_run_by_id", "get", json!({ "id": self.run_id()? })),
            "getEntries" => self.entries(),
            "getModels" => {
                let model = self.driver.model();
                Ok(json!([{ "alias": model.id, "actual": format!("{}/{}", model.provider, model.id) }]))
            }
            "file/constraint" => {
                let about = json!({
                    "project_id": self.driver.project().id, "pattern": self.needed("pattern")?,
                    "visibility": self.needed("visibility")?,
                });
                self.session.realm().statement("upsert_file_constraint", "run", about).map(|_| json!({ "ok": true }))
            }
            "file/drop" => {
                let about = json!({ "project_id": self.driver.project().id, "pattern": self.needed("pattern")? });
                self.session.realm().statement("delete_file_constraint", "run", about).map(|_| json!({ "ok": true }))
            }
            "getConstraints" => {
                let about = json!({ "project_id": self.driver.project().id });
                self.session.realm().statement("get_file_constraints", "all", about)
            }
            _ => self.of_plugins().await,
        }
    }

    fn wrong(&self, what: &str) -> RummyError {
        RummyError::Store(format!("{}: {what}", self.method))
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.params.get(key).and_then(Value::as_str)
    }

    fn needed(&self, key: &str) -> Result<&str, RummyError> {
        self.text(key).filter(|text| !text.is_empty()).ok_or_else(|| self.wrong(&format!("{key} is required")))
    }

    /// The run that the call names; one of another project is none.
    fn run_id(&self) -> Result<i64, RummyError> {
        let alias = self.needed("run")?;
        let row = self.session.realm().statement("get_run_by_alias", "get", json!({ "alias": alias }))?;
        let is_ours = row["project_id"].as_i64() == Some(self.driver.project().id);
        row["id"].as_i64().filter(|_| is_ours).ok_or_else(|| self.wrong(&format!("there is no run {alias}")))
    }

    fn hello(&self) -> Result<Value, RummyError> {
        self.needed("name")?;
        let major = |version: &str| version.split('.').next().map(str::to_owned);
        if let Some(version) = self.text("clientVersion").filter(|version| major(version) != major(PROTOCOL)) {
            return Err(self.wrong(&format!("protocol mismatch: this server speaks {PROTOCOL}, the client {version}")));
        }
        let project = self.driver.project();
        if let Some(root) = self.text("projectRoot").filter(|root| std::path::Path::new(root) != project.root) {
            let own = project.root.display();
            return Err(self.wrong(&format!("this server serves {own}; start one in {root}: pi rummy serve")));
        }
        if let Some(connection) = self.hub.connections.borrow_mut().get_mut(&self.connection) {
            connection.greeted = true;
        }
        Ok(json!({ "rummyVersion": PROTOCOL, "projectId": project.id, "projectRoot": project.root }))
    }

    async fn discover(&self) -> Result<Value, RummyError> {
        let mut catalogue = self.session.realm().deliver("discover", json!({})).await?.value;
        for name in METHODS {
            catalogue["methods"][name] = json!({ "description": "Of the protocol.", "params": {} });
        }
        for name in ["run/state", "run/progress", "run/proposal", "ui/notify"] {
            catalogue["notifications"][name] = json!({ "description": "Of the protocol." });
        }
        Ok(catalogue)
    }

    fn entries(&self) -> Result<Value, RummyError> {
        let pattern = self.text("pattern").unwrap_or("**");
        let args =
            vec![self.run_id()?.into(), pattern.into(), self.params.get("bodyFilter").cloned().unwrap_or_default()];
        let rows = self.session.realm().system("getEntriesByPattern", args)?;
        let fits = |row: &&Value| {
            ["scheme", "state", "visibility"].iter().all(|key| self.text(key).is_none_or(|wanted| row[key] == wanted))
        };
        let shown = rows.as_array().into_iter().flatten().filter(fits).map(|row| {
            let keys = ["path", "scheme", "state", "outcome", "visibility", "attributes", "turn", "tokens"];
            Value::Object(keys.iter().map(|key| ((*key).to_owned(), row[key].clone())).collect())
        });
        Ok(shown.collect())
    }

    /// A verb of the store, as a client.
    fn verb(&self, method: &str) -> Result<Value, RummyError> {
        let mut args = self.params.clone();
        args.remove("run");
        args.insert("runId".to_owned(), self.run_id()?.into());
        args.insert("projectId".to_owned(), self.driver.project().id.into());
        // Whatever a client says of itself.
        args.insert("writer".to_owned(), "client".into());
        let args = [Value::Object(args)];
        let done = self.session.realm().entries().with(|store| store.entries(method, &args, CallPath::Client));
        let done = done.map_err(|error| RummyError::Store(error.message))?;
        Ok(match done.value {
            Value::String(path) => json!({ "ok": true, "path": path }),
            _ => json!({ "ok": true }),
        })
    }

    async fn set(&self) -> Result<Value, RummyError> {
        let path = self.needed("path")?;
        if let Some(alias) = path.strip_prefix("run://") {
            return self.set_run(alias);
        }
        let run_id = self.run_id()?;
        let state = self.text("state");
        let row = self.driver.row(run_id, path)?;
        if let (Some(state), "proposed") = (state, row["state"].as_str().unwrap_or_default())
            && state != "proposed"
        {
            let body = self.text("body").map(str::to_owned);
            let decision = if state == "resolved" { Decision::Accept(body) } else { Decision::Reject(body) };
            let key = (self.needed("run")?.to_owned(), row["path"].as_str().unwrap_or(path).to_owned());
            let waiting = self.hub.waiting.borrow_mut().remove(&key);
            match (waiting, decision) {
                (Some(waiting), decision) => drop(waiting.send(decision)),
                // Its run is not under way any more.
                (None, Decision::Accept(body)) => drop(self.driver.accept(run_id, path, body.as_deref()).await?),
                (None, Decision::Reject(body)) => self.driver.reject(run_id, path, body.as_deref()).await?,
                (None, Decision::Elsewhere) => {}
            }
            return Ok(json!({ "ok": true }));
        }
        self.verb("set")
    }

    /// Starts, continues or cancels a run.
    fn set_run(&self, alias: &str) -> Result<Value, RummyError> {
        if self.text("state") == Some("cancelled") {
            let runs = self.hub.runs.borrow();
            runs.get(alias).ok_or_else(|| self.wrong(&format!("no run {alias} is under way")))?.cancel();
            return Ok(json!({ "ok": true, "alias": alias }));
        }
        let prompt = self.needed("body")?.to_owned();
        let attributes = self.params.get("attributes").cloned().unwrap_or_default();
        let flag = |name: &str| attributes[name] == Value::Bool(true);
        let mode = match attributes["mode"].as_str() {
            Some("ask") => RunMode::Ask,
            Some("act") | None => RunMode::Act,
            Some(other) => return Err(self.wrong(&format!("mode `{other}` is none: use ask or act"))),
        };
        let alias = match alias {
            "" => format!("{}_{}", self.driver.model().id, self.session.ambient().epoch_ms()),
            alias => alias.to_owned(),
        };
        let mut runs = self.hub.runs.borrow_mut();
        if runs.len() >= MOST_RUNS {
            return Err(self.wrong(&format!("{MOST_RUNS} runs are under way; cancel one, or wait")));
        }
        if runs.contains_key(&alias) {
            return Err(self.wrong(&format!("the run {alias} is under way; cancel it, or wait until it ends")));
        }
        let cancel = CancellationToken::new();
        runs.insert(alias.clone(), cancel.clone());
        let flags = RunFlags {
            no_repo: flag("noRepo"),
            no_interaction: flag("noInteraction"),
            no_web: flag("noWeb"),
            no_proposals: flag("noProposals"),
            yolo: flag("yolo"),
        };
        self.hub.queued.borrow_mut().push((RunRequest { alias: alias.clone(), prompt, mode, flags }, cancel));
        Ok(json!({ "ok": true, "alias": alias }))
    }

    /// A method that a plugin registered, or a tool.
    async fn of_plugins(&self) -> Result<Value, RummyError> {
        let realm = self.session.realm();
        let project = self.driver.project();
        let context = json!({
            "projectId": project.id, "projectRoot": project.root, "db": { "$db": true }, "entries": { "$entries": null },
        });
        let call = json!({ "method": self.method, "params": self.params, "context": context });
        match realm.deliver("rpc", call).await {
            Ok(delivered) => return Ok(delivered.value),
            Err(RummyError::Absent(_)) => {}
            Err(error) => return Err(error),
        }
        let tools: BTreeSet<String> = realm.loaded().await?.tools.into_iter().collect();
        if !tools.contains(self.method) {
            return Err(RummyError::Absent(format!("method {}; discover lists those there are", self.method)));
        }
        let (run_id, path) = (self.run_id()?, self.needed("path")?);
        self.hub.contexts.set(self.hub.contexts.get() + 1);
        let facts = json!({
            "runId": run_id, "projectId": project.id, "sequence": 0, "writer": "client", "type": "act",
            "project": { "id": project.id, "name": project.name, "project_root": project.root },
        });
        let rummy = realm.context(&format!("call{}", self.hub.contexts.get()), facts, CallPath::Client).await?;
        let mut attributes = self.params.get("attributes").and_then(Value::as_object).cloned().unwrap_or_default();
        attributes.insert("path".to_owned(), path.into());
        attributes.extend(self.params.get("to").map(|to| ("to".to_owned(), to.clone())));
        let logged = vec![run_id.into(), 0.into(), self.method.into(), path.into()];
        let entry = json!({
            "scheme": self.method, "path": path, "body": self.text("body").unwrap_or_default(), "attributes": attributes,
            "resultPath": realm.system("logPath", logged)?,
        });
        let done = realm.dispatch(self.method, entry, &rummy).await;
        rummy.close().await?;
        done.map(|_| json!({ "status": "ok" }))
    }
}

/// Methods that are answered without a plugin.
const METHODS: [&str; 15] = [
    "ping",
    "discover",
    "rummy/hello",
    "set",
    "get",
    "rm",
    "cp",
    "mv",
    "update",
    "getRuns",
    "getRun",
    "getEntries",
    "getModels",
    "file/constraint",
    "file/drop",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn connects(uri: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        may_connect(&request.body(()).expect("a request"), "secret").is_ok()
    }

    #[test]
    fn a_connection_needs_the_token_and_no_foreign_page() {
        let uri = "ws://127.0.0.1:3044/?token=secret";
        assert!(connects(uri, &[]) && connects("ws://127.0.0.1/", &[("authorization", "Bearer secret")]));
        assert!(connects(uri, &[("origin", "http://localhost:5173")]));
        for origin in ["https://example.org", "http://localhost.example.org", "null", "http://127.0.0.1.example.org:80"]
        {
            assert!(!connects(uri, &[("origin", origin)]), "{origin}");
        }
        for uri in [
            "ws://127.0.0.1/",
            "ws://127.0.0.1/?token=",
            "ws://127.0.0.1/?token=secre",
            "ws://127.0.0.1/?token=secrets",
        ] {
            assert!(!connects(uri, &[]), "{uri}");
        }
    }
}
