//! Tests guards that no session can trigger, because an honest host never sends the input that they refuse. Each scenario runs
//! with all guards, when it must resist, and again in a process with its guard lowered, when it must not.
//!
//! The binary has its own `main`: scenarios run in separate processes, and one of them uses a forged worker.

mod long;
mod walls;

use futures_util::future::BoxFuture;
use libtest_mimic::{Failed, Trial};
use pijs_agent::{AgentControl, NoState};
use pijs_connectors::ports::{SessionCall, SessionOp, SessionPort};
use pijs_environment::Ambient;
use pijs_environment::simulated::StandingTimer;
use pijs_hostcall::{
    Caller, ChunkSink, Connector, Dispatcher, Gate, Ledger, LedgerOptions, MemorySink, Mode, Output, Places, Policy,
    Profile, Quotas, Request,
};
use pijs_protocol::{Capability, HostCall, HostcallError, guard};
use pijs_session_store::Session;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

/// A scenario's name, its guard, and a check that returns whether the host resists.
type Scenario = (&'static str, &'static str, fn() -> bool);

const SCENARIOS: &[Scenario] = &[
    ("calls_in_flight_are_limited", "quota.in-flight", calls_in_flight_are_limited),
    ("dialogs_are_limited", "quota.dialogs", dialogs_are_limited),
    ("a_call_must_claim_the_capability_it_needs", "gate.claimed", a_call_must_claim_the_capability_it_needs),
    ("a_session_is_filled_so_far", "session.size", a_session_is_filled_so_far),
    ("undelivered_events_are_limited", "session.undelivered-events", undelivered_events_are_limited),
    ("selections_count_towards_the_quota", "session.size", selections_count_towards_the_quota),
    ("a_lock_has_one_holder", "durable.lock", walls::a_lock_has_one_holder),
    ("files_of_one_leave_room_for_others", "fs.handles", walls::files_of_one_leave_room_for_others),
    ("watches_of_one_leave_room_for_others", "fs.watched", walls::watches_of_one_leave_room_for_others),
    #[cfg(target_os = "linux")]
    ("watches_of_one_share_an_instance", "fs.instances", walls::watches_of_one_share_an_instance),
    ("undelivered_results_stop_reads", "quota.undelivered", walls::undelivered_results_stop_reads),
    #[cfg(target_os = "linux")]
    ("a_database_is_the_one_that_was_found", "sqlite.landlock", walls::databases::a_database_is_the_one_that_was_found),
    ("a_function_of_sql_is_not_waited_for", "sqlite.deadline", walls::databases::a_function_of_sql_is_not_waited_for),
    ("stuck_statements_are_limited", "sqlite.stuck-threads", walls::databases::stuck_statements_are_limited),
    ("memory_of_databases_is_limited", "sqlite.retained", walls::databases::memory_of_databases_is_limited),
    ("memory_of_a_statement_is_limited", "sqlite.heap", walls::databases::memory_of_a_statement_is_limited),
    ("a_pragma_holds_for_its_own_database", "sqlite.process", walls::databases::a_pragma_holds_for_its_own_database),
    ("streams_wait_for_who_takes_them", "quota.streams", walls::streams::streams_wait_for_who_takes_them),
    (
        "connections_of_one_leave_room_for_others",
        "net.connections",
        walls::connections::connections_of_one_leave_room_for_others,
    ),
    (
        "look_ups_of_one_leave_threads_for_others",
        "net.resolver-threads",
        walls::connections::look_ups_of_one_leave_threads_for_others,
    ),
    ("names_of_one_are_counted", "net.resolved-names", walls::connections::names_of_one_are_counted),
    ("own_public_addresses_are_not_elsewhere", "http.own", walls::connections::own_public_addresses_are_not_elsewhere),
    ("neighbours_are_not_elsewhere", "http.neighbours", walls::connections::neighbours_are_not_elsewhere),
    ("decoders_of_one_are_limited", "http.decoders", walls::connections::decoders_of_one_are_limited),
    ("pings_are_answered_one_by_one", "websocket.pings", walls::connections::pings_are_answered_one_by_one),
    ("unfinished_messages_are_limited", "websocket.unfinished", walls::connections::unfinished_messages_are_limited),
    ("a_build_worker_is_not_believed", "build.input-list", walls::builders::a_build_worker_is_not_believed),
    #[cfg(unix)]
    (
        "a_root_that_leads_elsewhere_by_then_is_not_read",
        "build.root-handles",
        walls::builders::a_root_that_leads_elsewhere_by_then_is_not_read,
    ),
    ("changed_bytecode_is_refused", "artifact.mac", walls::changed_bytecode_is_refused),
    ("bytecode_of_another_id_is_refused", "artifact.mac", walls::bytecode_of_another_id_is_refused),
    ("bytecode_of_another_engine_is_refused", "artifact.engine", walls::bytecode_of_another_engine_is_refused),
    (
        "sources_on_a_tape_have_the_caps_of_a_build",
        "tape.sources",
        walls::tapes::sources_on_a_tape_have_the_caps_of_a_build,
    ),
    ("trust_is_remembered_by_nobody_else", "trust.remembered", walls::trust_is_remembered_by_nobody_else),
    #[cfg(target_os = "linux")]
    ("a_long_session_is_not_held", "session.cached-bytes", long::a_long_session_is_not_held),
    ("a_reread_entry_is_unchanged_or_an_error", "session.unchanged", long::a_reread_entry_is_unchanged_or_an_error),
    ("a_realm_is_shown_a_part", "session.visible-bytes", long::a_realm_is_shown_a_part),
    ("a_realm_is_not_given_more_than_it_holds", "session.answer-size", long::a_realm_is_not_given_more_than_it_holds),
    #[cfg(target_os = "linux")]
    ("a_mounted_file_system_is_not_entered", "fs.mounts", walls::a_mounted_file_system_is_not_entered),
    #[cfg(target_os = "linux")]
    ("a_worker_speaks_when_it_is_asked", "realm.turns", rogue::a_worker_speaks_when_it_is_asked),
    #[cfg(target_os = "linux")]
    ("a_head_is_counted_before_it_is_read", "realm.head-size", rogue::a_head_is_counted_before_it_is_read),
];

