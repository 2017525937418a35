//! Tests a realm in this thread, through the trait that processes implement as well.

mod support;

use pijs_artifact::Verified;
use pijs_protocol::wire::StreamAnswer;
use pijs_protocol::{Message, Now, Seq, Termination};
use pijs_realm::{Patience, Progress, Realm, ThreadRealm};
use serde_json::json;
use std::sync::Arc;
use support::{NoHost, channels, delivery, delta, host_modules, options};

fn open(modules: Vec<Arc<Verified>>) -> ThreadRealm {
    ThreadRealm::open(&options(), modules).expect("a realm")
}

#[test]
fn the_first_turn_also_evaluates_the_runtime() {
    let mut realm = open(vec![host_modules()]);
    assert_eq!(channels(&realm.start(delivery(1, "a"), &mut NoHost)), ["boot", "bus_event"]);
    let second = realm.start(delivery(2, "b"), &mut NoHost);
    assert_eq!(channels(&second), ["bus_event"]);
    let Progress::Yielded(done) = second else { panic!("yields") };
    let Message::BusEmit(event) = &done.messages[0] else { panic!("emits") };
    assert_eq!(event.data, json!({"channel": "b", "data": null}));
}

#[test]
fn a_delta_may_come_first() {
    let mut realm = open(vec![host_modules()]);
    let done = realm.stream(Seq(1), Now::default(), &delta("stop"), &mut NoHost).expect("the realm is running");
    assert!(matches!(done.stream, StreamAnswer::Abort(_)));
    assert_eq!(done.messages.len(), 1, "what the boot said");
}

#[test]
fn a_realm_that_ended_stays_ended() {
    let mut realm = open(vec![host_modules()]);
    let ended = Progress::Ended(Termination::Timeout { quota: "fuel".to_owned() });
    assert_eq!(realm.start(delivery(1, "spin"), &mut NoHost), ended);
    assert_eq!(realm.start(delivery(2, "a"), &mut NoHost), ended);
}

#[test]
fn a_missing_runtime_ends_the_realm_with_its_name() {
    match open(Vec::new()).start(delivery(1, "a"), &mut NoHost) {
        Progress::Ended(Termination::HostBug { detail }) => assert!(detail.contains("pi:runtime"), "{detail}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_thread_realm_has_nothing_to_resume() {
    let mut realm = open(vec![host_modules()]);
    let resumed = realm.resume(&mut NoHost, Patience::Poll);
    assert!(matches!(resumed, Progress::Ended(Termination::Protocol { .. })), "{resumed:?}");
}
