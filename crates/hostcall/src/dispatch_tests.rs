use super::*;
use crate::caller::Profile;
use crate::connector::Request;
use crate::in_flight::ChunkSink;
use crate::ledger::{LedgerOptions, MemorySink, verify};
use crate::output::{Output, cancelled};
use crate::places::Places;
use crate::policy::{Grant, Mode, Policy};
use crate::prompt::{Answer, Prompter, Question};
use crate::risk::{Evidence, Signal};
use crate::subject::Subject;
use crate::task::BoxFuture;
use pijs_environment::simulated::CountingTimer;
use pijs_protocol::manifest::{CapabilityManifest, CapabilityRequest};
use pijs_protocol::{Capability, ErrorCode, Now, Termination, TypedCall};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the scripted behaviour of a call: `do` of its parameters, or its path.
fn behaviour(request: &Request) -> Option<&str> {
    match &request.call {
        TypedCall::Fs(_) => match request.required().ok()?.subject {
            Subject::Paths(used, _) => Some(used.path),
            _ => None,
        },
        _ => request.params.get("do").and_then(Value::as_str),
    }
}

/// Behaves as each call's parameters say, and counts the calls.
#[derive(Default)]
struct ScriptedConnector(AtomicUsize);

impl Connector for ScriptedConnector {
    fn call(&self, request: Request, sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            match behaviour(&request) {
                Some("hang") => std::future::pending().await,
                Some("late") => {
                    for _ in 0..8 {
                        tokio::task::yield_now().await;
                    }
                    Ok(Output::empty())
                }
                Some("panic") => panic!("the connector has a bug"),
                Some("stream") => {
                    for n in 0..3 {
                        sink.send(Output::new(json!({ "n": n })))?;
                    }
                    Ok(Output::empty())
                }
                _ => Ok(Output::new(json!({"ok": true}))),
            }
        })
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        assert_ne!(behaviour(request), Some("panic"), "the connector has a bug");
        if behaviour(request) == Some("wait") {
            while !request.cancel.is_cancelled() {
                std::thread::yield_now();
            }
            return Err(cancelled("probe"));
        }
        Ok(Output::new(json!({"ok": true})))
    }
}

struct Answers(Mutex<Vec<Answer>>, AtomicUsize);

impl Prompter for Answers {
    fn ask(&self, _question: Question) -> BoxFuture<'static, Answer> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let answer = self.0.lock().unwrap().pop().unwrap_or(Answer::NoPerson);
        Box::pin(std::future::ready(answer))
    }
}

struct TestWorld {
    dispatcher: Dispatcher,
    sink: Arc<MemorySink>,
    probe: Arc<ScriptedConnector>,
    caller: Caller,
    answers: Arc<Answers>,
}

fn world(mode: Mode, grants: &[Grant], answers: &[Answer]) -> TestWorld {
    let places = Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp");
    let policy = Policy { mode, ..Policy::default() };
    let answers = Arc::new(Answers(Mutex::new(answers.iter().rev().copied().collect()), AtomicUsize::new(0)));
    let gate = Gate::builder(policy, places).prompter(answers.clone()).variables(["TOKEN".to_owned()]).build();
    let profile = Arc::new(Profile::new("path:/x"));
    gate.set_grants(&profile, grants, Default::default()).unwrap();
    let sink = MemorySink::new();
    let ledger = Ledger::new(LedgerOptions { session_id: "s1".into(), ..Default::default() }, sink.clone());
    let probe = Arc::new(ScriptedConnector::default());
    let mut builder = Dispatcher::builder(gate, ledger, Arc::new(CountingTimer::new(1_700_000_000_000, 10)));
    for method in ["fs", "exec", "http", "env", "module", "session", "ui"] {
        builder = builder.connector(method, probe.clone());
    }
    TestWorld {
        dispatcher: builder.quotas(Quotas { in_flight: 3, ..Quotas::default() }).build(),
        sink,
        probe,
        caller: Caller::new(profile),
        answers,
    }
}

