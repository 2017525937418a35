//! Runs the cases of `fixtures/rummy/cases`: plugins, a recorded model and a client, with the expected state after the run.
//!
//! | member | is |
//! |---|---|
//! | `section`, `name` | the sections of rummy's documents that the case checks, and the checked behaviour |
//! | `plugins` | files of the plugin folder: text, or its lines |
//! | `external` | plugins in variables, each with a separate realm: the text of its `index.js` |
//! | `files`, `env` | files of the project, and settings |
//! | `mode`, `flags`, `prompts` | mode, flags and prompts of the run; a second prompt continues it |
//! | `before` | calls of the store before the first request to the model; the run has number 1 |
//! | `replies` | the model's replies; an object is a line of a script |
//! | `decide` | the client's answer to a proposal, by action: `{"accept": TEXT}` or `{"reject": TEXT}`; all others are accepted |
//! | `status`, `turns`, `summary`, `reason` | the end of the last loop |
//! | `entries`, `absent` | expected entries by path; paths that must not exist |
//! | `left` | files of the project after the run; null for a file that must not exist |
//! | `asked` | actions that the client decided about |
//! | `heard`, `not_heard` | notifications that the client received or did not receive |
//!
//! Objects may have additional members. `{"$has": [..], "$lacks": [..], "$order": [..]}` matches a text that contains the parts
//! of the first list, none of the second, and those of the third in this order.

use crate::peer::script;
use crate::{Client, World};
use pijs_dialect_rummy::Writer;
use pijs_rummy::{RummySession, RunFlags, RunMode, RunOutcome, RunRequest, SessionOptions};
use pijs_runtime::{Interface, Isolation};
use serde_json::{Value, json};
use std::path::Path;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/rummy/cases");

/// Returns all cases with their names, file by file.
pub(crate) fn all() -> Vec<(String, Value)> {
    let mut files: Vec<_> =
        std::fs::read_dir(CASES).expect("the folder").map_while(Result::ok).map(|entry| entry.path()).collect();
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file");
        let cases: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for case in cases.as_array().expect("a list of cases") {
            assert!(case["section"].is_string(), "{stem}: a case names its section: {}", case["name"]);
            found.push((format!("cases::{stem}::{}", case["name"].as_str().expect("a name")), case.clone()));
        }
    }
    found
}

/// Returns a text; a list of lines is joined.
fn text(value: &Value) -> String {
    match value {
        Value::Array(lines) => {
            lines.iter().map(|line| line.as_str().unwrap_or_default()).collect::<Vec<_>>().join("\n")
        }
        value => value.as_str().unwrap_or_default().to_owned(),
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

fn write(folder: &Path, name: &str, content: &Value) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
    std::fs::write(path, text(content)).expect("written");
}

/// Returns whether a value matches the expected one.
fn fits(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (actual, Value::Object(expected)) if expected.keys().any(|key| key.starts_with('$')) => {
            let shown = actual.as_str().map_or_else(|| actual.to_string(), str::to_owned);
            let part = |key: &str| expected.get(key).map(texts).unwrap_or_default();
            let mut rest = shown.as_str();
            part("$has").iter().all(|part| shown.contains(part))
                && part("$lacks").iter().all(|part| !shown.contains(part))
                && part("$order").iter().all(|part| {
                    let found = rest.split_once(part.as_str());
                    rest = found.map_or("", |(_, after)| after);
                    found.is_some()
                })
        }
        (Value::Object(actual), Value::Object(expected)) => {
            expected.iter().all(|(name, value)| fits(actual.get(name).unwrap_or(&Value::Null), value))
        }
        (Value::Array(actual), Value::Array(expected)) => {
            actual.len() == expected.len() && actual.iter().zip(expected).all(|(one, other)| fits(one, other))
        }
        // Attributes are JSON text.
        (Value::String(text), Value::Object(_)) => {
            serde_json::from_str(text).is_ok_and(|inner: Value| fits(&inner, expected))
        }
        _ => actual == expected,
    }
}

/// The result of a case's run.
struct CaseRan {
    outcome: RunOutcome,
    entries: Vec<Value>,
    client: Client,
    world: World,
}

