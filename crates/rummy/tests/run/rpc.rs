//! Tests runs that clients start and decide about; each test names the section that it checks.

use crate::peer::{Peer, Served, script, serving};
use crate::{RUNS, World};
use pijs_environment::Ambient;
use pijs_rummy::{RummySession, SessionOptions, server, session};
use pijs_runtime::Interface;
use serde_json::{Value, json};

/// Follows rummy's plugin guide, "RPC Methods" and "Run Lifecycle via Primitives": handshake, start of a run, resolution of
/// proposals with `set`, queries, refusals.
pub(crate) fn clients_start_runs_and_resolve_proposals() {
    let World { base: _base, environment, runtime } = World::new();
    let root = environment.dirs.cwd.clone();
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
            let greeting = peer.until("rummy/hello", |_| true).await;
            assert_eq!(greeting["params"]["rummyVersion"], "2.0.0", "the server greets before any call");
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
                    // The client runs the accepted command.
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
            // Schemes restrict writers: a client cannot write the model's knowledge, and a claimed higher tier has no effect.
            let claim = json!({ "run": "edit", "path": "known://x", "body": "b", "writer": "system" });
            let refused = peer.call("set", claim).await;
            assert!(refused["error"]["message"].as_str().is_some_and(|text| text.starts_with("403")), "{refused}");
            let unknown = peer.call("no/such", json!({})).await;
            assert!(unknown["error"]["message"].as_str().is_some_and(|text| text.contains("no/such")), "{unknown}");
            stop.send(()).expect("the server is running");
        };
        let ran = async { tokio::join!(served, talk).0 }.await;
        ran.unwrap_or_else(|error| panic!("{error}"));
        session.close();
        assert_eq!(std::fs::read_to_string(root.join("notes.txt")).expect("read"), "first\n2nd\nthird\n");
        // The next process sees all acknowledged changes.
        let entries = session::open_store(&environment, "2.x", false, &Ambient::system()).expect("opened");
        let runs = entries.with(|store| store.statement("get_run_by_alias", "get", &json!({ "alias": "edit" })));
        let runs = runs.expect("read");
        assert_eq!(runs["status"], 200, "{runs}");
    });
}

/// Follows rummy's plugin guide, "Streaming Entries": a client runs a command that it accepted and ends it in one of three ways;
/// the other clients of its project are notified of a cancelled one.
pub(crate) fn commands_stream_over_rpc_and_end_in_three_ways() {
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
            // Both clients accept the proposal, but only one resolves it.
            let (one, two) = tokio::join!(peer.call("set", resolve.clone()), other.call("set", resolve));
            let accepted: Vec<&Value> =
                [&one, &two].into_iter().filter(|answer| answer["result"]["state"] == "resolved").collect();
            assert_eq!(accepted.len(), 1, "{one} {two}");
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

/// Number of turns of one prompt.
const TURNS: usize = 12;

/// Ten clients in two folders and three projects each have a run: no message is lost, mixed up, or sent to another project. Each
/// run has two prompts, or twenty with `PIJS_LONG`. These are 240 turns, as many as an hour of turns of 15 seconds.
pub(crate) fn ten_clients_have_a_run_each_and_nothing_is_mixed() {
    let prompts = if std::env::var_os("PIJS_LONG").is_some() { 20 } else { 2 };
    let turns = TURNS * prompts;
    let folder = tempfile::tempdir().expect("a folder");
    let usual = script(folder.path(), "usual.jsonl", &[]);
    serving(2, &usual, async |roots, address| {
        let clients = (0..10).map(|number| {
            let replies: Vec<String> = (1..=turns)
                .map(|turn| {
                    let status = if turn.is_multiple_of(TURNS) { 200 } else { 102 };
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
                for prompt in 1..=prompts {
                    let body = format!("prompt {prompt} of {number}");
                    let start = json!({ "path": format!("run://{run}"), "body": body, "attributes": attributes });
                    peer.done("set", start).await;
                    for _ in 0..TURNS {
                        let asked = peer.until("run/proposal", |params| params["run"] == run).await;
                        let path = asked["params"]["proposed"][0]["path"].clone();
                        peer.done("set", json!({ "run": run, "path": path, "state": "resolved" })).await;
                    }
                    let ends = |params: &Value| {
                        params["run"] == run && params["status"] == 200 && params["turn"] == TURNS * prompt
                    };
                    peer.until("run/state", ends).await;
                }
                let known = peer.done("getEntries", json!({ "run": run, "pattern": "known://**" })).await;
                let paths: Vec<&str> =
                    known.as_array().into_iter().flatten().filter_map(|row| row["path"].as_str()).collect();
                assert_eq!(paths.len(), turns, "{paths:?}");
                assert!(paths.iter().all(|path| path.starts_with(&format!("known://c{number}/"))), "{paths:?}");
                let written = std::fs::read_to_string(root.join(format!("c{number}.txt"))).expect("written");
                assert_eq!(written, format!("client {number} turn {turns}"));
                let given = peer.done("getEntries", json!({ "run": run, "scheme": "prompt" })).await;
                assert_eq!(given.as_array().map(Vec::len), Some(prompts), "{given}");
                let row = peer.done("getRun", json!({ "run": run })).await;
                assert_eq!((&row["status"], &row["turn"]), (&json!(200), &json!(turns)), "{row}");
                peer
            }
        });
        let peers = futures_util::future::join_all(clients).await;
        let project = |number: usize| (number % 2, number.is_multiple_of(4));
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
            expected.sort();
            listed.sort();
            assert_eq!(listed, expected, "client {number}");
            assert!(peer.runs.iter().all(|run| expected.contains(run)), "client {number} heard of {:?}", peer.runs);
            let foreign = (0..10).find(|other| project(*other) != project(number)).expect("there is one");
            let refused = peer.call("getRun", json!({ "run": format!("run{foreign}") })).await;
            assert!(refused["error"]["message"].is_string(), "{refused}");
        }
    });
}

/// A server is killed while a proposal waits, and its client is in another process. The next server has all acknowledged changes,
/// the proposal is still open, interrupted entries are marked, and the run completes.
pub(crate) fn a_killed_server_loses_nothing_and_its_runs_go_on() {
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
    // One model, with additional replies for the second server.
    let model = |replies: &[&str; 2]| script(folder.path(), "model.jsonl", &replies.map(str::to_owned));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let first = Served::start(&base, &model(&before));
        let mut peer = Peer::greeted(&first.1, "p", &root).await;
        let start = json!({ "path": "run://r", "body": "Tidy the notes.", "attributes": { "mode": "act" } });
        peer.done("set", start).await;
        let asked = peer.until("run/proposal", |params| params["run"] == "r").await;
        let path = asked["params"]["proposed"][0]["path"].clone();
        // Dropping it kills the process and waits for it.
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

/// Follows rummy's specification, "Mode Enforcement" and "YOLO Mode", over RPC: disabled features, and a run without a client.
pub(crate) fn runs_leave_out_what_their_flags_say() {
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
        // A cancelled run ends with 499.
        peer.done("set", json!({ "path": "run://a", "state": "cancelled" })).await;
        let renamed = peer.done("mv", json!({ "from": "run://y", "to": "run://z" })).await;
        assert_eq!(renamed["alias"], "z");
        let history = peer.done("getRun", json!({ "run": "z" })).await["context"]["history"].clone();
        assert!(history.as_array().is_some_and(|lines| lines.len() >= 5), "{history}");
    });
}