fn call(id: &str, capability: &str, method: &str, params: Value) -> HostCall {
    HostCall {
        call_id: id.into(),
        capability: Capability::new(capability),
        method: method.into(),
        params: params.as_object().unwrap().clone(),
        timeout_ms: None,
        cancel_token: None,
        context: None,
        bytes: Vec::new(),
    }
}

fn reason(result: &HostResult) -> &str {
    result.error.as_ref().and_then(|error| error.details.get("reason")?.as_str()).unwrap_or("none")
}

impl TestWorld {
    async fn run(&self, call: HostCall) -> Vec<HostResult> {
        let results = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&results);
        let take = move |result, _| into.lock().unwrap().push(result);
        self.dispatcher.call(&self.caller, call, take.clone()).rest(take).await;
        let mut results = results.lock().unwrap();
        std::mem::take(&mut *results)
    }

    /// Checks that every start has exactly one end, and that the chain verifies.
    fn ends(&self) -> Vec<Value> {
        self.dispatcher.ledger().flush().unwrap();
        verify(&*self.sink.bytes()).unwrap();
        let lines = self.sink.lines();
        let count = |event: &str, id: &Value| {
            lines.iter().filter(|line| line["event"] == event && line["correlation"]["host_call_id"] == *id).count()
        };
        let starts: Vec<_> = lines.iter().filter(|line| line["event"] == "host_call.start").collect();
        for start in &starts {
            let id = &start["correlation"]["host_call_id"];
            assert_eq!(count("host_call.end", id), count("host_call.start", id), "{id}");
        }
        lines.into_iter().filter(|line| line["event"] == "host_call.end").collect()
    }
}

#[test]
fn a_claimed_capability_is_compared_and_never_used() {
    let world = world(Mode::Permissive, &[], &[]);
    for claimed in ["read", "log", "Exec", "exec ", ""] {
        let result = world.dispatcher.call_sync(&world.caller, call("c", claimed, "exec", json!({"command": "ls"})));
        assert_eq!(reason(&result), "capability_mismatch", "{claimed:?}");
    }
    assert_eq!(world.probe.0.load(Ordering::Relaxed), 0);
    assert_eq!(world.ends().len(), 5);
}

#[test]
fn the_context_of_a_call_changes_no_decision() {
    let world = world(Mode::Strict, &[], &[]);
    let context = json!({"capability": "read", "grant": "any", "extension_id": "other"}).as_object().cloned();
    let mut boasting = call("c", "exec", "exec", json!({"command": "ls", "capability": "read", "grant": "any"}));
    boasting.context = context;
    assert_eq!(reason(&world.dispatcher.call_sync(&world.caller, boasting)), "no_grant");
    assert_eq!(world.probe.0.load(Ordering::Relaxed), 0);
}

#[test]
fn calls_add_evidence() {
    let world = world(Mode::Permissive, &[], &[]);
    let profile = Arc::clone(&world.caller.profile);
    let gate = world.dispatcher.gate();
    let found = CapabilityManifest { schema: String::new(), capabilities: Vec::new() };
    gate.set_grants(&profile, &[], Evidence::of_scan(&found, [], None)).unwrap();
    world.dispatcher.call_sync(&world.caller, call("a", "exec", "exec", json!({"command": "ls"})));
    world.dispatcher.call_sync(&world.caller, call("b", "read", "exec", json!({"command": "ls"})));
    let write = json!({"op": "writeFile", "path": ".pi/settings.json", "data": ""});
    world.dispatcher.call_sync(&world.caller, call("c", "write", "fs", write));
    let evidence = gate.evidence(&profile);
    assert_eq!(evidence.signals(), [Signal::Unforeseen, Signal::Spoofed, Signal::TriedProtected]);

    let exec = CapabilityRequest { capability: "exec".into(), methods: None, scope: None };
    let found = CapabilityManifest { schema: String::new(), capabilities: vec![exec] };
    gate.set_grants(&profile, &[], Evidence::of_scan(&found, [], None)).unwrap();
    world.dispatcher.call_sync(&world.caller, call("d", "exec", "exec", json!({"command": "ls"})));
    assert_eq!(gate.evidence(&profile).signals(), [Signal::UsesAnyExec], "what the scan had found is no news");
}

