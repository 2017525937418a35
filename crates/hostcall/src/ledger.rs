//! The evidence ledger: `pi.ext.log.v1` lines in a hash chain.
//!
//! Calls leave compact records in a queue; making lines of them, hashing and writing happen on the thread of
//! [`Ledger::writer`] where a driver has given it one, else in [`Ledger::flush`]. The dispatcher flushes, and waits,
//! before anything that acts outside the realm begins; the host asks for it ([`Ledger::kick`]) at the end of each turn;
//! a full queue flushes itself. So a cheap call (a read, a notice) pays for a record, not for its lines.
//!
//! **Chain.** The last member of `data` is `chain: {seq, prev, hash}`. `hash` is sha256 over the
//! bytes of the line up to the comma before `"hash"`; `prev` is the `hash` before, 64 zeros at
//! first. Editing, removing, repeating or reordering a line shows at [`verify`]; cutting lines
//! off the end shows only to somebody who knows the last hash. That is tamper-evident, not
//! tamper-proof.
//!
//! **Counting.** Records of one kind past a rate are counted rather than written one by one (`counted.rs`), so that an
//! extension cannot push evidence out of the space that a ledger has.
//!
//! **Never in here**: parameters (their hash instead), file contents, secrets by key or value.

use crate::connector::{Caller, Profile};
use crate::derive::{Required, Subject};
use crate::gate::Decision;
use hmac::{Hmac, Mac};
use pijs_protocol::log::Level;
use pijs_protocol::{CallId, ErrorCode, ExtensionId, HostCall, Method, Now, guard};
use pijs_redact::Redactor;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

mod counted;
mod file;
mod line;
mod memory;
mod resume;
mod verify;
mod writer;

pub use file::{FileLimits, FileSink, MARKS, finish_all, parts};
pub use memory::MemorySink;
pub use pijs_protocol::canonical::canonical_call;
pub use resume::{OpenCall, Resumed};
pub use verify::{Audit, BrokenLine, Verified, audit, verify, verify_parts};
pub use writer::LedgerWriter;

use counted::Counts;
use line::LineWriter;
use writer::Signal;

/// Records that wait before the queue flushes itself, or wakes its writer.
const QUEUE: usize = 128;
/// Records that wait, at most, while a writer cannot keep up, with [`MOST_UNWRITTEN`] bytes; then whoever adds one writes.
const LONGEST_QUEUE: usize = 8192;
/// How long who adds to a full queue waits for the writer, before it writes itself.
const PATIENCE: Duration = Duration::from_millis(20);
/// Longest line; data that would make it longer is left out.
pub const LONGEST_LINE: usize = 64 << 10;
/// Bytes kept for a sink that fails, until further records are dropped and counted.
const MOST_UNWRITTEN: usize = 4 << 20;
/// Bytes of lines that are appended at once. More records than this holds may wait, and a sink that works gets them all.
const PIECE: usize = 256 << 10;

/// Where lines go. One call appends whole lines, each with its line feed.
pub trait LedgerSink: Send + Sync {
    /// Appends. On an error nothing of `lines` counts as written, and they are offered again.
    fn append(&self, lines: &[u8]) -> io::Result<()>;

    /// Makes what was appended durable.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Lines that will be removed for want of space: said in the ledger first, removed after the next append. Each is
    /// answered once.
    fn pruning(&self) -> Option<Pruned> {
        None
    }

    /// The ledger ends here, complete.
    fn close(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Old lines that a sink gives up to stay within its space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// Number of the first line that goes.
    pub first_seq: u64,
    /// Where the first line that is kept follows on.
    pub until: ChainHead,
}

/// Facts and secrets of a ledger.
#[derive(Debug, Clone, Default)]
pub struct LedgerOptions {
    /// Id of the session; `scenario_id` is `session:<id>`.
    pub session_id: String,
    /// Name of the scenario, under a harness.
    pub scenario_id: Option<String>,
    /// Values that must never appear.
    pub secrets: Vec<String>,
    /// Key of this installation. With it, hashes of parameters that name or hold secrets, and of
    /// environment reads, are keyed, since a plain hash of a guessable value can be looked up.
    pub hash_key: Option<[u8; 32]>,
    /// Where an earlier ledger in the same sink ended.
    pub head: ChainHead,
}

/// The end of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChainHead {
    /// Number of the next line.
    pub next_seq: u64,
    /// Hash of the last line; zeros before the first.
    pub hash: [u8; 32],
}

