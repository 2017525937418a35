//! Checks that every hostcall passes the gate and the ledger: calls each method and op of the vocabulary, for an extension
//! without grants, under the strict policy.

use pijs_environment::simulated::StandingTimer;
use pijs_hostcall::vocabulary::{CAPABILITIES, FREE, MCP_OPS, METHODS, RUMMY_DB_OPS, SESSION_OPS, UI_OPS};
use pijs_hostcall::{
    BoxFuture, Caller, ChunkSink, Connector, Dispatcher, Gate, Ledger, LedgerOptions, MemorySink, Mode, Output,
    ParsedCall, Places, Policy, Profile, Request, Subject,
};
use pijs_protocol::call::{EnvCall, ExecCall, FsCall, HttpCall, NetCall, SqliteCall, TimerCall, WebSocketCall};
use pijs_protocol::{Capability, ErrorCode, HostCall, HostResult, HostcallError};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Returns the ops of a method; `None` stands for a call without an op.
fn ops(method: &str) -> Vec<Option<&'static str>> {
    let with = |ops: &[&'static str]| ops.iter().map(|op| Some(*op)).collect::<Vec<_>>();
    let typed = |ops: &[&'static str]| ops.iter().map(|op| Some(*op).filter(|op| !op.is_empty())).collect();
    match method {
        "fs" => typed(FsCall::OPS),
        "exec" => typed(ExecCall::OPS),
        "http" => typed(HttpCall::OPS),
        "net" => typed(NetCall::OPS),
        "websocket" => typed(WebSocketCall::OPS),
        "sqlite" => typed(SqliteCall::OPS),
        "env" => typed(EnvCall::OPS),
        "session" => SESSION_OPS.iter().map(|(op, _)| Some(*op)).collect(),
        "ui" => with(UI_OPS),
        "tools" => with(&["list", "active"]),
        "events" => with(&["emit"]),
        "module" => with(&["quote", "source", "compile"]),
        "timer" => typed(TimerCall::OPS),
        "rummy.db" => with(RUMMY_DB_OPS),
        "mcp" => MCP_OPS.iter().map(|(op, _)| Some(*op)).collect(),
        "tool" | "log" | "rummy.entries" => vec![None],
        other => panic!("the ops of {other:?} belong into this test"),
    }
}

/// Returns parameters that are valid for any op, with subjects that need consent.
fn params(method: &str, op: Option<&str>) -> Map<String, Value> {
    let mut params = json!({
        "path": "/outside/x", "from": "/outside/x", "to": "/outside/y", "prefix": "/outside/x", "target": "/outside/x",
        "flags": "r+", "url": "https://example.org/", "host": "example.org", "port": 443, "names": ["SECRET_TOKEN"],
        "name": "unheard-of", "input": "", "command": "git", "args": [], "channel": "c", "data": "d",
        "specifier": "./x", "referrer": "ext:/0/index.js", "ms": 1, "level": "info", "message": "m", "text": "words",
        "method": "set", "statement": "get_run_by_id",
        "bytes": 5, "digest": "sha256:00", "mode": 0o644, "db": 1, "sql": "", "socket": "s", "server": "s",
        "upload": "u",  "length": 1, "atimeMs": 0, "mtimeMs": 0,
    });
    // Ops on an open resource.
    let on_a_handle = ["close", "read", "write", "fstat", "ftruncate", "fchmod", "futimes", "fsync", "fdatasync"];
    if op.is_some_and(|op| on_a_handle.contains(&op)) {
        params["fd"] = json!(3);
    }
    if method == "websocket" {
        params["url"] = json!("wss://example.org/");
    }
    if method == "mcp" {
        let about = MCP_OPS.iter().find(|(known, _)| op == Some(known)).and_then(|(_, about)| *about);
        params["target"] = json!(format!("server/{}", about.unwrap_or("tool")));
    }
    params["pid"] = json!(1);
    if let Some(op) = op {
        params["op"] = json!(op);
    }
    match params {
        Value::Object(params) => params,
        _ => unreachable!("an object"),
    }
}

fn parsed(method: &str, op: Option<&str>) -> ParsedCall {
    ParsedCall::parse(method, params(method, op), Vec::new()).unwrap_or_else(|error| panic!("{method} {op:?}: {error}"))
}

#[derive(Default)]
struct CountingConnector(AtomicUsize);

impl Connector for CountingConnector {
    fn call(&self, _: Request, _: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(Output::empty())))
    }

    fn call_sync(&self, _: &Request) -> Result<Output, HostcallError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Output::empty())
    }
}

