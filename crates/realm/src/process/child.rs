//! The process itself: how it is started, watched and buried.

use super::options::{ProcessError, ProcessOptions};
use crate::worker::{self, ARGUMENT};
use pijs_protocol::guard;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Name under which a worker shows in a process list.
const NAME: &str = "pijs-worker";

/// A worker process, dead or alive. Dropping it kills and reaps it.
pub(super) struct Worker {
    child: Child,
    /// How it ended, once it was reaped.
    end: Option<ExitStatus>,
}

impl Worker {
    /// Starts a worker. `look_every` is the time-out of the host's end of the socket.
    pub(super) fn start(options: &ProcessOptions, look_every: Duration) -> Result<(Self, UnixStream), ProcessError> {
        if worker::is_worker() {
            // A worker whose `main` went on would start workers of its own, without end.
            let instead = "was started as one and went on".to_owned();
            return Err(ProcessError::NoWorker { program: options.program.clone(), instead });
        }
        let spawn = || -> io::Result<(Child, UnixStream)> {
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_read_timeout(Some(look_every))?;
            ours.set_write_timeout(Some(look_every))?;
            let mut command = Command::new(&options.program);
            command.arg0(NAME).arg(ARGUMENT);
            if guard::is_up("realm.environment") {
                command.env_clear();
            }
            if !guard::down().is_empty() {
                // Only in builds with switches, which the attack suite alone has.
                command.env(guard::VARIABLE, guard::down().join(","));
            }
            let child = command
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
        match spawn() {
            Ok((child, socket)) => Ok((Self { child, end: None }, socket)),
            Err(error) => Err(ProcessError::Spawn { program: options.program.clone(), error }),
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// A handle that becomes readable when the process has ended; `None` on kernels without one.
    pub(super) fn handle(&self) -> Option<OwnedFd> {
        // Not reaped before `bury`, so the number cannot name another process.
        let pid = Pid::from_raw(self.child.id().cast_signed()).filter(|_| self.end.is_none())?;
        pidfd_open(pid, PidfdFlags::empty()).ok()
    }

    /// Whether it has not ended. What cannot be asked counts as alive: the first word will tell.
    pub(super) fn is_alive(&mut self) -> bool {
        self.end = self.end.or_else(|| self.child.try_wait().ok().flatten());
        self.end.is_none()
    }

    /// Whether it ended by the one signal that no program answers.
    pub(super) fn was_killed(&self) -> bool {
        self.end.is_some_and(|status| status.signal() == Some(libc::SIGKILL))
    }

    /// Kills and reaps it, and tells how it ended. The same answer ever after.
    pub(super) fn bury(&mut self) -> String {
        if self.is_alive() {
            // A worker that is dying already keeps the end it has.
            let _ = self.child.kill();
            match self.child.wait() {
                Ok(status) => self.end = Some(status),
                Err(error) => return format!("and could not be waited for: {error}"),
            }
        }
        self.end.map(describe).unwrap_or_default()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.bury();
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
