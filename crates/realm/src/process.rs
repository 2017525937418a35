//! A realm in a sealed worker process.
//!
//! [`ProcessRealm::open`] starts the running program once more as a worker (see [`worker`]),
//! with a socket as stdin and nothing else: no environment, no other file, `/` as folder, a process group
//! of its own. A turn is one frame there and one back, synchronous hostcalls in between.
//!
//! What always holds: a turn ends. The worker's own fuel and jobs end it politely; a worker that is
//! past its deadline all the same (some built-ins of the engine cannot be interrupted) gets a
//! grace of 25 ms and then SIGKILL. Time spent in the host's answers does not count, frames do: a worker that
//! floods its host runs out of time too. Every way for a worker to die ends the realm, which then says
//! why; dropping a realm kills and reaps its worker.

use crate::frame::{Code, FromWorker, Open, ToWorker, WIRE_VERSION, encode_delta};
use crate::link::{Link, LinkError, Pipe};
use crate::seal::Sealed;
use crate::worker::{self, ARGUMENT};
use crate::{Patience, Progress, Realm};
use pijs_artifact::Verified;
use pijs_engine::SyncHost;
use pijs_protocol::wire::RealmOptions;
use pijs_protocol::{Delivery, Now, Seq, StreamDelta, Termination, Yield};
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// The program that is running, also when its file has been replaced meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Name under which a worker shows in a process list.
const NAME: &str = "pijs-worker";

/// How often a wait looks at its deadline: a worker is killed at most this much late.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long [`Realm::start`] waits before it answers [`Progress::Running`].
const FIRST_PATIENCE: Duration = Duration::from_millis(50);

/// How worker processes are started and how long they may take.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// The program whose `main` calls [`worker::enter`](crate::worker::enter); the running one unless told otherwise.
    pub program: PathBuf,
    /// The variable `TZ` for the worker: local time inside the realm. Without it the machine's zone.
    pub time_zone: Option<OsString>,
    /// Longest wait for the first word of a new worker.
    pub hello: Duration,
    /// Longest turn, time in hostcalls not counted.
    pub turn: Duration,
    /// Longest answer to a streamed delta; the host's own patience with verdicts is usually shorter.
    pub stream: Duration,
    /// From the end of the patience to the kill.
    pub grace: Duration,
}

impl Default for ProcessOptions {
    /// The running program, the machine's time zone; 10 s for the first word, 30 s a turn (six times what
    /// its fuel lasts on a free core, for machines that are busy), 5 s a delta, 25 ms of grace.
    fn default() -> Self {
        Self {
            program: PathBuf::from(THIS_PROGRAM),
            time_zone: None,
            hello: Duration::from_secs(10),
            turn: Duration::from_secs(30),
            stream: Duration::from_secs(5),
            grace: Duration::from_millis(25),
        }
    }
}

/// A worker process could not be started or made no realm.
#[derive(Debug)]
pub enum ProcessError {
    /// The program could not be started.
    Spawn {
        /// Which program.
        program: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The program runs, and is no worker: its `main` does not begin with [`worker::enter`](crate::worker::enter).
    NoWorker {
        /// Which program.
        program: PathBuf,
        /// What it did instead.
        instead: String,
    },
    /// The worker could not make the realm.
    Failed(String),
    /// The realm ended before it was ready.
    Ended(Termination),
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spawn { program, error } => {
                write!(f, "cannot start a worker process from {}: {error}", program.display())
            }
            Self::NoWorker { program, instead } => write!(
                f,
                "{} is no worker process: it {instead}; `main` must begin with pijs_realm::worker::enter()",
                program.display()
            ),
            Self::Failed(message) => write!(f, "the worker process cannot make the realm: {message}"),
            Self::Ended(reason) => write!(f, "the realm's runtime {reason}"),
        }
    }
}

impl std::error::Error for ProcessError {}

impl Pipe for UnixStream {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Read::read(&mut { self }, buffer)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut { self }, bytes)
    }
}

/// Runs the engine in a sealed process.
pub struct ProcessRealm {
    child: Child,
    link: Link<UnixStream>,
    stop: Stop,
    options: ProcessOptions,
    sealed: Sealed,
    /// The turn that is under way.
    turn: Option<Turn>,
    ended: Option<Termination>,
}

/// A request to end the running turn, from any thread.
#[derive(Debug, Clone)]
struct Stop(Arc<AtomicU8>);

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const STOPPED: u8 = 2;

impl Stop {
    fn request(&self) {
        // Only a running turn can be stopped: a late watchdog must not hit the next one.
        let _ = self.0.compare_exchange(RUNNING, STOPPED, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed) == STOPPED
    }
}

/// The clock of one turn.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// When it has to be over; moves on by the time the host takes for its answers.
    deadline: Instant,
    /// When the worker is killed, once its patience is at an end.
    kill: Option<Instant>,
}

