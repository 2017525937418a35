//! Records a session while it runs.
//!
//! A [`Recorder`] observes the wire of each realm: [`Recorder::begin`] before the realm is opened, a [`RecordedRealm`] around it
//! afterwards. Both forward every message unchanged, so that recording changes no code path.
//!
//! The session's thread only copies messages into a queue. A separate thread encodes and writes them, at most [`FLUSH_EVERY`]
//! later; it is woken earlier only if the queue is half full. If a recording cannot be written, it ends with one notice, and the
//! session continues.

use crate::agent_record::AgentRecord;
use crate::header::TapeHeader;
use crate::index::Subject;
use crate::modules;
use crate::record::{Event, EventRef, ModuleSet, Opening, RealmNumber, attachments};
use crate::writer::{BlockWriter, Encoder};
use pijs_artifact::Verified;
use pijs_protocol::wire::{RealmOptions, Size, Task};
use pijs_protocol::{Delivery, HostCall, Message, Now, Seq, StreamDelta, SyncReply, Termination, Yield};
use pijs_realm::{Patience, Progress, Realm, Streamed, SyncHost};
use pijs_redact::Substitutes;
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum time that a record waits in memory. A kill loses at most the records of this time.
pub const FLUSH_EVERY: Duration = Duration::from_millis(200);

/// Maximum number of records in the queue. If it is full, the session waits for the writing thread.
const MAX_WAITING: usize = 4096;

/// Maximum total size in bytes of the hostcalls and answers in the queue.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// Stack size of the writing thread in bytes, which parses deeply nested values.
const STACK: usize = 8 << 20;

/// Records the realms of a session. Clones record to the same tape.
#[derive(Clone)]
pub struct Recorder(Rc<Shared>);

/// Callback for the reason why a recording ended early. Called at most once, from the writing thread.
pub type OnFailure = Box<dyn FnOnce(&io::Error) + Send>;

struct Shared {
    realms: Cell<u32>,
    queue: Arc<Queue>,
    thread: RefCell<Option<JoinHandle<()>>>,
}

/// Queue of records for the writing thread.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// Wakes the writing thread.
    filled: Condvar,
    /// Wakes the session.
    drained: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: Vec<WriteStep>,
    bytes: usize,
    /// Set when no more records are queued.
    is_closed: bool,
}

