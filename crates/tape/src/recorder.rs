//! Recording a session while it runs.
//!
//! A [`Recorder`] observes the wire of each realm: [`Recorder::begin`] before the realm is opened, a [`RecordedRealm`]
//! around it afterwards. Both pass everything on as it is, so that no code path differs because a tape runs. Lines are
//! encoded where they arise and written by a thread of their own, at most [`FLUSH_EVERY`] later. A recording that
//! cannot be written ends with one notice, and the session goes on.

use crate::header::TapeHeader;
use crate::modules;
use crate::record::{EventRef, ModuleSet, Opening, RealmNumber};
use crate::writer::{BlockWriter, Encoder};
use pijs_artifact::Verified;
use pijs_protocol::wire::RealmOptions;
use pijs_protocol::{Delivery, HostCall, Now, Seq, StreamDelta, SyncReply, Termination, Yield};
use pijs_realm::{Patience, Progress, Realm, Streamed, SyncHost};
use pijs_redact::Substitutes;
use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a record waits in memory at most: so much is missing after a kill.
pub const FLUSH_EVERY: Duration = Duration::from_millis(200);

/// Lines that may wait for the thread that writes; the session waits for it beyond.
const WAITING_LINES: usize = 1024;

/// Records the realms of a session. Copies record to the same tape.
#[derive(Clone)]
pub struct Recorder(Rc<RefCell<Tape>>);

/// Takes the reason why a recording ended early, once, from the thread that writes.
pub type OnFailure = Box<dyn FnOnce(&io::Error) + Send>;

struct Tape {
    encoder: Encoder,
    realms: u32,
    /// Module sets that were described already; the same `Arc` is the same set.
    known: Vec<(Arc<Verified>, ModuleSet)>,
    sink: Option<Sink>,
}

/// What the thread that writes does next.
enum Job {
    /// Writes a line.
    Line(Vec<u8>),
    /// Ends the recording.
    Abandon(io::Error),
}

/// The thread that writes.
struct Sink {
    lines: SyncSender<Job>,
    thread: JoinHandle<()>,
}

impl Recorder {
    /// Begins a tape and a thread that writes it. The header is written when this returns.
    ///
    /// # Errors
    ///
    /// `out` does not take the header, or there is no thread.
    pub fn new(
        out: impl Write + Send + 'static,
        header: &TapeHeader,
        substitutes: Substitutes,
        on_failure: OnFailure,
    ) -> io::Result<Self> {
        let encoder = Encoder::new(Some(substitutes));
        let mut blocks = BlockWriter::new(out);
        blocks.append(&encoder.header(header)?)?;
        blocks.flush()?;
        let (lines, arriving) = sync_channel(WAITING_LINES);
        let thread =
            std::thread::Builder::new().name("tape".to_owned()).spawn(move || write(blocks, &arriving, on_failure))?;
        let tape = Tape { encoder, realms: 0, known: Vec::new(), sink: Some(Sink { lines, thread }) };
        Ok(Self(Rc::new(RefCell::new(tape))))
    }

    /// Records that a realm is about to be opened. The wire that is returned records the rest.
    pub fn begin(&self, options: &RealmOptions, modules: &[Arc<Verified>], now: Now) -> Wire {
        let mut tape = self.0.borrow_mut();
        tape.realms += 1;
        let realm = RealmNumber(tape.realms);
        if tape.sink.is_some() {
            let modules = modules.iter().map(|modules| tape.describe(modules)).collect();
            let opening = Opening { options: options.clone(), now, modules };
            tape.record(realm, EventRef::Open(&opening));
        }
        Wire { tape: self.clone(), realm, is_in_turn: true, owes_reply: false, has_ended: false }
    }

    /// Writes everything, says that nothing is missing, and ends the recording. Later records are dropped.
    pub fn finish(&self) {
        self.0.borrow_mut().finish();
    }
}

impl Tape {
    fn record(&mut self, realm: RealmNumber, event: EventRef<'_>) {
        let Some(sink) = &self.sink else { return };
        match self.encoder.encode(realm, event) {
            // The thread ends when it cannot write, and has said so.
            Ok(lines) => {
                if lines.into_iter().any(|line| sink.lines.send(Job::Line(line)).is_err()) {
                    self.sink = None;
                }
            }
            Err(error) => self.abandon(error),
        }
    }

    /// Ends the recording because of something that cannot be encoded.
    fn abandon(&mut self, error: io::Error) {
        if let Some(Sink { lines, thread }) = self.sink.take() {
            let _ = lines.send(Job::Abandon(error));
            drop(lines);
            let _ = thread.join();
        }
    }

    fn describe(&mut self, verified: &Arc<Verified>) -> ModuleSet {
        if let Some((_, modules)) = self.known.iter().find(|(known, _)| Arc::ptr_eq(known, verified)) {
            return modules.clone();
        }
        let (mut modules, sources) = modules::describe(verified);
        if let (Some(sources), Some(sink)) = (sources, &self.sink) {
            let sources = self.encoder.text_without_secrets(sources);
            let digest = modules::blob_digest(&sources);
            if let Ok(Some(line)) = self.encoder.blob(digest.clone(), &sources) {
                let _ = sink.lines.send(Job::Line(line));
            }
            modules.source = Some(digest);
        }
        self.known.push((Arc::clone(verified), modules.clone()));
        modules
    }

