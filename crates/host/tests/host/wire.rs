//! Everything the host tests put on the wire is held against the generated schemas, as a tape or a worker
//! process would see it.

use jsonschema::Validator;
use pijs_artifact::Verified;
use pijs_host::{InThread, OpenError, OpenRealm, OpenedRealm};
use pijs_protocol::wire::{RealmOptions, Task};
use pijs_protocol::{Delivery, Envelope, HostCall, Message, Now, Seq, StreamDelta, SyncReply, Termination, Yield};
use pijs_realm::{Patience, Progress, Realm, SyncHost};
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, LazyLock};

static DELIVERY: LazyLock<Validator> = LazyLock::new(|| schema("delivery.schema.json"));
static YIELD: LazyLock<Validator> = LazyLock::new(|| schema("yield.schema.json"));
static SYNC_REPLY: LazyLock<Validator> = LazyLock::new(|| schema("sync_reply.schema.json"));
static MESSAGE: LazyLock<Validator> = LazyLock::new(|| schema("extension_protocol.json"));

fn schema(file: &str) -> Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema").join(file);
    let schema: Value = serde_json::from_slice(&std::fs::read(path).expect("a schema")).expect("json");
    jsonschema::validator_for(&schema).expect("a valid schema")
}

#[track_caller]
fn check(validator: &Validator, value: &impl Serialize) {
    let value = serde_json::to_value(value).expect("wire types are JSON");
    let wrong: Vec<String> =
        validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{}\n{value:#}", wrong.join("\n"));
}

fn check_yield(done: &Yield) {
    check(&YIELD, done);
    for message in &done.messages {
        check(&MESSAGE, &Envelope::from(message.clone()));
    }
}

/// Realms whose wire is checked.
pub(crate) struct Checked<O = InThread>(pub(crate) O);

impl<O: OpenRealm> OpenRealm for Checked<O> {
    fn open(
        &self,
        options: &RealmOptions,
        modules: Vec<Arc<Verified>>,
        now: Now,
        host: &mut dyn SyncHost,
    ) -> Result<OpenedRealm, OpenError> {
        let opened = self.0.open(options, modules, now, &mut CheckedHost(host))?;
        check_yield(&opened.booted);
        Ok(OpenedRealm { realm: Box::new(CheckedRealm(opened.realm)), ..opened })
    }
}

struct CheckedRealm(Box<dyn Realm>);

impl CheckedRealm {
    fn checked(progress: Progress) -> Progress {
        if let Progress::Yielded(done) = &progress {
            check_yield(done);
        }
        progress
    }
}

impl Realm for CheckedRealm {
    fn start(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Progress {
        check(&DELIVERY, &delivery);
        if let Task::Message(message) = &delivery.task {
            check(&MESSAGE, &Envelope::from(message.clone()));
        }
        Self::checked(self.0.start(delivery, &mut CheckedHost(host)))
    }

    fn resume(&mut self, host: &mut dyn SyncHost, patience: Patience) -> Progress {
        Self::checked(self.0.resume(&mut CheckedHost(host), patience))
    }

    fn stream(
        &mut self,
        seq: Seq,
        now: Now,
        delta: &StreamDelta,
        host: &mut dyn SyncHost,
    ) -> Result<Yield, Termination> {
        check(&DELIVERY, &Delivery { seq, now, task: Task::Stream(delta.clone()), state: None });
        let done = self.0.stream(seq, now, delta, &mut CheckedHost(host))?;
        check_yield(&done);
        Ok(done)
    }

    fn answer(&mut self, reply: SyncReply) {
        check(&SYNC_REPLY, &reply);
        self.0.answer(reply);
    }

    fn interrupt(&self) {
        self.0.interrupt();
    }

    fn pulse(&mut self) -> Option<Termination> {
        self.0.pulse()
    }

    #[cfg(target_os = "linux")]
    fn attention(&self) -> Option<pijs_realm::Attention> {
        self.0.attention()
    }

    #[cfg(target_os = "linux")]
    fn death(&self) -> Option<std::os::fd::OwnedFd> {
        self.0.death()
    }
}

struct CheckedHost<'a>(&'a mut dyn SyncHost);

impl SyncHost for CheckedHost<'_> {
    fn call(&mut self, call: HostCall) -> SyncReply {
        check(&MESSAGE, &Envelope::from(Message::HostCall(call.clone())));
        let reply = self.0.call(call);
        check(&SYNC_REPLY, &reply);
        reply
    }

    fn begin(&mut self, call: HostCall) -> Option<SyncReply> {
        check(&MESSAGE, &Envelope::from(Message::HostCall(call.clone())));
        self.0.begin(call)
    }
}

/// A check that lets everything pass would prove nothing.
#[test]
#[should_panic(expected = "payload")]
fn a_message_that_is_none_is_noticed() {
    check(&MESSAGE, &serde_json::json!({ "version": "1.0", "type": "tool_call", "payload": { "tool_call_id": 7 } }));
}