/// Argument that runs one scenario in this process.
const SCENARIO: &str = "--scenario";
/// Exit codes of a scenario.
const HELD: u8 = 0;
const FELL: u8 = 3;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    rogue::enter();
    if let Some(code) = walls::builders::enter() {
        return code;
    }
    let argv: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, wanted] = argv.as_slice()
        && flag == SCENARIO
    {
        let (_, _, scenario) = SCENARIOS.iter().find(|(name, ..)| name == wanted).expect("a scenario");
        return ExitCode::from(if scenario() { HELD } else { FELL });
    }
    let trials = SCENARIOS.iter().flat_map(|(name, guard, _)| {
        [
            Trial::test(*name, || expect(name, None, HELD)),
            Trial::test(format!("{name}::without::{guard}"), || expect(name, Some(guard), FELL)),
        ]
    });
    libtest_mimic::run(&pijs_testkit::arguments(), trials.collect()).exit_code()
}

fn expect(scenario: &str, down: Option<&str>, wanted: u8) -> Result<(), Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([SCENARIO, scenario]).env_remove(guard::VARIABLE);
    if let Some(guard) = down {
        command.env(guard::VARIABLE, guard);
    }
    let output = command.output()?;
    if output.status.code() == Some(wanted.into()) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{scenario}: {}, expected exit status {wanted}\n{said}", output.status).into())
}

/// Answers only synchronous calls.
struct Silent;

impl Connector for Silent {
    fn call(&self, _: Request, _: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        Box::pin(std::future::pending())
    }

    fn call_sync(&self, _: &Request) -> Result<Output, HostcallError> {
        Ok(Output::new(json!({ "value": true })))
    }
}

