//! Tests runs in a whole session: rules, verdicts, ledger, tape, and the order of hooks.

use crate::peer::script;
use crate::{Client, RUNS, World};
use pijs_dialect_rummy::Writer;
use pijs_rummy::{RummySession, RunFlags, RunMode, RunOutcome, RunRequest, SessionOptions};
use pijs_runtime::tape::ReplayStage;
use pijs_runtime::throwaway::surroundings;
use pijs_runtime::{Environment, Interface, Isolation, Notices};
use serde_json::{Value, json};
use std::path::Path;

/// The result of a run in a session: outcome, entries and environment.
pub(crate) struct SessionRan {
    outcome: RunOutcome,
    entries: Vec<Value>,
    ledger: String,
    /// Progress notifications that the client received.
    progress: Vec<String>,
}

/// Runs a recorded model in a session that accepts all proposals.
pub(crate) fn in_session(model: &str, adapt: impl FnOnce(&Environment, &mut SessionOptions)) -> SessionRan {
    let World { base: _base, environment, runtime } = World::new();
    let root = environment.dirs.cwd.clone();
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
        let heard = client.heard.take();
        let progress = heard.iter().filter(|heard| heard["method"] == "run/progress");
        let progress = progress.filter_map(|heard| heard["params"]["status"].as_str().map(str::to_owned)).collect();
        SessionRan { outcome, entries, ledger, progress }
    })
}

/// Writes a model with two replies, the first of which violates a rule.
pub(crate) fn forbidden(folder: &Path) -> String {
    let say = |word: &str| format!("<set path=\"known://said\">{word}</set>\n<update status=\"200\">said it</update>");
    script(folder, "model.jsonl", &[say("forbidden"), say("allowed")])
}

pub(crate) fn said(ran: &SessionRan) -> Vec<&Value> {
    ran.entries.iter().filter(|entry| entry["path"] == "known://said").map(|entry| &entry["body"]).collect()
}

pub(crate) fn stopped(ran: &SessionRan) -> Vec<&str> {
    let errors = ran.entries.iter().filter(|entry| entry["scheme"] == "error");
    errors.filter_map(|entry| entry["body"].as_str()).filter(|body| body.starts_with("409")).collect()
}

/// Native rules apply to runs of rummy; no command of a violating reply is executed.
pub(crate) fn a_rule_stops_a_reply_and_the_model_is_asked_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = in_session(&forbidden(folder.path()), |environment, options| {
        let rules = environment.dirs.home.join(".pi/rules");
        std::fs::create_dir_all(&rules).expect("made");
        std::fs::write(rules.join("word.md"), "---\ntrigger: forbidden\n---\nDo not say that.\n").expect("written");
        options.config.rules.enabled = Some(true);
    });
    assert_eq!((ran.outcome.status, ran.outcome.turns), (200, 1), "{:?}", ran.outcome);
    assert_eq!(said(&ran), ["allowed"]);
    assert_eq!(ran.progress, ["thinking", "retrying", "processing"]);
    let stopped = stopped(&ran);
    assert!(matches!(stopped[..], [one] if one.contains("Do not say that.")), "{stopped:?}");
}

/// Handlers of `stream_text` in extensions of pi apply to runs of rummy as well.
pub(crate) fn a_verdict_of_an_extension_stops_a_reply() {
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

/// The ledger has a line for each verb of the store, and the tape of a run replays with the same result.
pub(crate) fn a_run_is_in_the_ledger_and_its_tape_replays() {
    let folder = tempfile::tempdir().expect("a folder");
    let tape = folder.path().join("run.tape");
    let ran = in_session(&format!("script:{RUNS}/whole.jsonl"), |_, options| {
        options.config.tape = Some(tape.clone());
    });
    assert_eq!(ran.outcome.status, 200, "{:?}", ran.outcome);
    let lines: Vec<Value> = ran.ledger.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let writes =
        lines.iter().filter(|line| line["event"] == "host_call.start" && line["data"]["capability"] == "write");
    assert_eq!(writes.count(), 1, "an edit is one question: its folder is there");
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
    let options = pijs_tape::ReplayOptions { from: None, until: None, accept_build: false };
    let replay = pijs_tape::Replay::new(reader, &stage, options).unwrap_or_else(|error| panic!("{error}"));
    let played = replay.run().unwrap_or_else(|error| panic!("{error}"));
    assert!(played.divergence.is_none(), "the replay is equal: {:?}", played.divergence);
}

/// Expected members of payloads: the hook, the index of the argument, and the member names.
const PAYLOADS: &[(&str, usize, &str)] = &[
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

/// Follows rummy's plugin guide, "Turn Pipeline" and "Run & Loop Lifecycle": hooks are called in the order of the guide's tables,
/// with the documented payloads.
pub(crate) fn hooks_come_in_the_order_of_the_turn_pipeline() {
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
    for (hook, part, members) in PAYLOADS {
        let one = seen.iter().find(|one| one[0] == *hook).expect("it fired");
        for member in members.split(' ') {
            let has = one[*part].as_array().is_some_and(|names| names.iter().any(|name| name == member));
            assert!(has, "{hook} lacks {member}: {}", one[*part]);
        }
    }
}
