//! Tests realms in sealed processes. Has its own `main`, because workers run this program.

#![cfg(target_os = "linux")]

mod attempts;
mod batches;
mod component;
mod forked;
mod hostile;
mod prepared;
mod support;

use libtest_mimic::{Arguments, Trial};
use pijs_protocol::wire::{Limits, RealmOptions, StreamAnswer};
use pijs_protocol::{HostCall, HostResult, Message, Now, Seq, SyncReply, Termination, Yield};
use pijs_realm::seal::Landlock;
use pijs_realm::{
    Attention, Patience, ProcessError, ProcessOptions, ProcessRealm, Progress, Realm, Restrictions, SyncHost,
    ThreadRealm,
};
use rustix::process::{Pid, Signal, getpgid, kill_process, test_kill_process};
use serde_json::{Value, json};
use std::cell::Cell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use support::{NoHost, channels, deliver, delivery, delta, host_modules, options};

fn main() -> ExitCode {
    pijs_realm::worker::enter();
    attempts::enter();
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = TESTS
        .iter()
        .chain(prepared::TESTS)
        .chain(component::TESTS)
        .chain(forked::TESTS)
        .chain(batches::TESTS)
        .map(|(name, test)| {
            Trial::test(*name, move || {
                test();
                Ok(())
            })
        })
        .collect();
    trials.extend(TESTS.iter().chain(hostile::TESTS).map(|(name, test)| {
        Trial::test(format!("forked::{name}"), move || {
            FORKED.set(true);
            test();
            FORKED.set(false);
            Ok(())
        })
    }));
    trials.extend(hostile::TESTS.iter().map(|(name, test)| {
        Trial::test(format!("hostile::{name}"), move || {
            test();
            Ok(())
        })
    }));
    trials.extend(attempts::ALL.iter().map(|attempt| {
        Trial::test(format!("a_sealed_process_cannot::{}", attempt.name), move || {
            attempts::is_prevented(attempt);
            Ok(())
        })
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}

const TESTS: &[(&str, fn())] = &[
    ("a_process_answers_like_a_thread", a_process_answers_like_a_thread),
    ("fuel_falls_in_the_turns_in_which_it_does_in_a_thread", fuel_falls_in_the_turns_in_which_it_does_in_a_thread),
    ("a_delta_gets_its_verdict", a_delta_gets_its_verdict),
    ("synchronous_calls_are_answered_with_their_bytes", synchronous_calls_are_answered_with_their_bytes),
    ("attachments_of_a_hostcall_arrive", attachments_of_a_hostcall_arrive),
    ("large_yields_arrive_whole", large_yields_arrive_whole),
    ("both_seals_are_effective", both_seals_are_effective),
    ("no_builtin_makes_a_forbidden_call", no_builtin_makes_a_forbidden_call),
    ("local_time_is_that_of_the_zone", local_time_is_that_of_the_zone),
    ("a_worker_has_a_socket_and_no_environment", a_worker_has_a_socket_and_no_environment),
    ("a_worker_killed_at_any_moment_ends_its_turn_once", a_worker_killed_at_any_moment_ends_its_turn_once),
    ("a_program_without_the_protocol_is_refused", a_program_without_the_protocol_is_refused),
    ("a_killed_worker_ends_the_realm_once_and_for_all", a_killed_worker_ends_the_realm_once_and_for_all),
    ("fuel_ends_a_loop_politely", fuel_ends_a_loop_politely),
    ("a_builtin_that_cannot_be_interrupted_is_killed", a_builtin_that_cannot_be_interrupted_is_killed),
    ("a_stopped_delta_is_killed", a_stopped_delta_is_killed),
    ("calls_without_end_meet_the_deadline", calls_without_end_meet_the_deadline),
    ("a_request_between_turns_stops_nothing", a_request_between_turns_stops_nothing),
    ("exhausted_memory_is_reported", exhausted_memory_is_reported),
    ("a_turn_can_be_waited_for_in_pieces", a_turn_can_be_waited_for_in_pieces),
    ("a_program_that_is_no_worker_is_reported", a_program_that_is_no_worker_is_reported),
    ("no_forbidden_operation_works", attempts::no_forbidden_operation_works),
    ("an_answer_may_come_later", an_answer_may_come_later),
    ("calls_in_quick_succession_are_resumed_at_once", calls_in_quick_succession_are_resumed_at_once),
    ("ctrl_c_in_the_terminal_spares_it", ctrl_c_in_the_terminal_spares_it),
    ("a_dropped_realm_leaves_no_process", a_dropped_realm_leaves_no_process),
];

/// Answers every call with its bytes reversed.
struct ReversingHost {
    calls: usize,
}

impl SyncHost for ReversingHost {
    fn call(&mut self, call: HostCall) -> SyncReply {
        self.calls += 1;
        let HostCall { call_id, bytes, .. } = call;
        let bytes = bytes.into_iter().map(|bytes| bytes.into_iter().rev().collect()).collect();
        let result = HostResult::ok_with_bytes(call_id, json!({ "calls": self.calls }), bytes);
        SyncReply { result, now: Now::default(), state: None }
    }
}

thread_local! {
    /// Whether realms are forked from a zygote. Every test runs both ways.
    static FORKED: Cell<bool> = const { Cell::new(false) };
}

fn open_with(options: &RealmOptions, process: ProcessOptions) -> (ProcessRealm, Yield) {
    if FORKED.get() {
        let modules = host_modules();
        return forked::open(&mut forked::zygote(process, options, &modules), options, &modules);
    }
    let opened = ProcessRealm::open(options, &[host_modules()], Now::default(), &mut NoHost, process);
    opened.unwrap_or_else(|error| panic!("{error}"))
}

fn open() -> ProcessRealm {
    open_with(&options(), ProcessOptions::default()).0
}

/// Returns options with unlimited fuel, so that only the deadline ends a turn.
fn unlimited_fuel() -> RealmOptions {
    RealmOptions { limits: Limits { fuel: u64::MAX, stream_fuel: u64::MAX, ..Limits::default() }, ..options() }
}

fn short_deadlines() -> ProcessOptions {
    ProcessOptions { turn: Duration::from_millis(200), stream: Duration::from_millis(200), ..ProcessOptions::default() }
}

/// Runs one turn to its end.
fn run(realm: &mut ProcessRealm, seq: u64, channel: &str, data: Value, host: &mut dyn SyncHost) -> Progress {
    let mut progress = realm.start(deliver(seq, channel, data), host);
    // Bounded by the realm's own deadline.
    while progress == Progress::Running {
        progress = realm.resume(host, Patience::AtMost(Duration::from_millis(50)));
    }
    progress
}

fn messages(progress: Progress) -> Vec<Message> {
    match progress {
        Progress::Yielded(done) => done.messages,
        other => panic!("{other:?}"),
    }
}

fn emitted(progress: Progress) -> Value {
    match messages(progress).as_slice() {
        [Message::BusEmit(event)] => event.data.clone(),
        other => panic!("{other:?}"),
    }
}

fn timeout(quota: &str) -> Termination {
    Termination::Timeout { quota: quota.to_owned() }
}

fn a_process_answers_like_a_thread() {
    let (mut process, booted) = open_with(&options(), ProcessOptions::default());
    let mut thread = ThreadRealm::open(&options(), vec![host_modules()]).expect("a realm");
    assert_eq!(Ok(booted), thread.boot(Now::default(), &mut NoHost));
    for (seq, channel) in (1..).zip(["a", "b", "", "request"]) {
        let expected = without_heap_bytes(thread.start(delivery(seq, channel), &mut NoHost));
        assert_eq!(without_heap_bytes(run(&mut process, seq, channel, Value::Null, &mut NoHost)), expected);
    }
    for (seq, chunk) in (5..).zip(["x", "stop", "\u{10ffff}"]) {
        let now = Now { epoch_ms: seq, elapsed_us: seq };
        let expected = thread.stream(Seq(seq), now, &delta(chunk), &mut NoHost).map(Progress::Yielded);
        let streamed = process.stream(Seq(seq), now, &delta(chunk), &mut NoHost).map(Progress::Yielded);
        assert_eq!(streamed.map(without_heap_bytes), expected.map(without_heap_bytes));
    }
}

/// Fuel is consumed in the same turns as in a thread. The engine polls every 10,000 steps across turns, so a single additional
/// step before the first turn shows in one of many turns.
fn fuel_falls_in_the_turns_in_which_it_does_in_a_thread() {
    const TURNS: u64 = 6_000;
    let (mut process, _) = open_with(&options(), ProcessOptions::default());
    let mut thread = ThreadRealm::open(&options(), vec![host_modules()]).expect("a realm");
    thread.boot(Now::default(), &mut NoHost).expect("it boots");
    let fuel = |progress: Progress| match progress {
        Progress::Yielded(done) => done.usage.fuel,
        other => panic!("{other:?}"),
    };
    let mut polls = 0;
    for (seq, channel) in (1..TURNS).zip(["a", "b", "", "a", "request"].into_iter().cycle()) {
        let expected = fuel(thread.start(delivery(seq, channel), &mut NoHost));
        assert_eq!(fuel(run(&mut process, seq, channel, Value::Null, &mut NoHost)), expected, "turn {seq}");
        polls += expected;
    }
    assert!(polls > 2, "{polls} polls tell nothing");
}

/// Removes the heap size, in which alone a forked process may differ.
fn without_heap_bytes(progress: Progress) -> Progress {
    match progress {
        Progress::Yielded(mut done) => {
            done.usage.heap_bytes = 0;
            Progress::Yielded(done)
        }
        other => other,
    }
}

fn a_delta_gets_its_verdict() {
    let mut realm = open();
    let done = realm.stream(Seq(1), Now::default(), &delta("stop"), &mut NoHost).expect("the realm is running");
    assert!(matches!(done.stream, StreamAnswer::Abort(_)), "{done:?}");
    let done = realm.stream(Seq(2), Now::default(), &delta("go on"), &mut NoHost).expect("the realm is running");
    assert_eq!(done.stream, StreamAnswer::Continue);
}

fn synchronous_calls_are_answered_with_their_bytes() {
    let mut realm = open();
    let mut mirror = ReversingHost { calls: 0 };
    for calls in 1..=3 {
        let answer = emitted(run(&mut realm, calls, "ask", Value::Null, &mut mirror));
        assert_eq!(answer, json!({ "output": { "calls": calls }, "first": [3, 2, 1] }));
    }
}

fn attachments_of_a_hostcall_arrive() {
    let mut realm = open();
    match messages(run(&mut realm, 1, "request", Value::Null, &mut NoHost)).as_slice() {
        [Message::HostCall(call)] => assert_eq!(call.bytes, [[4, 5]]),
        other => panic!("{other:?}"),
    }
}

fn large_yields_arrive_whole() {
    let mut realm = open();
    for length in [100_000, 5_000_000, 1] {
        let data = emitted(run(&mut realm, 1, "large", json!(length), &mut NoHost));
        assert_eq!(data.as_str().map(str::len), Some(length));
    }
}

/// The machines of this project support both seals; elsewhere this test reports the missing one.
fn both_seals_are_effective() {
    let sealed = open().sealed();
    assert!(sealed.holds(), "{sealed}");
    assert_ne!(sealed.landlock, Landlock::None, "{sealed}");
}

fn no_builtin_makes_a_forbidden_call() {
    let limits = Limits { fuel: u64::MAX, jobs: u32::MAX, ..Limits::default() };
    let patient = ProcessOptions { turn: Duration::from_secs(120), ..ProcessOptions::default() };
    let (mut realm, _) = open_with(&RealmOptions { limits, ..options() }, patient);
    let progress = run(&mut realm, 1, "everything", Value::Null, &mut NoHost);
    let said = messages(progress);
    let names = said.iter().find_map(|message| match message {
        Message::BusEmit(event) if event.channel == "called" => event.data.as_array().cloned(),
        _ => None,
    });
    let names = names.unwrap_or_else(|| panic!("{said:?}"));
    assert!(names.len() > 500, "only {} functions were found", names.len());
    for known in ["localeCompare", "toLocaleString", "exec", "setUrlPart", "getTimezoneOffset"] {
        assert!(names.contains(&json!(known)), "{known} was not called");
    }
    assert_eq!(channels(&run(&mut realm, 2, "a", Value::Null, &mut NoHost)), ["bus_event"]);
}

fn local_time_is_that_of_the_zone() {
    // A POSIX rule requires no zone files.
    let process = ProcessOptions { time_zone: Some("XYZ-5:30".into()), ..ProcessOptions::default() };
    let (mut realm, _) = open_with(&options(), process);
    let data = emitted(run(&mut realm, 1, "localTime", Value::Null, &mut NoHost));
    assert_eq!(data[1], json!(-330), "{data}");
}

fn a_worker_has_a_socket_and_no_environment() {
    let realm = open();
    let proc = PathBuf::from(format!("/proc/{}", realm.id()));
    let environment = std::fs::read(proc.join("environ")).expect("the worker is running");
    assert_eq!(String::from_utf8_lossy(&environment), "");
    assert_eq!(std::fs::read_link(proc.join("cwd")).expect("the worker is running"), PathBuf::from("/"));
    let files: Vec<PathBuf> = std::fs::read_dir(proc.join("fd"))
        .expect("the worker is running")
        .map(|entry| std::fs::read_link(entry.expect("a descriptor").path()).expect("it is open"))
        .collect();
    let [socket] = files.as_slice() else { panic!("{files:?}") };
    assert!(socket.to_string_lossy().starts_with("socket:"), "{socket:?}");
    let standing = realm.restrictions().expect("the worker is running");
    let memory = options().limits.memory_bytes + (1 << 30);
    let expected = Restrictions {
        filters_calls: true,
        open_files: 1,
        environment_bytes: 0,
        address_space_bytes: Some(memory),
        processes: Some(0),
        file_bytes: Some(0),
        out_of_memory_score: 800,
    };
    assert_eq!(standing, expected);
}

/// Defers every call.
struct DeferringHost(Option<HostCall>);

impl SyncHost for DeferringHost {
    fn call(&mut self, call: HostCall) -> SyncReply {
        panic!("asked to wait for {call:?}")
    }

    fn begin(&mut self, call: HostCall) -> Option<SyncReply> {
        self.0 = Some(call);
        None
    }
}

fn calls_in_quick_succession_are_resumed_at_once() {
    let patient = ProcessOptions { turn: Duration::from_secs(120), ..ProcessOptions::default() };
    let (mut realm, _) = open_with(&unlimited_fuel(), patient);
    let mut mirror = ReversingHost { calls: 0 };
    let mut progress = realm.start(deliver(1, "nag", Value::Null), &mut mirror);
    // Bounded by the realm's deadline. A busy machine interrupts the sequence of calls, so polls may end early.
    while progress == Progress::Running && (mirror.calls <= 1 || !matches!(realm.attention(), Some(Attention::AtOnce)))
    {
        progress = realm.resume(&mut mirror, Patience::AtMost(Duration::from_millis(5)));
    }
    assert_eq!(progress, Progress::Running);
}

fn an_answer_may_come_later() {
    // The time that the host takes does not count. The limit of the turn is long enough for a busy machine.
    let turn = Duration::from_secs(3);
    let (mut realm, _) = open_with(&options(), ProcessOptions { turn, ..short_deadlines() });
    let mut host = DeferringHost(None);
    let mut progress = realm.start(delivery(1, "ask"), &mut host);
    while host.0.is_none() {
        assert_eq!(progress, Progress::Running);
        progress = realm.resume(&mut host, Patience::AtMost(Duration::from_millis(50)));
    }
    let attention = realm.attention().expect("a turn");
    assert!(
        matches!(attention, Attention::When { by: None, .. }),
        "only the answer can change anything: {attention:?}"
    );
    std::thread::sleep(turn + Duration::from_millis(200));
    assert_eq!(realm.resume(&mut host, Patience::Poll), Progress::Running);
    assert!(realm.pulse().is_none(), "it lives and waits");
    let reply = ReversingHost { calls: 0 }.call(host.0.take().expect("asked"));
    realm.answer(reply);
    while progress == Progress::Running {
        progress = realm.resume(&mut host, Patience::AtMost(Duration::from_millis(50)));
    }
    assert_eq!(emitted(progress), json!({ "output": { "calls": 1 }, "first": [3, 2, 1] }));
    assert!(realm.attention().is_none());
}

fn a_killed_worker_ends_the_realm_once_and_for_all() {
    let mut realm = open();
    let worker = Pid::from_raw(realm.id().cast_signed()).expect("a process id");
    kill_process(worker, Signal::KILL).expect("the realm is running");
    let ended = Progress::Ended(Termination::Crashed { detail: "killed by SIGKILL".to_owned() });
    assert_eq!(run(&mut realm, 1, "a", Value::Null, &mut NoHost), ended);
    assert_eq!(run(&mut realm, 2, "a", Value::Null, &mut NoHost), ended);
    assert!(realm.stream(Seq(3), Now::default(), &delta("x"), &mut NoHost).is_err());
}

/// Number of kills in the long series and in CI: enough to hit a worker while it reads, runs and writes.
const KILLS: [u32; 2] = [10_000, 100];

fn a_worker_killed_at_any_moment_ends_its_turn_once() {
    let crashed = Termination::Crashed { detail: "killed by SIGKILL".to_owned() };
    let [all, share] = KILLS;
    let rounds = if std::env::var_os("PIJS_LONG").is_some() { all } else { share };
    for round in 0..rounds {
        let mut realm = open();
        let worker = Pid::from_raw(realm.id().cast_signed()).expect("a process id");
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(u64::from(round % 100) * 37));
            kill_process(worker, Signal::KILL).expect("not reaped before it is dead")
        });
        let mut turns = 0;
        let ended = loop {
            turns += 1;
            match run(&mut realm, turns, "large", json!(1000 * (round % 100)), &mut NoHost) {
                Progress::Yielded(done) => assert_eq!(done.messages.len(), 1, "a whole turn"),
                other => break other,
            }
        };
        assert_eq!(ended, Progress::Ended(crashed.clone()), "in round {round}");
        assert_eq!(run(&mut realm, turns, "a", Value::Null, &mut NoHost), ended);
        killer.join().expect("it killed");
    }
}

