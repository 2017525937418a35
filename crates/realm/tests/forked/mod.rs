//! Tests workers that are forked from a zygote. The tests common to all workers, in `process.rs`, also run with forked ones.

use crate::run;
use crate::support::{NoHost, channels, delta, host_modules, options};
use pijs_artifact::Verified;
use pijs_protocol::wire::{Limits, RealmOptions};
use pijs_protocol::{ExtensionId, Now, Seq, Yield};
use pijs_realm::{ProcessOptions, ProcessRealm, Progress, Realm, SharedCode, Spare, Zygote};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("copies_share_no_value", copies_share_no_value),
    ("a_copy_outlives_its_zygote", a_copy_outlives_its_zygote),
    ("a_copy_is_for_any_extension", a_copy_is_for_any_extension),
    ("a_copy_with_other_options_is_replaced", a_copy_with_other_options_is_replaced),
    ("a_zygote_that_died_makes_no_copy", a_zygote_that_died_makes_no_copy),
    ("copies_share_pages", copies_share_pages),
    ("a_copy_returns_the_memory_of_a_message", a_copy_returns_the_memory_of_a_message),
    ("an_idle_copy_returns_unchanged_pages", an_idle_copy_returns_unchanged_pages),
];

/// Creates a zygote with these modules.
pub(crate) fn zygote(process: ProcessOptions, options: &RealmOptions, modules: &Arc<Verified>) -> Zygote {
    let spare = Spare::start(process).expect("a process");
    Zygote::of(spare, options, modules, Now::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Opens a realm in a forked worker.
pub(crate) fn open(zygote: &mut Zygote, options: &RealmOptions, modules: &Arc<Verified>) -> (ProcessRealm, Yield) {
    let copy = zygote.fork().unwrap_or_else(|error| panic!("{error}"));
    let opening = copy.open(options, &[Arc::clone(modules)], Now::default());
    opening.and_then(|opening| opening.finish(&mut NoHost)).unwrap_or_else(|error| panic!("{error}"))
}

fn parent_of(process: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the realm is running");
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("the kernel tells");
    line.trim().parse().expect("a number")
}

fn answers(realm: &mut ProcessRealm) {
    assert_eq!(channels(&run(realm, 1, "a", Value::Null, &mut NoHost)), ["bus_event"]);
}

fn copies_share_no_value() {
    let modules = host_modules();
    let mut zygote = zygote(ProcessOptions::default(), &options(), &modules);
    let mut realms: Vec<_> = (0..3).map(|_| open(&mut zygote, &options(), &modules).0).collect();
    for (realm, expected) in realms.iter_mut().zip([["first"]; 3]) {
        assert_eq!(channels(&run(realm, 1, "count", Value::Null, &mut NoHost)), expected);
    }
    assert_eq!(channels(&run(&mut realms[1], 2, "count", Value::Null, &mut NoHost)), ["again"]);
}

fn a_copy_outlives_its_zygote() {
    let modules = host_modules();
    let mut zygote = zygote(ProcessOptions::default(), &options(), &modules);
    let (mut realm, _) = open(&mut zygote, &options(), &modules);
    assert_eq!(parent_of(realm.id()), std::process::id(), "its host waits for it");
    drop(zygote);
    answers(&mut realm);
    assert!(realm.stream(Seq(2), Now::default(), &delta("x"), &mut NoHost).is_ok());
}

fn a_copy_is_for_any_extension() {
    let modules = host_modules();
    let mut zygote = zygote(ProcessOptions::default(), &options(), &modules);
    for name in ["one", "another"] {
        let options = RealmOptions { extension: ExtensionId::new(name), ..options() };
        let copy = zygote.fork().expect("a copy");
        let id = copy.id();
        let opening = copy.open(&options, &[Arc::clone(&modules)], Now::default()).expect("it takes the modules");
        let (mut realm, _) = opening.finish(&mut NoHost).expect("it makes a realm");
        assert_eq!(realm.id(), id, "it is the copy");
        answers(&mut realm);
    }
}

fn a_copy_with_other_options_is_replaced() {
    let modules = host_modules();
    let mut zygote = zygote(ProcessOptions::default(), &options(), &modules);
    let smaller = Limits { memory_bytes: 64 << 20, ..Limits::default() };
    let facts = json!({ "cwd": "/elsewhere" }).as_object().cloned().expect("an object");
    let others = [
        (RealmOptions { limits: smaller, ..options() }, Arc::clone(&modules)),
        (RealmOptions { facts, ..options() }, Arc::clone(&modules)),
        (RealmOptions { seed: 7, ..options() }, Arc::clone(&modules)),
        (RealmOptions { clock_step_us: 7, ..options() }, Arc::clone(&modules)),
        (RealmOptions { time_zone: "Asia/Tokyo".to_owned(), ..options() }, Arc::clone(&modules)),
        (options(), host_modules()),
    ];
    for (options, modules) in others {
        let copy = zygote.fork().expect("a copy");
        let id = copy.id();
        let opening = copy.open(&options, &[modules], Now::default()).expect("another takes the modules");
        let (mut realm, _) = opening.finish(&mut NoHost).expect("it makes a realm");
        assert_ne!(realm.id(), id, "it would run with what the zygote was made with");
        answers(&mut realm);
    }
}

fn a_zygote_that_died_makes_no_copy() {
    let modules = host_modules();
    let spare = Spare::start(ProcessOptions::default()).expect("a process");
    let id = Pid::from_raw(spare.id().cast_signed()).expect("a process");
    let mut zygote = Zygote::of(spare, &options(), &modules, Now::default()).expect("it takes the modules");
    let (mut realm, _) = open(&mut zygote, &options(), &modules);
    kill_process(id, Signal::KILL).expect("it is ours");
    let Err(error) = zygote.fork().map(drop) else { panic!("a dead process was copied") };
    assert!(error.to_string().contains("crashed"), "{error}");
    answers(&mut realm);
}

/// The private memory of a copy is smaller than that of a started worker.
fn copies_share_pages() {
    let modules = host_modules();
    let process = ProcessOptions { shared_code: Some(Arc::new(SharedCode::default())), ..ProcessOptions::default() };
    let mut zygote = zygote(process.clone(), &options(), &modules);
    let (copy, _) = open(&mut zygote, &options(), &modules);
    let spare = Spare::start(process).expect("a process");
    let opening = spare.open(&options(), &[modules], Now::default()).expect("it takes the modules");
    let (started, _) = opening.finish(&mut NoHost).expect("it makes a realm");
    let (copied, started) = (own_kb(copy.id()), own_kb(started.id()));
    assert!(copied < started, "{copied} KB in a copy, {started} KB in a worker that was started");
}

/// Memory that a large message used is returned to the system, if no part of the message is kept.
fn a_copy_returns_the_memory_of_a_message() {
    let modules = host_modules();
    let mut zygote = zygote(ProcessOptions::default(), &options(), &modules);
    let (mut copy, _) = open(&mut zygote, &options(), &modules);
    // The worker returns it after its answer and before the next message.
    let mut own_after = |data: Value| {
        for data in [data, Value::Null] {
            assert_eq!(channels(&run(&mut copy, 1, "count", data, &mut NoHost)).len(), 1);
        }
        own_kb(copy.id())
    };
    let small = own_after(Value::Null);
    let large = own_after((0..2_000).map(|number| json!({ "number": number, "text": "x".repeat(40) })).collect());
    assert!(large < small + 200, "{small} KB before, {large} KB after");
}

/// An idle copy returns pages that equal the zygote's, and keeps the others.
fn an_idle_copy_returns_unchanged_pages() {
    let modules = host_modules();
    let mut zygote = zygote(ProcessOptions::default(), &options(), &modules);
    let (mut copy, _) = open(&mut zygote, &options(), &modules);
    // Other copies that share pages with the zygote.
    let _others: Vec<_> = (0..2).map(|_| open(&mut zygote, &options(), &modules).0).collect();
    let mut told = Vec::new();
    for round in 0..3 {
        // Measured between consecutive turns: on a busy machine a copy may become idle before one measurement, but not before
        // each.
        let (mut own, mut resident) = (0, 0);
        for _ in 0..20 {
            let Progress::Yielded(done) = run(&mut copy, 1, "localTime", Value::Null, &mut NoHost) else {
                panic!("round {round}: it does not answer")
            };
            told.push(serde_json::to_value(&done.messages).expect("JSON"));
            own = own.max(own_kb(copy.id()));
            resident = resident.max(kb(copy.id(), &["Rss:"]));
        }
        assert_eq!(channels(&run(&mut copy, 2, "count", Value::Null, &mut NoHost)).len(), 1);
        // Unmapped program pages show that it was idle.
        let rests = (0..12_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            kb(copy.id(), &["Rss:"]) + 500 < resident
        });
        assert!(rests, "round {round}: {resident} KB and no less");
        let at_rest = own_kb(copy.id());
        assert!(at_rest < own, "round {round}: {own} KB of its own, and {at_rest} KB at rest");
    }
    assert_eq!(channels(&run(&mut copy, 3, "count", Value::Null, &mut NoHost)), ["again"]);
    assert!(told.windows(2).all(|two| two[0] == two[1]), "it answers as before: {told:?}");
}

/// Returns the private memory of a process in KiB.
fn own_kb(process: u32) -> u64 {
    kb(process, &["Private_Clean:", "Private_Dirty:"])
}

fn kb(process: u32, names: &[&str]) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).expect("the worker is running");
    let of = |name: &&str| {
        let line = rollup.lines().find_map(|line| line.strip_prefix(*name)).expect("the kernel tells");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
    };
    names.iter().map(of).sum()
}
