//! A realm in a sealed worker process.
//!
//! [`ProcessRealm::open`] starts another process of the running program as a worker (see [`worker`](crate::worker)). It has a
//! socket as stdin and no other file, only `TZ` in its environment, `/` as its folder, and a separate process group. A turn is
//! one frame in each direction, with synchronous hostcalls in between.
//!
//! A turn that does not end at once continues in the background ([`Progress::Running`]): the host does other work and resumes the
//! turn on the event that [`Realm::attention`] returns. No function then blocks on a worker, neither to read nor to write. Only
//! [`ProcessRealm::open`], [`Opening::finish`] and [`Realm::stream`] block.
//!
//! Starting a process takes longer than anything else here. A host that expects to need a realm starts a [`Spare`] in advance; a
//! host that needs many forks them from a [`Zygote`].
//!
//! Invariant: every turn ends. The worker's own fuel and job limits end it with an error; a worker past its deadline (some
//! built-ins of the engine cannot be interrupted) gets a grace period of 25 ms and then SIGKILL. The time that the host takes to
//! answer does not count. The time to read frames does, so that a worker cannot gain time by sending many. The death of a worker
//! ends the realm with a reason; dropping a realm kills and reaps its worker.
//!
//! Workers die with the thread that started them. A turn that has not ended after [`ProcessOptions::first`] returns
//! [`Progress::Running`]; the realm accepts nothing else until it ends.

#![expect(clippy::disallowed_methods, reason = "starting and timing worker processes is what this module does")]

mod child;
mod delta_batch;
mod options;
mod restrictions;
mod shared_code;
mod turn_clock;
mod zygote;

pub use options::{ProcessError, ProcessOptions};
pub use restrictions::Restrictions;
pub use shared_code::SharedCode;
pub use zygote::Zygote;