fn a_program_without_the_protocol_is_refused() {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let cases = [
        ("huge.sh", "a frame of 4294967295 bytes"),
        ("nonsense.sh", "a frame of unexpected kind 90"),
        ("silent.sh", "sent nothing"),
        ("gone.sh", "ended (exit status 3)"),
    ];
    for (script, words) in cases {
        // Enough time to start a shell; for the silent one, all of it is spent waiting.
        let hello = Duration::from_secs(if script == "silent.sh" { 1 } else { 60 });
        let process = ProcessOptions { program: fixtures.join(script), hello, ..ProcessOptions::default() };
        let opened = ProcessRealm::open(&options(), &[host_modules()], Now::default(), &mut NoHost, process);
        let error = opened.err().expect("there is no worker").to_string();
        assert!(error.contains(words) && error.contains("pijs_realm::worker::enter()"), "{script}: {error}");
    }
}

fn fuel_ends_a_loop_politely() {
    let mut realm = open();
    assert_eq!(run(&mut realm, 1, "spin", Value::Null, &mut NoHost), Progress::Ended(timeout("fuel")));
    assert_eq!(run(&mut realm, 2, "a", Value::Null, &mut NoHost), Progress::Ended(timeout("fuel")));
}

fn a_builtin_that_cannot_be_interrupted_is_killed() {
    let (mut realm, _) = open_with(&options(), short_deadlines());
    assert_eq!(run(&mut realm, 1, "stuck", Value::Null, &mut NoHost), Progress::Ended(timeout("deadline")));
}

