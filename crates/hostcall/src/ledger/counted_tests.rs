//! Tests which records are written and which are counted, and that no record is lost.

use super::super::*;
use super::{EFFECTS, FREE_CALLS, PERIOD_US, REFUSALS};
use crate::decision::{Reason, Rule};
use crate::risk::ExpectedLoss;
use pijs_protocol::ErrorCode;
use serde_json::json;

struct TestLedger {
    ledger: Ledger,
    caller: Caller,
    sink: Arc<MemorySink>,
    number: u64,
}

impl TestLedger {
    fn new() -> Self {
        let sink = MemorySink::new();
        let options = LedgerOptions { secrets: vec!["hush-hush-hush".to_owned()], ..LedgerOptions::default() };
        let ledger = Ledger::new(options, sink.clone());
        Self { ledger, caller: Caller::new(Arc::new(Profile::new("path:/x"))), sink, number: 0 }
    }

    fn call(&mut self, at_us: u64, method: &'static str, capability: &'static str, reason: Option<Reason>) {
        self.number += 1;
        let subject = format!("{method}-{}", self.number % 3);
        let facts = self.start(at_us, method, capability, reason, &subject);
        self.end(at_us, facts, reason);
    }

    fn start(
        &mut self,
        at_us: u64,
        method: &'static str,
        capability: &'static str,
        reason: Option<Reason>,
        subject: &str,
    ) -> CallFacts {
        let now = Now { epoch_ms: at_us / 1000, elapsed_us: at_us };
        let facts = CallFacts {
            call_id: format!("c{}", self.number).into(),
            method: method.into(),
            capability,
            params_hash: Some(ParamsHash::Plain([1; 32])),
        };
        let decision = Decision {
            allowed: reason.is_none(),
            capability,
            rule: if reason.is_none() { Rule::Free } else { Rule::NoGrant },
            grant: None,
            reason,
            loss: ExpectedLoss::of(0.1),
        };
        let decided = Some(DecisionRecord { at: now, subject: Some(subject.to_owned()), decision });
        let start = CallStart { call: facts.clone(), claimed: None, timeout_ms: None };
        self.ledger.push(record(now, &self.caller, RecordBody::Start { start, decided }));
        facts
    }

    fn end(&self, at_us: u64, call: CallFacts, reason: Option<Reason>) {
        let now = Now { epoch_ms: at_us / 1000, elapsed_us: at_us };
        let error = reason.map(|reason| (ErrorCode::Denied, Some(Arc::from(reason.as_str()))));
        self.ledger.call_end(now, &self.caller, CallEnd { call, duration_us: 1, error });
    }

    fn lines(&self) -> Vec<Value> {
        self.ledger.flush().expect("written");
        self.sink.lines()
    }

    fn closed(self) -> (Vec<Value>, Audit) {
        self.ledger.close().expect("closed");
        let audit = audit([Ok(&*self.sink.bytes())]).expect("holds");
        (self.sink.lines(), audit)
    }
}

fn of<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

#[test]
fn calls_of_one_kind_are_counted_past_their_budget_and_others_stay() {
    let mut ledger = TestLedger::new();
    ledger.call(0, "exec", "exec", None);
    let many = FREE_CALLS.burst + 1000;
    (0..many).for_each(|_| ledger.call(1, "ui", "ui", None));
    (0..REFUSALS.burst + 500).for_each(|_| ledger.call(2, "fs", "read", Some(Reason::Scope)));
    // Another reason makes another kind.
    ledger.call(3, "fs", "read", Some(Reason::ProtectedPath));
    ledger.call(4, "exec", "exec", None);
    let (lines, audit) = ledger.closed();
    let starts = of(&lines, "host_call.start");
    let of_method = |method: &str| starts.iter().filter(|line| line["data"]["method"] == method).count() as u64;
    assert_eq!((of_method("exec"), of_method("ui"), of_method("fs")), (2, FREE_CALLS.burst, REFUSALS.burst + 1));
    assert_eq!((audit.open.len(), audit.counted, audit.uncounted), (0, 1500, 0));
    let counted = of(&lines, "ledger.counted");
    assert_eq!(counted.len(), 2, "{counted:?}");
    let refused = counted.iter().find(|line| line["data"]["method"] == "fs").expect("counted");
    let data = &refused["data"];
    assert_eq!(
        (&data["records"], &data["ended"], &data["errors"], &data["reason"]),
        (&json!(500), &json!(500), &json!({"denied": 500}), &json!("scope"))
    );
    assert_eq!(data["subjects"], json!(["fs-0", "fs-1", "fs-2"]));
    assert_eq!(of(&lines, "ledger.counting").len(), 2);
}

