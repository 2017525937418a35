//! The evidence ledger: `pi.ext.log.v1` lines in a hash chain.
//!
//! Calls leave compact records; [`Ledger::flush`] turns them into lines. The dispatcher flushes
//! before anything that acts outside the realm begins, the host at the end of each turn, and a
//! full queue flushes itself, so cheap calls (a read, a notice) do not pay for writing inside
//! the turn they happen in.
//!
//! **Chain.** The last member of `data` is `chain: {seq, prev, hash}`. `hash` is sha256 over the
//! bytes of the line up to the comma before `"hash"`; `prev` is the `hash` before, 64 zeros at
//! first. Editing, removing, repeating or reordering a line shows at [`verify`]; cutting lines
//! off the end shows only to somebody who knows the last hash. That is tamper-evident, not
//! tamper-proof.
//!
//! **Never in here**: parameters (their hash instead), file contents, secrets by key or value.

use crate::connector::{Caller, Profile};
use crate::derive::{Required, Subject};
use crate::gate::Decision;
use hmac::{Hmac, Mac};
use pijs_protocol::log::Level;
use pijs_protocol::{ErrorCode, ExtensionId, HostCall, Now};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod canonical;
mod line;
mod redact;
mod verify;

pub use redact::{REDACTED, Redactor, is_secret_key};
pub use verify::{BrokenLine, Verified, verify};

use line::LineWriter;

/// Records that wait before the queue flushes itself.
const QUEUE: usize = 128;
/// Longest line; data that would make it longer is left out.
pub const LONGEST_LINE: usize = 64 << 10;
/// Bytes kept for a sink that fails, until further records are dropped and counted.
const MOST_UNWRITTEN: usize = 4 << 20;

/// Where lines go. One call appends whole lines, each with its line feed.
pub trait LedgerSink: Send + Sync {
    /// Appends. On an error nothing of `lines` counts as written, and they are offered again.
    fn append(&self, lines: &[u8]) -> io::Result<()>;
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
    /// Key of this installation. With it, hashes of environment reads are keyed, since a plain
    /// hash of a guessable value can be looked up.
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
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: Vec<Record>,
    head: ChainHead,
    /// Lines that a failing sink has not taken yet.
    unwritten: Vec<u8>,
    /// Records dropped since the last line.
    dropped: u64,
    scratch: Vec<u8>,
}

/// sha256, or a keyed hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParamsHash {
    pub(crate) digest: [u8; 32],
    pub(crate) keyed: bool,
}

/// What becomes a line.
struct Record {
    now: Now,
    profile: Arc<Profile>,
    tool_call_id: Option<Arc<str>>,
    event_id: Option<Arc<str>>,
    call_id: Option<Arc<str>>,
    body: Body,
}