fn a_stopped_delta_is_killed() {
    let patient = ProcessOptions { stream: Duration::from_secs(600), ..ProcessOptions::default() };
    let (mut realm, _) = open_with(&unlimited_fuel(), patient);
    let stop = realm.stopper();
    let watchdog = std::thread::spawn(move || {
        // Only a running turn can be stopped, but this thread cannot observe when the turn runs.
        for _ in 0..12_000 {
            std::thread::sleep(Duration::from_millis(10));
            stop();
        }
    });
    let ended = realm.stream(Seq(1), Now::default(), &delta("stuck"), &mut NoHost);
    assert_eq!(ended, Err(timeout("deadline")));
    drop(watchdog);
}

fn calls_without_end_meet_the_deadline() {
    // Enough time for the first call of a worker on a busy machine.
    let (mut realm, _) =
        open_with(&unlimited_fuel(), ProcessOptions { turn: Duration::from_secs(3), ..short_deadlines() });
    let mut mirror = ReversingHost { calls: 0 };
    assert_eq!(run(&mut realm, 1, "nag", Value::Null, &mut mirror), Progress::Ended(timeout("deadline")));
    assert!(mirror.calls > 0);
}

fn a_request_between_turns_stops_nothing() {
    let mut realm = open();
    realm.interrupt();
    realm.stopper()();
    assert_eq!(channels(&run(&mut realm, 1, "a", Value::Null, &mut NoHost)), ["bus_event"]);
}