#[test]
fn an_extension_without_outside_data_speaks_for_itself() {
    let ls = |id: &str| call(id, "exec", "exec", json!({"command": "ls"}));
    let open = world(Mode::Permissive, &[], &[]);
    let gate = open.dispatcher.gate();
    let extension = open.caller.extension();
    open.dispatcher.call_sync(&open.caller, call("a", "read", "fs", json!({"op": "readFile", "path": "a"})));
    assert!(gate.speaks_for_itself(extension), "files of the project are its place");
    open.dispatcher.call_sync(&open.caller, ls("b"));
    assert!(!gate.speaks_for_itself(extension));
    assert!(gate.speaks_for_itself(&"path:/y".into()), "another one has asked nobody");

    let asked = world(Mode::Prompt, &[], &[]);
    asked.dispatcher.call_sync(&asked.caller, ls("a"));
    assert!(asked.dispatcher.gate().speaks_for_itself(asked.caller.extension()), "what was refused told nothing");
    let strict = world(Mode::Strict, &[], &[]);
    assert!(!strict.dispatcher.gate().speaks_for_itself(strict.caller.extension()));
}

#[test]
fn one_answer_of_the_user_counts_as_asked() {
    let unasked = Grant { unasked: true, ..Grant::any("-e", "provider") };
    let asked = Grant::any("g", "provider");
    for (grants, expected) in [
        (vec![unasked.clone()], true),
        (vec![unasked.clone(), asked.clone()], false),
        (vec![asked], false),
        (vec![Grant { capability: "verdict".into(), ..unasked }], false),
        (vec![], false),
    ] {
        let world = world(Mode::Prompt, &grants, &[]);
        let found = world.dispatcher.gate().holds_unasked(&world.caller.profile, "provider");
        assert_eq!(found, expected, "{grants:?}");
    }
}

#[test]
fn dialogs_per_minute_are_limited() {
    let world = world(Mode::Strict, &[], &[]);
    let ask = |at: usize, op: &str| {
        let params = json!({"op": op, "title": "sure?"});
        world.dispatcher.call_sync(&world.caller, call(&format!("c{at}"), "ui", "ui", params))
    };
    let most = Quotas::default().dialogs_per_minute;
    assert!((0..most).all(|at| !ask(at, "confirm").is_error));
    assert_eq!(ask(most, "select").error.unwrap().details["quota"], "dialogs_per_minute");
    assert!(!ask(most + 1, "notify").is_error);
}

#[test]
fn an_ungranted_effect_never_reaches_its_connector() {
    let world = world(Mode::Strict, &[], &[]);
    let result = world.dispatcher.call_sync(&world.caller, call("c", "exec", "exec", json!({"command": "ls"})));
    assert_eq!((result.error.as_ref().unwrap().code, reason(&result)), (ErrorCode::Denied, "no_grant"));
    assert_eq!(world.probe.0.load(Ordering::Relaxed), 0);
    let read = world.dispatcher.call_sync(&world.caller, call("d", "read", "fs", json!({"op": "stat", "path": "x"})));
    assert!(!read.is_error);
    assert_eq!(world.ends().len(), 2);
}

#[test]
fn a_panicking_connector_is_an_internal_result() {
    let world = world(Mode::Permissive, &[], &[]);
    let result =
        world.dispatcher.call_sync(&world.caller, call("c", "ui", "ui", json!({"op": "notify", "do": "panic"})));
    assert_eq!((result.error.as_ref().unwrap().code, reason(&result)), (ErrorCode::Internal, "invariant"));
    assert_eq!(world.ends()[0]["data"]["error"]["code"], "internal");
}

