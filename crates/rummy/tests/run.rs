//! Runs with a recorded model: tools, proposals that wait, streams, verdict; each test names the section that it checks.

use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use libtest_mimic::{Arguments, Trial};
use pijs_dialect_rummy::Writer;
use pijs_dialect_rummy::rpc::Notification;
use pijs_environment::Ambient;
use pijs_llm::provider::{self, ProviderOptions};
use pijs_rummy::{
    Decision, EntryConnector, PluginRealm, PluginSet, Proposal, RealmOptions, RummySession, RunClient, RunDriver,
    RunFlags, RunLimits, RunMode, RunOutcome, RunRequest, SessionOptions, server, session,
};
use pijs_runtime::tape::ReplayStage;
use pijs_runtime::throwaway::surroundings;
use pijs_runtime::{Environment, Interface, Isolation, Notices};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tokio_tungstenite::tungstenite::Message;

fn main() {
    // A sealed realm, and the supervisor of a program, are this program once more.
    pijs_realm::worker::enter();
    pijs_connectors::exec::supervisor::enter();
    pijs_extc::worker::enter();
    if let Some(base) = std::env::var_os(SERVED[0]) {
        return serve_for_ever(Path::new(&base));
    }
    let test = |name: &str, run: fn()| {
        Trial::test(name, move || {
            run();
            Ok(())
        })
    };
    let tests = vec![
        test("a_run_edits_asks_streams_and_ends", a_run_edits_asks_streams_and_ends),
        test(
            "a_rejection_changes_nothing_and_aborts_the_rest_of_its_turn",
            a_rejection_changes_nothing_and_aborts_the_rest_of_its_turn,
        ),
        test("a_file_that_is_read_only_is_not_edited", a_file_that_is_read_only_is_not_edited),
        test("a_run_that_asks_changes_nothing", a_run_that_asks_changes_nothing),
        test("a_tool_of_a_plugin_is_a_tag", a_tool_of_a_plugin_is_a_tag),
        test("turns_that_fail_are_strikes", turns_that_fail_are_strikes),
        test("clients_start_runs_and_resolve_proposals", clients_start_runs_and_resolve_proposals),
        test("commands_stream_over_rpc_and_end_in_three_ways", commands_stream_over_rpc_and_end_in_three_ways),
        test("a_killed_server_loses_nothing_and_its_runs_go_on", a_killed_server_loses_nothing_and_its_runs_go_on),
        test("a_rule_stops_a_reply_and_the_model_is_asked_again", a_rule_stops_a_reply_and_the_model_is_asked_again),
        test("a_verdict_of_an_extension_stops_a_reply", a_verdict_of_an_extension_stops_a_reply),
        test("a_run_is_in_the_ledger_and_its_tape_replays", a_run_is_in_the_ledger_and_its_tape_replays),
        test("hooks_come_in_the_order_of_the_turn_pipeline", hooks_come_in_the_order_of_the_turn_pipeline),
        test("runs_leave_out_what_their_flags_say", runs_leave_out_what_their_flags_say),
        test("ten_clients_have_a_run_each_and_nothing_is_mixed", ten_clients_have_a_run_each_and_nothing_is_mixed),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

const RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/rummy/runs");

/// Answers questions with `blue`, accepts everything else but what it is told to reject, and keeps what it hears.
#[derive(Default)]
struct Client {
    rejects: Option<&'static str>,
    /// The pattern of the files that the project marks as read-only.
    read_only: Option<&'static str>,
    heard: RefCell<Vec<Value>>,
    asked: RefCell<Vec<Proposal>>,
}

impl RunClient for Client {
    fn notify(&self, _: i64, notification: &Notification) {
        self.heard.borrow_mut().push(notification.message());
    }

    fn decide<'a>(&'a self, proposal: &'a Proposal) -> LocalBoxFuture<'a, Decision> {
        self.asked.borrow_mut().push(proposal.clone());
        let decision = match proposal.action.as_str() {
            action if self.rejects == Some(action) => Decision::Reject(Some("not now".to_owned())),
            "ask_user" => Decision::Accept(Some("blue".to_owned())),
            _ => Decision::Accept(None),
        };
        std::future::ready(decision).boxed_local()
    }
}

/// A project with `notes.txt`, and everything that a run in it left behind.
struct Ran {
    outcome: RunOutcome,
    client: Client,
    notes: Option<String>,
    entries: Vec<Value>,
}

impl Ran {
    fn entry(&self, path: &str) -> &Value {
        let found = self.entries.iter().find(|entry| entry["path"] == path);
        found.unwrap_or_else(|| panic!("no {path} among {:?}", self.paths()))
    }

    fn paths(&self) -> Vec<&str> {
        self.entries.iter().filter_map(|entry| entry["path"].as_str()).collect()
    }
}

fn run(script: &str, mode: RunMode, client: Client) -> Ran {
    let base = tempfile::tempdir().expect("a folder");
    let mut environment = Environment::capture().expect("an environment");
    environment.notices = Notices::new(|_| {});
    let environment = surroundings(&environment, base.path()).expect("made");
    let root = environment.dirs.cwd.clone();
    std::fs::write(root.join("notes.txt"), "first\nsecond\nthird\n").expect("written");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let ambient = Ambient::system();
        let entries = EntryConnector::open(None, "2.x", 2, ambient.clone()).expect("a store");
        let mut options = RealmOptions::new(base.path().join("stage"));
        options.session.permissions.allow = ["read", "write", "exec"].map(str::to_owned).to_vec();
        let plugins = match script {
            "tool.jsonl" => {
                PluginSet::default().folder(Path::new(RUNS).join("../plugins/greet").as_path()).expect("read")
            }
            _ => PluginSet::default(),
        };
        let realm = PluginRealm::open(&environment, &plugins, entries, Interface::default(), options).await;
        let realm = realm.unwrap_or_else(|error| panic!("{error}"));
        let model = format!("script:{}", Path::new(RUNS).join(script).display());
        let model = provider::open(&model, &ProviderOptions::default(), &ambient).expect("a script");
        let outcome = realm.run(async {
            realm.initialise().await.expect("the store takes all schemes");
            let driver = RunDriver::new(&realm, &model, ambient, RunLimits::default(), &client);
            let project = driver.project("demo", root.clone()).await.expect("a project");
            if let Some(pattern) = client.read_only {
                let constraint = json!({ "project_id": project.id, "pattern": pattern, "visibility": "readonly" });
                let kept = realm.entries().with(|store| store.statement("upsert_file_constraint", "run", &constraint));
                kept.expect("kept");
            }
            let request = RunRequest {
                alias: "demo_1".to_owned(),
                prompt: "Tidy the notes.".to_owned(),
                mode,
                flags: RunFlags::default(),
            };
            driver.run(&project, &request).await
        });
        let outcome = outcome.await.unwrap_or_else(|error| panic!("{error}"));
        let found =
            realm.entries().with(|store| store.entries("getEntries", &json!([1]), Writer::System)).expect("read");
        realm.close();
        let notes = std::fs::read_to_string(root.join("notes.txt")).ok();
        Ran { outcome, client, notes, entries: found.as_array().cloned().unwrap_or_default() }
    })
}