/// A task of the writing thread.
enum WriteStep {
    /// Describes the modules of a realm and writes its opening.
    Open { realm: RealmNumber, options: RealmOptions, now: Now, modules: Vec<Arc<Verified>> },
    /// Writes a message of a wire.
    Event(RealmNumber, Event),
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a task, and waits while the queue is full. A closed queue drops it.
    fn push(&self, job: WriteStep, bytes: usize) {
        let mut waiting = self.lock();
        while !waiting.is_closed && (waiting.jobs.len() >= MAX_WAITING || waiting.bytes >= MAX_WAITING_BYTES) {
            waiting = self.drained.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        if waiting.is_closed {
            return;
        }
        waiting.jobs.push(job);
        waiting.bytes += bytes;
        if waiting.jobs.len() == MAX_WAITING / 2 || waiting.bytes >= MAX_WAITING_BYTES / 2 {
            self.filled.notify_one();
        }
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_one();
        self.drained.notify_one();
    }

    /// Takes the queued tasks, at the latest after [`FLUSH_EVERY`]. Also returns whether more may follow.
    fn take(&self) -> (Vec<WriteStep>, bool) {
        let is_early = |waiting: &mut Waiting| {
            !waiting.is_closed && waiting.jobs.len() < MAX_WAITING / 2 && waiting.bytes < MAX_WAITING_BYTES / 2
        };
        let waited = self.filled.wait_timeout_while(self.lock(), FLUSH_EVERY, is_early);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        waiting.bytes = 0;
        self.drained.notify_one();
        (std::mem::take(&mut waiting.jobs), !waiting.is_closed)
    }
}

/// Closes the queue when the writing thread ends, even by a panic, so that no recorder waits for it.
struct CloseOnDrop(Arc<Queue>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Recorder {
    /// Begins a tape and starts the thread that writes it. The header has been written when this returns.
    ///
    /// # Errors
    ///
    /// Fails if the header cannot be written to `out`, or if the thread cannot be started.
    pub fn new(
        out: impl Write + Send + 'static,
        header: &TapeHeader,
        substitutes: Substitutes,
        on_failure: OnFailure,
    ) -> io::Result<Self> {
        let encoder = Encoder::new(Some(substitutes));
        let mut blocks = BlockWriter::new(out);
        blocks.append(&encoder.header(header)?, Subject::All)?;
        blocks.flush()?;
        let queue = Arc::<Queue>::default();
        let writing = Arc::clone(&queue);
        let write = move || {
            let writing = CloseOnDrop(writing);
            let mut tape = Tape { encoder, blocks, known: Vec::new() };
            if let Err(error) = tape.write(&writing.0) {
                on_failure(&error);
            }
        };
        let thread = std::thread::Builder::new().name("tape".to_owned()).stack_size(STACK).spawn(write)?;
        Ok(Self(Rc::new(Shared { realms: Cell::new(0), queue, thread: RefCell::new(Some(thread)) })))
    }

    /// Records that a realm is about to be opened. The returned wire records everything else.
    pub fn begin(&self, options: &RealmOptions, modules: &[Arc<Verified>], now: Now) -> Wire {
        let realm = RealmNumber(self.0.realms.get() + 1);
        self.0.realms.set(realm.0);
        let wire =
            Wire { queue: Arc::clone(&self.0.queue), realm, is_in_turn: true, owes_reply: false, has_ended: false };
        self.0.queue.push(WriteStep::Open { realm, options: options.clone(), now, modules: modules.to_vec() }, 0);
        wire
    }

    /// Returns a recorder for the ports of the agent.
    pub fn agent(&self) -> AgentWire {
        AgentWire { queue: Arc::clone(&self.0.queue), asked: Arc::default() }
    }

    /// Writes all queued records, marks the tape as complete, and ends the recording. Later records are dropped.
    pub fn finish(&self) {
        self.0.finish();
    }
}

impl Shared {
    fn finish(&self) {
        if let Some(thread) = self.thread.take() {
            self.queue.close();
            // A panic there has lost the end of the tape, but must not end the session.
            let _ = thread.join();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.finish();
    }
}

/// State of the tape in the writing thread.
struct Tape<W> {
    encoder: Encoder,
    blocks: BlockWriter<W>,
    /// Module sets that were already described. Equal `Arc`s are the same set.
    known: Vec<(Arc<Verified>, ModuleSet)>,
}

impl<W: Write> Tape<W> {
    /// Writes the queued tasks until the queue is closed.
    fn write(&mut self, queue: &Queue) -> io::Result<()> {
        loop {
            let (jobs, more) = queue.take();
            for job in jobs {
                // Keeps the earlier records.
                self.carry_out(job).inspect_err(|_| drop(self.blocks.flush()))?;
            }
            if !more {
                self.blocks.append(&self.encoder.end()?, Subject::All)?;
                return self.blocks.finish();
            }
            self.blocks.flush()?;
        }
    }

    fn carry_out(&mut self, job: WriteStep) -> io::Result<()> {
        match job {
            WriteStep::Open { realm, options, now, modules } => {
                let modules = modules.iter().map(|modules| self.describe(modules)).collect::<io::Result<_>>()?;
                self.record(realm, EventRef::Open(&Opening { options, now, modules }))
            }
            WriteStep::Event(_, Event::Agent(record)) => {
                let line = self.encoder.agent(*record)?;
                self.blocks.append(&line, Subject::Agent)
            }
            WriteStep::Event(realm, event) => event.as_ref().map_or(Ok(()), |event| self.record(realm, event)),
        }
    }

    fn record(&mut self, realm: RealmNumber, event: EventRef<'_>) -> io::Result<()> {
        let lines = self.encoder.encode(realm, event)?;
        self.blocks.append_wire(realm, event, &lines)
    }

    fn describe(&mut self, verified: &Arc<Verified>) -> io::Result<ModuleSet> {
        if let Some((_, modules)) = self.known.iter().find(|(known, _)| Arc::ptr_eq(known, verified)) {
            return Ok(modules.clone());
        }
        let (mut modules, sources) = modules::describe(verified);
        if let Some(sources) = sources {
            let change = |text: &[u8]| self.encoder.text_without_secrets(text);
            let sources = modules::without_secrets(sources, &mut modules, change).map_err(io::Error::other)?;
            let digest = modules::blob_digest(&sources);
            if let Some(line) = self.encoder.blob(digest.clone(), &sources)? {
                self.blocks.append(&line, Subject::All)?;
            }
            modules.source = Some(digest);
        }
        self.known.push((Arc::clone(verified), modules.clone()));
        Ok(modules)
    }
}

/// Records the wire of one realm.
pub struct Wire {
    queue: Arc<Queue>,
    realm: RealmNumber,
    /// Whether a turn has begun and not ended.
    is_in_turn: bool,
    /// Whether a synchronous call is waiting for its reply.
    owes_reply: bool,
    has_ended: bool,
}

impl Wire {
    /// Returns a host for the realm that records its synchronous calls.
    pub fn host<'a>(&'a mut self, host: &'a mut dyn SyncHost) -> RecordedHost<'a> {
        RecordedHost { wire: self, host }
    }

    /// Records the outcome of opening the realm.
    pub fn opened(&mut self, booted: Result<&Yield, String>) {
        match booted {
            Ok(done) => self.yielded(done),
            Err(detail) => self.ended(&Termination::Crashed { detail }),
        }
    }

    fn record(&self, event: Event) {
        let bytes = size(&event);
        self.queue.push(WriteStep::Event(self.realm, event), bytes);
    }

    fn begins(&mut self, delivery: Delivery) {
        self.record(Event::Delivery(Box::new(delivery)));
        self.is_in_turn = true;
    }

    fn yielded(&mut self, done: &Yield) {
        self.record(Event::Yield(done.clone()));
        self.is_in_turn = false;
    }

    fn ended(&mut self, reason: &Termination) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.record(Event::Termination(reason.clone()));
        }
        self.is_in_turn = false;
    }

    fn replied(&mut self, reply: &SyncReply) {
        if std::mem::take(&mut self.owes_reply) {
            self.record(Event::Reply(reply.clone()));
        }
    }

    fn progress(&mut self, progress: &Progress) {
        match progress {
            Progress::Running => {}
            Progress::Yielded(done) => self.yielded(done),
            Progress::Ended(reason) => self.ended(reason),
        }
    }
}

/// Records the ports of the agent. Clones record to the same tape, from any thread.
#[derive(Clone)]
pub struct AgentWire {
    queue: Arc<Queue>,
    /// Number of questions so far.
    asked: Arc<AtomicU64>,
}

impl AgentWire {
    /// Records a message.
    pub fn record(&self, record: AgentRecord) {
        // An estimate: most records have a few members.
        let bytes = match &record {
            AgentRecord::Part { value, .. } | AgentRecord::Answer { value, .. } => Size::of(value).bytes,
            _ => 0,
        };
        self.queue.push(WriteStep::Event(RealmNumber(0), Event::Agent(Box::new(record))), bytes);
    }