/// Makes one call; returns its result, whether a connector got it, and its lines in the ledger.
fn tried(method: &str, op: Option<&str>, in_time: bool) -> (HostResult, bool, Vec<Value>) {
    let places = Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp");
    let gate = Gate::builder(Policy { mode: Mode::Strict, ..Policy::default() }, places).build();
    let (sink, probe) = (MemorySink::new(), Arc::new(CountingConnector::default()));
    let ledger = Ledger::new(LedgerOptions { session_id: "s".to_owned(), ..LedgerOptions::default() }, sink.clone());
    let served = METHODS.iter().map(|method| ((*method).to_owned(), Arc::clone(&probe) as Arc<dyn Connector>));
    let dispatcher = Dispatcher::builder(gate, ledger, Arc::new(StandingTimer::default())).connectors(served).build();
    let caller = Caller::new(Arc::new(Profile::new("path:/x")));
    let params = params(method, op);
    let parsed = parsed(method, op);
    let capability = parsed.required().unwrap_or_else(|error| panic!("{method} {op:?}: {error}")).capability;
    let call = HostCall {
        call_id: "c1".into(),
        capability: Capability::new(capability),
        method: method.into(),
        params,
        timeout_ms: None,
        cancel_token: None,
        context: None,
        bytes: Vec::new(),
    };
    let result = if in_time {
        let results = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&results);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let take = move |result, _| into.lock().expect("no panic").push(result);
        runtime.block_on(dispatcher.call(&caller, call, take.clone()).rest(take));
        let [result] = std::mem::take(&mut *results.lock().expect("no panic")).try_into().expect("one answer");
        result
    } else {
        dispatcher.call_sync(&caller, call)
    };
    dispatcher.ledger().flush().expect("writing to memory cannot fail");
    (result, probe.0.load(Ordering::Relaxed) > 0, sink.lines())
}

#[test]
fn every_hostcall_is_decided_and_recorded() {
    let known: Vec<&str> = CAPABILITIES.iter().map(|(name, _)| *name).collect();
    let mut refused = 0;
    for method in METHODS {
        for op in ops(method) {
            for in_time in [false, true] {
                let case = format!("{method} {op:?}, {}", if in_time { "awaited" } else { "synchronous" });
                let (result, reached, lines) = tried(method, op, in_time);
                let of = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
                assert_eq!((of("host_call.start"), of("host_call.end")), (1, 1), "{case}: {lines:#?}");
                let parsed = parsed(method, op);
                let required = parsed.required().expect("it derived before");
                assert!(known.contains(&required.capability), "{case}: {}", required.capability);
                let start = lines.iter().find(|line| line["event"] == "host_call.start").expect("counted");
                assert_eq!(start["data"]["capability"], required.capability, "{case}");
                // No connector gets a call that needs consent; a call on a handle reaches its connector, which looks the handle
                // up.
                let may = FREE.contains(&required.capability) || required.subject == Subject::Handle;
                assert!(may || !reached, "{case}: it was reached without a grant");
                if !reached {
                    refused += 1;
                    assert_eq!(result.error.map(|error| error.code), Some(ErrorCode::Denied), "{case}");
                }
            }
        }
    }
    assert!(refused > 60, "{refused}");
}

/// Returns the ops in the first column of the tables of one section of the vocabulary.
fn documented(section: &str) -> BTreeSet<&'static str> {
    let text = include_str!("../src/vocabulary.rs");
    let start = format!("//! ## `{section}`");
    let lines = text.lines().skip_while(|line| !line.starts_with(&start)).skip(1);
    let rows = lines.take_while(|line| !line.starts_with("//! ## ")).filter_map(|line| line.strip_prefix("//! | "));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.filter(|name| name.chars().all(|character| character.is_ascii_alphanumeric())).collect()
}

#[test]
fn the_tables_of_the_vocabulary_have_every_op() {
    for (section, ops) in [
        ("exec", ExecCall::OPS),
        ("fs", FsCall::OPS),
        ("net", NetCall::OPS),
        ("sqlite", SqliteCall::OPS),
        ("websocket", WebSocketCall::OPS),
    ] {
        let declared: BTreeSet<_> = ops.iter().copied().filter(|op| !op.is_empty()).collect();
        assert_eq!(documented(section), declared, "{section}");
    }
}

#[test]
fn a_method_that_is_not_in_the_vocabulary_is_refused() {
    for method in ["", "FS", "fs ", "shell", "process", "__proto__", "constructor"] {
        let error = parsed(method, None).required().expect_err("it is none");
        assert_eq!(error.code, ErrorCode::InvalidRequest, "{method:?}");
    }
}

#[test]
fn an_empty_op_is_not_the_call_without_one() {
    for method in ["exec", "http"] {
        let error = ParsedCall::parse(method, params(method, Some("")), Vec::new()).expect_err("there is no such op");
        assert_eq!(error.details["reason"], "schema", "{method}");
    }
}