/// Follows rummy's plugin guide, "Turn Pipeline" and "Streaming Entries": a file is edited when its proposal is accepted, a
/// question is answered, a
/// command streams into its channels, and a terminal update ends the run.
fn a_run_edits_asks_streams_and_ends() {
    let ran = run("whole.jsonl", RunMode::Act, Client::default());
    assert_eq!((ran.outcome.status, ran.outcome.turns), (200, 4), "{:?} {:?}", ran.outcome, ran.entries);
    assert_eq!(ran.outcome.summary.as_deref(), Some("All three are done."));
    assert_eq!(ran.notes.as_deref(), Some("first\n2nd\nthird\n"));
    let asked: Vec<String> = ran.client.asked.borrow().iter().map(|proposal| proposal.action.clone()).collect();
    assert_eq!(asked, ["set", "ask_user", "sh"]);
    assert!(ran.client.asked.borrow()[0].body.contains("-second\n+2nd"), "{:?}", ran.client.asked.borrow()[0]);
    assert_eq!(ran.entry("known://notes")["body"], "The notes have three lines.");
    assert_eq!(ran.entry("notes.txt")["body"], "first\n2nd\nthird\n");
    let of_action = |action: &str| {
        let start = format!("log://turn_{}/{action}/", if action == "sh" { 3 } else { 2 });
        let path = ran.paths().into_iter().find(|path| path.starts_with(&start)).expect("a log entry");
        ran.entry(path)
    };
    assert_eq!(of_action("ask_user")["body"], "Which colour?\nblue");
    assert!(of_action("sh")["body"].as_str().is_some_and(|body| body.contains("exit=0")), "{}", of_action("sh"));
    let channels: Vec<&Value> = ran.entries.iter().filter(|entry| entry["scheme"] == "sh").collect();
    let told: Vec<_> = channels.iter().map(|channel| (&channel["body"], &channel["state"])).collect();
    assert_eq!(told, [(&json!("to out"), &json!("resolved")), (&json!("to err"), &json!("resolved"))]);
    assert_eq!(ran.entry("run://demo_1")["state"], "resolved");
    let heard = ran.client.heard.borrow();
    for method in ["run/progress", "run/state", "run/proposal"] {
        assert!(heard.iter().any(|heard| heard["method"] == method), "{method}: {heard:?}");
    }
}

/// Follows rummy's specification, "Resolution" and rummy's plugin guide, "abort cascade": a rejection leaves the file and
/// aborts what follows it in its turn.
fn a_rejection_changes_nothing_and_aborts_the_rest_of_its_turn() {
    let ran = run("whole.jsonl", RunMode::Act, Client { rejects: Some("set"), ..Client::default() });
    assert_eq!(ran.notes.as_deref(), Some("first\nsecond\nthird\n"));
    assert!(!ran.paths().contains(&"known://notes"), "{:?}", ran.paths());
    let rejected = ran.paths().into_iter().find(|path| path.starts_with("log://turn_2/set/notes.txt")).expect("logged");
    let rejected = ran.entry(rejected);
    assert_eq!(
        (&rejected["state"], &rejected["outcome"], &rejected["body"]),
        (&json!("failed"), &json!("permission"), &json!("not now"))
    );
    let aborted: Vec<&Value> = ran.entries.iter().filter(|entry| entry["outcome"] == "aborted").collect();
    assert_eq!(aborted.len(), 2, "{aborted:?}");
}

/// Follows rummy's plugin guide, "Config & Query Methods": `readonly` is enforced when an edit is accepted.
fn a_file_that_is_read_only_is_not_edited() {
    let ran = run("whole.jsonl", RunMode::Act, Client { read_only: Some("*.txt"), ..Client::default() });
    assert_eq!(ran.notes.as_deref(), Some("first\nsecond\nthird\n"));
    let refused: Vec<&Value> = ran.entries.iter().filter(|entry| entry["outcome"] == "readonly").collect();
    let [refused] = &refused[..] else { panic!("one refusal: {refused:?}") };
    assert_eq!(refused["body"], "refused: notes.txt is readonly");
}

/// Follows rummy's plugin guide, policy: a run that asks changes nothing, whatever the model writes.
fn a_run_that_asks_changes_nothing() {
    let ran = run("whole.jsonl", RunMode::Ask, Client::default());
    assert_eq!(ran.notes.as_deref(), Some("first\nsecond\nthird\n"));
    let asked: Vec<String> = ran.client.asked.borrow().iter().map(|proposal| proposal.action.clone()).collect();
    assert_eq!(asked, ["ask_user"], "files and commands are rejected before anybody is asked");
}