#[tokio::test]
async fn chunks_are_numbered_and_the_answer_is_the_last() {
    let world = world(Mode::Permissive, &[], &[]);
    let results = world.run(call("c", "ui", "ui", json!({"op": "notify", "do": "stream"}))).await;
    let chunks: Vec<_> =
        results.iter().map(|result| result.chunk.clone().unwrap()).map(|c| (c.index, c.is_last)).collect();
    assert_eq!(chunks, [(0, false), (1, false), (2, false), (3, true)]);
    assert_eq!(world.ends().len(), 1);
}

#[tokio::test]
async fn panic_deadline_and_cancellation_each_end_a_call_once() {
    let world = world(Mode::Permissive, &[], &[]);
    let hang = |id: &str| call(id, "ui", "ui", json!({"op": "notify", "do": "hang"}));
    let results = world.run(call("p", "ui", "ui", json!({"op": "notify", "do": "panic"}))).await;
    assert_eq!(reason(&results[0]), "invariant");
    let results = world.run(HostCall { timeout_ms: Some(5), ..hang("t") }).await;
    assert_eq!((results.len(), reason(&results[0])), (1, "deadline"));
    let caller = world.caller.clone();
    let cancelling = async {
        tokio::task::yield_now().await;
        world.dispatcher.cancel(caller.extension(), &"c".into());
        world.dispatcher.cancel(caller.extension(), &"c".into());
    };
    let (results, ()) = tokio::join!(world.run(hang("c")), cancelling);
    assert_eq!((results.len(), reason(&results[0])), (1, "cancelled"));
    assert_eq!(world.ends().len(), 3);
    assert_eq!(world.dispatcher.in_flight(caller.extension()), 0);
}

#[test]
fn calls_that_depend_on_size_have_a_thread_and_a_deadline() {
    let world = world(Mode::Permissive, &[], &[]);
    let copy = |op: &str| json!({"op": op, "path": "wait", "from": "wait", "to": "b", "recursive": true});
    let fs = |capability: &str, params: Value| call("f", capability, "fs", params);
    for (capability, op) in [("write", "copyFile"), ("write", "cp"), ("write", "rm"), ("read", "readdir")] {
        let long = HostCall { timeout_ms: Some(5), ..fs(capability, copy(op)) };
        assert!(world.dispatcher.may_wait(&world.caller, &world.dispatcher.read(long.clone())), "{op}");
        assert_eq!(reason(&world.dispatcher.call_sync(&world.caller, long)), "cancelled", "{op}");
    }
    for (capability, params) in [
        ("write", json!({"op": "rm", "path": "a"})),
        ("read", json!({"op": "readdir", "path": "a", "recursive": false})),
        ("read", json!({"op": "readFile", "path": "a"})),
    ] {
        let short = world.dispatcher.read(fs(capability, params.clone()));
        assert!(!world.dispatcher.may_wait(&world.caller, &short), "{params}");
    }
}

/// Returns the order in which calls of one extension end that all begin at the same time. Each call is an id, an `op`, and the
/// connector's behaviour.
async fn order_of_ends(calls: &[(&str, &str, &str)]) -> Vec<String> {
    let world = world(Mode::Permissive, &[], &[]);
    let ended = Arc::new(Mutex::new(Vec::new()));
    let start = |&(id, op, does): &(&str, &str, &str)| {
        let capability = if op == "copyFile" { "write" } else { "read" };
        let params = json!({"op": op, "path": does, "from": does, "to": "b"});
        let into = Arc::clone(&ended);
        let results = move |result: HostResult, _| into.lock().unwrap().push(result.call_id.to_string());
        let call = HostCall { timeout_ms: (does == "hang").then_some(5), ..call(id, capability, "fs", params) };
        let StartedCall::Running(running) = world.dispatcher.call(&world.caller, call, results) else {
            panic!("{id} ended at once")
        };
        running
    };
    let mut running = tokio::task::JoinSet::new();
    for call in calls {
        running.spawn(start(call));
    }
    running.join_all().await;
    assert_eq!(world.ends().len(), calls.len());
    std::mem::take(&mut *ended.lock().unwrap())
}