    /// Records a question to a port. Returns the number of the question.
    pub fn ask(&self, port: &str, value: Value) -> u64 {
        let id = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        self.record(AgentRecord::Ask { id, port: port.to_owned(), value });
        id
    }

    /// Records a part of an answer.
    pub fn part(&self, id: u64, value: Value) {
        self.record(AgentRecord::Part { id, value });
    }

    /// Records the end of an answer.
    pub fn answer(&self, id: u64, value: Value) {
        self.record(AgentRecord::Answer { id, value });
    }
}

/// Returns the delivery of a streamed delta.
fn delta_at(seq: Seq, now: Now, delta: &StreamDelta) -> Delivery {
    Delivery { seq, now, task: Task::Stream(delta.clone()), state: None }
}

/// Estimates the memory of a record. Only hostcalls and their answers are large.
fn size(event: &Event) -> usize {
    let of_message = |message: &Message| match message {
        Message::HostCall(call) => Size::of_members(&call.params).bytes,
        Message::HostResult(result) => Size::of(&result.output).bytes,
        _ => 0,
    };
    let values = match event {
        Event::Call(call) => Size::of_members(&call.params).bytes,
        Event::Reply(reply) => Size::of(&reply.result.output).bytes,
        Event::Yield(done) => done.messages.iter().map(of_message).sum(),
        Event::Delivery(delivery) => match &delivery.task {
            Task::Message(message) => of_message(message),
            Task::Stream(_) => 0,
        },
        _ => 0,
    };
    let lists = event.as_ref().map(attachments).unwrap_or_default();
    values + lists.into_iter().flatten().map(Vec::len).sum::<usize>()
}

/// A host that records synchronous calls.
pub struct RecordedHost<'a> {
    wire: &'a mut Wire,
    host: &'a mut dyn SyncHost,
}