/// Follows rummy's plugin guide, "Quickstart": the tag of a plugin's tool runs its handler, and its documentation is in the
/// system prompt.
fn a_tool_of_a_plugin_is_a_tag() {
    let ran = run("tool.jsonl", RunMode::Act, Client::default());
    assert_eq!(ran.outcome.status, 200, "{:?} {:?}", ran.outcome, ran.entries);
    assert_eq!(ran.entry("log://turn_1/greet/you")["body"], "hello you, from greet");
}

/// Follows rummy's plugin guide, "Reporting outcomes" and the verdict: failures are strikes, a claim to be done is refuted by
/// them, three in a row end it.
fn turns_that_fail_are_strikes() {
    let ran = run("strikes.jsonl", RunMode::Act, Client { rejects: Some("rm"), ..Client::default() });
    assert_eq!(ran.outcome.status, 499, "{:?}", ran.outcome);
    assert_eq!(ran.outcome.turns, 3, "{:?}", ran.outcome);
    assert!(ran.outcome.reason.is_some(), "{:?}", ran.outcome);
    assert!(!ran.paths().contains(&"known://after"), "{:?}", ran.paths());
    let undone = ran.entry("log://turn_2/get/notes.txt");
    assert_eq!((&undone["state"], &undone["outcome"]), (&json!("cancelled"), &json!("aborted")), "{undone}");
    let errors = ran.entries.iter().filter(|entry| entry["scheme"] == "error").count();
    assert_eq!(errors, 1, "the turn without an update: {:?}", ran.entries);
}

/// A client of the protocol, as another program writes it.
struct Peer {
    socket: tokio_tungstenite::WebSocketStream<tokio::net::TcpStream>,
    told: Vec<Value>,
    next: u64,
    /// Runs that it heard of.
    runs: BTreeSet<String>,
}

impl Peer {
    async fn connect(address: &str) -> Result<Self, String> {
        let host = address.strip_prefix("ws://").and_then(|rest| rest.split('/').next()).expect("an address");
        let stream = tokio::net::TcpStream::connect(host).await.expect("it listens");
        let shaken = tokio_tungstenite::client_async(address, stream).await;
        let (socket, _) = shaken.map_err(|error| error.to_string())?;
        Ok(Self { socket, told: Vec::new(), next: 0, runs: BTreeSet::new() })
    }

    async fn hear(&mut self) -> Value {
        loop {
            let message = self.socket.next().await.expect("it is open").expect("a message");
            if let Ok(text) = message.to_text() {
                let heard: Value = serde_json::from_str(text).expect("JSON");
                self.runs.extend(heard["params"]["run"].as_str().map(str::to_owned));
                return heard;
            }
        }
    }

    /// Connects, and names its project.
    async fn greeted(address: &str, project: &str, root: &Path) -> Self {
        let mut peer = Self::connect(address).await.expect("connected");
        peer.done("rummy/hello", json!({ "name": project, "projectRoot": root })).await;
        peer
    }

    /// Calls a method that succeeds.
    async fn done(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params).await;
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].clone()
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let call = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.socket.send(Message::text(call.to_string())).await.expect("sent");
        loop {
            let heard = self.hear().await;
            if heard["id"] == self.next {
                return heard;
            }
            self.told.push(heard);
        }
    }

    /// Waits for a notification that fits.
    async fn until(&mut self, method: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let is_it = |heard: &Value| heard["method"] == method && fits(&heard["params"]);
        if let Some(at) = self.told.iter().position(is_it) {
            return self.told.remove(at);
        }
        loop {
            let heard = self.hear().await;
            if is_it(&heard) {
                return heard;
            }
            self.told.push(heard);
        }
    }
}

/// Follows rummy's plugin guide, "RPC Methods" and "Run Lifecycle via Primitives": handshake, start of a run, proposals by
/// `set`, queries, refusals.
fn clients_start_runs_and_resolve_proposals() {
    let base = tempfile::tempdir().expect("a folder");
    let mut environment = Environment::capture().expect("an environment");
    environment.notices = Notices::new(|_| {});
    let environment = surroundings(&environment, base.path()).expect("made");
    let root = environment.dirs.cwd.clone();
    std::fs::write(root.join("notes.txt"), "first\nsecond\nthird\n").expect("written");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut options = SessionOptions::default();
        options.config.permissions.allow = ["read", "write", "exec"].map(str::to_owned).to_vec();
        options.config.model.name = Some(format!("script:{RUNS}/whole.jsonl"));
        let session = RummySession::open(&environment, options, Interface::default()).await;
        let session = session.unwrap_or_else(|error| panic!("{error}"));
        let (found, address) = tokio::sync::oneshot::channel();
        let found = std::cell::Cell::new(Some(found));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let say = |line: &str| drop(found.take().map(|found| found.send(line.to_owned())));
        let served = server::serve(std::slice::from_ref(&session), 0, say, async { drop(stopped.await) });
        let talk = async {
            let address = address.await.expect("an address");
            let open = address.split('?').next().expect("an address");
            assert!(Peer::connect(open).await.is_err(), "without the token");
            let mut peer = Peer::connect(&address).await.expect("connected");
            assert_eq!(peer.call("ping", json!({})).await["result"], json!({}));
            let early = peer.call("getRuns", json!({})).await;
            assert_eq!(early["error"]["code"], -32603, "{early}");
            let other =
                peer.call("rummy/hello", json!({ "name": "t", "projectRoot": root, "clientVersion": "1.0.0" })).await;
            assert!(other["error"]["message"].as_str().is_some_and(|text| text.contains("mismatch")), "{other}");
            let hello =
                peer.call("rummy/hello", json!({ "name": "t", "projectRoot": root, "clientVersion": "2.1.0" })).await;
            assert_eq!(hello["result"]["rummyVersion"], "2.0.0", "{hello}");
            let start = json!({ "path": "run://edit", "body": "Tidy the notes.", "attributes": { "mode": "act" } });
            assert_eq!(peer.call("set", start).await["result"]["alias"], "edit");
            for (action, answer) in [("set", None), ("ask_user", Some("blue")), ("sh", None)] {
                let asked = peer.until("run/proposal", |params| params["run"] == "edit").await;
                let row = asked["params"]["proposed"][0].clone();
                let path = row["path"].as_str().expect("a path").to_owned();
                assert!(path.contains(&format!("/{action}/")), "{action}: {path}");
                let resolve = json!({ "run": "edit", "path": path, "state": "resolved", "body": answer });
                assert_eq!(peer.call("set", resolve).await["result"]["ok"], true);
                if action == "sh" {
                    // The client runs what it accepted.
                    let chunk = json!({ "run": "edit", "path": path, "channel": 1, "chunk": "to out" });
                    assert_eq!(peer.call("stream", chunk).await["result"]["status"], "ok");
                    let end = json!({ "run": "edit", "path": path, "exit_code": 0 });
                    assert_eq!(peer.call("stream/completed", end).await["result"]["channels"], 2);
                }
            }
            let end = peer.until("run/state", |params| params["status"] == 200).await;
            assert_eq!(end["params"]["summary"], "All three are done.");
            let known = peer.call("getEntries", json!({ "run": "edit", "pattern": "known://*" })).await;
            assert_eq!(known["result"][0]["path"], "known://notes", "{known}");
            // The schemes say who writes: no client writes what the model knows, and a tier that it claims is not its own.
            let claim = json!({ "run": "edit", "path": "known://x", "body": "b", "writer": "system" });
            let refused = peer.call("set", claim).await;
            assert!(refused["error"]["message"].as_str().is_some_and(|text| text.starts_with("403")), "{refused}");
            let unknown = peer.call("no/such", json!({})).await;
            assert!(unknown["error"]["message"].as_str().is_some_and(|text| text.contains("no/such")), "{unknown}");
            stop.send(()).expect("it serves");
        };
        let ran = async { tokio::join!(served, talk).0 }.await;
        ran.unwrap_or_else(|error| panic!("{error}"));
        session.close();
        assert_eq!(std::fs::read_to_string(root.join("notes.txt")).expect("read"), "first\n2nd\nthird\n");
        // Changes that were acknowledged are there for the next process.
        let entries = session::open_store(&environment, "2.x", false, &Ambient::system()).expect("opened");
        let runs = entries.with(|store| store.statement("get_run_by_alias", "get", &json!({ "alias": "edit" })));
        let runs = runs.expect("read");
        assert_eq!(runs["status"], 200, "{runs}");
    });
}