impl Turn {
    fn new(patience: Duration) -> Self {
        Self { deadline: Instant::now() + patience, kill: None }
    }

    /// Looks at the clock: `Break` when the worker has to die.
    fn look(&mut self, stop: &Stop, grace: Duration) -> ControlFlow<()> {
        let now = Instant::now();
        if self.kill.is_none() && (now >= self.deadline || stop.is_requested()) {
            self.kill = Some(now + grace);
        }
        match self.kill {
            Some(kill) if now >= kill => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
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
        let mut realm = Self::spawn(process)?;
        realm.await_hello()?;
        let open =
            Open { options: options.clone(), now, artifacts: modules.iter().map(|verified| code(verified)).collect() };
        realm.begin(realm.options.turn);
        realm.send(|out| ToWorker::Open(Box::new(open)).encode(out)).map_err(ProcessError::Ended)?;
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

    /// Which walls stand around the worker.
    pub fn sealed(&self) -> Sealed {
        self.sealed
    }

    /// The worker's process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A handle that ends a running turn from another thread, by killing the worker after its grace.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + Clone + 'static {
        let stop = self.stop.clone();
        move || stop.request()
    }

    fn spawn(options: ProcessOptions) -> Result<Self, ProcessError> {
        let spawn = || -> io::Result<(Child, UnixStream)> {
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_read_timeout(Some(LOOK_EVERY))?;
            ours.set_write_timeout(Some(LOOK_EVERY))?;
            let child = Command::new(&options.program)
                .arg0(NAME)
                .arg(ARGUMENT)
                .env_clear()
                .envs(options.time_zone.as_ref().map(|zone| ("TZ", zone)))
                .current_dir("/")
                // Ctrl-C in a terminal goes to the whole group: it is for the host, which winds down in order.
                .process_group(0)
                .stdin(Stdio::from(OwnedFd::from(theirs)))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            Ok((child, ours))
        };
        if worker::is_worker() {
            // A worker whose `main` went on would start workers of its own, without end.
            let instead = "was started as one and went on".to_owned();
            return Err(ProcessError::NoWorker { program: options.program, instead });
        }
        match spawn() {
            Ok((child, socket)) => Ok(Self {
                child,
                link: Link::new(socket),
                stop: Stop(Arc::new(AtomicU8::new(IDLE))),
                options,
                sealed: Sealed { landlock: crate::seal::Landlock::None, seccomp: false },
                turn: None,
                ended: None,
            }),
            Err(error) => Err(ProcessError::Spawn { program: options.program, error }),
        }
    }

    fn await_hello(&mut self) -> Result<(), ProcessError> {
        self.begin(self.options.hello);
        let instead = match self.receive() {
            Ok(FromWorker::Hello { wire: WIRE_VERSION }) => return Ok(()),
            Ok(FromWorker::Hello { wire }) => format!("speaks version {wire} of the wire, not {WIRE_VERSION}"),
            Ok(_) => "did not begin with a greeting".to_owned(),
            Err(Termination::Timeout { .. }) => format!("said nothing within {:?}", self.options.hello),
            Err(Termination::Crashed { detail }) => format!("ended ({detail})"),
            Err(other) => other.to_string(),
        };
        Err(ProcessError::NoWorker { program: self.options.program.clone(), instead })
    }

    fn begin(&mut self, patience: Duration) {
        self.stop.0.store(RUNNING, Ordering::Relaxed);
        self.turn = Some(Turn::new(patience));
    }

    fn turn(&mut self) -> &mut Turn {
        self.turn.get_or_insert_with(|| Turn::new(self.options.turn))
    }

    fn send(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), crate::frame::FrameError>,
    ) -> Result<(), Termination> {
        let (mut turn, grace) = (*self.turn(), self.options.grace);
        let sent = self.link.send(encode, || turn.look(&self.stop, grace));
        self.turn = Some(turn);
        sent.map_err(|error| match error {
            LinkError::Frame(error) => self.end(Termination::Protocol { detail: format!("to send it: {error}") }),
            other => self.lost(&other),
        })
    }

    fn receive(&mut self) -> Result<FromWorker, Termination> {
        let (mut turn, grace) = (*self.turn(), self.options.grace);
        let message = self
            .link
            .receive(|| turn.look(&self.stop, grace))
            .and_then(|frame| FromWorker::decode(frame).map_err(LinkError::Frame));
        self.turn = Some(turn);
        message.map_err(|error| self.lost(&error))
    }

