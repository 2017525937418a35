//! Validates everything that the host tests put on the wire against the generated schemas, as a tape or a worker process would
//! see it.

use jsonschema::Validator;
use pijs_artifact::Verified;
use pijs_host::{InThread, OpenError, OpenRealm, OpenedRealm};
use pijs_protocol::wire::{RealmOptions, Task};
use pijs_protocol::{
    Delivery, Envelope, ExtensionId, HostCall, Message, Now, Seq, StreamDelta, SyncReply, Termination, Yield,
};
use pijs_realm::{Patience, Progress, Realm, Streamed, SyncHost};
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

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
        check(&MESSAGE, &Envelope::from(Message::clone(message)));
    }
}

/// Changes the messages of a realm at the end of a turn, after they were validated.
pub(crate) type Meddle = fn(&ExtensionId, &Delivery, &mut Yield);

/// Realms whose messages are validated.
pub(crate) struct Checked<O = InThread> {
    opener: O,
    meddle: Meddle,
}

impl<O> Checked<O> {
    pub(crate) fn new(opener: O) -> Self {
        Self::and_then(opener, |_, _, _| ())
    }

    /// Creates realms whose output `meddle` changes after validation.
    pub(crate) fn and_then(opener: O, meddle: Meddle) -> Self {
        Self { opener, meddle }
    }
}

impl<O: OpenRealm> OpenRealm for Checked<O> {
    fn open(
        &self,
        options: &RealmOptions,
        modules: Vec<Arc<Verified>>,
        now: Now,
        host: &mut dyn SyncHost,
    ) -> Result<OpenedRealm, OpenError> {
        let opened = self.opener.open(options, modules, now, &mut CheckedHost(host))?;
        check_yield(&opened.booted);
        let (extension, meddle) = (options.extension.clone(), self.meddle);
        Ok(OpenedRealm { realm: Box::new(CheckedRealm { realm: opened.realm, extension, meddle }), ..opened })
    }
}

struct CheckedRealm {
    realm: Box<dyn Realm>,
    extension: ExtensionId,
    meddle: Meddle,
}

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
            check(&MESSAGE, &Envelope::from(Message::clone(message)));
        }
        let mut progress = Self::checked(self.realm.start(delivery.clone(), &mut CheckedHost(host)));
        if let Progress::Yielded(done) = &mut progress {
            (self.meddle)(&self.extension, &delivery, done);
        }
        progress
    }

    fn resume(&mut self, host: &mut dyn SyncHost, patience: Patience) -> Progress {
        Self::checked(self.realm.resume(&mut CheckedHost(host), patience))
    }

    fn stream(
        &mut self,
        seq: Seq,
        now: Now,
        delta: &StreamDelta,
        host: &mut dyn SyncHost,
    ) -> Result<Yield, Termination> {
        check(&DELIVERY, &Delivery { seq, now, task: Task::Stream(delta.clone()), state: None });
        let done = self.realm.stream(seq, now, delta, &mut CheckedHost(host))?;
        check_yield(&done);
        Ok(done)
    }

    fn stream_ahead(
        &mut self,
        seq: Seq,
        now: Now,
        deltas: &[StreamDelta],
        slice: Duration,
        host: &mut dyn SyncHost,
    ) -> Result<Streamed, Termination> {
        for delta in deltas {
            check(&DELIVERY, &Delivery { seq, now, task: Task::Stream(delta.clone()), state: None });
        }
        let streamed = self.realm.stream_ahead(seq, now, deltas, slice, &mut CheckedHost(host))?;
        check_yield(&streamed.done);
        Ok(streamed)
    }

    fn lookahead(&self) -> usize {
        self.realm.lookahead()
    }

    fn answer(&mut self, reply: SyncReply) {
        check(&SYNC_REPLY, &reply);
        self.realm.answer(reply);
    }

    fn interrupt(&self) {
        self.realm.interrupt();
    }

    fn pulse(&mut self) -> Option<Termination> {
        self.realm.pulse()
    }

    #[cfg(target_os = "linux")]
    fn attention(&self) -> Option<pijs_realm::Attention> {
        self.realm.attention()
    }

    #[cfg(target_os = "linux")]
    fn death(&self) -> Option<std::os::fd::OwnedFd> {
        self.realm.death()
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

/// Checks the validator itself: it rejects an invalid message.
#[test]
#[should_panic(expected = "payload")]
fn an_invalid_message_fails_validation() {
    check(&MESSAGE, &serde_json::json!({ "version": "1.0", "type": "tool_call", "payload": { "tool_call_id": 7 } }));
}