/// Writes a recorded model of a list of replies.
fn script(folder: &Path, name: &str, replies: &[String]) -> String {
    let line = |reply: &String| json!({ "events": [{ "text": reply }], "stop": "end_turn" }).to_string();
    let path = folder.join(name);
    std::fs::write(&path, replies.iter().map(line).collect::<Vec<_>>().join("\n")).expect("written");
    format!("script:{}", path.display())
}

/// Serves sessions of folders, and has clients talk to them.
fn serving(folders: usize, model: &str, talk: impl AsyncFnOnce(Vec<PathBuf>, String)) {
    let base = tempfile::tempdir().expect("a folder");
    let mut environment = Environment::capture().expect("an environment");
    environment.notices = Notices::new(|_| {});
    let environment = surroundings(&environment, base.path()).expect("made");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let (mut sessions, mut roots) = (Vec::new(), Vec::new());
        for number in 0..folders {
            let mut environment = environment.clone();
            environment.dirs.cwd = base.path().join(format!("project{number}"));
            std::fs::create_dir_all(&environment.dirs.cwd).expect("made");
            roots.push(environment.dirs.cwd.clone());
            let mut options = SessionOptions::default();
            options.config.permissions.allow = ["read", "write", "exec"].map(str::to_owned).to_vec();
            options.config.model.name = Some(model.to_owned());
            let session = RummySession::open(&environment, options, Interface::default()).await;
            sessions.push(session.unwrap_or_else(|error| panic!("{error}")));
        }
        let (found, address) = tokio::sync::oneshot::channel();
        let found = std::cell::Cell::new(Some(found));
        let say = |line: &str| drop(found.take().map(|found| found.send(line.to_owned())));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let served = server::serve(&sessions, 0, say, async { drop(stopped.await) });
        let talk = async {
            talk(roots, address.await.expect("an address")).await;
            stop.send(()).expect("it serves");
        };
        tokio::join!(served, talk).0.unwrap_or_else(|error| panic!("{error}"));
        sessions.into_iter().for_each(RummySession::close);
    });
}

/// 003, "Streaming Entries": a client runs what it accepted and ends it in one of three ways; the others of its project hear of
/// a cancelled one.
fn commands_stream_over_rpc_and_end_in_three_ways() {
    let folder = tempfile::tempdir().expect("a folder");
    let turn = |command: &str| format!("<env>{command}</env>\n<update status=\"102\">ran {command}</update>");
    let replies = [turn("one"), turn("two"), turn("three"), "<update status=\"200\">done</update>".to_owned()];
    let model = script(folder.path(), "model.jsonl", &replies);
    serving(1, &model, async |roots, address| {
        let mut peer = Peer::greeted(&address, "p", &roots[0]).await;
        let mut other = Peer::greeted(&address, "p", &roots[0]).await;
        peer.done("set", json!({ "path": "run://r", "body": "go", "attributes": { "mode": "act" } })).await;
        for (command, method, more, state, outcome) in [
            ("one", "stream/completed", json!({ "exit_code": 3 }), "failed", "exit:3"),
            ("two", "stream/aborted", json!({ "reason": "the user left" }), "cancelled", "the user left"),
            ("three", "stream/cancel", json!({ "reason": "stale" }), "cancelled", "stale"),
        ] {
            let asked = peer.until("run/proposal", |params| params["run"] == "r").await;
            let path = asked["params"]["proposed"][0]["path"].as_str().expect("a path").to_owned();
            assert!(path.ends_with(command), "{path}");
            let resolve = json!({ "run": "r", "path": path, "state": "resolved" });
            assert_eq!(peer.done("set", resolve).await["state"], "resolved");
            for (channel, chunk) in [(1, "out "), (2, "err"), (1, command)] {
                let chunk = json!({ "run": "r", "path": path, "channel": channel, "chunk": chunk });
                peer.done("stream", chunk).await;
            }
            let mut end = json!({ "run": "r", "path": path });
            end.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
            assert_eq!(peer.done(method, end).await["channels"], 2);
            let late = json!({ "run": "r", "path": path, "channel": 1, "chunk": "late" });
            assert!(peer.call("stream", late).await["error"]["message"].is_string(), "a chunk after the end");
            let of_command = json!({ "run": "r", "pattern": format!("env://**/{command}_*") });
            let channels = peer.done("getEntries", of_command).await;
            for channel in channels.as_array().expect("a list") {
                assert_eq!((&channel["state"], &channel["outcome"]), (&json!(state), &json!(outcome)), "{channel}");
            }
        }
        let cancelled = other.until("stream/cancelled", |params| params["run"] == "r").await;
        assert_eq!(cancelled["params"]["reason"], "stale", "{cancelled}");
        other.until("run/state", |params| params["status"] == 200).await;
        let missing = json!({ "run": "r", "path": "log://turn_9/sh/none" });
        assert!(peer.call("stream/completed", missing).await["error"]["message"].is_string());
    });
}

