//! Workers that are copies of a process which has evaluated the runtime.
//!
//! A program's start, its relocations, an engine and the runtime are most of what a worker costs, in time and in memory,
//! and the same for all of them. Who opens many realms has one process do it, a *zygote*, and each worker begins where that
//! one stands; pages that a worker does not change are the zygote's.
//!
//! The zygote is not sealed, for it has files to take and processes to make. It runs our own runtime and nothing else, reads
//! what its host says and nothing else, and lives no longer than there are realms to open. A copy raises its own walls, as a
//! worker that was started does, before it runs anything.
//!
//! What workers of one zygote have in common beside pages: where things lie in memory.
//!
//! The host is the parent of the copies (`CLONE_PARENT`), so it waits for them and kills them as it does with other workers. A copy
//! closes the zygote's descriptors, seals itself, and only then takes code. All extensions of a session share what a realm is made with
//! (`RealmOptions`, except the name); what belongs to one extension arrives with `load`.
//!
//! A zygote ends when the last realm was opened. Restarts, and realms that are opened one by one, start a process.

use super::child::{Worker, sockets};
use super::{LOOK_EVERY, ProcessError, ProcessRealm, Spare};
use crate::files;
use crate::frame::{FromWorker, ToWorker};
use crate::link::LinkError;
use pijs_artifact::Verified;
use pijs_protocol::wire::RealmOptions;
use pijs_protocol::{Now, Termination};
use rustix::process::Pid;
use std::os::fd::AsFd;
use std::sync::Arc;

/// What a zygote was made with: what its copies are good for.
#[derive(Debug)]
pub(super) struct Origin {
    options: RealmOptions,
    runtime: Arc<Verified>,
}

impl Origin {
    /// Whether a realm of these can begin as a copy: whose code it runs is all that may be otherwise.
    pub(super) fn suits(&self, options: &RealmOptions, modules: &[Arc<Verified>]) -> bool {
        let RealmOptions { extension: _, limits, seed, clock_step_us, time_zone, facts } = &self.options;
        modules.first().is_some_and(|runtime| Arc::ptr_eq(runtime, &self.runtime))
            && *limits == options.limits
            && *seed == options.seed
            && *clock_step_us == options.clock_step_us
            && *time_zone == options.time_zone
            && *facts == options.facts
    }
}

/// A process that makes copies of itself. Dropping it kills it; its copies live on.
pub struct Zygote {
    process: ProcessRealm,
    origin: Arc<Origin>,
    is_ready: bool,
}

impl Zygote {
    /// Makes one of a worker that was started, and has it evaluate `runtime`. It dies with the thread that started that
    /// worker, at the latest, and so do its copies.
    ///
    /// # Errors
    ///
    /// See [`ProcessError`]. The worker is gone then.
    pub fn of(spare: Spare, options: &RealmOptions, runtime: &Arc<Verified>, now: Now) -> Result<Self, ProcessError> {
        let process = spare.tell(options, std::slice::from_ref(runtime), 1, now, ToWorker::Raise)?;
        let origin = Arc::new(Origin { options: options.clone(), runtime: Arc::clone(runtime) });
        Ok(Self { process, origin, is_ready: false })
    }

    /// Makes a copy, once the runtime is evaluated.
    ///
    /// # Errors
    ///
    /// See [`ProcessError`]. The zygote is of no more use then.
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
        let (ours, theirs) = sockets(LOOK_EVERY).map_err(failed)?;
        process.begin(options.hello);
        if files::send(&*process.socket, &[theirs.as_fd()]).is_err() {
            return Err(ProcessError::Ended(process.lost(&LinkError::Closed)));
        }
        match process.receive().map_err(ProcessError::Ended)? {
            FromWorker::Forked { process: copy } => match Pid::from_raw(copy).filter(|copy| !copy.is_init()) {
                Some(copy) => Ok(Spare {
                    worker: Worker::of(copy),
                    socket: ours,
                    options,
                    origin: Some(Arc::clone(&self.origin)),
                }),
                None => {
                    let detail = format!("the zygote told of process {copy}");
                    Err(ProcessError::Ended(process.end(Termination::Protocol { detail })))
                }
            },
            other => Err(refused(process, other)),
        }
    }
}

/// What a zygote said instead of what it should.
fn refused(process: &mut ProcessRealm, said: FromWorker) -> ProcessError {
    match said {
        FromWorker::Failed { message } => ProcessError::Failed(message),
        FromWorker::Ended(reason) => ProcessError::Ended(process.end(reason)),
        other => ProcessError::Ended(process.broke_protocol(&other)),
    }
}