fn exhausted_memory_is_reported() {
    let limits = Limits { memory_bytes: 16 << 20, ..options().limits };
    let (mut realm, _) = open_with(&RealmOptions { limits, ..options() }, ProcessOptions::default());
    let ended = run(&mut realm, 1, "hoard", Value::Null, &mut NoHost);
    assert_eq!(ended, Progress::Ended(Termination::OutOfMemory));
}

fn a_turn_can_be_waited_for_in_pieces() {
    let (mut realm, _) = open_with(&options(), ProcessOptions { turn: Duration::from_secs(3), ..short_deadlines() });
    assert_eq!(realm.start(delivery(1, "stuck"), &mut NoHost), Progress::Running);
    assert_eq!(realm.resume(&mut NoHost, Patience::Poll), Progress::Running);
    let ended = realm.resume(&mut NoHost, Patience::AtMost(Duration::from_secs(600)));
    assert_eq!(ended, Progress::Ended(timeout("deadline")));
}

fn a_program_that_is_no_worker_is_reported() {
    for (program, word) in [("/bin/true", "ended (exit status 0)"), ("/nowhere/at/all", "cannot start")] {
        let process = ProcessOptions { program: program.into(), ..ProcessOptions::default() };
        let opened = ProcessRealm::open(&options(), &[host_modules()], Now::default(), &mut NoHost, process);
        let error = opened.err().expect("there is no worker");
        let text = error.to_string();
        assert!(text.contains(program) && text.contains(word), "{text}");
        let is_missing_enter = matches!(error, ProcessError::NoWorker { .. });
        assert_eq!(is_missing_enter, text.contains("pijs_realm::worker::enter()"), "{text}");
    }
}

/// A worker survives Ctrl-C: the terminal signals only the group of the program that it waits for.
fn ctrl_c_in_the_terminal_spares_it() {
    let realm = open();
    let worker = Pid::from_raw(realm.id().cast_signed()).expect("a process id");
    assert_eq!(getpgid(Some(worker)), Ok(worker));
}

fn a_dropped_realm_leaves_no_process() {
    let realm = open();
    let id = realm.id();
    drop(realm);
    let worker = Pid::from_raw(id.cast_signed()).expect("a process id");
    assert_eq!(test_kill_process(worker), Err(rustix::io::Errno::SRCH));
}
