//! Starts the worker process, tracks its status and ends it.

use super::options::{ProcessError, ProcessOptions};
use crate::worker::{self, ARGUMENT};
use pijs_protocol::guard;
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open, waitpid};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Name of a worker in process lists.
const NAME: &str = "pijs-worker";

/// A worker process, running or ended. Dropping it kills and reaps it.
pub(super) struct WorkerProcess {
    /// The child process. Only [`WorkerProcess::bury`] reaps it, so its id cannot be reused before.
    process: Pid,
    /// Exit status, once the process was reaped.
    end: Option<WaitStatus>,
}

/// Creates the two ends of a worker's socket, the host's first. The host's end blocks for at most `poll_interval` at a time.
pub(super) fn sockets(poll_interval: Duration) -> io::Result<(UnixStream, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(poll_interval))?;
    ours.set_write_timeout(Some(poll_interval))?;
    Ok((ours, theirs))
}

impl WorkerProcess {
    /// Starts a worker. `poll_interval` is the time-out of the host's end of the socket.
    pub(super) fn start(options: &ProcessOptions, poll_interval: Duration) -> Result<(Self, UnixStream), ProcessError> {
        if worker::is_worker() {
            // A worker whose `main` continued would start workers endlessly.
            let instead = "ran its own `main` although it was started as a worker".to_owned();
            return Err(ProcessError::NoWorker { program: options.program.clone(), instead });
        }
        let spawn = || -> io::Result<(Pid, UnixStream)> {
            let (ours, theirs) = sockets(poll_interval)?;
            let mut command = Command::new(&options.program);
            command.arg0(NAME).arg(ARGUMENT);
            if guard!(RealmEnvironment) {
                command.env_clear();
            }
            if !guard::down().is_empty() {
                // Passes the guard switches on, which exist only in builds for the attack suite.
                command.env(guard::VARIABLE, guard::down().join(","));
            }
            // `bury` reaps it by its id.
            let child = command
                .envs(options.time_zone.as_ref().map(|zone| ("TZ", zone)))
                .current_dir("/")
                // Ctrl-C in a terminal signals the whole group: the host handles it and shuts down in order.
                .process_group(0)
                .stdin(Stdio::from(OwnedFd::from(theirs)))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            Ok((Pid::from_child(&child), ours))
        };
        match spawn() {
            Ok((process, socket)) => Ok((Self::of(process), socket)),
            Err(error) => Err(ProcessError::Spawn { program: options.program.clone(), error }),
        }
    }

    /// Wraps a child of this process that no other code reaps.
    pub(super) fn of(process: Pid) -> Self {
        Self { process, end: None }
    }

    pub(super) fn id(&self) -> u32 {
        self.process.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns a handle that becomes readable when the process has ended; `None` if the kernel has no such handles.
    pub(super) fn handle(&self) -> Option<OwnedFd> {
        if self.end.is_some() {
            return None;
        }
        pidfd_open(self.process, PidfdFlags::empty()).ok()
    }

    /// Returns whether the process has not ended. On an error it is assumed to be alive: the first message shows the truth.
    pub(super) fn is_alive(&mut self) -> bool {
        if self.end.is_none() {
            self.end = self.wait(WaitOptions::NOHANG).ok().flatten();
        }
        self.end.is_none()
    }

    /// Returns whether the process ended by SIGKILL.
    pub(super) fn was_killed(&self) -> bool {
        self.end.is_some_and(|end| end.terminating_signal() == Some(libc::SIGKILL))
    }

    /// Kills and reaps the process. Returns a description of its end, which is the same at each call.
    pub(super) fn bury(&mut self) -> String {
        if self.is_alive() {
            // A worker that is already dying keeps its exit status.
            let _ = kill_process(self.process, Signal::KILL);
            match self.wait(WaitOptions::empty()) {
                Ok(end) => self.end = end,
                Err(error) => return format!("and could not be waited for: {error}"),
            }
        }
        self.end.map(describe).unwrap_or_default()
    }

    fn wait(&self, how: WaitOptions) -> rustix::io::Result<Option<WaitStatus>> {
        let waited = retry_on_intr(|| waitpid(Some(self.process), how))?;
        Ok(waited.map(|(_, end)| end))
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.bury();
    }
}

/// Describes an exit status.
fn describe(end: WaitStatus) -> String {
    match end.terminating_signal() {
        Some(libc::SIGSYS) => "killed by SIGSYS: it made a forbidden system call".to_owned(),
        Some(signal) => match name_of(signal) {
            Some(name) => format!("killed by {name}"),
            None => format!("killed by signal {signal}"),
        },
        None => format!("exit status {}", end.exit_status().unwrap_or_default()),
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
