//! A realm in a sealed worker process.
//!
//! [`ProcessRealm::open`] starts the running program once more as a worker (see [`worker`](crate::worker)),
//! with a socket as stdin and nothing else: no environment but `TZ`, no other file, `/` as folder, a process group
//! of its own. A turn is one frame there and one back, synchronous hostcalls in between.
//!
//! A turn that does not end at once goes on by itself ([`Progress::Running`]): the host does other things and comes
//! back when [`Realm::attention`] says so. Nothing here waits for a worker then, neither to read nor to write.
//! Only [`ProcessRealm::open`], [`Opening::finish`] and [`Realm::stream`] wait.
//!
//! Starting a process takes longer than anything else here. Who knows that a realm will be wanted starts a [`Spare`]
//! before, and does something else meanwhile; who wants many has them forked by a [`Zygote`].
//!
//! What always holds: a turn ends. The worker's own fuel and jobs end it politely; a worker that is
//! past its deadline all the same (some built-ins of the engine cannot be interrupted) gets a
//! grace of 25 ms and then SIGKILL. Time spent in the host's answers does not count, frames do: a worker that
//! floods its host runs out of time too. Every way for a worker to die ends the realm, which then says
//! why; dropping a realm kills and reaps its worker.
//!
//! Workers die with the thread that opened them. A turn that is not over after [`ProcessOptions::first`] answers
//! [`Progress::Running`]; the realm gets nothing else until it is over.

mod child;
mod options;
mod shelf;
mod standing;
mod turn;
mod zygote;

pub use options::{ProcessError, ProcessOptions};
pub use shelf::Shelf;
pub use standing::Standing;
pub use zygote::Zygote;

