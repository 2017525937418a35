//! The worker process: seals itself and serves one realm.
//!
//! ```no_run
//! pijs_realm::worker::enter(); // first of all in `main`
//! // ... the program
//! ```
//!
//! [`ProcessRealm`](crate::ProcessRealm) starts another process of its own program, with one argument and a socket as stdin.
//! [`enter`] detects that and never returns; in any other process it returns at once. Call it before threads are started and
//! files are opened, because the worker inherits them from `main`.
//!
//! The steps of a worker: close inherited files, set the death signal of its parent, raise the out-of-memory score, say hello,
//! take the modules from the socket and from shared memory, create the engine, load the time zone, seal, and only then run code,
//! the host's own runtime first.
//!
//! A *zygote* runs the runtime unsealed, and never any other code. It forks itself for each socket that it receives; the copy
//! performs all steps of a worker, with the runtime already evaluated.

#![expect(clippy::disallowed_methods, reason = "a worker restricts itself and measures its turns for the host")]

#[cfg(target_os = "linux")]
pub(crate) use linux::is_worker;

/// Argument that tells a program to run as a worker.
#[cfg(target_os = "linux")]
pub(crate) const ARGUMENT: &str = "--pijs-realm-worker";

/// Serves as a worker and exits, if this process was started as one. Call it first in `main`.
///
/// Returns at once in every other process, and on systems without worker processes.
pub fn enter() {
    #[cfg(target_os = "linux")]
    if linux::is_worker() {
        linux::run();
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::ARGUMENT;
    use crate::files;
    use crate::frame::state::joined;
    use crate::frame::{ArtifactCode, FromWorker, Open, Passed, SharedBytecode, ToWorker, WIRE_VERSION};
    use crate::guest::{Guest, is_component_code};
    use crate::link::{Link, LinkError, Pipe, PipeWait};
    use crate::seal::{self, Seals};
    use bytes::Bytes;
    use pijs_artifact::{Artifact, Module, Verified};
    use pijs_engine::{
        EngineRealm, ForkSide, SyncHost, close_inherited_files, engine_build, fork_for_parent, map_sealed_memory,
        replace_stdin,
    };
    use pijs_protocol::artifact::ArtifactMetadata;
    use pijs_protocol::wire::{RealmOptions, StateDelta, StreamAnswer};
    use pijs_protocol::{
        HostCall, HostResult, HostcallError, Now, Seq, StreamDelta, SyncReply, Termination, Usage, Yield, guard,
    };
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::net::RecvFlags;
    use rustix::process::{Signal, set_parent_process_death_signal, setpgid};
    use std::io;
    use std::ops::ControlFlow;
    use std::os::fd::{AsFd, OwnedFd};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    /// Adjustment of the out-of-memory score, of 1000: the system kills workers before the host and the user's other processes.
    const OOM_SCORE: &str = "800";

    /// Returns whether this process is a worker: the argument is present, and stdin is a stream socket.
    pub(crate) fn is_worker() -> bool {
        let mut arguments = std::env::args_os().skip(1);
        let named = arguments.next().is_some_and(|argument| argument == ARGUMENT) && arguments.next().is_none();
        let socket = || rustix::net::sockopt::socket_type(io::stdin().as_fd());
        named && socket().is_ok_and(|kind| kind == rustix::net::SocketType::STREAM)
    }

    /// Size in bytes from which a message leaves free pages behind.
    const LARGE_BYTES: usize = 8 << 10;
    /// Minimum interval at which a busy worker returns such pages, in microseconds of the host's clock.
    const TRIM_INTERVAL_US: u64 = 10_000;
    /// Time without work after which a worker returns as much memory as it can: another request is unlikely to come soon, and
    /// until then only busy workers use the cores.
    const IDLE_AFTER: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

    /// The socket, read through the file descriptor that the filter allows.
    struct WorkerSocket(io::Stdin);

    impl Pipe for WorkerSocket {
        fn read(&self, buffer: &mut [u8], wait: PipeWait) -> io::Result<usize> {
            Ok(match wait {
                PipeWait::UntilTimeout => rustix::io::read(self.0.as_fd(), buffer)?,
                PipeWait::UntilIdle => {
                    let mut readable = [PollFd::new(&self.0, PollFlags::IN)];
                    // After a time-out the read reports that nothing arrived.
                    poll(&mut readable, Some(&IDLE_AFTER))?;
                    rustix::net::recv(self.0.as_fd(), buffer, RecvFlags::DONTWAIT)?.0
                }
                PipeWait::Never => rustix::net::recv(self.0.as_fd(), buffer, RecvFlags::DONTWAIT)?.0,
            })
        }

        fn write(&self, bytes: &[u8], _: PipeWait) -> io::Result<usize> {
            Ok(rustix::io::write(self.0.as_fd(), bytes)?)
        }
    }

    /// Connection of the engine to the host, over the socket.
    struct HostConnection {
        link: Link<WorkerSocket>,
        /// Latest time received from the host.
        now: Now,
        /// Whether a large message arrived since pages were last returned.
        got_large_message: bool,
        /// Whether there was work other than a delta since the worker was last idle.
        has_worked: bool,
        /// Next time at which pages may be returned, in the host's microseconds.
        trim_at_us: u64,
        /// Unreported deltas that passed; reported before any other message.
        passed: Option<Passed>,
        /// Whether the latest delta made a hostcall.
        has_called: bool,
    }

    /// An engine that has evaluated the runtime.
    struct EvaluatedEngine {
        engine: EngineRealm,
        /// Yield of the runtime.
        said: Yield,
    }

    #[expect(clippy::exit, reason = "a worker has no caller to return to, and its host may be gone")]
    pub(super) fn run() -> ! {
        // Writing a message to stderr would be a forbidden system call. Panics in engine code are reported over the socket.
        std::panic::set_hook(Box::new(|_| {}));
        begin();
        if guard!(RealmOomScore) {
            // Raising the score needs no privilege. Without `/proc` the system's default order applies.
            let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
        }
        let mut host = HostConnection::new();
        let served = host.serve(None);
        std::process::exit(match served {
            Ok(()) | Err(LinkError::Closed) => 0,
            Err(LinkError::Frame(_) | LinkError::GaveUp) => 1,
        })
    }

    /// Prepares the process: the first steps of each worker, including forked ones.
    fn begin() {
        if guard!(RealmInheritedFiles) {
            // A descriptor that cannot be closed is unreachable once the filter is in force.
            let _ = close_inherited_files();
        }
        if guard!(RealmDeathSignal) {
            // If the parent has already ended, the socket is closed and the first read reports that.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
        }
    }

    impl HostConnection {
        fn new() -> Self {
            Self {
                link: Link::new(WorkerSocket(io::stdin())),
                now: Now::default(),
                got_large_message: false,
                has_worked: true,
                trim_at_us: 0,
                passed: None,
                has_called: false,
            }
        }

        /// Serves one realm, or becomes a zygote. `evaluated` is the engine of the zygote in a copy.
        fn serve(&mut self, evaluated: Option<EvaluatedEngine>) -> Result<(), LinkError> {
            self.send(FromWorker::Hello { wire: WIRE_VERSION })?;
            let Ok(files) = files::receive(io::stdin()) else { return Err(LinkError::Closed) };
            match self.receive()? {
                ToWorker::Open(open) => self.serve_realm(*open, files, evaluated),
                ToWorker::Raise(open) if evaluated.is_none() => self.serve_copies(*open, files),
                // Only a faulty host sends this here.
                _ => Ok(()),
            }
        }

        /// Evaluates the runtime and forks this process for each received socket. Also returns in each copy, after the copy has
        /// served its realm.
        fn serve_copies(&mut self, open: Open, files: Vec<OwnedFd>) -> Result<(), LinkError> {
            let prepared = engine(&open.options).and_then(|mut engine| {
                add_modules(&mut engine, open.artifacts, files)?;
                Ok(engine)
            });
            let mut engine = match prepared {
                Ok(engine) => engine,
                Err(message) => return self.send(FromWorker::Failed { message }),
            };
            // The runtime makes no hostcalls, since no extension is loaded.
            let said = match engine.start(open.now, &mut NoHostcalls) {
                Ok(said) => said,
                Err(termination) => return self.send(FromWorker::Ended(termination)),
            };
            engine.prepare_for_copies();
            self.send(FromWorker::Yielded(said.clone()))?;
            loop {
                let Ok(sockets) = files::receive(io::stdin()) else { return Err(LinkError::Closed) };
                for socket in sockets {
                    match fork_for_parent() {
                        Ok(ForkSide::Zygote(process)) => self.send(FromWorker::Forked { process })?,
                        Ok(ForkSide::Worker) => {
                            return begin_copy(socket)?.serve(Some(EvaluatedEngine { engine, said }));
                        }
                        Err(error) => self.send(FromWorker::Failed { message: error.to_string() })?,
                    }
                }
            }
        }

        fn serve_realm(
            &mut self,
            open: Open,
            files: Vec<OwnedFd>,
            evaluated: Option<EvaluatedEngine>,
        ) -> Result<(), LinkError> {
            let Open { options, now, artifacts } = open;
            let (prepared, said) = match evaluated {
                _ if matches!(artifacts.as_slice(), [code] if is_component_code(&code.specifiers)) => {
                    // The native code is mapped here, because no page can be made executable after the seal.
                    (component(&options, artifacts, files), None)
                }
                Some(EvaluatedEngine { engine, said }) => (script(Ok(engine), artifacts, files), Some(said)),
                None => (script(engine(&options), artifacts, files), None),
            };
            let mut guest = match prepared {
                Ok(guest) => guest,
                Err(message) => return self.send(FromWorker::Failed { message }),
            };
            let sealed = seal::this_process(options.limits.memory_bytes, Seals::enabled());
            self.send(FromWorker::Ready(sealed))?;
            self.now = now;
            let mut done = said.map_or_else(|| guest.start(now, self), Ok).map(FromWorker::Yielded);
            loop {
                match done {
                    Ok(done) => {
                        self.send_end(done)?;
                        self.trim_heap(&guest);
                    }
                    Err(termination) => return self.send(FromWorker::Ended(termination)),
                }
                done = match self.next(&guest)? {
                    ToWorker::Deliver(delivery) => guest.turn(*delivery, self).map(FromWorker::Yielded),
                    ToWorker::Delta { seq, now, delta } => {
                        guest.stream(seq, now, &delta, self).map(FromWorker::Yielded)
                    }
                    ToWorker::Deltas { seq, now, slice_us, deltas } => {
                        self.run_all(&mut guest, (seq, now), Duration::from_micros(slice_us), &deltas)
                    }
                    // Only a faulty host sends this here.
                    ToWorker::Open(_) | ToWorker::Raise(_) | ToWorker::State(_) | ToWorker::Reply(_) => return Ok(()),
                };
            }
        }

        /// Returns unused heap pages to the system. Called after the answer, so that it delays nothing.
        fn trim_heap(&mut self, guest: &Guest) {
            let now_us = self.now.elapsed_us;
            if self.got_large_message && now_us >= self.trim_at_us {
                self.link.shrink();
                guest.trim_heap();
                self.got_large_message = false;
                self.trim_at_us = now_us.saturating_add(TRIM_INTERVAL_US);
            }
        }

        /// Runs deltas until one has an effect or `slice` is over. Returns the yield of the delta with an effect; if there is
        /// none, a report on the deltas that ran.
        fn run_all(
            &mut self,
            guest: &mut Guest,
            (seq, now): (Seq, Now),
            slice: Duration,
            deltas: &[StreamDelta],
        ) -> Result<FromWorker, Termination> {
            let begin = Instant::now();
            let mut usage = Usage::default();
            for (seq, (count, delta)) in (seq.0..).zip((1..).zip(deltas)) {
                self.has_called = false;
                let done = guest.stream(Seq(seq), now, delta, self)?;
                let is_silent = done.messages.is_empty() && done.stream == StreamAnswer::Continue;
                if !is_silent || self.has_called {
                    return Ok(FromWorker::Yielded(done));
                }
                add(&mut usage, done.usage);
                if count == deltas.len() || begin.elapsed() >= slice {
                    self.passed = None;
                    return Ok(FromWorker::Passed(Passed { usage, count, goes_on: false }));
                }
                self.passed = Some(Passed { usage, count, goes_on: true });
            }
            unreachable!("there is a last delta")
        }

        /// Sends the end of a turn. A yield that is too long for a frame ends the realm, because a truncated one would be wrong.
        fn send_end(&mut self, done: FromWorker) -> Result<(), LinkError> {
            match self.send(done) {
                Err(LinkError::Frame(error)) => {
                    let detail = format!("its yield is too large: {error}");
                    self.send(FromWorker::Ended(Termination::Protocol { detail }))?;
                    Err(LinkError::Closed)
                }
                sent => sent,
            }
        }

        fn send(&mut self, message: FromWorker) -> Result<(), LinkError> {
            if let Some(passed) = self.passed.take() {
                self.link.queue(|out| FromWorker::Passed(passed).encode(out)).map_err(LinkError::Frame)?;
            }
            self.link.queue(|out| message.encode(out)).map_err(LinkError::Frame)?;
            self.link.flush(PipeWait::UntilTimeout, wait)
        }

        /// Receives the next message. After [`IDLE_AFTER`] without one, returns unused memory.
        fn next(&mut self, guest: &Guest) -> Result<ToWorker, LinkError> {
            let mut next = if self.has_worked {
                self.receive_or_give_up(PipeWait::UntilIdle, || ControlFlow::Break(()))
            } else {
                self.receive()
            };
            if matches!(next, Err(LinkError::GaveUp)) {
                self.link.shrink();
                guest.release_idle_memory();
                (self.has_worked, self.got_large_message) = (false, false);
                next = self.receive();
            }
            self.has_worked |= !matches!(next, Ok(ToWorker::Delta { .. } | ToWorker::Deltas { .. }));
            next
        }

        fn receive(&mut self) -> Result<ToWorker, LinkError> {
            self.receive_or_give_up(PipeWait::UntilTimeout, wait)
        }

        /// Receives the next message. Calls `go_on` after a wait without data, unless a message is incomplete; `go_on` decides
        /// whether to continue.
        fn receive_or_give_up(
            &mut self,
            first: PipeWait,
            go_on: impl Fn() -> ControlFlow<()>,
        ) -> Result<ToWorker, LinkError> {
            let mut parts: Option<StateDelta> = None;
            loop {
                let frame = match &parts {
                    None => self.link.receive(first, &go_on)?,
                    Some(_) => self.link.receive(PipeWait::UntilTimeout, wait)?,
                };
                self.got_large_message |= frame.len() >= LARGE_BYTES;
                let mut message = ToWorker::decode(frame).map_err(LinkError::Frame)?;
                let state = match &mut message {
                    ToWorker::State(part) => {
                        let part = std::mem::take(&mut **part);
                        parts = Some(joined(parts.take().unwrap_or_default(), part));
                        continue;
                    }
                    ToWorker::Deliver(delivery) => {
                        self.now = delivery.now;
                        Some(&mut delivery.state)
                    }
                    ToWorker::Reply(reply) => {
                        self.now = reply.now;
                        Some(&mut reply.state)
                    }
                    ToWorker::Delta { now, .. } | ToWorker::Deltas { now, .. } => {
                        self.now = *now;
                        None
                    }
                    ToWorker::Open(_) | ToWorker::Raise(_) => None,
                };
                if let (Some(last), Some(parts)) = (state, parts) {
                    *last = Some(joined(parts, last.take().unwrap_or_default()));
                }
                return Ok(message);
            }
        }
    }

    impl SyncHost for HostConnection {
        fn call(&mut self, call: HostCall) -> SyncReply {
            self.has_called = true;
            let call_id = call.call_id.clone();
            let sent = match self.send(FromWorker::Call(call)) {
                Err(LinkError::Frame(error)) => {
                    let result = HostResult::failed(call_id, HostcallError::invalid("too_large", error.to_string()));
                    return SyncReply { result, now: self.now, state: None };
                }
                sent => sent,
            };
            match sent.and_then(|()| self.receive()) {
                Ok(ToWorker::Reply(reply)) => *reply,
                // The turn cannot continue without its reply, and the host is no longer waiting for the turn to end.
                _ => exit_worker(),
            }
        }
    }

    #[expect(clippy::exit, reason = "the host is gone in the middle of a turn")]
    fn exit_worker() -> ! {
        std::process::exit(0)
    }

    /// Adds the usage of another turn.
    fn add(usage: &mut Usage, more: Usage) {
        usage.jobs = usage.jobs.saturating_add(more.jobs);
        usage.fuel = usage.fuel.saturating_add(more.fuel);
        usage.clock_reads = usage.clock_reads.saturating_add(more.clock_reads);
        usage.random_draws = usage.random_draws.saturating_add(more.random_draws);
        usage.heap_bytes = more.heap_bytes;
    }

    /// Continues a wait that timed out; the socket of a worker has no time-out.
    fn wait() -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Refuses hostcalls of the runtime that is evaluated in a zygote.
    struct NoHostcalls;

    impl SyncHost for NoHostcalls {
        fn call(&mut self, call: HostCall) -> SyncReply {
            let error = HostcallError::invalid("too_early", "the runtime called its host while it was evaluated");
            SyncReply { result: HostResult::failed(call.call_id, error), now: Now::default(), state: None }
        }
    }

    /// Prepares a copy of the zygote: closes everything of the zygote but its memory.
    fn begin_copy(socket: OwnedFd) -> Result<HostConnection, LinkError> {
        // The copy gets its own process group, so that a signal to one worker reaches no other.
        let _ = setpgid(None, None);
        replace_stdin(socket).map_err(|_| LinkError::Closed)?;
        begin();
        Ok(HostConnection::new())
    }

    /// Creates an engine without modules. Together with [`add_modules`] this does everything that needs the system; the process
    /// can be sealed afterwards.
    fn engine(options: &RealmOptions) -> Result<EngineRealm, String> {
        EngineRealm::new(options).map_err(|error| error.to_string())
    }

    fn add_modules(engine: &mut EngineRealm, artifacts: Vec<ArtifactCode>, files: Vec<OwnedFd>) -> Result<(), String> {
        verified(artifacts, files)?.into_iter().for_each(|artifact| engine.add_modules(artifact));
        Ok(())
    }

    fn script(
        engine: Result<EngineRealm, String>,
        artifacts: Vec<ArtifactCode>,
        files: Vec<OwnedFd>,
    ) -> Result<Guest, String> {
        let mut engine = engine?;
        engine.fault_in_ahead();
        add_modules(&mut engine, artifacts, files)?;
        Ok(Guest::Script(Box::new(engine)))
    }

    fn component(options: &RealmOptions, artifacts: Vec<ArtifactCode>, files: Vec<OwnedFd>) -> Result<Guest, String> {
        Guest::new(options, verified(artifacts, files)?).map_err(|error| error.to_string())
    }

    /// Converts the code that the host has verified.
    fn verified(artifacts: Vec<ArtifactCode>, files: Vec<OwnedFd>) -> Result<Vec<Arc<Verified>>, String> {
        let memories: io::Result<Vec<_>> = files.into_iter().map(map_sealed_memory).collect();
        let memories = memories.map_err(|error| format!("cannot map shared modules: {error}"))?;
        let verified = |code| Ok(Arc::new(Verified::from_parent(artifact(code, &memories)?)));
        artifacts.into_iter().map(verified).collect()
    }

    /// Splits `bytes` into pieces of these lengths, without copying.
    fn pieces(bytes: &'static [u8], lengths: &[usize]) -> Option<Vec<Bytes>> {
        let mut rest = bytes;
        let piece = |length: &usize| {
            let (piece, after) = rest.split_at_checked(*length)?;
            rest = after;
            Some(Bytes::from_static(piece))
        };
        lengths.iter().map(piece).collect()
    }

    /// Builds an artifact with the parts that an engine reads; sources, maps and findings stay with the host.
    fn artifact(code: ArtifactCode, memories: &[&'static [u8]]) -> Result<Artifact, &'static str> {
        let ArtifactCode { name, version, specifiers, shared, bytecode } = code;
        let bytecode: Vec<Bytes> = match shared {
            Some(SharedBytecode { file, lengths }) => memories
                .get(file)
                .and_then(|memory| pieces(memory, &lengths))
                .ok_or("shared modules have an invalid location")?,
            None => bytecode.into_iter().map(Bytes::from).collect(),
        };
        let module = |(specifier, bytecode)| Module {
            specifier,
            source: String::new(),
            source_map: None,
            bytecode: Some(bytecode),
        };
        Ok(Artifact {
            metadata: ArtifactMetadata::new(name, version, engine_build()),
            modules: specifiers.into_iter().zip(bytecode).map(module).collect(),
        })
    }
}