/// Ten clients in two folders and three projects have a run each: nothing is lost, nothing is mixed, nobody hears of another
/// project.
fn ten_clients_have_a_run_each_and_nothing_is_mixed() {
    const TURNS: usize = 12;
    let folder = tempfile::tempdir().expect("a folder");
    let usual = script(folder.path(), "usual.jsonl", &[]);
    serving(2, &usual, async |roots, address| {
        let clients = (0..10).map(|number| {
            let replies: Vec<String> = (1..=TURNS)
                .map(|turn| {
                    let status = if turn == TURNS { 200 } else { 102 };
                    format!(
                        "<set path=\"known://c{number}/t{turn}\">of client {number} in turn {turn}</set>\n\
                         <set path=\"c{number}.txt\">client {number} turn {turn}</set>\n\
                         <update status=\"{status}\">turn {turn} of {number}</update>"
                    )
                })
                .collect();
            let model = script(folder.path(), &format!("m{number}.jsonl"), &replies);
            let (root, address) = (roots[number % 2].clone(), address.clone());
            // The clients of the first folder are in two projects.
            let project = if number % 4 == 0 { "first" } else { "second" };
            async move {
                let mut peer = Peer::greeted(&address, project, &root).await;
                let (alias, run) = (format!("m{number}"), format!("run{number}"));
                peer.done("addModel", json!({ "alias": alias, "actual": model })).await;
                let attributes = json!({ "mode": "act", "model": alias });
                let start = json!({ "path": format!("run://{run}"), "body": format!("prompt of {number}"), "attributes": attributes });
                peer.done("set", start).await;
                for _ in 0..TURNS {
                    let asked = peer.until("run/proposal", |params| params["run"] == run).await;
                    let path = asked["params"]["proposed"][0]["path"].clone();
                    peer.done("set", json!({ "run": run, "path": path, "state": "resolved" })).await;
                }
                peer.until("run/state", |params| params["run"] == run && params["status"] == 200).await;
                let known = peer.done("getEntries", json!({ "run": run, "pattern": "known://**" })).await;
                let paths: Vec<&str> = known.as_array().into_iter().flatten().filter_map(|row| row["path"].as_str()).collect();
                assert_eq!(paths.len(), TURNS, "{paths:?}");
                assert!(paths.iter().all(|path| path.starts_with(&format!("known://c{number}/"))), "{paths:?}");
                let written = std::fs::read_to_string(root.join(format!("c{number}.txt"))).expect("written");
                assert_eq!(written, format!("client {number} turn {TURNS}"));
                let row = peer.done("getRun", json!({ "run": run })).await;
                assert_eq!((&row["status"], &row["turn"]), (&json!(200), &json!(TURNS)), "{row}");
                peer
            }
        });
        let peers = futures_util::future::join_all(clients).await;
        let project = |number: usize| (number % 2, number % 4 == 0);
        for (number, mut peer) in peers.into_iter().enumerate() {
            let of_project = (0..10).filter(|other| project(*other) == project(number));
            let mut expected: Vec<String> = of_project.map(|other| format!("run{other}")).collect();
            let runs = peer.done("getRuns", json!({})).await;
            let mut listed: Vec<String> = runs
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|row| row["run"].as_str().map(str::to_owned))
                .collect();
            (expected.sort(), listed.sort());
            assert_eq!(listed, expected, "client {number}");
            assert!(peer.runs.iter().all(|run| expected.contains(run)), "client {number} heard of {:?}", peer.runs);
            let foreign = (0..10).find(|other| project(*other) != project(number)).expect("there is one");
            let refused = peer.call("getRun", json!({ "run": format!("run{foreign}") })).await;
            assert!(refused["error"]["message"].is_string(), "{refused}");
        }
    });
}

/// Names the folder of a server that runs in a process of its own, and its model.
const SERVED: [&str; 2] = ["RUMMY_TEST_SERVED", "RUMMY_TEST_MODEL"];

/// Serves a folder until the process is killed.
fn serve_for_ever(base: &Path) {
    let mut environment = Environment::capture().expect("an environment");
    environment.notices = Notices::new(|_| {});
    let environment = surroundings(&environment, base).expect("made");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut options = SessionOptions::default();
        options.config.permissions.allow = ["read", "write", "exec"].map(str::to_owned).to_vec();
        options.config.model.name = std::env::var(SERVED[1]).ok();
        let session = RummySession::open(&environment, options, Interface::default()).await;
        let session = session.unwrap_or_else(|error| panic!("{error}"));
        let say = |line: &str| {
            use std::io::Write as _;
            writeln!(std::io::stdout(), "{line}").expect("the test listens");
        };
        let served = server::serve(std::slice::from_ref(&session), 0, say, std::future::pending()).await;
        served.unwrap_or_else(|error| panic!("{error}"));
    });
}