use crate::attention::Attention;
use crate::files;
use crate::frame::{
    Code, FrameError, FromWorker, Open, Passed, Shelved, ToWorker, WIRE_VERSION, encode_delta, encode_deltas,
};
use crate::link::{Frames, Link, LinkError, Pipe, Wait};
use crate::seal::Sealed;
use crate::{Patience, Progress, Realm, Streamed};
use child::Worker;
use pijs_artifact::Verified;
use pijs_engine::SyncHost;
use pijs_protocol::wire::{RealmOptions, StreamAnswer};
use pijs_protocol::{Delivery, Now, Seq, StreamDelta, SyncReply, Termination, Yield, guard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use turn::{Stop, Turn};
use zygote::Origin;

/// How often a wait looks at its deadline: a worker is killed at most this much late.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long a resumed turn is served without a break: calls that are answered at once, one after the other.
const SLICE: Duration = Duration::from_millis(2);

/// How long to wait for what a worker says next, after it was answered.
const BRISK: Duration = Duration::from_micros(200);

/// Most deltas in one frame: the delay of being woken, divided by this, is nothing beside a turn.
const TOGETHER: usize = 256;

impl Pipe for Arc<UnixStream> {
    fn read(&self, buffer: &mut [u8], wait: Wait) -> io::Result<usize> {
        let flags = if wait == Wait::Never { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        Ok(rustix::net::recv(&**self, buffer, flags)?.0)
    }

    fn write(&self, bytes: &[u8], wait: Wait) -> io::Result<usize> {
        let flags = if wait == Wait::Never { SendFlags::DONTWAIT } else { SendFlags::empty() };
        Ok(rustix::net::send(&**self, bytes, flags | SendFlags::NOSIGNAL)?)
    }
}

/// Runs the engine in a sealed process.
pub struct ProcessRealm {
    worker: Worker,
    socket: Arc<UnixStream>,
    link: Link<Arc<UnixStream>>,
    stop: Stop,
    options: ProcessOptions,
    sealed: Sealed,
    /// The turn that is under way.
    turn: Option<Turn>,
    /// The last look at the turn ended before the worker had nothing more to say.
    is_brisk: bool,
    /// Number of deltas that cross together. Grows while they pass, so that what a talkative handler leaves over is small.
    together: usize,
    /// Number of deltas that crossed together, until the worker says something of them.
    burst: Option<usize>,
    /// The report on the latest that passed.
    passed: Option<Passed>,
    /// Whether the worker has made a hostcall in the latest turn.
    has_called: bool,
    /// The turn under way is that of a delta which the host has not come to.
    is_held: bool,
    ended: Option<Termination>,
}

/// How long [`ProcessRealm::go_on`] stays with a turn.
#[derive(Debug, Clone, Copy)]
enum Until {
    /// Its end.
    End,
    /// A moment.
    Moment {
        /// Waits no longer than this.
        wait: Instant,
        /// Serves no longer than this.
        serve: Instant,
    },
}

/// A worker that was started and told nothing yet. Dropping it kills it.
pub struct Spare {
    worker: Worker,
    socket: UnixStream,
    options: ProcessOptions,
    /// What the runtime was evaluated with already, in a copy.
    origin: Option<Arc<Origin>>,
}

impl Spare {
    /// Starts a worker. It dies with the thread that calls this, at the latest.
    ///
    /// # Errors
    ///
    /// [`ProcessError::Spawn`], and [`ProcessError::NoWorker`] in a worker.
    pub fn start(options: ProcessOptions) -> Result<Self, ProcessError> {
        let (worker, socket) = Worker::start(&options, LOOK_EVERY)?;
        Ok(Self { worker, socket, options, origin: None })
    }

    /// The worker's process id.
    pub fn id(&self) -> u32 {
        self.worker.id()
    }

    /// Itself, if it still runs: it may have waited for long.
    #[must_use]
    pub fn alive(mut self) -> Option<Self> {
        self.worker.is_alive().then_some(self)
    }

    /// Gives it `modules` (host modules first), to make a realm of. A copy of a [`Zygote`] that was made with other
    /// options than these, or with another runtime, is replaced by a worker that was not.
    ///
    /// # Errors
    ///
    /// See [`ProcessError`]. The worker is gone then.
    pub fn open(self, options: &RealmOptions, modules: &[Arc<Verified>], now: Now) -> Result<Opening, ProcessError> {
        let known = match &self.origin {
            Some(origin) if !origin.suits(options, modules) => {
                return Self::start(self.options.clone())?.open(options, modules, now);
            }
            // The runtime, which comes first.
            Some(_) => 1,
            None => 0,
        };
        // The last is the extension's own, which no other worker needs: it goes by memory, too, and is not kept.
        let shared = modules.len().saturating_sub(1).max(1) - known;
        self.tell(options, &modules[known..], shared, now, ToWorker::Open).map(Opening)
    }

    /// Tells it what to do, with modules of which the first `shared` lie where other workers find them, too.
    fn tell(
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
            link: Link::new(Arc::clone(&socket)).keeping_apart(),
            socket,
            stop: Stop::new(),
            options: self.options,
            sealed: Sealed { landlock: crate::seal::Landlock::None, seccomp: false },
            turn: None,
            is_brisk: false,
            together: 1,
            burst: None,
            passed: None,
            has_called: false,
            is_held: false,
            ended: None,
        };
        realm.await_hello()?;
        let shelf = realm.options.shelf.clone();
        let mut memories = Vec::new();
        let artifacts = modules.iter().enumerate().map(|(index, verified)| {
            let shelf = shelf.as_ref().filter(|_| memories.len() < files::MOST);
            let memory = shelf.and_then(|shelf| match index < shared {
                true => shelf.memory(verified),
                false => Shelf::passing(verified),
            });
            let on_shelf = memory.map(|memory| {
                memories.push(memory);
                memories.len() - 1
            });
            code(verified, on_shelf)
        });
        let open = Open { options: options.clone(), now, artifacts: artifacts.collect() };
        let memories: Vec<_> = memories.iter().map(|memory| memory.as_fd()).collect();
        if files::send(&*realm.socket, &memories).is_err() {
            return Err(ProcessError::Ended(realm.lost(&LinkError::Closed)));
        }
        // Our own code runs first, and a machine that is busy may take its time with a process that is new.
        realm.begin(realm.options.turn.max(realm.options.hello));
        realm.send(|out| message(Box::new(open)).encode(out)).map_err(ProcessError::Ended)?;
        Ok(realm)
    }
}

/// A realm that its worker is making.
pub struct Opening(ProcessRealm);

impl Opening {
    /// Waits until the realm has evaluated the runtime; also answers what that had to say.
    ///
    /// # Errors
    ///
    /// See [`ProcessError`]. The worker is gone then.
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
    /// Starts a worker, gives it `modules` (host modules first) and lets it evaluate the runtime.
    ///
    /// Also answers what the runtime had to say. The worker dies with the thread that calls this, at the latest.
    ///
    /// # Errors
    ///
    /// See [`ProcessError`]. The worker is gone then.
    pub fn open(
        options: &RealmOptions,
        modules: &[Arc<Verified>],
        now: Now,
        host: &mut dyn SyncHost,
        process: ProcessOptions,
    ) -> Result<(Self, Yield), ProcessError> {
        Spare::start(process)?.open(options, modules, now)?.finish(host)
    }

    /// Which walls stand around the worker.
    pub fn sealed(&self) -> Sealed {
        self.sealed
    }

    /// What the system says of the worker, as anybody can see it from outside.
    ///
    /// # Errors
    ///
    /// The worker is gone, or there is no `/proc`.
    pub fn standing(&self) -> io::Result<Standing> {
        Standing::of(self.worker.id())
    }

    /// The worker's process id.
    pub fn id(&self) -> u32 {
        self.worker.id()
    }

    /// Returns how many frames have crossed.
    pub fn frames(&self) -> Frames {
        self.link.frames()
    }

    /// A handle that ends a running turn from another thread, by killing the worker after its grace.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + Clone + 'static {
        let stop = self.stop.clone();
        move || stop.request()
    }

    fn await_hello(&mut self) -> Result<(), ProcessError> {
        self.begin(self.options.hello);
        let instead = match self.receive() {
            Ok(FromWorker::Hello { wire: WIRE_VERSION }) => return Ok(()),
            Ok(FromWorker::Hello { wire }) => format!("speaks version {wire} of the wire, not {WIRE_VERSION}"),
            Ok(_) => "did not begin with a greeting".to_owned(),
            Err(Termination::Timeout { .. }) => format!("said nothing within {:?}", self.options.hello),
            // Somebody else's doing, or the system's: that says nothing of the program.
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
        self.has_called = false;
        self.turn = Some(Turn::new(patience));
    }

    fn turn(&self) -> Turn {
        self.turn.unwrap_or_else(|| Turn::new(self.options.turn))
    }

    /// Puts a frame in line; what the socket does not take at once goes out while the turn goes on.
    fn queue(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Result<(), FrameError>) -> Result<(), Termination> {
        if let Err(error) = self.link.queue(encode) {
            return Err(self.end(Termination::Protocol { detail: format!("to send it: {error}") }));
        }
        match self.link.flush(Wait::Never, || ControlFlow::Break(())) {
            Ok(()) | Err(LinkError::GaveUp) => Ok(()),
            Err(error) => Err(self.lost(&error)),
        }
    }

    /// Sends a frame to its end.
    fn send(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Result<(), FrameError>) -> Result<(), Termination> {
        self.queue(encode)?;
        let (mut turn, grace) = (self.turn(), self.options.grace);
        let sent = self.link.flush(Wait::ToTimeout, || turn.look(&self.stop, grace));
        self.turn = Some(turn);
        sent.map_err(|error| self.lost(&error))
    }

    fn receive(&mut self) -> Result<FromWorker, Termination> {
        let (mut turn, grace) = (self.turn(), self.options.grace);
        let message = self
            .link
            .receive(Wait::ToTimeout, || turn.look(&self.stop, grace))
            .and_then(|frame| FromWorker::decode(frame).map_err(LinkError::Frame));
        self.turn = Some(turn);
        message.map_err(|error| self.lost(&error))
    }

    /// Goes on with the turn until it is over, or not at once: `None`.
    fn go_on(&mut self, host: &mut dyn SyncHost, mut until: Until) -> Option<Result<Yield, Termination>> {
        loop {
            match self.next_frame(until)? {
                Ok(FromWorker::Yielded(done)) => return Some(self.yielded(done)),
                Ok(FromWorker::Ended(reason)) => return Some(Err(self.end(reason))),
                Ok(FromWorker::Passed(passed)) if self.burst.is_some_and(|sent| fits(passed, sent)) => {
                    return Some(self.passed(passed));
                }
                Ok(FromWorker::Call(call)) => {
                    (self.burst, self.has_called) = (None, true);
                    let mut turn = self.turn();
                    // A worker that calls without end never makes the wait time out.
                    if turn.look(&self.stop, self.options.grace).is_break() {
                        return Some(Err(self.lost(&LinkError::GaveUp)));
                    }
                    turn.ask();
                    self.turn = Some(turn);
                    let reply = match until {
                        Until::End => Some(host.call(call)),
                        Until::Moment { .. } => host.begin(call),
                    };
                    if let Err(reason) = self.reply(reply?) {
                        return Some(Err(reason));
                    }
                    if let Until::Moment { wait, serve } = &mut until {
                        let now = Instant::now();
                        if now >= *serve {
                            self.is_brisk = true;
                            return None;
                        }
                        *wait = (*wait).max(now + BRISK).min(*serve);
                    }
                }
                Ok(other) => return Some(Err(self.broke_protocol(&other))),
                Err(error) => return Some(Err(self.lost(&error))),
            }
        }
    }

    /// Sends what is unsent and waits for a frame; `None` when `until` has come first.
    fn next_frame(&mut self, until: Until) -> Option<Result<FromWorker, LinkError>> {
        let (mut turn, grace) = (self.turn(), self.options.grace);
        let Self { link, socket, stop, .. } = self;
        let mut dies = false;
        let mut look = |flags| {
            dies = turn.look(stop, grace).is_break();
            if dies {
                return ControlFlow::Break(());
            }
            if let Until::Moment { wait, .. } = until {
                let by = turn.next_look().map_or(wait, |look| look.min(wait));
                let patience = by.saturating_duration_since(Instant::now());
                if patience.is_zero() && Instant::now() >= wait {
                    return ControlFlow::Break(());
                }
                ready(socket, flags, patience);
            }
            ControlFlow::Continue(())
        };
        let wait = if matches!(until, Until::End) { Wait::ToTimeout } else { Wait::Never };
        let sent = link.flush(wait, || look(PollFlags::OUT));
        let received = sent.and_then(|()| {
            let frame = link.receive(wait, || look(PollFlags::IN))?;
            FromWorker::decode(frame).map_err(LinkError::Frame)
        });
        self.turn = Some(turn);
        match received {
            Err(LinkError::GaveUp) if !dies => None,
            other => Some(other),
        }
    }

    /// The turn is over. A worker that says more than that speaks out of turn.
    fn yielded(&mut self, done: Yield) -> Result<Yield, Termination> {
        self.stop.disarm();
        self.turn = None;
        if self.link.has_unread() && guard!(RealmTurns) {
            let detail = "the worker went on talking after the end of its turn".to_owned();
            return Err(self.end(Termination::Protocol { detail }));
        }
        Ok(done)
    }

    /// Records deltas that passed. The turn of the next one, if it has begun, gets all its time when the host comes to it.
    fn passed(&mut self, passed: Passed) -> Result<Yield, Termination> {
        self.passed = Some(passed);
        let done = Yield { usage: passed.usage, ..Yield::default() };
        if !passed.goes_on {
            return self.yielded(done);
        }
        let mut turn = Turn::new(self.options.stream);
        turn.ask();
        (self.turn, self.is_held) = (Some(turn), true);
        Ok(done)
    }

    /// Learns from a turn how many deltas shall cross together next.
    fn learn(&mut self, done: &Yield) {
        let is_silent = done.messages.is_empty() && done.stream == StreamAnswer::Continue && !self.has_called;
        self.together = if is_silent { (self.together * 4).min(TOGETHER) } else { 1 };
    }

    fn reply(&mut self, reply: SyncReply) -> Result<(), Termination> {
        let mut turn = self.turn();
        turn.answered();
        self.turn = Some(turn);
        self.queue(|out| ToWorker::Reply(Box::new(reply)).encode(out))
    }

    /// Goes on to the end of the turn.
    fn finish(&mut self, host: &mut dyn SyncHost) -> Result<Yield, Termination> {
        self.go_on(host, Until::End).unwrap_or_else(|| unreachable!("without a limit only the deadline ends the wait"))
    }

    fn progress(&mut self, host: &mut dyn SyncHost, patience: Duration) -> Progress {
        if let Some(reason) = &self.ended {
            return Progress::Ended(reason.clone());
        }
        if std::mem::take(&mut self.is_held) {
            let mut turn = self.turn();
            turn.answered();
            self.turn = Some(turn);
        }
        if self.turn().is_owing() {
            // Before the answer comes only a stop or a death can end it.
            let mut turn = self.turn();
            let dies = turn.look(&self.stop, self.options.grace).is_break();
            self.turn = Some(turn);
            return match self.link.peek() {
                _ if dies => Progress::Ended(self.lost(&LinkError::GaveUp)),
                Err(error) => Progress::Ended(self.lost(&error)),
                Ok(true) if guard!(RealmTurns) => {
                    let detail = "the worker went on talking while it waited for an answer".to_owned();
                    Progress::Ended(self.end(Termination::Protocol { detail }))
                }
                Ok(_) => Progress::Running,
            };
        }
        // Who said something a moment ago will say the next thing before a watch is set up.
        let patience = if std::mem::take(&mut self.is_brisk) { patience.max(BRISK) } else { patience };
        let now = Instant::now();
        match self.go_on(host, Until::Moment { wait: now + patience, serve: now + patience.max(SLICE) }) {
            None => Progress::Running,
            Some(Ok(done)) => Progress::Yielded(done),
            Some(Err(reason)) => Progress::Ended(reason),
        }
    }

    fn broke_protocol(&mut self, message: &FromWorker) -> Termination {
        let said = match message {
            FromWorker::Hello { .. } => "a greeting",
            FromWorker::Ready(_) => "that it is ready",
            FromWorker::Failed { .. } => "that it failed",
            FromWorker::Call(_) => "a hostcall",
            FromWorker::Yielded(_) => "a yield",
            FromWorker::Ended(_) => "its end",
            FromWorker::Passed(_) => "that deltas passed",
            FromWorker::Forked { .. } => "that it was copied",
        };
        self.end(Termination::Protocol { detail: format!("the worker sent {said} out of turn") })
    }

    /// The link gave nothing: the worker dies, if it is not dead already, and this says why.
    fn lost(&mut self, error: &LinkError) -> Termination {
        let reason = match error {
            LinkError::GaveUp => Termination::Timeout { quota: "deadline".to_owned() },
            LinkError::Frame(error) => Termination::Protocol { detail: error.to_string() },
            LinkError::Closed => Termination::Crashed { detail: self.worker.bury() },
        };
        self.end(reason)
    }

    /// Ends the realm for good; the first reason stays.
    fn end(&mut self, reason: Termination) -> Termination {
        self.worker.bury();
        self.turn = None;
        self.stop.disarm();
        self.ended.get_or_insert(reason).clone()
    }
}

/// Returns whether so many of `sent` can have passed.
fn fits(passed: Passed, sent: usize) -> bool {
    (1..=sent - usize::from(passed.goes_on)).contains(&passed.count)
}

/// Waits until a socket is ready, for at most this long.
fn ready(socket: &UnixStream, flags: PollFlags, patience: Duration) {
    let patience = Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
    // Whatever ends the wait, the next look at the socket says.
    let _ = poll(&mut [PollFd::new(socket, flags)], Some(&patience));
}

/// What the worker needs of an artifact.
fn code(verified: &Verified, on_shelf: Option<usize>) -> Code {
    let artifact = verified.artifact();
    // A verified artifact has bytecode for each of its modules.
    let bytecode = || artifact.modules.iter().map(|module| module.bytecode.as_deref().unwrap_or_default());
    Code {
        name: artifact.metadata.name.clone(),
        version: artifact.metadata.version.clone(),
        specifiers: artifact.modules.iter().map(|module| module.specifier.clone()).collect(),
        shelved: on_shelf.map(|file| Shelved { file, lengths: bytecode().map(<[u8]>::len).collect() }),
        bytecode: if on_shelf.is_some() { Vec::new() } else { bytecode().map(<[u8]>::to_vec).collect() },
    }
}

impl Realm for ProcessRealm {
    fn start(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Progress {
        if self.ended.is_none() {
            // What it says between turns is neither an answer nor anything else.
            match self.link.peek() {
                Ok(true) if guard!(RealmTurns) => {
                    let detail = "the worker talked between turns".to_owned();
                    return Progress::Ended(self.end(Termination::Protocol { detail }));
                }
                Ok(_) => {}
                Err(error) => return Progress::Ended(self.lost(&error)),
            }
            let longest = self.options.longest(&delivery.task);
            if let Err(reason) = self.queue(|out| ToWorker::Deliver(Box::new(delivery)).encode(out)) {
                return Progress::Ended(reason);
            }
            // From here on: what the host takes to write megabytes down is no time of the worker's.
            self.begin(longest);
        }
        self.progress(host, self.options.first)
    }

    fn resume(&mut self, host: &mut dyn SyncHost, patience: Patience) -> Progress {
        if self.ended.is_none() && self.turn.is_none() {
            let detail = "resumed without a turn under way".to_owned();
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
        // A realm that ended meanwhile needs no answer.
        if self.turn.is_some_and(|turn| turn.is_owing()) {
            // What goes wrong is told by the next look at the turn.
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
        self.learn(&done);
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
        let deltas = &deltas[..deltas.len().min(self.together)];
        if let [delta] = deltas {
            return self.stream(seq, now, delta, host).map(Streamed::from);
        }
        self.begin(self.options.stream.saturating_add(slice));
        let slice_us = u64::try_from(slice.as_micros()).unwrap_or(u64::MAX);
        self.send(|out| encode_deltas(seq, now, slice_us, deltas, out))?;
        self.burst = Some(deltas.len());
        let done = self.finish(host)?;
        self.burst = None;
        let Some(Passed { count, goes_on, .. }) = self.passed.take() else {
            // The first one had something to say.
            self.together = 1;
            return Ok(done.into());
        };
        if goes_on {
            self.together = 1;
        } else if count == deltas.len() {
            self.learn(&done);
        }
        Ok(Streamed { done, passed: count - 1, goes_on })
    }

    fn lookahead(&self) -> usize {
        self.together - 1
    }

    fn interrupt(&self) {
        self.stop.request();
    }

    fn pulse(&mut self) -> Option<Termination> {
        if self.ended.is_none() && self.turn.is_none() {
            // What it wrote before it died is in the way of the end, and nobody asked for it.
            match self.link.peek() {
                Ok(false) => return None,
                Ok(true) => drop(self.lost(&LinkError::Closed)),
                Err(error) => drop(self.lost(&error)),
            }
        }
        self.ended.clone()
    }

    fn attention(&self) -> Option<Attention> {
        let turn = self.turn?;
        if self.is_brisk {
            return Some(Attention::AtOnce);
        }
        let socket = self.socket.try_clone().ok().map(OwnedFd::from);
        Some(Attention::When { socket, by: turn.next_look() })
    }

    fn death(&self) -> Option<OwnedFd> {
        self.worker.handle()
    }
}