fn dispatcher() -> (Dispatcher, Caller) {
    let places = Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp");
    let gate = Gate::builder(Policy { mode: Mode::Permissive, ..Policy::default() }, places).build();
    let ledger = Ledger::new(LedgerOptions { session_id: "s".to_owned(), ..Default::default() }, MemorySink::new());
    let dispatcher =
        Dispatcher::builder(gate, ledger, Arc::new(StandingTimer::default())).connector("ui", Arc::new(Silent)).build();
    (dispatcher, Caller::new(Arc::new(Profile::new("path:/x"))))
}

fn call(number: usize, op: &str) -> HostCall {
    let Value::Object(params) = json!({ "op": op, "title": "sure?" }) else { unreachable!("an object") };
    HostCall {
        call_id: format!("c{number}").as_str().into(),
        capability: Capability::new("ui"),
        method: "ui".into(),
        params,
        timeout_ms: None,
        cancel_token: None,
        context: None,
        bytes: Vec::new(),
    }
}

/// D05: the number of an extension's calls in flight is limited.
fn calls_in_flight_are_limited() -> bool {
    let (dispatcher, caller) = dispatcher();
    let most = Quotas::default().in_flight;
    let running: Vec<_> = (0..=most).map(|at| dispatcher.call(&caller, call(at, "notify"), |_, _| {})).collect();
    let in_flight = dispatcher.in_flight(caller.extension());
    drop(running);
    in_flight == most
}

/// U04: the number of open dialogs of an extension is limited.
fn dialogs_are_limited() -> bool {
    let (dispatcher, caller) = dispatcher();
    let most = Quotas::default().dialogs_per_minute;
    let refused = |at| dispatcher.call_sync(&caller, call(at, "confirm")).is_error;
    assert!((0..most).all(|at| !refused(at)), "that many are fine");
    refused(most)
}

/// D01: a call that claims a capability other than the needed one is refused, even if both are permitted.
fn a_call_must_claim_the_capability_it_needs() -> bool {
    let (dispatcher, caller) = dispatcher();
    let honest = call(0, "notify");
    assert!(!dispatcher.call_sync(&caller, honest.clone()).is_error, "what it needs is fine");
    let claimed = HostCall { capability: Capability::new("log"), call_id: "c1".into(), ..honest };
    dispatcher.call_sync(&caller, claimed).is_error
}

/// M14: an extension cannot grow the session beyond the capacity of a realm.
fn a_session_is_filled_so_far() -> bool {
    let session = Session::in_memory(Path::new("/projects/app"), Ambient::system());
    let control = AgentControl::new(session, Arc::new(NoState), Ambient::system());
    let (_, caller) = dispatcher();
    let text = "y".repeat(15 << 20);
    let append = || {
        let Value::Object(params) = json!({ "customType": "flood", "data": text }) else { unreachable!("an object") };
        SessionPort::call_sync(&control, &caller, SessionCall { op: SessionOp::AppendEntry, params }).is_ok()
    };
    assert!((0..4).all(|_| append()), "that much is fine");
    !append()
}

/// M14: each selection counts towards the session's quota.
fn selections_count_towards_the_quota() -> bool {
    let session = Session::in_memory(Path::new("/projects/app"), Ambient::system());
    let control = AgentControl::new(session, Arc::new(NoState), Ambient::system());
    let (_, caller) = dispatcher();
    let call = |op: SessionOp, params: Value| {
        let Value::Object(params) = params else { unreachable!("an object") };
        SessionPort::call_sync(&control, &caller, SessionCall { op, params })
    };
    let text = "y".repeat((64 << 20) - 1000);
    call(SessionOp::AppendEntry, json!({ "customType": "flood", "data": text })).expect("the quota is not reached");
    // The remaining quota is less than ten entries.
    let full = (0..10).any(|_| call(SessionOp::SetSessionName, json!({ "name": "n" })).is_err());
    full && call(SessionOp::SetThinkingLevel, json!({ "level": "high" })).is_err()
}