/// Writes the ledger of a session. Cheap to clone.
#[derive(Clone)]
pub struct Ledger {
    inner: Arc<Inner>,
}

struct Inner {
    options: LedgerOptions,
    scenario_id: String,
    redactor: Redactor,
    sink: Arc<dyn LedgerSink>,
    queue: Mutex<Waiting>,
    /// The queue has been emptied.
    room: Condvar,
    /// Taken before the queue by whoever writes, so that lines keep the order of records.
    lines: Mutex<Lines>,
    signal: Arc<Signal>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Waiting {
    records: Vec<Record>,
    /// Of the texts in them.
    bytes: usize,
}

#[derive(Default)]
struct Lines {
    head: ChainHead,
    /// Lines that a failing sink has not taken yet.
    unwritten: Vec<u8>,
    /// Records dropped since the last line.
    dropped: u64,
    /// Time of the last record.
    now: Now,
    /// Gives its allocation back to the queue.
    spare: Vec<Record>,
    counts: Counts,
    /// Records that are to be written; empty between two of them.
    due: Vec<Record>,
}

/// sha256 of what a call was given, or a keyed hash.
#[derive(Debug, Clone)]
pub(crate) enum ParamsHash {
    Plain([u8; 32]),
    Keyed([u8; 32]),
    /// Of little, made by whoever makes the first line of it: not in the turn that waits for the call.
    Later(Arc<Unhashed>),
}

/// A small call in its canonical form.
#[derive(Debug, Default)]
pub(crate) struct Unhashed {
    canonical: Vec<u8>,
    digest: OnceLock<[u8; 32]>,
}

impl Unhashed {
    /// As most calls are. What is longer is hashed at once, so that nothing large waits.
    const MOST: usize = 192;
}

/// Small calls, taken again once nothing is left to say of them. Otherwise each would be allocated by the thread that calls and
/// freed by the one that writes, and both would wait for the allocator.
#[derive(Default)]
struct Kept(VecDeque<Arc<Unhashed>>);

impl Kept {
    /// More than wait for the writer in a burst.
    const MOST: usize = 1024;

    /// A place for what `write` writes, and where it has become too long its hash.
    fn hash(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> ParamsHash {
        let mut oldest = self.0.pop_front();
        if oldest.as_mut().is_none_or(|oldest| Arc::get_mut(oldest).is_none()) {
            // A call that takes its time lets others pass.
            self.0.extend(oldest.replace(Arc::default()));
        }
        let mut call = oldest.unwrap_or_default();
        let Unhashed { canonical, digest } = Arc::get_mut(&mut call).expect("free, or new");
        canonical.clear();
        digest.take();
        write(canonical);
        if canonical.len() > Unhashed::MOST {
            let hash = ParamsHash::Plain(Sha256::digest(&canonical).into());
            canonical.truncate(Unhashed::MOST);
            canonical.shrink_to(Unhashed::MOST);
            self.0.push_front(call);
            return hash;
        }
        if self.0.len() < Self::MOST {
            self.0.push_back(Arc::clone(&call));
        }
        ParamsHash::Later(call)
    }
}

impl ParamsHash {
    pub(crate) fn is_keyed(&self) -> bool {
        matches!(self, Self::Keyed(_))
    }

