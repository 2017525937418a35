//! Runs `fixtures/hostcalls/*.toml`: request, grants and mode against the expected decision.

mod still;

use pijs_hostcall::places::OWN_SCRIPT;
use pijs_hostcall::{
    BoxFuture, Caller, ChunkSink, Connector, Dispatcher, Gate, Grant, Ledger, LedgerOptions, MemorySink, Mode, Output,
    Places, Policy, Profile, Request,
};
use pijs_protocol::{Capability, HostCall, HostcallError};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::Arc;
use still::Still;

#[derive(Deserialize)]
struct Fixture {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    mode: Mode,
    #[serde(default)]
    grants: Vec<Grant>,
    #[serde(default)]
    deny: Vec<Capability>,
    /// Folder of the package.
    package: Option<String>,
    /// What its artifact was made of.
    #[serde(default)]
    inputs: Vec<String>,
    call: Call,
    expect: String,
    rule: Option<String>,
}

#[derive(Deserialize)]
struct Call {
    capability: String,
    method: String,
    params: Map<String, Value>,
}

struct Nothing;

impl Connector for Nothing {
    fn call(&self, _request: Request, _sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        Box::pin(std::future::ready(Ok(Output::empty())))
    }

    fn call_sync(&self, _request: &Request) -> Result<Output, HostcallError> {
        Ok(Output::empty())
    }
}

fn run(case: &Case) -> (String, Option<String>) {
    let places = Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp");
    let policy = Policy { mode: case.mode, default_caps: Vec::new(), deny_caps: case.deny.clone() };
    let gate = Gate::builder(policy, places).build();
    let package = case.package.as_deref().unwrap_or("/pkg");
    let profile = Profile::new("path:/x").at(package).with_inputs(case.inputs.iter().map(String::as_str));
    let profile = Arc::new(profile);
    gate.set_grants(&profile, &case.grants, Default::default()).expect("the grants compile");
    let sink = MemorySink::new();
    let ledger = Ledger::new(LedgerOptions::default(), sink.clone());
    let mut builder = Dispatcher::builder(gate, ledger, Arc::new(Still));
    for method in ["fs", "exec", "http", "env", "tool", "session", "ui"] {
        builder = builder.connector(method, Arc::new(Nothing));
    }
    let dispatcher = builder.build();
    let call = HostCall {
        call_id: "host-1".into(),
        capability: Capability::new(&*case.call.capability),
        method: case.call.method.clone(),
        params: case.call.params.clone(),
        timeout_ms: None,
        cancel_token: None,
        context: None,
        bytes: Vec::new(),
    };
    let result = dispatcher.call_sync(&Caller::new(profile), call);
    dispatcher.ledger().flush().expect("memory takes everything");
    let decision = sink.lines().into_iter().find(|line| line["event"] == "policy.decision");
    let rule = decision.and_then(|line| line["data"]["rule"].as_str().map(str::to_owned));
    let outcome = match result.error {
        None => "allowed".to_owned(),
        Some(error) => format!("{}:{}", error.code, error.details["reason"].as_str().unwrap_or_default()),
    };
    (outcome, rule)
}

#[test]
fn every_case_is_decided_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hostcalls");
    let mut failures = Vec::new();
    let mut cases = 0;
    for entry in std::fs::read_dir(&folder).expect("the fixtures are there") {
        let path = entry.expect("the folder can be listed").path();
        let text = std::fs::read_to_string(&path).expect("a fixture is text").replace("{{own script}}", OWN_SCRIPT);
        let fixture: Fixture = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for case in &fixture.case {
            cases += 1;
            let (outcome, rule) = run(case);
            if outcome != case.expect || case.rule.is_some() && rule != case.rule {
                failures
                    .push(format!("{}: {outcome} by {rule:?}, expected {} by {:?}", case.name, case.expect, case.rule));
            }
        }
    }
    assert!(cases > 20, "only {cases} cases were found");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