/// M14: undelivered events do not fill the host's memory.
fn undelivered_events_are_limited() -> bool {
    let session = Session::in_memory(Path::new("/projects/app"), Ambient::system());
    let control = AgentControl::new(session, Arc::new(NoState), Ambient::system());
    let (_, caller) = dispatcher();
    let call = || {
        let Value::Object(params) = json!({ "name": "n" }) else { unreachable!("an object") };
        SessionPort::call_sync(&control, &caller, SessionCall { op: SessionOp::SetSessionName, params }).is_ok()
    };
    assert!((0..1000).all(|_| call()), "that many are fine");
    !call()
}

/// A compromised worker.
#[cfg(target_os = "linux")]
mod rogue {
    use pijs_protocol::wire::{Limits, RealmOptions, Task};
    use pijs_protocol::{Delivery, ExtensionId, HostCall, Message, Now, Seq, SyncReply, Termination, Yield};
    use pijs_realm::frame::{FromWorker, WIRE_VERSION};
    use pijs_realm::seal::{Landlock, Sealed};
    use pijs_realm::{ProcessError, ProcessOptions, ProcessRealm, Progress, Realm, SyncHost};
    use serde_json::Map;
    use std::os::fd::AsFd;

    /// The argument with which the host starts its workers.
    const WORKER: &str = "--pijs-realm-worker";

    /// Sends all messages at once, then reads until it is killed.
    #[expect(clippy::exit, reason = "it is no test and returns to nobody")]
    pub(super) fn enter() {
        if std::env::args().nth(1).is_none_or(|argument| argument != WORKER) {
            return;
        }
        let mut said = Vec::new();
        let sealed = Sealed { landlock: Landlock::Full, seccomp: true };
        let all = [
            FromWorker::Hello { wire: WIRE_VERSION },
            FromWorker::Ready(sealed),
            FromWorker::Yielded(Yield::default()),
            // No delivery preceded this one.
            FromWorker::Yielded(Yield::default()),
        ];
        for message in all {
            message.encode(&mut said).expect("a frame");
        }
        let stdin = std::io::stdin();
        let mut rest = said.as_slice();
        while let Ok(written @ 1..) = rustix::io::write(stdin.as_fd(), rest) {
            rest = &rest[written..];
        }
        let mut buffer = [0; 4096];
        while matches!(rustix::io::read(stdin.as_fd(), &mut buffer), Ok(1..)) {}
        std::process::exit(0);
    }

    struct NoHost;

    impl SyncHost for NoHost {
        fn call(&mut self, call: HostCall) -> SyncReply {
            panic!("the rogue asks for nothing: {call:?}")
        }
    }

    /// E30: a worker's answer that precedes its delivery is invalid.
    pub(super) fn a_worker_speaks_when_it_is_asked() -> bool {
        let options = RealmOptions {
            extension: ExtensionId::from("path:/rogue"),
            limits: Limits::default(),
            seed: 1,
            clock_step_us: 0,
            time_zone: "UTC".to_owned(),
            facts: Map::new(),
        };
        let opened = ProcessRealm::open(&options, &[], Now::default(), &mut NoHost, ProcessOptions::default());
        let mut realm = match opened {
            Ok((realm, _)) => realm,
            Err(ProcessError::Ended(Termination::Protocol { .. })) => return true,
            Err(other) => panic!("{other}"),
        };
        let message = Message::SignalAborted { signal: 1 };
        let delivery =
            Delivery { seq: Seq(1), now: Now::default(), task: Task::Message(Box::new(message)), state: None };
        match realm.start(delivery, &mut NoHost) {
            Progress::Ended(Termination::Protocol { .. }) => true,
            Progress::Yielded(_) => false,
            other => panic!("{other:?}"),
        }
    }

    /// E30: a message that would need fifty times its length in memory is refused before it is decoded.
    pub(super) fn a_head_is_counted_before_it_is_read() -> bool {
        let many = format!(r#"{{"yielded":{{"messages":[{}0]}}}}"#, "0,".repeat(3 << 20));
        let length = u32::try_from(many.len()).expect("short").to_le_bytes();
        let frame = [b"J".as_slice(), &length, many.as_bytes()].concat();
        // The message is refused either way; the error shows whether it was decoded.
        let error = FromWorker::decode(&frame).expect_err("a number is not a message");
        error.to_string().contains("values")
    }
}