impl SyncHost for RecordedHost<'_> {
    fn call(&mut self, call: HostCall) -> SyncReply {
        self.wire.record(Event::Call(call.clone()));
        self.wire.owes_reply = true;
        let reply = self.host.call(call);
        self.wire.replied(&reply);
        reply
    }

    fn begin(&mut self, call: HostCall) -> Option<SyncReply> {
        self.wire.record(Event::Call(call.clone()));
        self.wire.owes_reply = true;
        let reply = self.host.begin(call);
        if let Some(reply) = &reply {
            self.wire.replied(reply);
        }
        reply
    }
}

/// A realm that records its wire.
pub struct RecordedRealm {
    realm: Box<dyn Realm>,
    wire: Wire,
}

impl RecordedRealm {
    /// Wraps an opened realm.
    pub fn new(realm: Box<dyn Realm>, wire: Wire) -> Self {
        Self { realm, wire }
    }

    /// Records further deltas that ran after the first one, and the end of their turns.
    fn streamed(&mut self, seq: Seq, now: Now, deltas: &[StreamDelta], streamed: &Result<Streamed, Termination>) {
        let streamed = match streamed {
            Ok(streamed) => streamed,
            Err(reason) => return self.wire.ended(reason),
        };
        let numbered: Vec<_> = (seq.0..).map(Seq).zip(deltas).skip(1).collect();
        for (seq, delta) in &numbered[..streamed.passed] {
            self.wire.record(Event::Delivery(Box::new(delta_at(*seq, now, delta))));
        }
        self.wire.yielded(&streamed.done);
        if streamed.goes_on {
            let (seq, delta) = numbered[streamed.passed];
            self.wire.begins(delta_at(seq, now, delta));
        }
    }
}

impl Realm for RecordedRealm {
    fn start(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Progress {
        self.wire.begins(delivery.clone());
        let progress = self.realm.start(delivery, &mut self.wire.host(host));
        self.wire.progress(&progress);
        progress
    }

    fn resume(&mut self, host: &mut dyn SyncHost, patience: Patience) -> Progress {
        let progress = self.realm.resume(&mut self.wire.host(host), patience);
        self.wire.progress(&progress);
        progress
    }

    fn answer(&mut self, reply: SyncReply) {
        if self.wire.is_in_turn {
            self.wire.replied(&reply);
        }
        self.realm.answer(reply);
    }

    fn stream(
        &mut self,
        seq: Seq,
        now: Now,
        delta: &StreamDelta,
        host: &mut dyn SyncHost,
    ) -> Result<Yield, Termination> {
        self.wire.begins(delta_at(seq, now, delta));
        let done = self.realm.stream(seq, now, delta, &mut self.wire.host(host));
        match &done {
            Ok(done) => self.wire.yielded(done),
            Err(reason) => self.wire.ended(reason),
        }
        done
    }

    fn stream_ahead(
        &mut self,
        seq: Seq,
        now: Now,
        deltas: &[StreamDelta],
        slice: Duration,
        host: &mut dyn SyncHost,
    ) -> Result<Streamed, Termination> {
        self.wire.begins(delta_at(seq, now, &deltas[0]));
        let streamed = self.realm.stream_ahead(seq, now, deltas, slice, &mut self.wire.host(host));
        self.streamed(seq, now, deltas, &streamed);
        streamed
    }

    fn lookahead(&self) -> usize {
        self.realm.lookahead()
    }

    fn interrupt(&self) {
        self.realm.interrupt();
    }

    fn pulse(&mut self) -> Option<Termination> {
        let reason = self.realm.pulse();
        if let Some(reason) = &reason {
            self.wire.ended(reason);
        }
        reason
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
