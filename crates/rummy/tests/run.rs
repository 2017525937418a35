//! Runs with a recorded model: tools, proposals that wait, streams, verdict; each test names the section that it checks.

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use libtest_mimic::{Arguments, Trial};
use pijs_environment::Ambient;
use pijs_llm::provider::{self, ProviderOptions};
use pijs_rummy::{
    Decision, EntryConnector, PluginRealm, PluginSet, Proposal, RealmOptions, RunClient, RunDriver, RunFlags,
    RunLimits, RunMode, RunOutcome, RunRequest, StoreService,
};
use pijs_runtime::throwaway::surroundings;
use pijs_runtime::{Environment, Interface, Notices};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::path::Path;

fn main() {
    // A sealed realm, and the supervisor of a program, are this program once more.
    pijs_realm::worker::enter();
    pijs_connectors::exec::supervisor::enter();
    pijs_extc::worker::enter();
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
        test("a_run_that_asks_changes_nothing", a_run_that_asks_changes_nothing),
        test("turns_that_fail_are_strikes", turns_that_fail_are_strikes),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

const RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/rummy/runs");

/// Answers questions with `blue`, accepts everything else but what it is told to reject, and keeps what it hears.
#[derive(Default)]
struct Client {
    rejects: Option<&'static str>,
    heard: RefCell<Vec<(String, Value)>>,
    asked: RefCell<Vec<Proposal>>,
}

impl RunClient for Client {
    fn notify(&self, method: &str, params: &Value) {
        self.heard.borrow_mut().push((method.to_owned(), params.clone()));
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
        let store = StoreService::open(None, "2.x", 2, ambient.clone()).expect("a store");
        let entries = EntryConnector::new(Box::new(store));
        let mut options = RealmOptions::new(base.path().join("stage"));
        options.session.permissions.allow = ["read", "write", "exec"].map(str::to_owned).to_vec();
        let plugins = PluginSet::default();
        let realm = PluginRealm::open(&environment, &plugins, entries, Interface::default(), options).await;
        let realm = realm.unwrap_or_else(|error| panic!("{error}"));
        let model = format!("script:{}", Path::new(RUNS).join(script).display());
        let model = provider::open(&model, &ProviderOptions::default(), &ambient).expect("a script");
        let outcome = realm.run(async {
            realm.initialise().await.expect("the store takes all schemes");
            let project = ("demo".to_owned(), root.clone());
            let driver = RunDriver::new(&realm, model, ambient, project, RunLimits::default(), &client).await;
            let driver = driver.expect("a driver");
            let request = RunRequest {
                alias: "demo_1".to_owned(),
                prompt: "Tidy the notes.".to_owned(),
                mode,
                flags: RunFlags::default(),
            };
            driver.run(&request).await
        });
        let outcome = outcome.await.unwrap_or_else(|error| panic!("{error}"));
        let found = realm.system("getEntries", vec![json!(1)]).expect("read");
        realm.close();
        let notes = std::fs::read_to_string(root.join("notes.txt")).ok();
        Ran { outcome, client, notes, entries: found.as_array().cloned().unwrap_or_default() }
    })
}

/// 003, "Turn Pipeline" and "Streaming Entries": a file is edited when its proposal is accepted, a question is answered, a
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
    let methods: Vec<String> = ran.client.heard.borrow().iter().map(|(method, _)| method.clone()).collect();
    for method in ["run/progress", "run/state", "run/proposal"] {
        assert!(methods.iter().any(|heard| heard == method), "{method}: {methods:?}");
    }
}

/// 002, "Resolution" and 003, "abort cascade": a rejection leaves the file and aborts what follows it in its turn.
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

/// 003, policy: a run that asks changes nothing, whatever the model writes.
fn a_run_that_asks_changes_nothing() {
    let ran = run("whole.jsonl", RunMode::Ask, Client::default());
    assert_eq!(ran.notes.as_deref(), Some("first\nsecond\nthird\n"));
    let asked: Vec<String> = ran.client.asked.borrow().iter().map(|proposal| proposal.action.clone()).collect();
    assert_eq!(asked, ["ask_user"], "files and commands are rejected before anybody is asked");
}

/// 003, "Reporting outcomes" and the verdict: failures are strikes, a claim to be done is refuted by them, three in a row end it.
fn turns_that_fail_are_strikes() {
    let ran = run("strikes.jsonl", RunMode::Act, Client { rejects: Some("rm"), ..Client::default() });
    assert_eq!(ran.outcome.status, 499, "{:?}", ran.outcome);
    assert!(ran.outcome.reason.as_deref().is_some_and(|reason| reason.contains("3 turns")), "{:?}", ran.outcome);
    assert!(!ran.paths().contains(&"known://after"), "{:?}", ran.paths());
    let errors = ran.entries.iter().filter(|entry| entry["scheme"] == "error").count();
    assert!(errors >= 2, "{:?}", ran.entries);
}
