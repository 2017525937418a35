//! Records the sessions of extensions and replays them: `pi.ext.tape.v1`.
//!
//! A realm is a function of the messages on its wire, so a transcript of all wires records everything that extensions did. A tape
//! is that transcript: a [`TapeHeader`], then one [`Record`] for each message, in order. A [`Replay`] sends the deliveries and
//! replies to fresh realms, and compares the calls, yields and terminations. It needs no connector, no file and no network.
//!
//! ```text
//! {"realm":0,"kind":"header","value":{"schema":"pi.ext.tape.v1","pi":"0.1.0","engine":{...},...}}
//! {"realm":0,"kind":"blob","value":{"digest":"sha256:...","base64":"..."}}
//! {"realm":1,"kind":"open","value":{"options":{"extension":"npm:pi-ttsr",...},"now":{...},"modules":[...]}}
//! {"realm":1,"kind":"yield","value":{...},"heap":1048576,"digest":"..."}
//! {"realm":1,"kind":"delivery","value":{"seq":1,"now":{...},"task":{...}}}
//! {"realm":1,"kind":"call","value":{"call_id":"host-1","capability":"read",...}}
//! {"realm":1,"kind":"reply","value":{...},"bytes":[["aGVsbG8="]]}
//! {"realm":1,"kind":"yield","value":{"messages":[...],...},"heap":1056768,"digest":"..."}
//! {"realm":0,"kind":"agent","value":{"what":"ask","id":1,"port":"request","value":{...}}}
//! {"realm":0,"kind":"end","value":{"turns":2}}
//! ```
//!
//! | type | is |
//! |---|---|
//! | [`Recorder`], [`Wire`], [`RecordedRealm`] | observe realms while a session runs |
//! | [`TapeWriter`], [`TapeReader`] | the format, over any byte stream |
//! | [`AgentRecord`], [`AgentWire`] | the records of the agent: messages that crossed the ports of its loop |
//! | [`Replay`], [`Divergence`] | replays a tape; the first difference from the recording |
//! | [`trim`], [`cut`], [`redact`] | reduce a tape to a small one that can be shared |
//! | [`changes`], [`rerecord`] | run the inputs of a tape through a changed extension |
//! | [`Case`], [`LabOptions`] | run the extensions of a tape under different schedules, and with faults |
//! | [`locate`], [`SourcePosition`] | the position in the source that caused a difference |
//! | [`Spans`] | a tape as a trace, for Chrome and OpenTelemetry |
//! | [`TapeIndex`] | the blocks of each realm, for a reader of only some realms |
//! | [`Summary`] | counts of a tape's records |
//! | [`TapeError`] | the reason why a tape cannot be read, and the record at which reading failed |
//!
//! Invariants: reading back what was written gives equal records, to the last bit of a number and the last byte of an attachment.
//! A tape that was cut off anywhere is valid up to its last complete block. A realm that was stopped during a turn has a
//! `termination` in place of the yield, and a replay does not enter that turn. Secrets that the redactor knows are never on a
//! tape; equal secrets have equal placeholders ([`pijs_redact::Substitutes`]).

#![warn(missing_docs)]

mod agent;
mod agent_record;
mod align;
mod block;
mod compare;
mod digest;
mod edit;
mod error;
mod header;
mod index;
mod lab;
mod lines;
mod modules;
mod reader;
mod record;
mod recorder;
mod replay;
mod replay_services;
mod rerun;
mod source;
mod source_position;
mod spans;
mod summary;
mod writer;

pub use agent::{AgentDivergence, agent_records, tick_of_record};
pub use agent_record::{AgentRecord, outline};
pub use compare::Divergence;
pub use edit::{Kept, redact, trim};
pub use error::TapeError;
pub use header::{TAPE_SCHEMA, TapeHeader};
pub use index::TapeIndex;
pub use lab::{Case, LabError, LabOptions, LabOutcome};
pub use modules::{ModuleError, code_digest};
pub use reader::TapeReader;
pub use record::{Blob, End, Event, EventRef, ModuleSet, Opening, RealmNumber, Record};
pub use recorder::{AgentWire, FLUSH_EVERY, OnFailure, RecordedHost, RecordedRealm, Recorder, Wire};
pub use replay::{Outcome, RealmState, Replay, ended_before};
pub use replay_services::{ReplayError, ReplayOptions, ReplayServices};
pub use rerun::{Change, Changes, changes, cut, rerecord};
pub use source::locate;
pub use source_position::{Relation, SourcePosition};
pub use spans::{Span, SpanKind, Spans};
pub use summary::{KindCount, RealmSummary, Summary};
pub use writer::TapeWriter;
