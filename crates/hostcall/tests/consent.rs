//! Runs `fixtures/gate/consent/*.toml`: calls in sequence, with the expected prompts, the answers to them, and the expected
//! decisions. Each dialogue runs twice, with synchronous and with asynchronous calls.

mod cases;
mod null_connector;

use null_connector::NullConnector;
use pijs_environment::simulated::StandingTimer;
use pijs_hostcall::{
    Answer, AnswerStore, BoxFuture, Caller, Dispatcher, Gate, Grant, Ledger, LedgerOptions, MemorySink, Mode,
    ParsedCall, Places, Policy, Profile, Prompter, Question, Remembered,
};
use pijs_protocol::manifest::Scope;
use pijs_protocol::{Capability, ExtensionId, HostCall, HostResult, HostcallError};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

#[derive(Deserialize)]
struct Fixture {
    talk: Vec<Dialogue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dialogue {
    name: String,
    #[serde(default)]
    mode: Mode,
    #[serde(default)]
    grants: Vec<Grant>,
    #[serde(default)]
    default_caps: Vec<Capability>,
    /// Permanent denials: a capability, or `read:PATH`.
    #[serde(default)]
    never: Vec<String>,
    /// Environment variables that are set; unknown without the list.
    variables: Option<Vec<String>>,
    /// Whether there is no user to prompt.
    #[serde(default)]
    alone: bool,
    step: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// Method of the call and its parameters.
    call: BTreeMap<String, Map<String, Value>>,
    #[serde(default)]
    during: During,
    /// Subject of the expected prompt; absent if no prompt is expected.
    asks: Option<String>,
    #[serde(default)]
    warns: Vec<String>,
    answer: Option<ScriptedAnswer>,
    /// Answer that is expected to be stored.
    remembers: Option<String>,
    /// Expected outcome: `allowed`, or the reason of a refusal.
    expect: String,
    /// Rule that is expected to decide.
    rule: String,
    /// Number of repetitions.
    #[serde(default = "once")]
    times: usize,
}

fn once() -> usize {
    1
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum During {
    #[default]
    Turn,
    Model,
    Verdict,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum ScriptedAnswer {
    Deny,
    Never,
    Mute,
    Once,
    Subject,
    Always,
    Capability,
    Nothing,
}

/// Scripted user with one answer; records prompts and stored answers.
#[derive(Default)]
struct ScriptedUser {
    answer: Mutex<Option<ScriptedAnswer>>,
    asked: Mutex<Vec<Question>>,
    kept: Mutex<Vec<Remembered>>,
}

impl Prompter for ScriptedUser {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answer> {
        self.asked.lock().unwrap().push(question);
        let answer = match self.answer.lock().unwrap().take() {
            None | Some(ScriptedAnswer::Nothing) => Answer::NoPerson,
            Some(ScriptedAnswer::Deny) => Answer::Deny,
            Some(ScriptedAnswer::Never) => Answer::DenyAlways,
            Some(ScriptedAnswer::Mute) => Answer::Mute,
            Some(ScriptedAnswer::Once) => Answer::AllowOnce,
            Some(ScriptedAnswer::Subject) => Answer::AllowSubject,
            Some(ScriptedAnswer::Always) => Answer::AllowAlways,
            Some(ScriptedAnswer::Capability) => Answer::AllowCapability,
        };
        Box::pin(std::future::ready(answer))
    }
}

impl AnswerStore for ScriptedUser {
    fn remember(&self, _: &ExtensionId, remembered: Remembered) {
        self.kept.lock().unwrap().push(remembered);
    }
}

struct World {
    dispatcher: Dispatcher,
    sink: Arc<MemorySink>,
    person: Arc<ScriptedUser>,
    profile: Arc<Profile>,
    runtime: Arc<tokio::runtime::Runtime>,
}

impl World {
    fn new(talk: &Dialogue) -> Self {
        let places = Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp");
        let policy = Policy { mode: talk.mode, default_caps: talk.default_caps.clone(), deny_caps: Vec::new() };
        let person = Arc::new(ScriptedUser::default());
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let runtime = Arc::new(runtime);
        let mut gate = Gate::builder(policy, places)
            .memory(Arc::clone(&person) as Arc<dyn AnswerStore>)
            .programs(Arc::new(|command, _| (command == "git").then(|| PathBuf::from("/usr/bin/git"))));
        if !talk.alone {
            let waits = Arc::clone(&runtime);
            gate = gate
                .prompter(Arc::clone(&person) as Arc<dyn Prompter>)
                .block_on(Arc::new(move |asking| waits.block_on(asking)));
        }
        if let Some(variables) = &talk.variables {
            gate = gate.variables(variables.iter().cloned());
        }
        let gate = gate.build();
        let profile = Arc::new(Profile::new("path:/x").at("/pkg"));
        gate.set_grants(&profile, &talk.grants, Default::default()).expect("the grants compile");
        let refused = |text: &String| {
            let (capability, path) = text.split_once(':').unwrap_or((text, ""));
            let scope = Scope { paths: Some(vec![path.to_owned()]), ..Scope::default() };
            Grant { scope: (!path.is_empty()).then_some(scope), ..Grant::any(text.as_str(), capability) }
        };
        gate.set_never(&profile, &talk.never.iter().map(refused).collect::<Vec<_>>());
        let sink = MemorySink::new();
        let ledger = Ledger::new(LedgerOptions::default(), sink.clone());
        let mut builder = Dispatcher::builder(gate, ledger, Arc::new(StandingTimer::default()));
        for method in ["fs", "exec", "http", "env", "tool", "session"] {
            builder = builder.connector(method, Arc::new(NullConnector));
        }
        Self { dispatcher: builder.build(), sink, person, profile, runtime }
    }

    fn call(&self, during: During, call: HostCall, synchronously: bool) -> HostResult {
        let caller = Caller::new(Arc::clone(&self.profile));
        let caller = match during {
            During::Turn => caller,
            During::Model => caller.behind_model(),
            During::Verdict => caller.in_verdict(),
        };
        if synchronously {
            return self.dispatcher.call_sync(&caller, call);
        }
        let results = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&results);
        let take = move |result, _| into.lock().unwrap().push(result);
        self.runtime.block_on(self.dispatcher.call(&caller, call, take.clone()).rest(take));
        let mut results = std::mem::take(&mut *results.lock().unwrap());
        assert_eq!(results.len(), 1, "a call is answered once");
        results.remove(0)
    }

    fn decisions(&self) -> Vec<String> {
        self.dispatcher.ledger().flush().expect("writing to memory cannot fail");
        let lines = self.sink.lines();
        let decisions = lines.iter().filter(|line| line["event"] == "policy.decision");
        decisions.map(|line| line["data"]["rule"].as_str().expect("a rule").to_owned()).collect()
    }
}

/// Observed outcome of one step, in the format of the fixture.
#[derive(Debug, PartialEq)]
struct StepOutcome {
    asks: Option<String>,
    warns: Vec<String>,
    remembers: Option<String>,
    expect: String,
    rule: String,
}

fn run(world: &World, step: &Step, number: usize, synchronously: bool) -> StepOutcome {
    let (method, params) = step.call.first_key_value().expect("a step has a call");
    let parsed = ParsedCall::parse(method.as_str(), params.clone(), Vec::new()).expect("a call that makes sense");
    let capability = parsed.required().expect("a call that makes sense").capability();
    let call = HostCall {
        call_id: format!("host-{number}").as_str().into(),
        capability,
        method: method.as_str().into(),
        params: params.clone(),
        timeout_ms: None,
        cancel_token: None,
        context: None,
        bytes: Vec::new(),
    };
    *world.person.answer.lock().unwrap() = step.answer;
    let before = world.decisions().len();
    let result = world.call(step.during, call, synchronously);
    let decisions = world.decisions();
    let [rule] = &decisions[before..] else { panic!("one decision for a call, not {:?}", &decisions[before..]) };
    let mut asked = std::mem::take(&mut *world.person.asked.lock().unwrap());
    assert!(asked.len() <= 1, "one question for a call");
    let asked = asked.pop();
    let kept = std::mem::take(&mut *world.person.kept.lock().unwrap());
    let keep = |kept: &Remembered| {
        let says = if kept.allowed { "allows" } else { "never" };
        let scope = kept.scope.as_ref().map(|scope| serde_json::to_string(scope).expect("a scope")).unwrap_or_default();
        format!("{says} {} {scope}", kept.capability).trim_end().to_owned()
    };
    let reason = |error: &HostcallError| error.details["reason"].as_str().unwrap_or_default().to_owned();
    StepOutcome {
        asks: asked.as_ref().map(|question| format!("{} {}", question.capability, question.subject).trim_end().into()),
        warns: asked.map(|question| question.warnings).unwrap_or_default(),
        remembers: (!kept.is_empty()).then(|| kept.iter().map(keep).collect::<Vec<_>>().join("; ")),
        expect: result.error.as_ref().map_or_else(|| "allowed".to_owned(), reason),
        rule: rule.clone(),
    }
}

#[test]
fn every_dialogue_runs_as_expected() {
    let mut failures = Vec::new();
    let mut talks = 0;
    for fixture in cases::all::<Fixture>("gate/consent") {
        for talk in &fixture.talk {
            talks += 1;
            for synchronously in [true, false] {
                let world = World::new(talk);
                let steps = talk.step.iter().flat_map(|step| std::iter::repeat_n(step, step.times));
                for (number, step) in steps.enumerate() {
                    let expected = StepOutcome {
                        asks: step.asks.clone(),
                        warns: step.warns.clone(),
                        remembers: step.remembers.clone(),
                        expect: step.expect.clone(),
                        rule: step.rule.clone(),
                    };
                    let happened = run(&world, step, number, synchronously);
                    if happened != expected {
                        failures.push(format!(
                            "{}, call {number}, synchronously {synchronously}:\n  {happened:?}\n  {expected:?} expected",
                            talk.name
                        ));
                    }
                }
            }
        }
    }
    assert!(talks > 15, "only {talks} talks were found");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