#[tokio::test]
async fn file_system_calls_end_in_the_order_in_which_they_began() {
    let in_order = order_of_ends(&[("a", "readFile", "late"), ("b", "stat", "at once"), ("c", "access", "panic")]);
    assert_eq!(in_order.await, ["a", "b", "c"]);
    // A call whose duration depends on its data delays no other.
    assert_eq!(order_of_ends(&[("a", "copyFile", "late"), ("b", "stat", "at once")]).await, ["b", "a"]);
    // The end of a call releases the next one, whatever its outcome.
    assert_eq!(order_of_ends(&[("a", "readFile", "hang"), ("b", "stat", "at once")]).await, ["a", "b"]);
}

#[tokio::test]
async fn a_dropped_call_and_an_ended_extension_are_answered_once() {
    let world = world(Mode::Permissive, &[], &[]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let start = |id: &str| {
        let seen = Arc::clone(&seen);
        world.dispatcher.call(
            &world.caller,
            call(id, "ui", "ui", json!({"op": "notify", "do": "hang"})),
            move |result, _| {
                let why = result.error.expect("none of them ends by itself").details["reason"].clone();
                seen.lock().unwrap().push(format!("{} {}", result.call_id, why.as_str().unwrap()));
            },
        )
    };
    drop(start("a"));
    let (b, c) = (start("b"), start("c"));
    let crash = Termination::Crashed { detail: "killed by SIGSEGV".to_owned() }.error();
    world.dispatcher.end_extension(world.caller.extension(), &crash);
    let StartedCall::Running(b) = b else { panic!("it hangs") };
    b.await;
    drop(c);
    // The first was dropped by its caller, the others ended with the realm.
    assert_eq!(*seen.lock().unwrap(), ["a cancelled", "b worker_crash", "c worker_crash"]);
    assert_eq!(world.ends().len(), 3);
}

#[test]
fn calls_without_waiting_end_immediately() {
    let world = world(Mode::Permissive, &[], &[]);
    let sent = Arc::new(Mutex::new(Vec::new()));
    let make = |id: &str, what: &str| {
        let sent = Arc::clone(&sent);
        let call = call(id, "ui", "ui", json!({"op": "notify", "do": what}));
        world.dispatcher.call(&world.caller, call, move |result, _| sent.lock().unwrap().push(result))
    };
    let ended = |called: StartedCall| match called {
        StartedCall::Ended(result, _) => result,
        StartedCall::Running(_) => panic!("nobody has to wait for it"),
    };
    assert_eq!(ended(make("a", "nothing")).output, json!({"ok": true}));
    assert_eq!(reason(&ended(make("b", "panic"))), "invariant");
    assert_eq!(sent.lock().unwrap().len(), 0, "an end that is returned is not sent");
    // All other chunks were sent before.
    let last = ended(make("c", "stream")).chunk.expect("a last chunk");
    assert_eq!((last.index, last.is_last, sent.lock().unwrap().len()), (3, true, 3));
    assert_eq!(world.dispatcher.in_flight(world.caller.extension()), 0);
    assert_eq!(world.ends().len(), 3);
}

#[tokio::test]
async fn a_call_cancelled_in_the_queue_reaches_no_connector() {
    let world = world(Mode::Permissive, &[], &[]);
    let inner = Arc::into_inner(world.dispatcher.inner).expect("one handle");
    let quotas = Quotas { untaken_bytes: 1, ..inner.quotas };
    let dispatcher = Dispatcher { inner: Arc::new(DispatcherInner { quotas, ..inner }) };
    let results = Arc::new(Mutex::new(Vec::new()));
    let make = |id: &str| {
        let results = Arc::clone(&results);
        let call = call(id, "ui", "ui", json!({"op": "notify"}));
        dispatcher.call(&world.caller, call, move |result, _| results.lock().unwrap().push(result))
    };
    let StartedCall::Ended(_, undelivered) = make("a") else { panic!("nothing waits") };
    let (StartedCall::Running(b), StartedCall::Running(c)) = (make("b"), make("c")) else { panic!("`a` is not taken") };
    dispatcher.cancel(world.caller.extension(), &"b".into());
    b.await;
    assert_eq!(world.probe.0.load(Ordering::Relaxed), 1);
    drop(undelivered);
    c.await;
    assert_eq!(world.probe.0.load(Ordering::Relaxed), 2);
    assert_eq!(results.lock().unwrap().iter().map(reason).collect::<Vec<_>>(), ["cancelled", "none"]);
}

#[tokio::test]
async fn ids_are_unique_in_flight_and_the_number_of_calls_is_limited() {
    let world = world(Mode::Permissive, &[], &[]);
    let hang = |id: &str| {
        world.dispatcher.call(&world.caller, call(id, "ui", "ui", json!({"op": "notify", "do": "hang"})), |_, _| {})
    };
    let running = [hang("a"), hang("b")];
    let again = world.run(call("a", "ui", "ui", json!({"op": "notify"}))).await;
    assert_eq!(reason(&again[0]), "duplicate_id");
    assert_eq!(world.dispatcher.in_flight(world.caller.extension()), 2);
    let third = hang("c");
    let over = world.run(call("d", "ui", "ui", json!({"op": "notify"}))).await;
    assert_eq!(reason(&over[0]), "quota");
    drop((running, third));
    assert_eq!(world.dispatcher.in_flight(world.caller.extension()), 0);
    world.ends();
}

#[tokio::test]
async fn the_user_is_prompted_once_and_a_session_answer_stays_valid() {
    let world = world(Mode::Prompt, &[], &[Answer::Deny, Answer::AllowOnce, Answer::AllowSubject, Answer::DenyAlways]);
    let exec = |id: &str, command: &str| call(id, "exec", "exec", json!({"command": command}));
    assert_eq!(reason(&world.run(exec("1", "ls")).await[0]), "user");
    assert!(!world.run(exec("2", "ls")).await[0].is_error);
    assert!(!world.run(exec("3", "ls")).await[0].is_error);
    assert!(!world.run(exec("4", "ls")).await[0].is_error, "the subject was allowed for the session");
    assert_eq!(reason(&world.run(exec("5", "rm")).await[0]), "user");
    assert_eq!(reason(&world.run(exec("6", "rm")).await[0]), "user", "never means never");
    assert_eq!(world.answers.1.load(Ordering::Relaxed), 4);
    world.ends();
}

#[tokio::test]
async fn a_verdict_does_not_wait_for_the_user() {
    let world = world(Mode::Prompt, &[], &[Answer::AllowCapability]);
    let caller = world.caller.clone().in_verdict();
    let result = world.dispatcher.call_sync(&caller, call("c", "exec", "exec", json!({"command": "ls"})));
    assert_eq!(reason(&result), "non_interactive");
    assert_eq!(world.answers.1.load(Ordering::Relaxed), 0);
}

#[test]
fn the_ledger_holds_hashes_and_no_parameters() {
    let world = world(Mode::Permissive, &[], &[]);
    world.dispatcher.call_sync(
        &world.caller,
        call("c", "session.inject", "session", json!({"op": "send_message", "content": "canary-7f3a"})),
    );
    world.ends();
    let text = String::from_utf8(world.sink.bytes()).unwrap();
    assert!(!text.contains("canary-7f3a"));
    let lines = world.sink.lines();
    let of = |event: &str| lines.iter().find(|line| line["event"] == event).unwrap()["data"].clone();
    let (start, end) = (of("host_call.start"), of("host_call.end"));
    assert_eq!(start["params_hash"].as_str().unwrap().len(), 64);
    for key in ["capability", "method", "params_hash"] {
        assert_eq!(end[key], start[key], "{key} is on both lines of a call");
    }
    for line in world.sink.lines() {
        serde_json::from_value::<pijs_protocol::log::LogEntry>(line).unwrap();
    }
}

/// Accepts lines until it is full.
struct FullSink(std::sync::atomic::AtomicBool, Arc<MemorySink>);

impl crate::ledger::LedgerSink for FullSink {
    fn append(&self, lines: &[u8]) -> std::io::Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(std::io::ErrorKind::StorageFull.into()) } else { self.1.append(lines) }
    }
}