/// A server in a process of its own, killed when it is dropped.
struct Served(std::process::Child, String);

impl Served {
    fn start(base: &Path, model: &str) -> Self {
        use std::io::BufRead as _;
        let mut child = std::process::Command::new(std::env::current_exe().expect("this test has a file"))
            .env(SERVED[0], base)
            .env(SERVED[1], model)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut output = std::io::BufReader::new(child.stdout.take().expect("it is piped"));
        let mut address = String::new();
        output.read_line(&mut address).expect("it prints its address");
        Self(child, address.trim().to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ended");
    }
}

/// Issue: a client in another process, and a server that is killed while a proposal waits: the next server has all that was
/// acknowledged, the proposal is open still, what was interrupted says so, and the run comes to its end.
fn a_killed_server_loses_nothing_and_its_runs_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().join("base");
    std::fs::create_dir_all(base.join("cwd")).expect("made");
    let root = base.canonicalize().expect("it is there").join("cwd");
    std::fs::write(root.join("notes.txt"), "first\nsecond\n").expect("written");
    let edit = "<set path=\"notes.txt\">\n<<:::SEARCH\nsecond\n:::SEARCH\n<<:::REPLACE\n2nd\n:::REPLACE\n</set>\n\
                <set path=\"known://later\">x</set>\n<update status=\"102\">edited</update>";
    let before = ["<set path=\"known://plan\">edit the notes</set>\n<update status=\"102\">planned</update>", edit];
    let after = [
        "<get path=\"known://plan\"/>\n<update status=\"102\">read the plan</update>",
        "<update status=\"200\">All is done.</update>",
    ];
    // The same model, which has more to say to the second server.
    let model = |replies: &[&str; 2]| script(folder.path(), "model.jsonl", &replies.map(str::to_owned));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let first = Served::start(&base, &model(&before));
        let mut peer = Peer::greeted(&first.1, "p", &root).await;
        let start = json!({ "path": "run://r", "body": "Tidy the notes.", "attributes": { "mode": "act" } });
        peer.done("set", start).await;
        let asked = peer.until("run/proposal", |params| params["run"] == "r").await;
        let path = asked["params"]["proposed"][0]["path"].clone();
        // Dropping it kills it: nothing of it runs after this line.
        drop(first);
        assert_eq!(std::fs::read_to_string(root.join("notes.txt")).expect("read"), "first\nsecond\n");

        let second = Served::start(&base, &model(&after));
        let mut peer = Peer::greeted(&second.1, "p", &root).await;
        let open = peer.done("getEntries", json!({ "run": "r", "state": "proposed" })).await;
        assert_eq!((open[0]["path"].clone(), open.as_array().map(Vec::len)), (path.clone(), Some(1)), "{open}");
        assert_eq!(
            peer.done("set", json!({ "run": "r", "path": path, "state": "resolved" })).await["state"],
            "resolved"
        );
        peer.until("run/state", |params| params["status"] == 200).await;
        assert_eq!(std::fs::read_to_string(root.join("notes.txt")).expect("read"), "first\n2nd\n");
        let row = peer.done("getRun", json!({ "run": "r" })).await;
        assert_eq!((&row["turn"], &row["status"]), (&json!(4), &json!(200)), "{row}");
        let entries = peer.done("getEntries", json!({ "run": "r" })).await;
        let state = |path: &str| {
            let found = entries.as_array().into_iter().flatten().find(|entry| entry["path"] == path);
            found.map(|entry| (entry["state"].clone(), entry["outcome"].clone()))
        };
        assert_eq!(state("known://plan"), Some((json!("resolved"), Value::Null)));
        assert_eq!(state("known://later"), None, "its command had not begun");
        let interrupted = Some((json!("cancelled"), json!("interrupted")));
        assert_eq!(state("log://turn_2/set/known%3A/later"), interrupted, "{entries}");
        let prompts = peer.done("getEntries", json!({ "run": "r", "scheme": "prompt" })).await;
        assert_eq!(prompts.as_array().map(Vec::len), Some(1), "the prompt is not given twice: {prompts}");
    });
}

/// A run in a session: how it ended, its entries, and its surroundings.
struct SessionRan {
    outcome: RunOutcome,
    entries: Vec<Value>,
    ledger: String,
}

/// Runs a recorded model in a session with everything accepted.
fn in_session(model: &str, adapt: impl FnOnce(&Environment, &mut SessionOptions)) -> SessionRan {
    let base = tempfile::tempdir().expect("a folder");
    let mut environment = Environment::capture().expect("an environment");
    environment.notices = Notices::new(|_| {});
    let environment = surroundings(&environment, base.path()).expect("made");
    let root = environment.dirs.cwd.clone();
    std::fs::write(root.join("notes.txt"), "first\nsecond\nthird\n").expect("written");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut options = SessionOptions::default();
        options.config.permissions.allow = ["read", "write", "exec", "verdict"].map(str::to_owned).to_vec();
        options.config.model.name = Some(model.to_owned());
        adapt(&environment, &mut options);
        let session = RummySession::open(&environment, options, Interface::default()).await;
        let session = session.unwrap_or_else(|error| panic!("{error}"));
        let client = Client::default();
        let outcome = session.realm().run(async {
            let driver = session.driver(&client).await?;
            let project = driver.project("demo", root.clone()).await?;
            let flags = RunFlags { yolo: true, ..RunFlags::default() };
            let request = RunRequest { alias: "r".to_owned(), prompt: "Do it.".to_owned(), mode: RunMode::Act, flags };
            driver.run(&project, &request).await
        });
        let outcome = outcome.await.unwrap_or_else(|error| panic!("{error}"));
        let run = session.realm().entries().with(|store| store.run_by_alias("r")).expect("read");
        let read = session.realm().entries().with(|store| store.entries("getEntries", &json!([run]), Writer::System));
        let entries = read.expect("read").as_array().cloned().unwrap_or_default();
        session.close();
        let mut ledger = String::new();
        let folder = pijs_runtime::ledger_folder(&environment);
        for file in std::fs::read_dir(folder).into_iter().flatten().map_while(Result::ok) {
            ledger.push_str(&std::fs::read_to_string(file.path()).unwrap_or_default());
        }
        SessionRan { outcome, entries, ledger }
    })
}

