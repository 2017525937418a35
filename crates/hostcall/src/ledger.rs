//! Evidence ledger: `pi.ext.log.v1` lines in a hash chain.
//!
//! Calls add compact records to a queue; formatting, hashing and writing happen on the thread of [`Ledger::writer`] if the driver
//! provides one, else in [`Ledger::flush`]. The dispatcher flushes, and waits, before a call with external effects begins; the
//! host requests a flush ([`Ledger::kick`]) at the end of each turn; a full queue flushes itself. So a cheap call (a read, a
//! notice) only costs a record; its lines are made elsewhere.
//!
//! **Chain.** The last member of `data` is `chain: {seq, prev, hash}`. `hash` is sha256 over the bytes of the line up to the
//! comma before `"hash"`; `prev` is the `hash` of the previous line, 64 zeros in the first line. [`verify()`] detects an edited,
//! removed, repeated or moved line; it detects a truncated end only if the last hash is known. The ledger is tamper-evident, not
//! tamper-proof.
//!
//! **Counting.** Records of one kind beyond a rate limit are counted rather than written (`counted.rs`), so that an extension
//! cannot displace evidence from the limited space of a ledger.
//!
//! **Never recorded**: parameters (only their hash), file contents, secrets by key or value.

use crate::caller::{Caller, Profile};
use crate::decision::Decision;
use crate::subject::{Required, Subject};
use crate::traced;
use pijs_protocol::log::Level;
use pijs_protocol::{ExtensionId, HostCall, Now, guard};
use pijs_redact::Redactor;
use serde_json::{Map, Value};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

mod chain;
mod counted;
mod file;
mod line;
mod memory;
mod params_hash;
mod record;
mod resume;
mod sink;
mod verify;
mod writer;

pub use chain::{ChainHead, LONGEST_LINE};
pub use file::{FileLimits, FileSink, finish_all, parts};
pub use memory::MemorySink;
pub(crate) use params_hash::ParamsHash;
pub use pijs_protocol::canonical::canonical_call;
pub(crate) use record::{CallEnd, CallFacts, CallStart};
pub use resume::{OpenCall, Resumed};
pub use sink::{LedgerSink, Pruned};
pub use verify::{Audit, BrokenLine, Verified, audit, verify, verify_parts};
pub use writer::LedgerWriter;

use counted::RecordCounts;
use line::LineWriter;
use params_hash::{CallPool, keyed};
use record::{DecisionRecord, EventBody, LedgerRecord, RecordBody, ledger_event, record};
use writer::WriterSignal;

/// Number of queued records at which the queue flushes itself, or wakes its writer.
const QUEUE: usize = 128;
/// Maximum number of queued records while a writer cannot keep up; together they have at most [`MAX_UNWRITTEN`] bytes. Beyond it
/// the adding thread writes.
const MAX_QUEUE: usize = 8192;
/// Time that a thread waits for the writer when the queue is full, before the thread writes the queue.
const WRITER_TIMEOUT: Duration = Duration::from_millis(20);
/// Maximum number of bytes kept for a failing sink; beyond it records are dropped and counted.
const MAX_UNWRITTEN: usize = 4 << 20;
/// Number of bytes of lines in one append. More records may be queued, and a working sink gets them all.
const APPEND_BYTES: usize = 256 << 10;

/// Identity and secrets of a ledger.
#[derive(Debug, Clone, Default)]
pub struct LedgerOptions {
    /// Id of the session; `scenario_id` is `session:<id>`.
    pub session_id: String,
    /// Name of the scenario, when a test harness runs the session.
    pub scenario_id: Option<String>,
    /// Values that must never appear in the ledger.
    pub secrets: Vec<String>,
    /// Key of this installation. With it, hashes of environment reads and of parameters that name or contain secrets are keyed,
    /// because a plain hash of a guessable value can be looked up.
    pub hash_key: Option<[u8; 32]>,
    /// End of an earlier ledger in the same sink.
    pub head: ChainHead,
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
    /// Locked by the writing thread before the queue, so that lines keep the order of records.
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
    /// Empty vector with the allocation that the queue gets next.
    spare: Vec<LedgerRecord>,
    counts: RecordCounts,
    /// Records to write next; empty between two writes.
    due: Vec<LedgerRecord>,
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

    /// Records an event that is not a hostcall: `extension.ready`, `realm.terminated`, `compat.warning`, ...
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

    /// Records a log line of an extension. The extension's data is a single member; the host's fields take precedence.
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

    /// Starts writing queued records: wakes the writer, or writes here without one. Errors are returned by the next flush.
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

    /// Returns the writer, which runs on a thread of its own; see [`LedgerWriter::run`].
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
                // Only the program and the names of variables that affect it, because arguments and values may contain secrets.
                // The hash covers the whole command.
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
        // Checked each time the queue has grown by this much: an awake writer returns by itself, and waking it takes a lock.
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

    /// Waits until the writer has emptied the queue, after which both threads run concurrently. Returns `false` on a timeout.
    fn wait_for_room(&self) -> bool {
        let waited = self.room.wait_timeout_while(self.queue(), WRITER_TIMEOUT, |queue| queue.is_full());
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn write(&self) -> io::Result<()> {
        self.write_until(false)
    }

    /// Writes queued records. With `ends` it also writes the open counts, because no record follows.
    fn write_until(&self, ends: bool) -> io::Result<()> {
        let mut lines = self.lines();
        let LineState { head, unwritten, dropped, now, spare, counts, due } = &mut *lines;
        let mut queue = self.queue();
        std::mem::swap(spare, &mut queue.records);
        queue.bytes = 0;
        drop(queue);
        self.room.notify_all();
        // Lines that a failing sink did not accept go first; the sink may have space again.
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
        // No caller is left to receive an error. Every call has ended, because an open call keeps the ledger alive.
        let _ = self.write_until(true).and_then(|()| self.sink.close());
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("scenario_id", &self.inner.scenario_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "ledger/tests.rs"]
mod tests;