#[test]
fn without_a_ledger_strict_mode_refuses_and_the_others_count() {
    for mode in [Mode::Strict, Mode::Prompt, Mode::Permissive] {
        let TestWorld { dispatcher, probe, caller, .. } = world(mode, &[Grant::any("g", "exec")], &[]);
        let memory = MemorySink::new();
        let sink = Arc::new(FullSink(true.into(), memory.clone()));
        let ledger = Ledger::new(LedgerOptions { session_id: "s1".into(), ..Default::default() }, sink.clone());
        let inner = Arc::into_inner(dispatcher.inner).expect("one handle");
        let dispatcher = Dispatcher { inner: Arc::new(DispatcherInner { ledger, ..inner }) };
        let exec = |id: &str| {
            let params = json!({"command": "true", "args": []});
            dispatcher.call_sync(&caller, call(id, "exec", "exec", params))
        };
        let result = exec("a");
        assert_eq!(result.is_error, mode == Mode::Strict, "{mode:?}: {:?}", result.error);
        if let Some(error) = &result.error {
            assert_eq!(error.code, ErrorCode::Denied, "there is no room, and that is the policy: {error:?}");
            assert!(error.message.contains("strict mode refuses calls that cannot be recorded"), "{error:?}");
        }
        let reached = probe.0.load(Ordering::Relaxed);
        assert_eq!(reached, usize::from(mode != Mode::Strict));
        // Exceeds the ledger's buffer, so records are dropped and counted.
        let data = serde_json::Map::from_iter([("x".to_owned(), json!("y".repeat(60_000)))]);
        for n in 0..100 {
            let now = Now { epoch_ms: 0, elapsed_us: n };
            dispatcher.ledger().event(now, &caller, pijs_protocol::log::Level::Info, "big", "", data.clone());
            let _ = dispatcher.ledger().flush();
        }
        // Space becomes available again.
        sink.0.store(false, Ordering::Relaxed);
        assert!(!exec("b").is_error, "{mode:?}");
        dispatcher.ledger().flush().unwrap();
        verify(&*memory.bytes()).unwrap();
        let dropped: u64 = memory
            .lines()
            .iter()
            .filter(|line| line["event"] == "ledger.dropped")
            .map(|line| line["data"]["records"].as_u64().unwrap())
            .sum();
        let written = memory.lines().iter().filter(|line| line["event"] != "ledger.dropped").count() as u64;
        // Two calls of three lines each, and a hundred events.
        assert_eq!(written + dropped, 106, "{mode:?}");
        assert!(dropped > 0);
    }
}

#[test]
fn others_cannot_change_a_file_compiled_at_run_time() {
    let world = world(Mode::Strict, &[Grant::any("g", "eval"), Grant::any("w", "write")], &[]);
    let other = Caller::new(Arc::new(Profile::new("path:/y")));
    world.dispatcher.gate().set_grants(&other.profile, &[Grant::any("w", "write")], Evidence::default()).unwrap();
    // Any existing file will do.
    let file = std::env::current_exe().unwrap().canonicalize().unwrap();
    let write = |caller: &Caller, id: &str| {
        let params = json!({ "op": "writeFile", "path": file, "data": "x" });
        world.dispatcher.call_sync(caller, call(id, "write", "fs", params)).error.is_none()
    };
    assert!(write(&other, "a"));
    let params = json!({ "op": "compile", "path": file, "bytes": 1, "digest": "sha256:00" });
    let compiled = world.dispatcher.call_sync(&world.caller, call("b", "eval", "module", params));
    assert_eq!(compiled.error, None);
    assert!(!write(&other, "c"));
    assert!(write(&world.caller, "d"));
}