use crate::attention::Attention;
use crate::files;
use crate::frame::{
    ArtifactCode, FrameError, FromWorker, Open, Passed, SharedBytecode, ToWorker, WIRE_VERSION, encode_delta,
    encode_deltas,
};
use crate::link::{Frames, Link, LinkError, Pipe, PipeWait};
use crate::seal::Sealed;
use crate::{Patience, Progress, Realm, Streamed};
use child::WorkerProcess;
use delta_batch::DeltaBatch;
use pijs_artifact::Verified;
use pijs_engine::SyncHost;
use pijs_protocol::wire::RealmOptions;
use pijs_protocol::{Delivery, Now, Seq, StreamDelta, SyncReply, Termination, Yield, guard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use turn_clock::{StopRequest, TurnClock};
use zygote::ZygoteSetup;

/// Interval at which a blocked wait checks its deadline; bounds the delay of a kill.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum time that a resumed turn may hold this thread while its calls are answered immediately.
const SLICE: Duration = Duration::from_millis(2);

/// Time to wait for the worker's next message after a reply.
const REPLY_WAIT: Duration = Duration::from_micros(200);

impl Pipe for Arc<UnixStream> {
    fn read(&self, buffer: &mut [u8], wait: PipeWait) -> io::Result<usize> {
        let flags = if wait == PipeWait::Never { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        Ok(rustix::net::recv(&**self, buffer, flags)?.0)
    }

    fn write(&self, bytes: &[u8], wait: PipeWait) -> io::Result<usize> {
        let flags = if wait == PipeWait::Never { SendFlags::DONTWAIT } else { SendFlags::empty() };
        Ok(rustix::net::send(&**self, bytes, flags | SendFlags::NOSIGNAL)?)
    }
}

/// Runs the engine in a sealed process.
pub struct ProcessRealm {
    worker: WorkerProcess,
    socket: Arc<UnixStream>,
    link: Link<Arc<UnixStream>>,
    stop: StopRequest,
    options: ProcessOptions,
    sealed: Sealed,
    /// Clock of the running turn.
    turn: Option<TurnClock>,
    /// Whether the last poll ended while the worker was still sending.
    is_sending: bool,
    batch: DeltaBatch,
    /// Whether the running turn belongs to a delta that the host has not requested yet.
    is_held: bool,
    ended: Option<Termination>,
}

/// Limit of the time for which [`ProcessRealm::go_on`] serves a turn.
#[derive(Debug, Clone, Copy)]
enum ServeLimit {
    /// Until its end.
    End,
    /// Until a point in time.
    Moment {
        /// Latest time at which it stops waiting.
        wait: Instant,
        /// Latest time at which it stops serving.
        serve: Instant,
    },
}

/// A started worker without a realm. Dropping it kills it.
pub struct Spare {
    worker: WorkerProcess,
    socket: UnixStream,
    options: ProcessOptions,
    /// Options of the zygote, if the worker is a fork.
    setup: Option<Arc<ZygoteSetup>>,
}

impl Spare {
    /// Starts a worker. At the latest, the worker dies with the calling thread.
    pub fn start(options: ProcessOptions) -> Result<Self, ProcessError> {
        let (worker, socket) = WorkerProcess::start(&options, POLL_INTERVAL)?;
        Ok(Self { worker, socket, options, setup: None })
    }

    /// Returns the worker's process id.
    pub fn id(&self) -> u32 {
        self.worker.id()
    }

    /// Returns the worker if it still runs.
    #[must_use]
    pub fn alive(mut self) -> Option<Self> {
        self.worker.is_alive().then_some(self)
    }

    /// Sends the worker `modules` (host modules first) to create a realm. A fork of a [`Zygote`] with other options or another
    /// runtime is replaced by a new worker.
    ///
    /// # Errors
    ///
    /// See [`ProcessError`]. The worker has ended then.
    pub fn open(self, options: &RealmOptions, modules: &[Arc<Verified>], now: Now) -> Result<Opening, ProcessError> {
        let known = match &self.setup {
            Some(setup) if !setup.matches(options, modules) => {
                return Self::start(self.options.clone())?.open(options, modules, now);
            }
            // A forked worker already has the runtime, which comes first.
            Some(_) => 1,
            None => 0,
        };
        // The last artifact is the extension's, which no other worker needs: it is passed in memory that is not kept.
        let shared = modules.len().saturating_sub(1).max(1) - known;
        self.send_setup(options, &modules[known..], shared, now, ToWorker::Open).map(Opening)
    }

    /// Sends the options and modules; the first `shared` modules are in memory that workers share.
    fn send_setup(
        self,
        options: &RealmOptions,
        modules: &[Arc<Verified>],
        shared: usize,
        now: Now,
        message: fn(Box<Open>) -> ToWorker,
    ) -> Result<ProcessRealm, ProcessError> {
        let socket = Arc::new(self.socket);
        let mut realm = ProcessRealm {
            worker: self.worker,
            link: Link::new(Arc::clone(&socket)).with_core_sharing(),
            socket,
            stop: StopRequest::new(),
            options: self.options,
            sealed: Sealed { landlock: crate::seal::Landlock::None, seccomp: false },
            turn: None,
            is_sending: false,
            batch: DeltaBatch::new(),
            is_held: false,
            ended: None,
        };
        realm.await_hello()?;
        let shared_code = realm.options.shared_code.clone();
        let mut memories = Vec::new();
        let artifacts = modules.iter().enumerate().map(|(index, verified)| {
            let shared_code = shared_code.as_ref().filter(|_| memories.len() < files::MAX_FILES);
            let memory = shared_code.and_then(|shared_code| match index < shared {
                true => shared_code.memory(verified),
                false => SharedCode::one_time_memory(verified),
            });
            let in_shared_code = memory.map(|memory| {
                memories.push(memory);
                memories.len() - 1
            });
            code(verified, in_shared_code)
        });
        let open = Open { options: options.clone(), now, artifacts: artifacts.collect() };
        let memories: Vec<_> = memories.iter().map(|memory| memory.as_fd()).collect();
        if files::send(&*realm.socket, &memories).is_err() {
            return Err(ProcessError::Ended(realm.link_failed(&LinkError::Closed)));
        }
        // Host code runs first, and a busy machine may delay a new process.
        realm.begin(realm.options.turn.max(realm.options.hello));
        realm.send(|out| message(Box::new(open)).encode(out)).map_err(ProcessError::Ended)?;
        Ok(realm)
    }
}

/// A realm that its worker is creating.
pub struct Opening(ProcessRealm);

impl Opening {
    /// Waits until the realm has evaluated the runtime, and also returns the yield of that turn.
    ///
    /// # Errors
    ///
    /// See [`ProcessError`]. The worker has ended then.
    pub fn finish(self, host: &mut dyn SyncHost) -> Result<(ProcessRealm, Yield), ProcessError> {
        let Self(mut realm) = self;
        match realm.receive().map_err(ProcessError::Ended)? {
            FromWorker::Ready(sealed) => realm.sealed = sealed,
            FromWorker::Failed { message } => return Err(ProcessError::Failed(message)),
            other => return Err(ProcessError::Ended(realm.broke_protocol(&other))),
        }
        match realm.finish(host) {
            Ok(booted) => Ok((realm, booted)),
            Err(reason) => Err(ProcessError::Ended(reason)),
        }
    }
}

impl ProcessRealm {
    /// Starts a worker, sends it `modules` (host modules first) and lets it evaluate the runtime.
    ///
    /// Also returns the yield of the runtime. At the latest, the worker dies with the calling thread.
    ///
    /// # Errors
    ///
    /// See [`ProcessError`]. The worker has ended then.
    pub fn open(
        options: &RealmOptions,
        modules: &[Arc<Verified>],
        now: Now,
        host: &mut dyn SyncHost,
        process: ProcessOptions,
    ) -> Result<(Self, Yield), ProcessError> {
        Spare::start(process)?.open(options, modules, now)?.finish(host)
    }

    /// Returns the seals of the worker.
    pub fn sealed(&self) -> Sealed {
        self.sealed
    }

    /// Reads the worker's restrictions from outside, as the system reports them.
    ///
    /// # Errors
    ///
    /// Fails if the worker has ended, or if there is no `/proc`.
    pub fn restrictions(&self) -> io::Result<Restrictions> {
        Restrictions::of(self.worker.id())
    }

    /// Returns the worker's process id.
    pub fn id(&self) -> u32 {
        self.worker.id()
    }

    /// Returns the number of frames in each direction.
    pub fn frames(&self) -> Frames {
        self.link.frames()
    }

    /// Returns a handle that ends a running turn from another thread, by killing the worker after its grace period.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + Clone + 'static {
        let stop = self.stop.clone();
        move || stop.request()
    }

    fn await_hello(&mut self) -> Result<(), ProcessError> {
        self.begin(self.options.hello);
        let instead = match self.receive() {
            Ok(FromWorker::Hello { wire: WIRE_VERSION }) => return Ok(()),
            Ok(FromWorker::Hello { wire }) => format!("uses version {wire} of the wire format, not {WIRE_VERSION}"),
            Ok(_) => "did not send a hello first".to_owned(),
            Err(Termination::Timeout { .. }) => format!("sent nothing within {:?}", self.options.hello),
            // Another process or the system killed the worker, which allows no conclusion about the program.
            Err(reason @ Termination::Crashed { .. }) if self.worker.was_killed() => {
                return Err(ProcessError::Ended(reason));
            }
            Err(Termination::Crashed { detail }) => format!("ended ({detail})"),
            Err(other) => other.to_string(),
        };
        Err(ProcessError::NoWorker { program: self.options.program.clone(), instead })
    }

    fn begin(&mut self, patience: Duration) {
        self.stop.arm();
        self.batch.begin_turn();
        self.turn = Some(TurnClock::new(patience));
    }

    fn turn(&self) -> TurnClock {
        self.turn.unwrap_or_else(|| TurnClock::new(self.options.turn))
    }

    /// Queues a frame; bytes that the socket does not accept at once are sent while the turn continues.
    fn queue(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Result<(), FrameError>) -> Result<(), Termination> {
        if let Err(error) = self.link.queue(encode) {
            return Err(self.end(Termination::Protocol { detail: format!("to send it: {error}") }));
        }
        match self.link.flush(PipeWait::Never, || ControlFlow::Break(())) {
            Ok(()) | Err(LinkError::GaveUp) => Ok(()),
            Err(error) => Err(self.link_failed(&error)),
        }
    }

    /// Sends a whole frame.
    fn send(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Result<(), FrameError>) -> Result<(), Termination> {
        self.queue(encode)?;
        let (mut turn, grace) = (self.turn(), self.options.grace);
        let sent = self.link.flush(PipeWait::UntilTimeout, || turn.check(&self.stop, grace));
        self.turn = Some(turn);
        sent.map_err(|error| self.link_failed(&error))
    }

    fn receive(&mut self) -> Result<FromWorker, Termination> {
        let (mut turn, grace) = (self.turn(), self.options.grace);
        let message = self
            .link
            .receive(PipeWait::UntilTimeout, || turn.check(&self.stop, grace))
            .and_then(|frame| FromWorker::decode(frame).map_err(LinkError::Frame));
        self.turn = Some(turn);
        message.map_err(|error| self.link_failed(&error))
    }

    /// Continues the turn until it ends; `None` if that takes longer than `until`.
    fn go_on(&mut self, host: &mut dyn SyncHost, mut until: ServeLimit) -> Option<Result<Yield, Termination>> {
        loop {
            match self.next_frame(until)? {
                Ok(FromWorker::Yielded(done)) => return Some(self.yielded(done)),
                Ok(FromWorker::Ended(reason)) => return Some(Err(self.end(reason))),
                Ok(FromWorker::Passed(passed)) if self.batch.accepts(passed) => {
                    return Some(self.passed(passed));
                }
                Ok(FromWorker::Call(call)) => {
                    self.batch.note_call();
                    let mut turn = self.turn();
                    // A worker that makes calls without end never lets the wait time out, so the clock is checked here as well.
                    if turn.check(&self.stop, self.options.grace).is_break() {
                        return Some(Err(self.link_failed(&LinkError::GaveUp)));
                    }
                    turn.pause();
                    self.turn = Some(turn);
                    let reply = match until {
                        ServeLimit::End => Some(host.call(call)),
                        ServeLimit::Moment { .. } => host.begin(call),
                    };
                    if let Err(reason) = self.reply(reply?) {
                        return Some(Err(reason));
                    }
                    if let ServeLimit::Moment { wait, serve } = &mut until {
                        let now = Instant::now();
                        if now >= *serve {
                            self.is_sending = true;
                            return None;
                        }
                        *wait = (*wait).max(now + REPLY_WAIT).min(*serve);
                    }
                }
                Ok(other) => return Some(Err(self.broke_protocol(&other))),
                Err(error) => return Some(Err(self.link_failed(&error))),
            }
        }
    }

    /// Sends unsent bytes and waits for a frame; `None` if `until` is reached first.
    fn next_frame(&mut self, until: ServeLimit) -> Option<Result<FromWorker, LinkError>> {
        let (mut turn, grace) = (self.turn(), self.options.grace);
        let Self { link, socket, stop, .. } = self;
        let mut dies = false;
        let mut check = |flags| {
            dies = turn.check(stop, grace).is_break();
            if dies {
                return ControlFlow::Break(());
            }
            if let ServeLimit::Moment { wait, .. } = until {
                let by = turn.next_check().map_or(wait, |check| check.min(wait));
                let patience = by.saturating_duration_since(Instant::now());
                if patience.is_zero() && Instant::now() >= wait {
                    return ControlFlow::Break(());
                }
                ready(socket, flags, patience);
            }
            ControlFlow::Continue(())
        };
        let wait = if matches!(until, ServeLimit::End) { PipeWait::UntilTimeout } else { PipeWait::Never };
        let sent = link.flush(wait, || check(PollFlags::OUT));
        let received = sent.and_then(|()| {
            let frame = link.receive(wait, || check(PollFlags::IN))?;
            FromWorker::decode(frame).map_err(LinkError::Frame)
        });
        self.turn = Some(turn);
        match received {
            Err(LinkError::GaveUp) if !dies => None,
            other => Some(other),
        }
    }

    /// Ends the turn. Any other message of the worker would violate the protocol.
    fn yielded(&mut self, done: Yield) -> Result<Yield, Termination> {
        self.stop.disarm();
        self.turn = None;
        if self.link.has_unread() && guard!(RealmTurns) {
            let detail = "the worker sent data after the end of its turn".to_owned();
            return Err(self.end(Termination::Protocol { detail }));
        }
        Ok(done)
    }

    /// Records deltas that passed. The turn of the next one, if it has begun, gets its full time when the host requests it.
    fn passed(&mut self, passed: Passed) -> Result<Yield, Termination> {
        self.batch.take_report(passed);
        let done = Yield { usage: passed.usage, ..Yield::default() };
        if !passed.goes_on {
            return self.yielded(done);
        }
        let mut turn = TurnClock::new(self.options.stream);
        turn.pause();
        (self.turn, self.is_held) = (Some(turn), true);
        Ok(done)
    }

    fn reply(&mut self, reply: SyncReply) -> Result<(), Termination> {
        let mut turn = self.turn();
        turn.resume_clock();
        self.turn = Some(turn);
        self.queue(|out| ToWorker::Reply(Box::new(reply)).encode(out))
    }

    /// Continues the turn to its end.
    fn finish(&mut self, host: &mut dyn SyncHost) -> Result<Yield, Termination> {
        self.go_on(host, ServeLimit::End)
            .unwrap_or_else(|| unreachable!("without a limit only the deadline ends the wait"))
    }

    fn progress(&mut self, host: &mut dyn SyncHost, patience: Duration) -> Progress {
        if let Some(reason) = &self.ended {
            return Progress::Ended(reason.clone());
        }
        if std::mem::take(&mut self.is_held) {
            let mut turn = self.turn();
            turn.resume_clock();
            self.turn = Some(turn);
        }
        if self.turn().is_call_pending() {
            // Only a stop or the death of the worker can end it before the reply.
            let mut turn = self.turn();
            let dies = turn.check(&self.stop, self.options.grace).is_break();
            self.turn = Some(turn);
            return match self.link.peek() {
                _ if dies => Progress::Ended(self.link_failed(&LinkError::GaveUp)),
                Err(error) => Progress::Ended(self.link_failed(&error)),
                Ok(true) if guard!(RealmTurns) => {
                    let detail = "the worker sent data while it waited for a reply".to_owned();
                    Progress::Ended(self.end(Termination::Protocol { detail }))
                }
                Ok(_) => Progress::Running,
            };
        }
        // A worker that has just sent a message sends the next one sooner than the host could watch for it.
        let patience = if std::mem::take(&mut self.is_sending) { patience.max(REPLY_WAIT) } else { patience };
        let now = Instant::now();
        match self.go_on(host, ServeLimit::Moment { wait: now + patience, serve: now + patience.max(SLICE) }) {
            None => Progress::Running,
            Some(Ok(done)) => Progress::Yielded(done),
            Some(Err(reason)) => Progress::Ended(reason),
        }
    }

    fn broke_protocol(&mut self, message: &FromWorker) -> Termination {
        let said = match message {
            FromWorker::Hello { .. } => "hello",
            FromWorker::Ready(_) => "ready",
            FromWorker::Failed { .. } => "failed",
            FromWorker::Call(_) => "hostcall",
            FromWorker::Yielded(_) => "yield",
            FromWorker::Ended(_) => "ended",
            FromWorker::Passed(_) => "passed",
            FromWorker::Forked { .. } => "forked",
        };
        self.end(Termination::Protocol { detail: format!("the worker sent an unexpected message: {said}") })
    }

    /// Ends the realm after a link error; kills the worker if it is alive.
    fn link_failed(&mut self, error: &LinkError) -> Termination {
        let reason = match error {
            LinkError::GaveUp => Termination::Timeout { quota: "deadline".to_owned() },
            LinkError::Frame(error) => Termination::Protocol { detail: error.to_string() },
            LinkError::Closed => Termination::Crashed { detail: self.worker.bury() },
        };
        self.end(reason)
    }

    /// Ends the realm permanently. If it has already ended, the first reason stays.
    fn end(&mut self, reason: Termination) -> Termination {
        self.worker.bury();
        self.turn = None;
        self.stop.disarm();
        self.ended.get_or_insert(reason).clone()
    }
}

/// Waits until a socket is ready, but at most for `patience`.
fn ready(socket: &UnixStream, flags: PollFlags, patience: Duration) {
    let patience = Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
    // The next poll of the socket shows the cause.
    let _ = poll(&mut [PollFd::new(socket, flags)], Some(&patience));
}

/// Returns the part of an artifact that the worker needs.
fn code(verified: &Verified, in_shared_code: Option<usize>) -> ArtifactCode {
    let artifact = verified.artifact();
    // A verified artifact has bytecode for each of its modules.
    let bytecode = || artifact.modules.iter().map(|module| module.bytecode.as_deref().unwrap_or_default());
    ArtifactCode {
        name: artifact.metadata.name.clone(),
        version: artifact.metadata.version.clone(),
        specifiers: artifact.modules.iter().map(|module| module.specifier.clone()).collect(),
        shared: in_shared_code.map(|file| SharedBytecode { file, lengths: bytecode().map(<[u8]>::len).collect() }),
        bytecode: if in_shared_code.is_some() { Vec::new() } else { bytecode().map(<[u8]>::to_vec).collect() },
    }
}

impl Realm for ProcessRealm {
    fn start(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Progress {
        if self.ended.is_none() {
            // Data that arrives between turns is not an answer.
            match self.link.peek() {
                Ok(true) if guard!(RealmTurns) => {
                    let detail = "the worker sent data between turns".to_owned();
                    return Progress::Ended(self.end(Termination::Protocol { detail }));
                }
                Ok(_) => {}
                Err(error) => return Progress::Ended(self.link_failed(&error)),
            }
            let longest = self.options.longest(&delivery.task);
            if let Err(reason) = self.queue(|out| ToWorker::Deliver(Box::new(delivery)).encode(out)) {
                return Progress::Ended(reason);
            }
            // The turn starts here, so that the time to encode megabytes is not charged to the worker.
            self.begin(longest);
        }
        self.progress(host, self.options.first)
    }

    fn resume(&mut self, host: &mut dyn SyncHost, patience: Patience) -> Progress {
        if self.ended.is_none() && self.turn.is_none() {
            let detail = "resumed without a running turn".to_owned();
            return Progress::Ended(self.end(Termination::HostBug { detail }));
        }
        self.progress(
            host,
            match patience {
                Patience::Poll => Duration::ZERO,
                Patience::AtMost(patience) => patience,
            },
        )
    }

    fn answer(&mut self, reply: SyncReply) {
        // A realm that has ended needs no reply.
        if self.turn.is_some_and(|turn| turn.is_call_pending()) {
            // The next poll of the turn reports an error.
            let _ = self.reply(reply);
        }
    }

    fn stream(
        &mut self,
        seq: Seq,
        now: Now,
        delta: &StreamDelta,
        host: &mut dyn SyncHost,
    ) -> Result<Yield, Termination> {
        if let Some(reason) = &self.ended {
            return Err(reason.clone());
        }
        self.begin(self.options.stream);
        self.send(|out| encode_delta(seq, now, delta, out))?;
        let done = self.finish(host)?;
        self.batch.adapt(&done);
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
        if let Some(reason) = &self.ended {
            return Err(reason.clone());
        }
        let deltas = &deltas[..deltas.len().min(self.batch.most())];
        if let [delta] = deltas {
            return self.stream(seq, now, delta, host).map(Streamed::from);
        }
        self.begin(self.options.stream.saturating_add(slice));
        let slice_us = u64::try_from(slice.as_micros()).unwrap_or(u64::MAX);
        self.send(|out| encode_deltas(seq, now, slice_us, deltas, out))?;
        self.batch.begin(deltas.len());
        let done = self.finish(host)?;
        let Some(Passed { count, goes_on, .. }) = self.batch.end() else {
            // The first delta had an effect.
            self.batch.shrink();
            return Ok(done.into());
        };
        if goes_on {
            self.batch.shrink();
        } else if count == deltas.len() {
            self.batch.adapt(&done);
        }
        Ok(Streamed { done, passed: count - 1, goes_on })
    }

    fn lookahead(&self) -> usize {
        self.batch.most() - 1
    }

    fn interrupt(&self) {
        self.stop.request();
    }

    fn pulse(&mut self) -> Option<Termination> {
        if self.ended.is_none() && self.turn.is_none() {
            // Data written before its death would hide the closed socket, and is not needed.
            match self.link.peek() {
                Ok(false) => return None,
                Ok(true) => drop(self.link_failed(&LinkError::Closed)),
                Err(error) => drop(self.link_failed(&error)),
            }
        }
        self.ended.clone()
    }

    fn attention(&self) -> Option<Attention> {
        let turn = self.turn?;
        if self.is_sending {
            return Some(Attention::AtOnce);
        }
        let socket = self.socket.try_clone().ok().map(OwnedFd::from);
        Some(Attention::When { socket, by: turn.next_check() })
    }

    fn death(&self) -> Option<OwnedFd> {
        self.worker.handle()
    }
}