/// Two replies, of which the first says what is forbidden.
fn forbidden(folder: &Path) -> String {
    let say = |word: &str| format!("<set path=\"known://said\">{word}</set>\n<update status=\"200\">said it</update>");
    script(folder, "model.jsonl", &[say("forbidden"), say("allowed")])
}

fn said(ran: &SessionRan) -> Vec<&Value> {
    ran.entries.iter().filter(|entry| entry["path"] == "known://said").map(|entry| &entry["body"]).collect()
}

fn stopped(ran: &SessionRan) -> Vec<&str> {
    let errors = ran.entries.iter().filter(|entry| entry["scheme"] == "error");
    errors.filter_map(|entry| entry["body"].as_str()).filter(|body| body.starts_with("409")).collect()
}

/// Issue: native rules read the model in runs of rummy; nothing of a reply that breaks one is carried out.
fn a_rule_stops_a_reply_and_the_model_is_asked_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = in_session(&forbidden(folder.path()), |environment, options| {
        let rules = environment.dirs.home.join(".pi/rules");
        std::fs::create_dir_all(&rules).expect("made");
        std::fs::write(rules.join("word.md"), "---\ntrigger: forbidden\n---\nDo not say that.\n").expect("written");
        options.config.rules.enabled = Some(true);
    });
    assert_eq!((ran.outcome.status, ran.outcome.turns), (200, 1), "{:?}", ran.outcome);
    assert_eq!(said(&ran), ["allowed"]);
    let stopped = stopped(&ran);
    assert!(matches!(stopped[..], [one] if one.contains("Do not say that.")), "{stopped:?}");
}

/// Issue: so do handlers of `stream_text`, of extensions of pi that are loaded beside the plugins.
fn a_verdict_of_an_extension_stops_a_reply() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = in_session(&forbidden(folder.path()), |_, options| {
        let extension = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/extensions/verdict-word");
        options.config.extensions.named = vec![extension.to_owned()];
    });
    assert_eq!((ran.outcome.status, ran.outcome.turns), (200, 1), "{:?}", ran.outcome);
    assert_eq!(said(&ran), ["allowed"]);
    let stopped = stopped(&ran);
    assert!(matches!(stopped[..], [one] if one.contains("Do not say that.")), "{stopped:?}");
    assert!(ran.ledger.contains("stream.verdict"), "the verdict is in the ledger");
}

/// Issue: a verb of the store is a line of the ledger, and the tape of a run replays to what was recorded.
fn a_run_is_in_the_ledger_and_its_tape_replays() {
    let folder = tempfile::tempdir().expect("a folder");
    let tape = folder.path().join("run.tape");
    let ran = in_session(&format!("script:{RUNS}/whole.jsonl"), |_, options| {
        options.config.tape = Some(tape.clone());
    });
    assert_eq!(ran.outcome.status, 200, "{:?}", ran.outcome);
    let lines: Vec<Value> = ran.ledger.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let verbs: Vec<&Value> =
        lines.iter().filter(|line| line["event"] == "rummy.verb").map(|line| &line["data"]).collect();
    let known = verbs.iter().find(|data| data["path"] == "known://notes").expect("the model's entry");
    assert_eq!(
        (&known["verb"], &known["writer"], &known["rows"]),
        (&json!("set"), &json!("model"), &json!(1)),
        "{known}"
    );
    assert!(known["after"].is_string() && known["before"].is_null(), "{known}");
    let mut environment = Environment::capture().expect("an environment");
    environment.notices = Notices::new(|_| {});
    let environment = surroundings(&environment, folder.path()).expect("made");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let stage = ReplayStage::prepare(&environment, &tape, Isolation::Thread);
    let stage = runtime.block_on(stage).unwrap_or_else(|error| panic!("{error}"));
    let reader = pijs_runtime::tape::open(&tape).unwrap_or_else(|error| panic!("{error}"));
    let options = pijs_tape::ReplayOptions { until: None, accept_build: false };
    let replay = pijs_tape::Replay::new(reader, &stage, options).unwrap_or_else(|error| panic!("{error}"));
    let played = replay.run().unwrap_or_else(|error| panic!("{error}"));
    assert!(played.divergence.is_none(), "the replay is equal: {:?}", played.divergence);
}