enum Body {
    Decision { method: Box<str>, subject: Option<String>, decision: Decision },
    Start { call: CallFacts, claimed: Option<String>, timeout_ms: Option<u64> },
    End { call: CallFacts, duration_us: u64, error: Option<(ErrorCode, Option<Arc<str>>)> },
    Event(Box<EventBody>),
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
    pub(crate) call_id: Arc<str>,
    /// `unknown` when nobody serves it: an extension cannot write what it likes here.
    pub(crate) method: Arc<str>,
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
        let state = State { head: options.head, ..State::default() };
        Self { inner: Arc::new(Inner { options, scenario_id, redactor, sink, state: Mutex::new(state) }) }
    }

    /// Records something that is no hostcall: `extension.ready`, `realm.terminated`,
    /// `compat.warning`, ...
    pub fn event(&self, now: Now, caller: &Caller, level: Level, event: &str, message: &str, data: Map<String, Value>) {
        let body =
            EventBody { level, event: event.to_owned(), message: message.to_owned(), data, from_extension: false };
        self.push(record(now, caller, None, Body::Event(Box::new(body))));
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
        self.push(record(now, caller, None, Body::Event(Box::new(body))));
    }

    /// Text without the secrets this ledger knows.
    pub fn redactor(&self) -> &Redactor {
        &self.inner.redactor
    }

    /// Writes what is queued. On an error the lines are kept and offered again next time.
    pub fn flush(&self) -> io::Result<()> {
        self.write_queue(&mut self.state())
    }

    /// Where the chain stands, after a flush.
    pub fn head(&self) -> ChainHead {
        self.state().head
    }

    pub(crate) fn decision(
        &self,
        now: Now,
        caller: &Caller,
        call_id: &Arc<str>,
        method: &str,
        required: &Required<'_>,
        decision: &Decision,
    ) {
        let subject = match &required.subject {
            Subject::None | Subject::Handle => None,
            // Arguments may hold anything; the program is enough to know what was decided.
            Subject::Program { command, .. } => Some((*command).to_owned()),
            subject => Some(subject.to_string()),
        };
        let body = Body::Decision { method: method.into(), subject, decision: decision.clone() };
        self.push(record(now, caller, Some(Arc::clone(call_id)), body));
    }

    pub(crate) fn call_start(&self, now: Now, caller: &Caller, start: CallStart) {
        let CallStart { call, claimed, timeout_ms } = start;
        let id = Arc::clone(&call.call_id);
        self.push(record(now, caller, Some(id), Body::Start { call, claimed, timeout_ms }));
    }

    pub(crate) fn call_end(&self, now: Now, caller: &Caller, end: CallEnd) {
        let CallEnd { call, duration_us, error } = end;
        let id = Arc::clone(&call.call_id);
        self.push(record(now, caller, Some(id), Body::End { call, duration_us, error }));
    }

    pub(crate) fn hash_params(&self, call: &HostCall) -> ParamsHash {
        let mut state = self.state();
        let mut scratch = std::mem::take(&mut state.scratch);
        drop(state);
        scratch.clear();
        canonical::write_call(&call.method, &call.params, &call.bytes, &mut scratch);
        let hash = match &self.inner.options.hash_key {
            Some(key) if call.method == "env" => ParamsHash { digest: keyed(key, &scratch), keyed: true },
            _ => ParamsHash { digest: Sha256::digest(&scratch).into(), keyed: false },
        };
        self.state().scratch = scratch;
        hash
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, record: Record) {
        let mut state = self.state();
        state.queue.push(record);
        if state.queue.len() >= QUEUE {
            // A failure is kept for the next flush, whose caller can act on it.
            let _ = self.write_queue(&mut state);
        }
    }

    fn write_queue(&self, state: &mut State) -> io::Result<()> {
        if state.queue.is_empty() && state.unwritten.is_empty() {
            return Ok(());
        }
        let mut queue = std::mem::take(&mut state.queue);
        let mut writer = LineWriter {
            scenario_id: &self.inner.scenario_id,
            session_id: &self.inner.options.session_id,
            redactor: &self.inner.redactor,
        };
        for record in queue.drain(..) {
            if state.unwritten.len() >= MOST_UNWRITTEN {
                state.dropped += 1;
                continue;
            }
            if state.dropped > 0 {
                let lost = dropped(&record, std::mem::take(&mut state.dropped));
                writer.write(&lost, &mut state.head, &mut state.unwritten);
            }
            writer.write(&record, &mut state.head, &mut state.unwritten);
        }
        // Give the allocation back to the queue.
        state.queue = queue;
        self.inner.sink.append(&state.unwritten)?;
        state.unwritten.clear();
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = std::mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner));
        if state.queue.is_empty() && state.unwritten.is_empty() {
            return;
        }
        let mut state = state;
        let mut writer = LineWriter {
            scenario_id: &self.scenario_id,
            session_id: &self.options.session_id,
            redactor: &self.redactor,
        };
        for record in state.queue.drain(..) {
            writer.write(&record, &mut state.head, &mut state.unwritten);
        }
        // Nobody is left to hear of a failure.
        let _ = self.sink.append(&state.unwritten);
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("scenario_id", &self.inner.scenario_id).finish_non_exhaustive()
    }
}

fn record(now: Now, caller: &Caller, call_id: Option<Arc<str>>, body: Body) -> Record {
    Record {
        now,
        profile: Arc::clone(&caller.profile),
        tool_call_id: caller.tool_call_id.clone(),
        event_id: caller.event_id.clone(),
        call_id,
        body,
    }
}

/// A line that says how many records a failing sink cost.
fn dropped(next: &Record, count: u64) -> Record {
    Record {
        now: next.now,
        profile: Arc::new(Profile::new(ExtensionId::new("host"))),
        tool_call_id: None,
        event_id: None,
        call_id: None,
        body: Body::Event(Box::new(EventBody {
            level: Level::Error,
            event: "ledger.dropped".to_owned(),
            message: "the ledger could not be written for a while".to_owned(),
            data: Map::from_iter([("records".to_owned(), Value::from(count))]),
            from_extension: false,
        })),
    }
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

/// Keeps lines in memory, for tests and embedders.
#[derive(Debug, Default)]
pub struct MemorySink {
    bytes: Mutex<Vec<u8>>,
}

impl MemorySink {
    /// An empty one.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// What was written so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The lines as values.
    pub fn lines(&self) -> Vec<Value> {
        serde_json::Deserializer::from_slice(&self.bytes()).into_iter().map_while(Result::ok).collect()
    }
}

impl LedgerSink for MemorySink {
    fn append(&self, lines: &[u8]) -> io::Result<()> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(lines);
        Ok(())
    }
}

#[cfg(test)]
#[path = "ledger/tests.rs"]
mod tests;