#[test]
fn a_written_start_has_a_written_end() {
    let mut ledger = TestLedger::new();
    ledger.number = 7;
    let early = ledger.start(0, "ui", "ui", None, "s");
    (0..FREE_CALLS.burst + 5).for_each(|_| ledger.call(1, "ui", "ui", None));
    ledger.number = 9_000;
    let late = ledger.start(2, "ui", "ui", None, "s");
    ledger.end(3, early, None);
    ledger.end(4, late, None);
    let (lines, audit) = ledger.closed();
    assert_eq!((audit.open.len(), audit.calls, audit.counted), (0, FREE_CALLS.burst, 7));
    assert_eq!(of(&lines, "host_call.end").len() as u64, FREE_CALLS.burst);
}

#[test]
fn counting_is_announced_and_reported() {
    let mut ledger = TestLedger::new();
    (0..=EFFECTS.burst).for_each(|_| ledger.call(0, "exec", "exec", None));
    assert_eq!((of(&ledger.lines(), "ledger.counting").len(), of(&ledger.lines(), "ledger.counted").len()), (1, 0));
    let killed = audit([Ok(&*ledger.sink.bytes())]).expect("holds");
    assert_eq!((killed.counted, killed.uncounted), (0, 1));
    // The next record of any kind ends the period; by then some may be written in full again.
    ledger.call(PERIOD_US + 1, "exec", "exec", None);
    let lines = ledger.lines();
    assert_eq!(of(&lines, "ledger.counted").len(), 1);
    assert_eq!(lines.last().expect("a line")["event"], "host_call.end");
}

#[test]
fn subjects_of_a_count_are_redacted_and_bounded() {
    let mut ledger = TestLedger::new();
    (0..REFUSALS.burst).for_each(|_| ledger.call(0, "fs", "read", Some(Reason::Scope)));
    for number in 0..100 {
        ledger.number += 1;
        let subject = format!("/tmp/hush-hush-hush/{number}/{}", "x".repeat(2000));
        let call = ledger.start(0, "fs", "read", Some(Reason::Scope), &subject);
        ledger.end(0, call, Some(Reason::Scope));
    }
    let (lines, _) = ledger.closed();
    let data = &of(&lines, "ledger.counted")[0]["data"];
    assert_eq!((data["subjects"].as_array().map(Vec::len), &data["more_subjects"]), (Some(32), &json!(true)));
    assert!(!data.to_string().contains("hush-hush"), "{data}");
}

#[test]
fn the_digest_tells_two_runs_apart() {
    let digest = |denied: bool| {
        let mut ledger = TestLedger::new();
        (0..FREE_CALLS.burst + 3).for_each(|_| ledger.call(0, "ui", "ui", None));
        let call = ledger.start(0, "ui", "ui", None, "s");
        ledger.end(0, call, denied.then_some(Reason::Quota));
        let (lines, _) = ledger.closed();
        of(&lines, "ledger.counted")[0]["data"]["digest"].clone()
    };
    assert_eq!(digest(true), digest(true));
    assert_ne!(digest(true), digest(false));
}

#[test]
fn lines_of_extensions_are_counted_and_those_of_the_host_about_itself_are_not() {
    let ledger = TestLedger::new();
    let host = Caller::new(Arc::new(Profile::new("host")));
    for number in 0..3000_u64 {
        let now = Now { epoch_ms: number, elapsed_us: number };
        ledger.ledger.extension_log(now, &ledger.caller, Level::Info, "extension.log", "m", Map::new());
        ledger.ledger.event(now, &host, Level::Info, "host.said", "m", Map::new());
    }
    let (lines, audit) = ledger.closed();
    assert_eq!(of(&lines, "host.said").len(), 3000);
    assert_eq!(of(&lines, "extension.log").len() as u64 + audit.counted, 3000);
    assert!(audit.counted > 1000, "{audit:?}");
}

#[test]
fn long_lines_use_up_a_budget_sooner() {
    let ledger = TestLedger::new();
    for number in 0..1000_u64 {
        let now = Now { epoch_ms: number, elapsed_us: number };
        let data = Map::from_iter([("x".to_owned(), json!("y".repeat(50_000)))]);
        ledger.ledger.extension_log(now, &ledger.caller, Level::Info, "extension.log", "m", data);
    }
    let (lines, _) = ledger.closed();
    assert!(of(&lines, "extension.log").len() < 200, "{}", of(&lines, "extension.log").len());
}