/// 003, "Turn Pipeline" and "Run & Loop Lifecycle": hooks fire in the order of the tables, with the payloads that the guide says.
fn hooks_come_in_the_order_of_the_turn_pipeline() {
    let folder = tempfile::tempdir().expect("a folder");
    let reply = "<set path=\"notes.txt\">new</set>\n<update status=\"200\">done</update>".to_owned();
    let ran = in_session(&script(folder.path(), "model.jsonl", &[reply]), |_, options| {
        options.plugins = vec![Path::new(RUNS).join("../pipeline")];
    });
    assert_eq!(ran.outcome.status, 200, "{:?}", ran.outcome);
    let order = ran.entries.iter().find(|entry| entry["path"] == "witness://order").expect("written");
    let seen: Vec<Vec<Value>> = serde_json::from_str(order["body"].as_str().expect("a body")).expect("JSON");
    let names: Vec<&str> = seen.iter().filter_map(|one| one[0].as_str()).collect();
    let dispatched = ["tool.before", "tool.after", "entry.created", "run.state", "proposal.prepare"];
    let accepted = ["proposal.pending", "proposal.accepting", "proposal.content", "proposal.accepted"];
    let mut expected = vec![
        "project.init.started",
        "project.init.completed",
        "act.started",
        "run.config",
        "run.created",
        "loop.started",
        "turn.started",
        "instructions.toolDocs",
        "context.materialized",
        "assembly.system",
        "assembly.user",
        "run.progress",
        "turn.beforeDispatch",
        "llm.messages",
        "llm.request.started",
        "llm.response",
        "llm.request.completed",
        "run.progress",
        "llm.reasoning",
        "turn.response",
        "entry.recording",
        "entry.recording",
    ];
    expected.extend(dispatched.iter().chain(&accepted).chain(&dispatched));
    expected.extend([
        "turn.dispatched",
        "turn.verdict",
        "turn.completed",
        "run.state",
        "run.step.completed",
        "run.state",
    ]);
    expected.extend(["act.completed", "loop.completed"]);
    assert_eq!(names, expected);
    let payloads = [
        ("turn.started", 1, "rummy mode prompt isContinuation loopIteration"),
        ("context.materialized", 1, "runId turn rowCount"),
        ("assembly.user", 2, "rows loopStartTurn type toolSet contextSize lastContextTokens turn systemPrompt"),
        ("turn.beforeDispatch", 1, "messages rows contextSize lastPromptTokens assembledTokens ok overflow"),
        ("turn.beforeDispatch", 2, "rummy ctx"),
        ("llm.messages", 2, "model projectId runId runAlias turn"),
        ("llm.request.completed", 1, "model turn usage"),
        ("llm.reasoning", 2, "commands"),
        (
            "turn.response",
            1,
            "rummy turn result responseMessage content commands unparsed assembledTokens contextSize systemMsg userMsg",
        ),
        ("entry.recording", 1, "scheme path body attributes state outcome"),
        ("entry.recording", 2, "store runId turn loopId mode"),
        ("tool.before", 1, "entry rummy"),
        ("run.state", 1, "run turn status summary history unknowns telemetry"),
        ("proposal.prepare", 1, "rummy recorded"),
        ("proposal.pending", 1, "projectId run proposed rummy"),
        ("proposal.accepting", 2, "runId runRow projectId projectRoot path attrs output db entries"),
        ("proposal.accepted", 1, "runId path resolvedBody"),
        ("turn.dispatched", 1, "contextSize ctx rummy"),
        ("turn.verdict", 1, "continue"),
        ("turn.verdict", 2, "store runId loopId turn recorded summaryText"),
        ("turn.completed", 1, "turn turnId recorded summaryText updateText model contextSize usage"),
        ("run.step.completed", 1, "projectId run turn"),
        ("act.completed", 1, "projectId run status turn"),
        ("loop.completed", 1, "runId loopId mode turns"),
        ("run.created", 1, "runId alias"),
        ("act.started", 1, "projectId model prompt projectBufferFiles run"),
    ];
    for (hook, part, members) in payloads {
        let one = seen.iter().find(|one| one[0] == hook).expect("it fired");
        for member in members.split(' ') {
            let has = one[part].as_array().is_some_and(|names| names.iter().any(|name| name == member));
            assert!(has, "{hook} lacks {member}: {}", one[part]);
        }
    }
}

/// 002, "Mode Enforcement" and "YOLO Mode", over RPC: what a run leaves out, and that a headless run needs no client.
fn runs_leave_out_what_their_flags_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let turn = |body: &str, status: u16| format!("{body}\n<update status=\"{status}\">said</update>");
    let yolo = [turn("<set path=\"notes.txt\">new</set>", 102), turn("<sh>printf out</sh>", 102), turn("", 200)];
    let ask = [turn("<sh>printf out</sh><set path=\"other.txt\">x</set>", 102), turn("", 200)];
    let yolo = script(folder.path(), "yolo.jsonl", &yolo);
    let ask = script(folder.path(), "ask.jsonl", &ask);
    serving(1, &yolo, async |roots, address| {
        let mut peer = Peer::greeted(&address, "p", &roots[0]).await;
        let start = |alias: &str, attributes: Value| json!({ "path": format!("run://{alias}"), "body": "go", "attributes": attributes });
        peer.done("set", start("y", json!({ "mode": "act", "yolo": true }))).await;
        peer.until("run/state", |params| params["run"] == "y" && params["status"] == 200).await;
        assert_eq!(std::fs::read_to_string(roots[0].join("notes.txt")).expect("written"), "new");
        let channels = peer.done("getEntries", json!({ "run": "y", "pattern": "sh://**" })).await;
        let states: Vec<&Value> = channels.as_array().into_iter().flatten().map(|row| &row["state"]).collect();
        assert_eq!(states, ["resolved", "resolved"], "the server ran it: {channels}");
        peer.done("addModel", json!({ "alias": "asks", "actual": ask })).await;
        peer.done("set", start("a", json!({ "mode": "ask", "model": "asks" }))).await;
        peer.until("run/state", |params| params["run"] == "a" && params["status"] == 200).await;
        let failed = peer.done("getEntries", json!({ "run": "a", "state": "failed", "scheme": "log" })).await;
        let outcomes: Vec<&Value> = failed.as_array().into_iter().flatten().map(|row| &row["outcome"]).collect();
        assert_eq!(outcomes, ["permission", "permission"], "{failed}");
        assert!(!roots[0].join("other.txt").exists());
        // A prompt on an existing run continues it, and the next loop waits for its turn.
        peer.done("set", json!({ "path": "run://a", "body": "and more" })).await;
        let row = peer.done("getRun", json!({ "run": "a" })).await;
        assert_eq!(row["run"], "a", "{row}");
        // A run that is cancelled ends with 499.
        peer.done("set", json!({ "path": "run://a", "state": "cancelled" })).await;
        let renamed = peer.done("mv", json!({ "from": "run://y", "to": "run://z" })).await;
        assert_eq!(renamed["alias"], "z");
        let history = peer.done("getRun", json!({ "run": "z" })).await["context"]["history"].clone();
        assert!(history.as_array().is_some_and(|lines| lines.len() >= 5), "{history}");
    });
}
