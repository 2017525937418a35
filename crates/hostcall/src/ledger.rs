//! The evidence ledger: `pi.ext.log.v1` lines in a hash chain.
//!
//! Calls add compact records to a queue; formatting, hashing and writing happen on the thread of [`Ledger::writer`] if the driver
//! provides one, else in [`Ledger::flush`]. The dispatcher flushes, and waits, before a call with external effects begins; the
//! host requests a flush ([`Ledger::kick`]) at the end of each turn; a full queue flushes itself. So a cheap call (a read, a
//! notice) pays for a record, not for its lines.
//!
//! **Chain.** The last member of `data` is `chain: {seq, prev, hash}`. `hash` is sha256 over the
//! bytes of the line up to the comma before `"hash"`; `prev` is the `hash` before, 64 zeros at
//! first. [`verify()`] detects an edited, removed, repeated or moved line; it detects a truncated end
//! only if the last hash is known. The ledger is tamper-evident, not tamper-proof.
//!
//! **Counting.** Records of one kind beyond a rate limit are counted rather than written (`counted.rs`), so that an extension
//! cannot displace evidence from the limited space of a ledger.
//!
//! **Never recorded**: parameters (only their hash), file contents, secrets by key or value.

use crate::connector::{Caller, Profile};
use crate::derive::{Required, Subject};
use crate::gate::Decision;
use crate::traced;
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

use counted::RecordCounts;
use line::LineWriter;
use writer::WriterSignal;

/// Queued records at which the queue flushes itself, or wakes its writer.
const QUEUE: usize = 128;
/// Maximum of queued records while a writer cannot keep up, together with [`MAX_UNWRITTEN`] bytes; beyond it the adding thread
/// writes.
const MAX_QUEUE: usize = 8192;
/// Time that a thread waits for the writer when the queue is full, before it writes itself.
const WRITER_TIMEOUT: Duration = Duration::from_millis(20);
/// Longest line in bytes; data that would make it longer is left out.
pub const LONGEST_LINE: usize = 64 << 10;
/// Bytes kept for a failing sink; beyond it records are dropped and counted.
const MAX_UNWRITTEN: usize = 4 << 20;
/// Bytes of lines that one append carries. More records may be queued, and a working sink gets them all.
const APPEND_BYTES: usize = 256 << 10;

/// The destination of lines. One call appends whole lines, each with its line feed.
pub trait LedgerSink: Send + Sync {
    /// Appends lines. After an error none of `lines` counts as written, and they are passed again.
    fn append(&self, lines: &[u8]) -> io::Result<()>;

    /// Makes the appended lines durable.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns lines that will be removed to free space: the ledger records that first, and the sink removes them after the next
    /// append. Each is returned once.
    fn pruning(&self) -> Option<Pruned> {
        None
    }

    /// Marks the ledger as complete.
    fn close(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Old lines that a sink removes to stay within its space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// Number of the first removed line.
    pub first_seq: u64,
    /// The chain position at which the kept lines continue.
    pub until: ChainHead,
}

/// Identity and secrets of a ledger.
#[derive(Debug, Clone, Default)]
pub struct LedgerOptions {
    /// Id of the session; `scenario_id` is `session:<id>`.
    pub session_id: String,
    /// Name of the scenario, under a harness.
    pub scenario_id: Option<String>,
    /// Values that must never appear in it.
    pub secrets: Vec<String>,
    /// Key of this installation. With it, hashes of environment reads and of parameters that name or hold secrets are keyed,
    /// because a plain hash of a guessable value can be looked up.
    pub hash_key: Option<[u8; 32]>,
    /// End of an earlier ledger in the same sink.
    pub head: ChainHead,
}

/// A position in a hash chain.
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
    inner: Arc<LedgerInner>,
}

struct LedgerInner {
    options: LedgerOptions,
    scenario_id: String,
    redactor: Redactor,
    sink: Arc<dyn LedgerSink>,
    queue: Mutex<RecordQueue>,
    /// Signalled when the queue is emptied.
    room: Condvar,
    /// Locked before the queue by the writing thread, so that lines keep the order of records.
    lines: Mutex<LineState>,
    signal: Arc<WriterSignal>,
    pool: Mutex<CallPool>,
}