    /// Goes on with the turn until it is over or `until` has come (`None`).
    fn go_on(&mut self, host: &mut dyn SyncHost, until: Option<Instant>) -> Option<Result<Yield, Termination>> {
        loop {
            let (mut turn, grace) = (*self.turn(), self.options.grace);
            let mut dies = false;
            let received = self.link.receive(|| {
                dies = turn.look(&self.stop, grace).is_break();
                let waits = until.is_none_or(|until| Instant::now() < until);
                if dies || !waits { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let message = match received {
                Err(LinkError::GaveUp) if !dies => {
                    self.turn = Some(turn);
                    return None;
                }
                other => other.and_then(|frame| FromWorker::decode(frame).map_err(LinkError::Frame)),
            };
            self.turn = Some(turn);
            match message {
                Ok(FromWorker::Yielded(done)) => {
                    self.stop.0.store(IDLE, Ordering::Relaxed);
                    self.turn = None;
                    return Some(Ok(done));
                }
                Ok(FromWorker::Ended(reason)) => return Some(Err(self.end(reason))),
                Ok(FromWorker::Call(call)) => {
                    // A worker that calls without end never makes the wait time out.
                    if turn.look(&self.stop, grace).is_break() {
                        return Some(Err(self.lost(&LinkError::GaveUp)));
                    }
                    let asked = Instant::now();
                    let reply = host.call(call);
                    turn.deadline += asked.elapsed();
                    self.turn = Some(turn);
                    if let Err(reason) = self.send(|out| ToWorker::Reply(Box::new(reply)).encode(out)) {
                        return Some(Err(reason));
                    }
                }
                Ok(other) => return Some(Err(self.broke_protocol(&other))),
                Err(error) => return Some(Err(self.lost(&error))),
            }
        }
    }

    /// Goes on to the end of the turn.
    fn finish(&mut self, host: &mut dyn SyncHost) -> Result<Yield, Termination> {
        self.go_on(host, None).unwrap_or_else(|| unreachable!("without a limit only the deadline ends the wait"))
    }

    fn progress(&mut self, host: &mut dyn SyncHost, patience: Duration) -> Progress {
        if let Some(reason) = &self.ended {
            return Progress::Ended(reason.clone());
        }
        match self.go_on(host, Some(Instant::now() + patience)) {
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
        };
        self.end(Termination::Protocol { detail: format!("the worker sent {said} out of turn") })
    }

    /// The link gave nothing: the worker dies, if it is not dead already, and this says why.
    fn lost(&mut self, error: &LinkError) -> Termination {
        let reason = match error {
            LinkError::GaveUp => Termination::Timeout { quota: "deadline".to_owned() },
            LinkError::Frame(error) => Termination::Protocol { detail: error.to_string() },
            LinkError::Closed => Termination::Crashed { detail: self.bury() },
        };
        self.end(reason)
    }

    /// Ends the realm for good; the first reason stays.
    fn end(&mut self, reason: Termination) -> Termination {
        if self.ended.is_none() {
            self.bury();
        }
        self.turn = None;
        self.stop.0.store(IDLE, Ordering::Relaxed);
        self.ended.get_or_insert(reason).clone()
    }

    /// Kills and reaps the worker, and tells how it ended.
    fn bury(&mut self) -> String {
        // A worker that is dying already keeps the end it has.
        let _ = self.child.kill();
        match self.child.wait() {
            Ok(status) => describe(status),
            Err(error) => format!("and could not be waited for: {error}"),
        }
    }
}

/// How a process ended, in words.
fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(libc::SIGSYS) => "killed by SIGSYS: it made a forbidden system call".to_owned(),
        Some(signal) => match name_of(signal) {
            Some(name) => format!("killed by {name}"),
            None => format!("killed by signal {signal}"),
        },
        None => format!("exit status {}", status.code().unwrap_or_default()),
    }
}

fn name_of(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGILL => "SIGILL",
        libc::SIGFPE => "SIGFPE",
        libc::SIGTERM => "SIGTERM",
        _ => return None,
    })
}

/// What the worker needs of an artifact.
fn code(verified: &Verified) -> Code {
    let artifact = verified.artifact();
    // A verified artifact has bytecode for each of its modules.
    Code {
        name: artifact.metadata.name.clone(),
        version: artifact.metadata.version.clone(),
        specifiers: artifact.modules.iter().map(|module| module.specifier.clone()).collect(),
        bytecode: artifact.modules.iter().map(|module| module.bytecode.clone().unwrap_or_default()).collect(),
    }
}

impl Realm for ProcessRealm {
    fn start(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Progress {
        if self.ended.is_none() {
            self.begin(self.options.turn);
            if let Err(reason) = self.send(|out| ToWorker::Deliver(Box::new(delivery)).encode(out)) {
                return Progress::Ended(reason);
            }
        }
        self.progress(host, FIRST_PATIENCE)
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
        self.finish(host)
    }

    fn interrupt(&self) {
        self.stop.request();
    }
}

impl Drop for ProcessRealm {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.bury();
        }
    }
}