    pub(crate) fn digest(&self) -> &[u8; 32] {
        match self {
            Self::Plain(digest) | Self::Keyed(digest) => digest,
            Self::Later(call) => call.digest.get_or_init(|| Sha256::digest(&call.canonical).into()),
        }
    }
}

/// What becomes a line.
struct Record {
    now: Now,
    profile: Arc<Profile>,
    tool_call_id: Option<Arc<str>>,
    event_id: Option<Arc<str>>,
    body: Body,
}

impl Record {
    /// About how much memory its texts take.
    fn bytes(&self) -> usize {
        match &self.body {
            Body::Start { start, decided } => {
                let subject = decided.as_ref().and_then(|decided| decided.subject.as_ref());
                [subject, start.claimed.as_ref()].into_iter().flatten().map(String::len).sum()
            }
            Body::End(_) | Body::Lost(_) => 0,
            Body::Event(event) => event.message.len() + event.data.values().map(bytes_of).sum::<usize>(),
        }
    }
}

fn bytes_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes_of).sum(),
        Value::Object(members) => members.iter().map(|(key, value)| key.len() + bytes_of(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

enum Body {
    /// Two lines where something was decided: that, and the start.
    Start {
        start: CallStart,
        decided: Option<Decided>,
    },
    End(CallEnd),
    /// The end of a call whose host was killed.
    Lost(Box<OpenCall>),
    Event(Box<EventBody>),
}

/// What was decided about a call, and when.
struct Decided {
    at: Now,
    subject: Option<String>,
    decision: Decision,
}

struct EventBody {
    level: Level,
    event: String,
    message: String,
    data: Map<String, Value>,
    from_extension: bool,
}

/// What the first and the last line of a call say alike; cloning it allocates nothing.
#[derive(Debug, Clone)]
pub(crate) struct CallFacts {
    pub(crate) call_id: CallId,
    /// `unknown` when nobody serves it: an extension cannot write what it likes here.
    pub(crate) method: Method,
    /// The derived one, `unknown` when the call is malformed.
    pub(crate) capability: &'static str,
    /// `None` for parameters too large to be looked at.
    pub(crate) params_hash: Option<ParamsHash>,
}

/// The start of a call.
pub(crate) struct CallStart {
    pub(crate) call: CallFacts,
    pub(crate) claimed: Option<String>,
    pub(crate) timeout_ms: Option<u64>,
}

/// The end of a call.
pub(crate) struct CallEnd {
    pub(crate) call: CallFacts,
    pub(crate) duration_us: u64,
    pub(crate) error: Option<(ErrorCode, Option<Arc<str>>)>,
}

impl Ledger {
    /// A ledger over a sink.
    pub fn new(options: LedgerOptions, sink: Arc<dyn LedgerSink>) -> Self {
        let scenario_id = options.scenario_id.clone().unwrap_or_else(|| format!("session:{}", options.session_id));
        let redactor = Redactor::new(options.secrets.iter().cloned());
        let lines = Mutex::new(Lines { head: options.head, ..Lines::default() });
        let (queue, kept, signal) = (Mutex::default(), Mutex::default(), Arc::default());
        let room = Condvar::new();
        Self { inner: Arc::new(Inner { options, scenario_id, redactor, sink, queue, room, lines, signal, kept }) }
    }

    /// Records something that is no hostcall: `extension.ready`, `realm.terminated`,
    /// `compat.warning`, ...
    pub fn event(&self, now: Now, caller: &Caller, level: Level, event: &str, message: &str, data: Map<String, Value>) {
        let body =
            EventBody { level, event: event.to_owned(), message: message.to_owned(), data, from_extension: false };
        self.push(record(now, caller, Body::Event(Box::new(body))));
    }

    /// Records a verdict on a stream that was not *continue*.
    pub fn stream_verdict(&self, now: Now, caller: &Caller, data: Map<String, Value>) {
        self.event(now, caller, Level::Info, "stream.verdict", "stream stopped by an extension", data);
    }

    /// Records what an extension itself logs. Its data is one value; the host's fields win.
    pub fn extension_log(
        &self,
        now: Now,
        caller: &Caller,
        level: Level,
        event: &str,
        message: &str,
        data: Map<String, Value>,
    ) {
        let body =
            EventBody { level, event: event.to_owned(), message: message.to_owned(), data, from_extension: true };
        self.push(record(now, caller, Body::Event(Box::new(body))));
    }

    /// Text without the secrets this ledger knows.
    pub fn redactor(&self) -> &Redactor {
        &self.inner.redactor
    }

    /// Ends calls that were open when the host of an earlier run was killed.
    pub fn end_lost_calls(&self, now: Now, calls: impl IntoIterator<Item = OpenCall>) {
        for call in calls {
            let mut profile = Profile::new(ExtensionId::new(call.extension_id.as_str()));
            profile.artifact_id = call.artifact_id.clone();
            self.push(Record {
                now,
                profile: Arc::new(profile),
                tool_call_id: call.tool_call_id.as_deref().map(Arc::from),
                event_id: call.event_id.as_deref().map(Arc::from),
                body: Body::Lost(Box::new(call)),
            });
        }
    }

    /// Writes what is queued, and returns when the sink has it. On an error the lines are kept and offered again next
    /// time.
    pub fn flush(&self) -> io::Result<()> {
        self.inner.write()
    }

    /// Has what is queued written soon: by the writer, or here when there is none. Errors show at the next flush.
    pub fn kick(&self) {
        if !self.inner.signal.wake() {
            let _ = self.inner.write();
        }
    }

    /// Writes what is queued and makes it durable.
    pub fn sync(&self) -> io::Result<()> {
        self.inner.write()?;
        self.inner.sink.sync()
    }

    /// Writes all and tells the sink that nothing follows.
    pub fn close(&self) -> io::Result<()> {
        self.inner.write_until(true)?;
        self.inner.sink.sync()?;
        self.inner.sink.close()
    }

    /// What writes lines on a thread of its own; see [`LedgerWriter::run`].
    pub fn writer(&self) -> LedgerWriter {
        LedgerWriter::new(Arc::downgrade(&self.inner), Arc::clone(&self.inner.signal))
    }

    /// Where the chain stands, after a flush.
    pub fn head(&self) -> ChainHead {
        self.inner.lines().head
    }

    /// What was decided about a call, and when, and that the call begins.
    pub(crate) fn call_start(
        &self,
        now: Now,
        caller: &Caller,
        decided: Option<(Now, &Required<'_>, &Decision)>,
        start: CallStart,
    ) {
        let decided = decided.map(|(at, required, decision)| {
            let subject = match &required.subject {
                Subject::None | Subject::Handle => None,
                // Arguments and values may hold anything; the program is enough to know what was decided, and which
                // variables change what it does. The hash is of all of it.
                Subject::Program { command, given, .. } => {
                    let names = given.asked().map(|variable| format!("{}=... ", variable.name));
                    Some(names.chain([(*command).to_owned()]).collect())
                }
                subject => Some(subject.to_string()),
            };
            Decided { at, subject, decision: decision.clone() }
        });
        self.push(record(now, caller, Body::Start { start, decided }));
    }

    pub(crate) fn call_end(&self, now: Now, caller: &Caller, end: CallEnd) {
        self.push(record(now, caller, Body::End(end)));
    }

    pub(crate) fn hash_params(&self, call: &HostCall) -> ParamsHash {
        let inner = &*self.inner;
        let write =
            |out: &mut Vec<u8>| pijs_protocol::canonical::write_call(&call.method, &call.params, &call.bytes, out);
        match &inner.options.hash_key {
            Some(key)
                if guard!(LedgerKeyedHash)
                    && (call.method == "env" || pijs_redact::are_in(&call.params, &inner.redactor)) =>
            {
                let mut canonical = Vec::new();
                write(&mut canonical);
                ParamsHash::Keyed(keyed(key, &canonical))
            }
            _ => inner.kept.lock().unwrap_or_else(PoisonError::into_inner).hash(write),
        }
    }

    fn push(&self, record: Record) {
        let mut queue = self.inner.queue();
        queue.bytes += record.bytes();
        queue.records.push(record);
        let waiting = queue.records.len();
        let is_full = queue.is_full();
        drop(queue);
        // Each time so many more wait: a writer that is awake comes back by itself, and asking it takes a lock.
        let is_due = waiting.is_multiple_of(QUEUE);
        // A failure is kept for the next flush, whose caller can act on it.
        if (is_full || is_due) && !self.inner.signal.wake() || is_full && !self.inner.wait_for_room() {
            let _ = self.inner.write();
        }
    }
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.records.len() >= LONGEST_QUEUE || self.bytes >= MOST_UNWRITTEN
    }
}

impl Inner {
    fn queue(&self) -> MutexGuard<'_, Waiting> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the writer has taken what waits: both go on side by side then. `false` when it did not come to it.
    fn wait_for_room(&self) -> bool {
        let waited = self.room.wait_timeout_while(self.queue(), PATIENCE, |queue| queue.is_full());
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn write(&self) -> io::Result<()> {
        self.write_until(false)
    }

    /// `ends`: nothing follows, and what is being counted is written.
    fn write_until(&self, ends: bool) -> io::Result<()> {
        let mut lines = self.lines();
        let Lines { head, unwritten, dropped, now, spare, counts, due } = &mut *lines;
        let mut queue = self.queue();
        std::mem::swap(spare, &mut queue.records);
        queue.bytes = 0;
        drop(queue);
        self.room.notify_all();
        // What a failing sink did not take is offered first: there may be room for more afterwards.
        let append = |lines: &mut Vec<u8>| self.sink.append(lines).map(|()| lines.clear());
        let mut offered = if unwritten.is_empty() { Ok(()) } else { append(unwritten) };
        let mut writer = LineWriter::new(&self.scenario_id, &self.options.session_id, &self.redactor);
        let mut write = |record: Record| {
            if unwritten.len() >= PIECE && offered.is_ok() {
                offered = append(unwritten);
            }
            if unwritten.len() >= MOST_UNWRITTEN {
                *dropped += 1;
                return;
            }
            if *dropped > 0 {
                let count = Value::from(std::mem::take(dropped));
                let message = "the ledger could not be written for a while";
                let lost = of_the_host(record.now, "ledger.dropped", message, [("records".to_owned(), count)]);
                writer.write(&lost, head, unwritten);
            }
            writer.write(&record, head, unwritten);
        };
        for record in spare.drain(..) {
            *now = record.now;
            counts.take(record, due);
            due.drain(..).for_each(&mut write);
        }
        if ends {
            counts.finish_all(due);
            due.drain(..).for_each(&mut write);
        }
        offered?;
        if unwritten.is_empty() {
            return Ok(());
        }
        append(unwritten)?;
        if let Some(pruned) = self.sink.pruning() {
            let facts = [
                ("first_seq".to_owned(), Value::from(pruned.first_seq)),
                ("next_seq".to_owned(), Value::from(pruned.until.next_seq)),
                ("lines".to_owned(), Value::from(pruned.until.next_seq.saturating_sub(pruned.first_seq))),
                ("hash".to_owned(), Value::from(hex::encode(pruned.until.hash))),
            ];
            let message = "the lines before this place were removed for want of space";
            writer.write(&of_the_host(*now, verify::PRUNED, message, facts), head, unwritten);
            append(unwritten)?;
        }
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.signal.close();
        // Nobody is left to hear of a failure. Every call has had its end: what holds one holds the ledger.
        let _ = self.write_until(true).and_then(|()| self.sink.close());
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("scenario_id", &self.inner.scenario_id).finish_non_exhaustive()
    }
}

fn record(now: Now, caller: &Caller, body: Body) -> Record {
    Record {
        now,
        profile: Arc::clone(&caller.profile),
        tool_call_id: caller.tool_call_id.clone(),
        event_id: caller.event_id.clone(),
        body,
    }
}

/// A record of the ledger about itself.
fn of_the_host<const N: usize>(now: Now, event: &str, message: &str, data: [(String, Value); N]) -> Record {
    let profile = Arc::new(Profile::new(ExtensionId::new("host")));
    host_event(now, profile, Level::Error, event, message, Map::from_iter(data))
}

fn host_event(
    now: Now,
    profile: Arc<Profile>,
    level: Level,
    event: &str,
    message: &str,
    data: Map<String, Value>,
) -> Record {
    let (event, message) = (event.to_owned(), message.to_owned());
    let body = Body::Event(Box::new(EventBody { level, event, message, data, from_extension: false }));
    Record { now, profile, tool_call_id: None, event_id: None, body }
}

fn keyed(key: &[u8; 32], bytes: &[u8]) -> [u8; 32] {
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mut mac) => {
            mac.update(bytes);
            mac.finalize().into_bytes().into()
        }
        Err(error) => unreachable!("HMAC takes keys of every length: {error}"),
    }
}

#[cfg(test)]
#[path = "ledger/tests.rs"]
mod tests;