#[derive(Default)]
struct RecordQueue {
    records: Vec<LedgerRecord>,
    /// Bytes of text in the queued records.
    bytes: usize,
}

#[derive(Default)]
struct LineState {
    head: ChainHead,
    /// Lines that a failing sink has not accepted yet.
    unwritten: Vec<u8>,
    /// Records dropped since the last line.
    dropped: u64,
    /// Time of the last record.
    now: Now,
    /// Returns its allocation to the queue.
    spare: Vec<LedgerRecord>,
    counts: RecordCounts,
    /// Records to be written; empty between two writes.
    due: Vec<LedgerRecord>,
}

/// The sha256 of a call's parameters, or a keyed hash.
#[derive(Debug, Clone)]
pub(crate) enum ParamsHash {
    Plain([u8; 32]),
    Keyed([u8; 32]),
    /// Computed with the first line of the call, outside the turn that waits for it; for small calls only.
    Later(Arc<Unhashed>),
}

/// A small call in canonical form.
#[derive(Debug, Default)]
pub(crate) struct Unhashed {
    canonical: Vec<u8>,
    digest: OnceLock<[u8; 32]>,
}

impl Unhashed {
    /// Covers most calls. Longer ones are hashed at once, so that nothing large is queued.
    const MOST: usize = 192;
}

/// A pool of small calls, reused when their lines are written. Otherwise the calling thread would allocate each and the writing
/// thread free it, and both would contend for the allocator.
#[derive(Default)]
struct CallPool(VecDeque<Arc<Unhashed>>);

impl CallPool {
    /// More than wait for the writer in a burst.
    const MOST: usize = 1024;