    fn finish(&mut self) {
        if let Some(Sink { lines, thread }) = self.sink.take() {
            if let Ok(end) = self.encoder.end() {
                let _ = lines.send(Job::Line(end));
            }
            drop(lines);
            let _ = thread.join();
        }
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Writes lines until there are no more to come.
fn write(mut blocks: BlockWriter<impl Write>, lines: &Receiver<Job>, on_failure: OnFailure) {
    let mut flushed = Instant::now();
    let mut step = || -> io::Result<bool> {
        match lines.recv_timeout(FLUSH_EVERY.saturating_sub(flushed.elapsed())) {
            Ok(Job::Line(line)) => blocks.append(&line)?,
            Ok(Job::Abandon(error)) => return Err(error),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                blocks.flush()?;
                return Ok(false);
            }
        }
        if flushed.elapsed() >= FLUSH_EVERY {
            blocks.flush()?;
            flushed = Instant::now();
        }
        Ok(true)
    };
    loop {
        match step() {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return on_failure(&error),
        }
    }
}

/// The wire of one realm, as it is recorded.
pub struct Wire {
    tape: Recorder,
    realm: RealmNumber,
    /// A turn has begun and not ended.
    is_in_turn: bool,
    /// A synchronous call waits for its reply.
    owes_reply: bool,
    has_ended: bool,
}

impl Wire {
    /// Returns the host for the realm, with its synchronous calls recorded.
    pub fn host<'a>(&'a mut self, host: &'a mut dyn SyncHost) -> RecordedHost<'a> {
        RecordedHost { wire: self, host }
    }

    /// Records how the opening of the realm ended.
    pub fn opened(&mut self, booted: Result<&Yield, String>) {
        match booted {
            Ok(done) => self.yielded(done),
            Err(detail) => self.ended(&Termination::Crashed { detail }),
        }
    }

    fn record(&self, event: EventRef<'_>) {
        self.tape.0.borrow_mut().record(self.realm, event);
    }

    fn begins(&mut self, event: EventRef<'_>) {
        self.record(event);
        self.is_in_turn = true;
    }

    fn yielded(&mut self, done: &Yield) {
        self.record(EventRef::Yield(done));
        self.is_in_turn = false;
    }

    fn ended(&mut self, reason: &Termination) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.record(EventRef::Termination(reason));
        }
        self.is_in_turn = false;
    }

    fn replied(&mut self, reply: &SyncReply) {
        if std::mem::take(&mut self.owes_reply) {
            self.record(EventRef::Reply(reply));
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

/// A host whose synchronous calls are recorded.
pub struct RecordedHost<'a> {
    wire: &'a mut Wire,
    host: &'a mut dyn SyncHost,
}

impl SyncHost for RecordedHost<'_> {
    fn call(&mut self, call: HostCall) -> SyncReply {
        self.wire.record(EventRef::Call(&call));
        self.wire.owes_reply = true;
        let reply = self.host.call(call);
        self.wire.replied(&reply);
        reply
    }

    fn begin(&mut self, call: HostCall) -> Option<SyncReply> {
        self.wire.record(EventRef::Call(&call));
        self.wire.owes_reply = true;
        let reply = self.host.begin(call);
        if let Some(reply) = &reply {
            self.wire.replied(reply);
        }
        reply
    }
}

/// A realm whose wire is recorded.
pub struct RecordedRealm {
    realm: Box<dyn Realm>,
    wire: Wire,
}

impl RecordedRealm {
    /// Wraps a realm that was opened.
    pub fn new(realm: Box<dyn Realm>, wire: Wire) -> Self {
        Self { realm, wire }
    }

    /// Records deltas after the first one that ran, and the end of their turns.
    fn streamed(&mut self, seq: Seq, now: Now, deltas: &[StreamDelta], streamed: &Result<Streamed, Termination>) {
        let streamed = match streamed {
            Ok(streamed) => streamed,
            Err(reason) => return self.wire.ended(reason),
        };
        let numbered: Vec<_> = (seq.0..).map(Seq).zip(deltas).skip(1).collect();
        for (seq, delta) in &numbered[..streamed.passed] {
            self.wire.record(EventRef::Delta(*seq, now, delta));
        }
        self.wire.yielded(&streamed.done);
        if streamed.goes_on {
            let (seq, delta) = numbered[streamed.passed];
            self.wire.begins(EventRef::Delta(seq, now, delta));
        }
    }
}

impl Realm for RecordedRealm {
    fn start(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Progress {
        self.wire.begins(EventRef::Delivery(&delivery));
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
        self.wire.begins(EventRef::Delta(seq, now, delta));
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
        self.wire.begins(EventRef::Delta(seq, now, &deltas[0]));
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
