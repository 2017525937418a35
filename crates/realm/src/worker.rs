//! The worker's side: a program that was started as a worker seals itself and serves one realm.
//!
//! ```no_run
//! pijs_realm::worker::enter(); // first of all in `main`
//! // ... the program
//! ```
//!
//! [`ProcessRealm`](crate::ProcessRealm) starts the program it runs in once more, with one argument
//! and a socket as stdin. [`enter`] recognises that and never returns; otherwise it returns at once.
//! It must come before threads are started and files are opened: the worker has what `main` had.
//!
//! The order inside: close what was inherited, die with the parent, be the first to go when memory is short, say hello,
//! take the modules from the socket and from memory that came over it, make the engine, load the time zone, seal, and only then run code, our own runtime
//! first.

#[cfg(target_os = "linux")]
pub(crate) use linux::is_worker;

/// The argument that tells a program that it is a worker.
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
    use crate::frame::{Code, FromWorker, Open, Shelved, ToWorker, WIRE_VERSION};
    use crate::link::{Link, LinkError, Pipe, Wait};
    use crate::seal::{self, Walls};
    use bytes::Bytes;
    use pijs_artifact::{Artifact, Module, Verified};
    use pijs_engine::{EngineRealm, SyncHost, engine_build, map_sealed_memory};
    use pijs_protocol::artifact::{ARTIFACT_SCHEMA, ArtifactMetadata, Verdict};
    use pijs_protocol::manifest::{CAPABILITY_SCHEMA, CapabilityManifest};
    use pijs_protocol::wire::RealmOptions;
    use pijs_protocol::{HostCall, HostResult, HostcallError, Now, SyncReply, Termination, Yield, guard};
    use rustix::net::RecvFlags;
    use rustix::process::{Signal, set_parent_process_death_signal};
    use std::collections::BTreeMap;
    use std::io;
    use std::ops::ControlFlow;
    use std::os::fd::{AsFd, OwnedFd};
    use std::sync::Arc;

    /// Added to what the system's out-of-memory killer goes by, of 1000: workers go before the host and whatever else
    /// the user runs.
    const OOM_SCORE: &str = "800";

    /// Whether this process is a worker: the argument, and a stream socket as stdin.
    pub(crate) fn is_worker() -> bool {
        let mut arguments = std::env::args_os().skip(1);
        let named = arguments.next().is_some_and(|argument| argument == ARGUMENT) && arguments.next().is_none();
        let socket = || rustix::net::sockopt::socket_type(io::stdin().as_fd());
        named && socket().is_ok_and(|kind| kind == rustix::net::SocketType::STREAM)
    }

    /// The socket, as the file descriptor that the filter allows.
    struct Stdin(io::Stdin);

    impl Pipe for Stdin {
        fn read(&self, buffer: &mut [u8], wait: Wait) -> io::Result<usize> {
            Ok(match wait {
                Wait::ToTimeout => rustix::io::read(self.0.as_fd(), buffer)?,
                Wait::Never => rustix::net::recv(self.0.as_fd(), buffer, RecvFlags::DONTWAIT)?.0,
            })
        }

        fn write(&self, bytes: &[u8], _: Wait) -> io::Result<usize> {
            Ok(rustix::io::write(self.0.as_fd(), bytes)?)
        }
    }

    /// What the host's end of the socket is to the engine.
    struct Host {
        link: Link<Stdin>,
        /// The latest time it told.
        now: Now,
    }

    #[expect(clippy::exit, reason = "a worker has no caller to return to, and its host may be gone")]
    pub(super) fn run() -> ! {
        // A message on stderr would be a forbidden call; what panics under the engine is reported.
        std::panic::set_hook(Box::new(|_| {}));
        if guard::is_up("realm.inherited-files") {
            // What stays open on a system that cannot close it is behind the filter.
            let _ = pijs_engine::close_inherited_files();
        }
        if guard::is_up("realm.death-signal") {
            // Should the parent be gone already, the socket is at its end and the first read says so.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
        }
        if guard::is_up("realm.oom-score") {
            // Anybody may raise their own; without a `/proc` the system's own order holds.
            let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
        }
        let mut host = Host { link: Link::new(Stdin(io::stdin())), now: Now::default() };
        let served = host.serve();
        std::process::exit(match served {
            Ok(()) | Err(LinkError::Closed) => 0,
            Err(LinkError::Frame(_) | LinkError::GaveUp) => 1,
        })
    }

    impl Host {
        fn serve(&mut self) -> Result<(), LinkError> {
            self.send(FromWorker::Hello { wire: WIRE_VERSION })?;
            let Ok(files) = files::receive(io::stdin()) else { return Err(LinkError::Closed) };
            let ToWorker::Open(open) = self.receive()? else { return Ok(()) };
            let Open { options, now, artifacts } = *open;
            let mut engine = match prepare(&options, artifacts, files) {
                Ok(engine) => engine,
                Err(message) => return self.send(FromWorker::Failed { message }),
            };
            let sealed = seal::this_process(options.limits.memory_bytes, Walls::standing());
            self.send(FromWorker::Ready(sealed))?;
            self.now = now;
            let mut done = engine.start(now, self);
            loop {
                match done {
                    Ok(done) => self.send_yield(done)?,
                    Err(termination) => return self.send(FromWorker::Ended(termination)),
                }
                done = match self.receive()? {
                    ToWorker::Deliver(delivery) => engine.turn(*delivery, self),
                    ToWorker::Delta { seq, now, delta } => engine.stream(seq, now, &delta, self),
                    // Only a host with a bug says that here.
                    ToWorker::Open(_) | ToWorker::Reply(_) => return Ok(()),
                };
            }
        }

        /// A yield that no frame holds ends the realm: half of it would be a lie.
        fn send_yield(&mut self, done: Yield) -> Result<(), LinkError> {
            match self.send(FromWorker::Yielded(done)) {
                Err(LinkError::Frame(error)) => {
                    let detail = format!("what it yielded does not fit: {error}");
                    self.send(FromWorker::Ended(Termination::Protocol { detail }))?;
                    Err(LinkError::Closed)
                }
                sent => sent,
            }
        }

        fn send(&mut self, message: FromWorker) -> Result<(), LinkError> {
            self.link.queue(|out| message.encode(out)).map_err(LinkError::Frame)?;
            self.link.flush(Wait::ToTimeout, wait)
        }

        fn receive(&mut self) -> Result<ToWorker, LinkError> {
            let message = ToWorker::decode(self.link.receive(Wait::ToTimeout, wait)?).map_err(LinkError::Frame)?;
            match &message {
                ToWorker::Deliver(delivery) => self.now = delivery.now,
                ToWorker::Delta { now, .. } => self.now = *now,
                ToWorker::Reply(reply) => self.now = reply.now,
                ToWorker::Open(_) => {}
            }
            Ok(message)
        }
    }

    impl SyncHost for Host {
        fn call(&mut self, call: HostCall) -> SyncReply {
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
                // The turn cannot go on without its answer, and the host no longer waits for its end.
                _ => leave(),
            }
        }
    }

    #[expect(clippy::exit, reason = "the host is gone in the middle of a turn")]
    fn leave() -> ! {
        std::process::exit(0)
    }

    /// The socket has no time-out.
    fn wait() -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Everything that needs the system: after this the process can be sealed.
    fn prepare(options: &RealmOptions, artifacts: Vec<Code>, files: Vec<OwnedFd>) -> Result<EngineRealm, String> {
        let memories: io::Result<Vec<_>> = files.into_iter().map(map_sealed_memory).collect();
        let memories = memories.map_err(|error| format!("no memory of shared modules: {error}"))?;
        let mut engine = EngineRealm::new(options).map_err(|error| error.to_string())?;
        engine.load_time_zone().map_err(|error| error.to_string())?;
        for code in artifacts {
            engine.add_modules(Arc::new(Verified::from_parent(artifact(code, &memories)?)));
        }
        Ok(engine)
    }

    /// Cuts `bytes` into pieces of these lengths, none of which is copied.
    fn pieces(bytes: &'static [u8], lengths: &[usize]) -> Option<Vec<Bytes>> {
        let mut rest = bytes;
        let piece = |length: &usize| {
            let (piece, after) = rest.split_at_checked(*length)?;
            rest = after;
            Some(Bytes::from_static(piece))
        };
        lengths.iter().map(piece).collect()
    }

    /// An artifact as far as an engine looks at it; sources, maps and findings stayed with the host.
    fn artifact(code: Code, memories: &[&'static [u8]]) -> Result<Artifact, &'static str> {
        let Code { name, version, specifiers, shelved, bytecode } = code;
        let bytecode: Vec<Bytes> = match shelved {
            Some(Shelved { file, lengths }) => memories
                .get(file)
                .and_then(|memory| pieces(memory, &lengths))
                .ok_or("shared modules are not where they should be")?,
            None => bytecode.into_iter().map(Bytes::from).collect(),
        };
        let module = |(specifier, bytecode)| Module {
            specifier,
            source: String::new(),
            source_map: None,
            bytecode: Some(bytecode),
        };
        Ok(Artifact {
            metadata: ArtifactMetadata {
                schema: ARTIFACT_SCHEMA.to_owned(),
                name,
                version,
                engine: engine_build(),
                artifact: String::new(),
                cache_key: String::new(),
                entries: Vec::new(),
                inputs: BTreeMap::new(),
                capabilities: CapabilityManifest { schema: CAPABILITY_SCHEMA.to_owned(), capabilities: Vec::new() },
                offers: Default::default(),
                host_imports: BTreeMap::new(),
                verdict: Verdict::Compatible,
                findings: Vec::new(),
            },
            modules: specifiers.into_iter().zip(bytecode).map(module).collect(),
        })
    }
}