    /// Returns a buffer with the output of `write`, or its hash when it is too long.
    fn hash(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> ParamsHash {
        let mut oldest = self.0.pop_front();
        if oldest.as_mut().is_none_or(|oldest| Arc::get_mut(oldest).is_none()) {
            // A buffer that is in use goes to the end.
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

/// The source of one or two lines.
struct LedgerRecord {
    now: Now,
    profile: Arc<Profile>,
    tool_call_id: Option<Arc<str>>,
    event_id: Option<Arc<str>>,
    body: RecordBody,
}

impl LedgerRecord {
    /// Estimates the memory of its text.
    fn bytes(&self) -> usize {
        match &self.body {
            RecordBody::Start { start, decided } => {
                let subject = decided.as_ref().and_then(|decided| decided.subject.as_ref());
                [subject, start.claimed.as_ref()].into_iter().flatten().map(String::len).sum()
            }
            RecordBody::End(_) | RecordBody::Lost(_) => 0,
            RecordBody::Event(event) => event.message.len() + event.data.values().map(bytes_of).sum::<usize>(),
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

enum RecordBody {
    /// The start of a call: one line, or two with a decision.
    Start {
        start: CallStart,
        decided: Option<DecisionRecord>,
    },
    End(CallEnd),
    /// The end of a call whose host was killed.
    Lost(Box<OpenCall>),
    Event(Box<EventBody>),
}

/// The decision about a call, and its time.
struct DecisionRecord {
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

/// Members that the first and the last line of a call share; cloning allocates nothing.
#[derive(Debug, Clone)]
pub(crate) struct CallFacts {
    pub(crate) call_id: CallId,
    /// `unknown` for a method without a connector: an extension cannot write arbitrary text here.
    pub(crate) method: Method,
    /// The derived capability, `unknown` when the call is malformed.
    pub(crate) capability: &'static str,
    /// `None` for parameters that are too large.
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
    /// Creates a ledger over a sink.
    pub fn new(options: LedgerOptions, sink: Arc<dyn LedgerSink>) -> Self {
        let scenario_id = options.scenario_id.clone().unwrap_or_else(|| format!("session:{}", options.session_id));
        let redactor = Redactor::new(options.secrets.iter().cloned());
        let lines = Mutex::new(LineState { head: options.head, ..LineState::default() });
        let (queue, pool, signal) = (Mutex::default(), Mutex::default(), Arc::default());
        let room = Condvar::new();
        Self { inner: Arc::new(LedgerInner { options, scenario_id, redactor, sink, queue, room, lines, signal, pool }) }
    }

    /// Records an event that is no hostcall: `extension.ready`, `realm.terminated`, `compat.warning`, ...
    pub fn event(&self, now: Now, caller: &Caller, level: Level, event: &str, message: &str, data: Map<String, Value>) {
        traced::event(caller, level, event, message, &data);
        let body =
            EventBody { level, event: event.to_owned(), message: message.to_owned(), data, from_extension: false };
        self.push(record(now, caller, RecordBody::Event(Box::new(body))));
    }

    /// Records a verdict on a stream other than *continue*.
    pub fn stream_verdict(&self, now: Now, caller: &Caller, data: Map<String, Value>) {
        self.event(now, caller, Level::Info, "stream.verdict", "stream stopped by an extension", data);
    }

    /// Records a log line of an extension. Its data is one value; the host's fields take precedence.
    pub fn extension_log(
        &self,
        now: Now,
        caller: &Caller,
        level: Level,
        event: &str,
        message: &str,
        data: Map<String, Value>,
    ) {
        traced::event(caller, level, event, message, &data);
        let body =
            EventBody { level, event: event.to_owned(), message: message.to_owned(), data, from_extension: true };
        self.push(record(now, caller, RecordBody::Event(Box::new(body))));
    }

    /// Returns the redactor of this ledger's secrets.
    pub fn redactor(&self) -> &Redactor {
        &self.inner.redactor
    }

    /// Ends calls that were open when the host of an earlier run was killed.
    pub fn end_lost_calls(&self, now: Now, calls: impl IntoIterator<Item = OpenCall>) {
        for call in calls {
            let mut profile = Profile::new(ExtensionId::new(call.extension_id.as_str()));
            profile.artifact_id = call.artifact_id.clone();
            self.push(LedgerRecord {
                now,
                profile: Arc::new(profile),
                tool_call_id: call.tool_call_id.as_deref().map(Arc::from),
                event_id: call.event_id.as_deref().map(Arc::from),
                body: RecordBody::Lost(Box::new(call)),
            });
        }
    }

    /// Writes queued records, and returns when the sink has them. After an error the lines are kept and passed again next time.
    pub fn flush(&self) -> io::Result<()> {
        self.inner.write()
    }

    /// Starts writing queued records: by the writer, or here without one. The next flush returns errors.
    pub fn kick(&self) {
        if !self.inner.signal.wake() {
            let _ = self.inner.write();
        }
    }

    /// Writes queued records and makes them durable.
    pub fn sync(&self) -> io::Result<()> {
        self.inner.write()?;
        self.inner.sink.sync()
    }

    /// Writes all records and marks the ledger as complete.
    pub fn close(&self) -> io::Result<()> {
        self.inner.write_until(true)?;
        self.inner.sink.sync()?;
        self.inner.sink.close()
    }

    /// Returns the writer for a thread of its own; see [`LedgerWriter::run`].
    pub fn writer(&self) -> LedgerWriter {
        LedgerWriter::new(Arc::downgrade(&self.inner), Arc::clone(&self.inner.signal))
    }

    /// Returns the position of the chain, after a flush.
    pub fn head(&self) -> ChainHead {
        self.inner.lines().head
    }

    /// Records the decision about a call, and its start.
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
                // Only the program and the names of variables that affect it, because arguments and values may hold secrets. The
                // hash covers all of it.
                Subject::Program { command, given, .. } => {
                    let names = given.asked().map(|variable| format!("{}=... ", variable.name));
                    Some(names.chain([(*command).to_owned()]).collect())
                }
                subject => Some(subject.to_string()),
            };
            DecisionRecord { at, subject, decision: decision.clone() }
        });
        self.push(record(now, caller, RecordBody::Start { start, decided }));
    }

    pub(crate) fn call_end(&self, now: Now, caller: &Caller, end: CallEnd) {
        self.push(record(now, caller, RecordBody::End(end)));
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
            _ => inner.pool.lock().unwrap_or_else(PoisonError::into_inner).hash(write),
        }
    }

    fn push(&self, record: LedgerRecord) {
        let mut queue = self.inner.queue();
        queue.bytes += record.bytes();
        queue.records.push(record);
        let waiting = queue.records.len();
        let is_full = queue.is_full();
        drop(queue);
        // Each time the queue grows by this much: an awake writer returns by itself, and waking it takes a lock.
        let is_due = waiting.is_multiple_of(QUEUE);
        // An error is kept for the next flush, whose caller can handle it.
        if (is_full || is_due) && !self.inner.signal.wake() || is_full && !self.inner.wait_for_room() {
            let _ = self.inner.write();
        }
    }
}

impl RecordQueue {
    fn is_full(&self) -> bool {
        self.records.len() >= MAX_QUEUE || self.bytes >= MAX_UNWRITTEN
    }
}

impl LedgerInner {
    fn queue(&self) -> MutexGuard<'_, RecordQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lines(&self) -> MutexGuard<'_, LineState> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the writer has emptied the queue; both threads continue concurrently then. Returns `false` on a timeout.
    fn wait_for_room(&self) -> bool {
        let waited = self.room.wait_timeout_while(self.queue(), WRITER_TIMEOUT, |queue| queue.is_full());
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn write(&self) -> io::Result<()> {
        self.write_until(false)
    }

    /// Writes queued records. With `ends` it also writes the open counts, because nothing follows.
    fn write_until(&self, ends: bool) -> io::Result<()> {
        let mut lines = self.lines();
        let LineState { head, unwritten, dropped, now, spare, counts, due } = &mut *lines;
        let mut queue = self.queue();
        std::mem::swap(spare, &mut queue.records);
        queue.bytes = 0;
        drop(queue);
        self.room.notify_all();
        // Lines that a failing sink did not accept go first: there may be space afterwards.
        let append = |lines: &mut Vec<u8>| self.sink.append(lines).map(|()| lines.clear());
        let mut offered = if unwritten.is_empty() { Ok(()) } else { append(unwritten) };
        let mut writer = LineWriter::new(&self.scenario_id, &self.options.session_id, &self.redactor);
        let mut write = |record: LedgerRecord| {
            if unwritten.len() >= APPEND_BYTES && offered.is_ok() {
                offered = append(unwritten);
            }
            if unwritten.len() >= MAX_UNWRITTEN {
                *dropped += 1;
                return;
            }
            if *dropped > 0 {
                let count = Value::from(std::mem::take(dropped));
                let message = "the ledger could not be written for a while";
                let lost = ledger_event(record.now, "ledger.dropped", message, [("records".to_owned(), count)]);
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
            let message = "older lines were removed to free space";
            writer.write(&ledger_event(*now, verify::PRUNED, message, facts), head, unwritten);
            append(unwritten)?;
        }
        Ok(())
    }
}

impl Drop for LedgerInner {
    fn drop(&mut self) {
        self.signal.close();
        // No caller is left to report an error to. Every call has ended, because an open one holds the ledger.
        let _ = self.write_until(true).and_then(|()| self.sink.close());
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("scenario_id", &self.inner.scenario_id).finish_non_exhaustive()
    }
}

fn record(now: Now, caller: &Caller, body: RecordBody) -> LedgerRecord {
    LedgerRecord {
        now,
        profile: Arc::clone(&caller.profile),
        tool_call_id: caller.tool_call_id.clone(),
        event_id: caller.event_id.clone(),
        body,
    }
}

/// Creates a record of the ledger about itself.
fn ledger_event<const N: usize>(now: Now, event: &str, message: &str, data: [(String, Value); N]) -> LedgerRecord {
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
) -> LedgerRecord {
    let (event, message) = (event.to_owned(), message.to_owned());
    let body = RecordBody::Event(Box::new(EventBody { level, event, message, data, from_extension: false }));
    LedgerRecord { now, profile, tool_call_id: None, event_id: None, body }
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
