//! Tests runs with a recorded model: tools, proposals, streams, verdicts; each test names the section that it checks.

mod cases;
mod peer;
mod rpc;
mod sessions;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use libtest_mimic::{Arguments, Trial};
use pijs_dialect_rummy::Writer;
use pijs_dialect_rummy::rpc::Notification;
use pijs_environment::Ambient;
use pijs_llm::provider::{self, ProviderOptions};
use pijs_rummy::{
    Decision, EntryConnector, PluginRealm, PluginSet, Proposal, RealmOptions, RunClient, RunDriver, RunFlags,
    RunLimits, RunMode, RunOutcome, RunRequest,
};
use pijs_runtime::throwaway::surroundings;
use pijs_runtime::{Environment, Interface, Notices};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::path::Path;

fn main() {
    // The worker of a sandboxed realm and the supervisor of a program are this executable.
    pijs_realm::worker::enter();
    pijs_connectors::exec::supervisor::enter();
    pijs_extc::worker::enter();
    if let Some(base) = std::env::var_os(peer::SERVED[0]) {
        return peer::serve_for_ever(Path::new(&base));
    }
    let test = |name: &str, run: fn()| {
        Trial::test(name, move || {
            run();
            Ok(())
        })
    };
    let of_case = |(name, case): (String, Value)| {
        Trial::test(name, move || cases::run(&case).map_err(libtest_mimic::Failed::from))
    };
    let mut tests = vec![
        test("a_run_edits_asks_streams_and_ends", a_run_edits_asks_streams_and_ends),
        test(
            "a_rejection_changes_nothing_and_aborts_the_rest_of_its_turn",
            a_rejection_changes_nothing_and_aborts_the_rest_of_its_turn,
        ),
        test("a_file_that_is_read_only_is_not_edited", a_file_that_is_read_only_is_not_edited),
        test("a_run_that_asks_changes_nothing", a_run_that_asks_changes_nothing),
        test("a_tool_of_a_plugin_is_a_tag", a_tool_of_a_plugin_is_a_tag),
        test("turns_that_fail_are_strikes", turns_that_fail_are_strikes),
        test("clients_start_runs_and_resolve_proposals", rpc::clients_start_runs_and_resolve_proposals),
        test("commands_stream_over_rpc_and_end_in_three_ways", rpc::commands_stream_over_rpc_and_end_in_three_ways),
        test("a_killed_server_loses_nothing_and_its_runs_go_on", rpc::a_killed_server_loses_nothing_and_its_runs_go_on),
        test(
            "a_rule_stops_a_reply_and_the_model_is_asked_again",
            sessions::a_rule_stops_a_reply_and_the_model_is_asked_again,
        ),
        test("a_verdict_of_an_extension_stops_a_reply", sessions::a_verdict_of_an_extension_stops_a_reply),
        test("a_run_is_in_the_ledger_and_its_tape_replays", sessions::a_run_is_in_the_ledger_and_its_tape_replays),
        test("hooks_come_in_the_order_of_the_turn_pipeline", sessions::hooks_come_in_the_order_of_the_turn_pipeline),
        test("runs_leave_out_what_their_flags_say", rpc::runs_leave_out_what_their_flags_say),
        test("ten_clients_have_a_run_each_and_nothing_is_mixed", rpc::ten_clients_have_a_run_each_and_nothing_is_mixed),
    ];
    tests.extend(cases::all().into_iter().map(of_case));
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

const RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/rummy/runs");

/// A client that answers questions with `blue`, accepts all other proposals except those it is configured to reject, and records
/// notifications.
#[derive(Default)]
struct Client {
    rejects: Option<&'static str>,
    /// Pattern of the files that the project marks as read-only.
    read_only: Option<&'static str>,
    /// Decisions of a case, by action.
    decides: Value,
    heard: RefCell<Vec<Value>>,
    asked: RefCell<Vec<Proposal>>,
}

impl RunClient for Client {
    fn notify(&self, _: i64, notification: &Notification) {
        self.heard.borrow_mut().push(notification.message());
    }

    fn decide<'a>(&'a self, proposal: &'a Proposal) -> LocalBoxFuture<'a, Decision> {
        self.asked.borrow_mut().push(proposal.clone());
        let answer = &self.decides[&proposal.action];
        let words = |key: &str| answer[key].as_str().map(str::to_owned);
        let decision = match proposal.action.as_str() {
            _ if answer.get("reject").is_some() => Decision::Reject(words("reject")),
            _ if answer.get("accept").is_some() => Decision::Accept(words("accept")),
            action if self.rejects == Some(action) => Decision::Reject(Some("not now".to_owned())),
            "ask_user" => Decision::Accept(Some("blue".to_owned())),
            _ => Decision::Accept(None),
        };
        std::future::ready(decision).boxed_local()
    }
}

/// A project with `notes.txt`, and the outcome of a run in it.
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

/// A temporary home and project with a file to edit, and a runtime.
pub(crate) struct World {
    pub(crate) base: tempfile::TempDir,
    pub(crate) environment: Environment,
    pub(crate) runtime: tokio::runtime::Runtime,
}

impl World {
    pub(crate) fn new() -> Self {
        let base = tempfile::tempdir().expect("a folder");
        let mut environment = Environment::capture().expect("an environment");
        environment.notices = Notices::new(|_| {});
        let environment = surroundings(&environment, base.path()).expect("made");
        std::fs::write(environment.dirs.cwd.join("notes.txt"), "first\nsecond\nthird\n").expect("written");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        Self { base, environment, runtime }
    }
}

fn run(script: &str, mode: RunMode, client: Client) -> Ran {
    let World { base, environment, runtime } = World::new();
    let root = environment.dirs.cwd.clone();
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
/// question is answered, a command streams into its channels, and a terminal update ends the run.
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

/// Follows rummy's specification, "Resolution", and rummy's plugin guide, "abort cascade": a rejection leaves the file unchanged
/// and aborts the following commands of its turn.
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

/// Follows rummy's plugin guide, policy: a run in mode `ask` changes nothing, whatever the model writes.
fn a_run_that_asks_changes_nothing() {
    let ran = run("whole.jsonl", RunMode::Ask, Client::default());
    assert_eq!(ran.notes.as_deref(), Some("first\nsecond\nthird\n"));
    let asked: Vec<String> = ran.client.asked.borrow().iter().map(|proposal| proposal.action.clone()).collect();
    assert_eq!(asked, ["ask_user"], "files and commands are rejected before anybody is asked");
}

/// Follows rummy's plugin guide, "Quickstart": the tag of a plugin's tool runs its handler, and the tool's documentation is in
/// the system prompt.
fn a_tool_of_a_plugin_is_a_tag() {
    let ran = run("tool.jsonl", RunMode::Act, Client::default());
    assert_eq!(ran.outcome.status, 200, "{:?} {:?}", ran.outcome, ran.entries);
    assert_eq!(ran.entry("log://turn_1/greet/you")["body"], "hello you, from greet");
}

/// Follows rummy's plugin guide, "Reporting outcomes" and the verdict: failures are strikes, they refute a claim to be done, and
/// three in a row end the run.
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
