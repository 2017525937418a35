//! Runs `fixtures/gate/decisions/*.toml`: request, grants and mode with the expected decision.

mod cases;
mod null_connector;

use null_connector::NullConnector;
use pijs_environment::simulated::StandingTimer;
use pijs_hostcall::places::OWN_SCRIPT;
use pijs_hostcall::{
    Caller, Dispatcher, Gate, Grant, Ledger, LedgerOptions, MemorySink, Mode, Places, Policy, Profile,
};
use pijs_protocol::{Capability, HostCall, Method};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;

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
    /// Package folder.
    package: Option<String>,
    /// Inputs of the package's artifact.
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
    let mut builder = Dispatcher::builder(gate, ledger, Arc::new(StandingTimer::default()));
    for method in ["fs", "exec", "http", "env", "tool", "session", "ui"] {
        builder = builder.connector(method, Arc::new(NullConnector));
    }
    let dispatcher = builder.build();
    let call = HostCall {
        call_id: "host-1".into(),
        capability: Capability::new(&*case.call.capability),
        method: Method::new(case.call.method.clone()),
        params: case.call.params.iter().map(|(name, value)| (name.clone(), filled_in(value))).collect(),
        timeout_ms: None,
        cancel_token: None,
        context: None,
        bytes: Vec::new(),
    };
    let result = dispatcher.call_sync(&Caller::new(profile), call);
    dispatcher.ledger().flush().expect("writing to memory cannot fail");
    let decision = sink.lines().into_iter().find(|line| line["event"] == "policy.decision");
    let rule = decision.and_then(|line| line["data"]["rule"].as_str().map(str::to_owned));
    let outcome = match result.error {
        None => "allowed".to_owned(),
        Some(error) => format!("{}:{}", error.code, error.details["reason"].as_str().unwrap_or_default()),
    };
    (outcome, rule)
}

/// Expands a placeholder for the path of the host's script in a value of a fixture.
fn filled_in(value: &Value) -> Value {
    if value == "{{own script}}" { Value::from(OWN_SCRIPT) } else { value.clone() }
}

#[test]
fn every_case_is_decided_as_expected() {
    let mut failures = Vec::new();
    let mut cases = 0;
    for fixture in cases::all::<Fixture>("gate/decisions") {
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
