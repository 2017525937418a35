//! Forks workers from a process that has evaluated the runtime.
//!
//! Starting the program, applying relocations, creating an engine and evaluating the runtime take most of a worker's time and
//! memory, and are the same for all workers. A host that opens many realms lets one process do that, a *zygote*, and forks each
//! worker from it; pages that a worker does not change stay shared with the zygote.
//!
//! The zygote is not sealed, because it receives files and forks. It runs only the host's runtime, reads only messages of its
//! host, and ends when no more realms are to be opened. A copy seals itself, as a started worker does, before it runs other code.
//!
//! Workers of one zygote share its memory layout as well as its pages.
//!
//! The host is the parent of the copies (`CLONE_PARENT`), so it waits for them and kills them like any worker. A copy closes the
//! zygote's descriptors, seals itself, and only then takes code. All extensions of a session have the same `RealmOptions`, except
//! for the name; data of one extension arrives with `load`.
//!
//! A zygote ends after the last realm of a session is opened. Restarts, and realms that are opened one by one, start a process.

use super::child::{WorkerProcess, sockets};
use super::{POLL_INTERVAL, ProcessError, ProcessRealm, Spare};
use crate::files;
use crate::frame::{FromWorker, ToWorker};
use crate::link::LinkError;
use pijs_artifact::Verified;
use pijs_protocol::wire::RealmOptions;
use pijs_protocol::{Now, Termination};
use rustix::process::Pid;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Options and runtime of a zygote, and so of its copies.
#[derive(Debug)]
pub(super) struct ZygoteSetup {
    options: RealmOptions,
    runtime: Arc<Verified>,
}

impl ZygoteSetup {
    /// Returns whether a realm with these options can be forked: only the extension id may differ.
    pub(super) fn matches(&self, options: &RealmOptions, modules: &[Arc<Verified>]) -> bool {
        let RealmOptions { extension: _, limits, seed, clock_step_us, time_zone, facts } = &self.options;
        modules.first().is_some_and(|runtime| Arc::ptr_eq(runtime, &self.runtime))
            && *limits == options.limits
            && *seed == options.seed
            && *clock_step_us == options.clock_step_us
            && *time_zone == options.time_zone
            && *facts == options.facts
    }
}

/// A process that forks itself on request. Dropping it kills it, but not its copies.
pub struct Zygote {
    process: ProcessRealm,
    setup: Arc<ZygoteSetup>,
    is_ready: bool,
}

impl Zygote {
    /// Turns a started worker into a zygote, which evaluates `runtime`. At the latest, the zygote and its copies die with the
    /// thread that started the worker.
    ///
    /// # Errors
    ///
    /// See [`ProcessError`]. The worker has ended then.
    pub fn of(spare: Spare, options: &RealmOptions, runtime: &Arc<Verified>, now: Now) -> Result<Self, ProcessError> {
        let process = spare.send_setup(options, std::slice::from_ref(runtime), 1, now, ToWorker::Raise)?;
        let setup = Arc::new(ZygoteSetup { options: options.clone(), runtime: Arc::clone(runtime) });
        Ok(Self { process, setup, is_ready: false })
    }

    /// Forks a worker. Waits until the runtime is evaluated.
    ///
    /// # Errors
    ///
    /// See [`ProcessError`]. The zygote is unusable then.
    pub fn fork(&mut self) -> Result<Spare, ProcessError> {
        let process = &mut self.process;
        if !self.is_ready {
            match process.receive().map_err(ProcessError::Ended)? {
                FromWorker::Yielded(_) => self.is_ready = true,
                other => return Err(refused(process, other)),
            }
        }
        let options = process.options.clone();
        let failed = |error| ProcessError::Spawn { program: options.program.clone(), error };
        let (ours, theirs) = sockets(POLL_INTERVAL).map_err(failed)?;
        process.begin(options.hello);
        if files::send(&*process.socket, &[theirs.as_fd()]).is_err() {
            return Err(ProcessError::Ended(process.link_failed(&LinkError::Closed)));
        }
        match process.receive().map_err(ProcessError::Ended)? {
            FromWorker::Forked { process: copy } => match Pid::from_raw(copy).filter(|copy| !copy.is_init()) {
                Some(copy) => Ok(Spare {
                    worker: WorkerProcess::of(copy),
                    socket: ours,
                    options,
                    setup: Some(Arc::clone(&self.setup)),
                }),
                None => {
                    let detail = format!("the zygote reported an invalid process id {copy}");
                    Err(ProcessError::Ended(process.end(Termination::Protocol { detail })))
                }
            },
            other => Err(refused(process, other)),
        }
    }
}

/// Returns the error of an unexpected message from a zygote.
fn refused(process: &mut ProcessRealm, said: FromWorker) -> ProcessError {
    match said {
        FromWorker::Failed { message } => ProcessError::Failed(message),
        FromWorker::Ended(reason) => ProcessError::Ended(process.end(reason)),
        other => ProcessError::Ended(process.broke_protocol(&other)),
    }
}