/// Runs a case and returns the first difference.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    let ran = run_of(case)?;
    let mut wrong = Vec::new();
    let outcome = &ran.outcome;
    let ended = json!({
        "status": outcome.status, "turns": outcome.turns, "summary": outcome.summary, "reason": outcome.reason,
    });
    for (name, actual) in ended.as_object().into_iter().flatten() {
        if let Some(expected) = case.get(name)
            && !fits(actual, expected)
        {
            wrong.push(format!("{name} is {actual}"));
        }
    }
    let entry = |path: &str| ran.entries.iter().find(|entry| entry["path"] == path);
    for (path, expected) in case["entries"].as_object().into_iter().flatten() {
        match entry(path) {
            Some(entry) if fits(entry, expected) => {}
            Some(entry) => wrong.push(format!("{path} is {entry}")),
            None => wrong.push(format!("there is no {path}")),
        }
    }
    let absent = texts(&case["absent"]);
    wrong.extend(absent.iter().filter(|path| entry(path).is_some()).map(|path| format!("there is {path}")));
    let root = &ran.world.environment.dirs.cwd;
    for (name, expected) in case["left"].as_object().into_iter().flatten() {
        let left = std::fs::read_to_string(root.join(name)).map_or(Value::Null, Value::from);
        if !fits(&left, expected) {
            wrong.push(format!("the file {name} is {left}"));
        }
    }
    let asked: Vec<String> = ran.client.asked.borrow().iter().map(|proposal| proposal.action.clone()).collect();
    if case.get("asked").is_some_and(|expected| json!(asked) != *expected) {
        wrong.push(format!("the client was asked about {asked:?}"));
    }
    let heard = ran.client.heard.borrow();
    let is_heard = |expected: &Value| heard.iter().any(|heard| fits(heard, expected));
    let each = |name: &str| case[name].as_array().cloned().unwrap_or_default();
    wrong.extend(each("heard").iter().filter(|one| !is_heard(one)).map(|one| format!("nobody heard {one}")));
    wrong.extend(each("not_heard").iter().filter(|one| is_heard(one)).map(|one| format!("somebody heard {one}")));
    if wrong.is_empty() {
        return Ok(());
    }
    let paths: Vec<&str> = ran.entries.iter().filter_map(|entry| entry["path"].as_str()).collect();
    let failed = ran.entries.iter().filter(|entry| entry["state"] == "failed");
    let failed: Vec<String> = failed.map(|entry| format!("{}: {}", entry["path"], entry["body"])).collect();
    let said: Vec<Value> = ran.client.heard.borrow().iter().map(|heard| heard["method"].clone()).collect();
    Err(format!("{}\nended: {ended}\nentries: {paths:?}\nfailed: {failed:#?}\nheard: {said:?}", wrong.join("\n")))
}

fn run_of(case: &Value) -> Result<CaseRan, String> {
    let mut world = World::new();
    let folder = world.base.path().join("case");
    for (name, content) in case["plugins"].as_object().into_iter().flatten() {
        write(&folder.join("plugins"), name, content);
    }
    for (name, content) in case["files"].as_object().into_iter().flatten() {
        write(&world.environment.dirs.cwd, name, content);
    }
    let mut variables = world.environment.variables.clone();
    for (name, content) in case["external"].as_object().into_iter().flatten() {
        write(&folder.join(name), "index.js", content);
        write(&folder.join(name), "package.json", &json!(r#"{"type": "module"}"#));
        let path = folder.join(name).display().to_string();
        variables.insert(format!("RUMMY_PLUGIN_{}", name.to_uppercase()), path);
    }
    let settings = case["env"].as_object().into_iter().flatten();
    variables.extend(settings.map(|(name, value)| (name.clone(), text(value))));
    world.environment.variables = variables;
    let line = |reply: &Value| match reply {
        Value::Object(_) => reply.to_string(),
        reply => json!({ "events": [{ "text": text(reply) }], "stop": "end_turn" }).to_string(),
    };
    std::fs::create_dir_all(&folder).expect("made");
    let replies: Vec<String> = case["replies"].as_array().expect("replies").iter().map(line).collect();
    let model = script(&folder, "model.jsonl", &[]);
    std::fs::write(folder.join("model.jsonl"), replies.join("\n")).expect("written");
    let client = Client { decides: case["decide"].clone(), ..Client::default() };
    let root = world.environment.dirs.cwd.clone();
    let done = tokio::task::LocalSet::new().block_on(&world.runtime, async {
        let mut options = SessionOptions { in_memory: true, ..SessionOptions::default() };
        options.config.permissions.allow = ["read", "write", "exec"].map(str::to_owned).to_vec();
        options.config.model.name = Some(model);
        options.config.isolation = Isolation::Thread;
        if folder.join("plugins").is_dir() {
            options.plugins = vec![folder.join("plugins")];
        }
        let session = RummySession::open(&world.environment, options, Interface::default()).await;
        let session = session.map_err(|error| error.to_string())?;
        let outcome = session.realm().run(runs(case, &session, &client, &root)).await;
        let read = session.realm().entries().with(|store| store.entries("getEntries", &json!([1]), Writer::System));
        session.close();
        let entries = read.map_err(|error| error.to_string())?.as_array().cloned().unwrap_or_default();
        outcome.map(|outcome| (outcome, entries)).map_err(|error| error.to_string())
    });
    let (outcome, entries) = done?;
    Ok(CaseRan { outcome, entries, client, world })
}

/// Runs the prompts of a case one after the other.
async fn runs(
    case: &Value,
    session: &RummySession,
    client: &Client,
    root: &Path,
) -> Result<RunOutcome, pijs_rummy::RummyError> {
    let driver = session.driver(client).await?;
    let project = driver.project("demo", root.to_owned()).await?;
    let flag = |name: &str| case["flags"][name] == true;
    let flags = RunFlags {
        no_repo: flag("noRepo"),
        no_interaction: flag("noInteraction"),
        no_web: flag("noWeb"),
        no_proposals: flag("noProposals"),
        yolo: flag("yolo"),
    };
    let mode = if case["mode"] == "ask" { RunMode::Ask } else { RunMode::Act };
    let prompts = case.get("prompts").map_or_else(|| vec!["Do it.".to_owned()], texts);
    let mut last = None;
    for (at, prompt) in prompts.iter().enumerate() {
        let request = RunRequest { alias: "r".to_owned(), prompt: prompt.clone(), mode, flags };
        let run_id = driver.begin(&project, &request).await?;
        for step in case["before"].as_array().into_iter().flatten().filter(|_| at == 0) {
            let method = step["entries"].as_str().expect("a method");
            session.realm().entries().with(|store| store.entries(method, &step["args"], Writer::System))?;
        }
        last = driver.drain(run_id).await?;
    }
    Ok(last.expect("a loop ran"))
}
