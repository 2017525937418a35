//! Runs pi's own shell: the model's `bash` tool and the commands that the user types after `!`.
//!
//! No extension is the caller, so no grant applies: a command has the user's whole environment and privileges, and writes
//! wherever the user may. A command that an extension influenced gets a file view from its caller. As for programs of extensions,
//! a supervisor between host and shell ends all the shell started at a timeout, an abort and the end of the host. Processes that
//! a command leaves behind when it exits by itself live as long as the host.

use super::ExecOptions;
use super::child::{Exit, Leash, Start, start};
use super::program;
use crate::block::aside;
use pijs_hostcall::places::ProgramView;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

/// Time between `SIGTERM` and `SIGKILL`: the user has asked for an end, and waits.
const GRACE: Duration = Duration::from_millis(200);

/// Folder that pi searches for `bash` before the user's search path.
const FIRST: &str = "/bin";

/// Starts command lines.
#[derive(Clone)]
pub struct OwnShell(Arc<Inner>);

struct Inner {
    options: ExecOptions,
    /// Process trees of commands that have exited and left processes behind.
    left: Mutex<Vec<Leash>>,
}

/// A command line that was started.
pub struct Started {
    /// Controls it.
    pub running: Running,
    /// Both output streams, merged in the order of the writes.
    pub output: pipe::Receiver,
}

/// A running command line. Dropping it ends all it started.
pub struct Running {
    ended: oneshot::Receiver<Exit>,
    leash: Leash,
    shell: OwnShell,
}

impl OwnShell {
    /// Creates a shell with exactly this environment and no supervisor: processes can leave the process group that is ended.
    pub fn new(env: BTreeMap<String, String>) -> Self {
        Self::with(ExecOptions::new(env))
    }

    /// Creates a shell with a supervisor, which ends every process, for programs whose `main` begins with
    /// [`supervisor::enter`](super::supervisor::enter).
    pub fn supervised(env: BTreeMap<String, String>) -> Self {
        Self::with(ExecOptions::new(env).supervised())
    }

    fn with(options: ExecOptions) -> Self {
        Self(Arc::new(Inner { options: ExecOptions { grace: GRACE, ..options }, left: Mutex::default() }))
    }

    /// Starts `bash -c COMMAND` with `about` added to its environment; an empty value removes a variable. `view` lists files that
    /// are closed to it.
    ///
    /// # Errors
    ///
    /// The system's, when there is no `bash` or no such folder.
    pub async fn start(
        &self,
        command: &str,
        cwd: &Path,
        about: &BTreeMap<String, String>,
        view: ProgramView,
    ) -> io::Result<Started> {
        let options = &self.0.options;
        let search = options.env.get("PATH").map(String::as_str);
        let program = program::own("bash", Some(FIRST)).or_else(|| program::own("bash", search));
        let program = program.ok_or(io::ErrorKind::NotFound)?;
        let mut env = options.env.clone();
        for (name, value) in about {
            match value.is_empty() {
                true => env.remove(name),
                false => env.insert(name.clone(), value.clone()),
            };
        }
        let what = Start {
            name: program.found.display().to_string(),
            program,
            args: vec!["-c".to_owned(), command.to_owned()],
            env,
            folder: Arc::new(crate::system::open_folder(&std::fs::canonicalize(cwd)?)?),
            cwd: cwd.to_owned(),
            has_stdin: false,
            joins_streams: true,
            is_own: true,
            view,
        };
        let inner = Arc::clone(&self.0);
        let child = aside(move || start(what, &inner.options)).await??;
        Ok(Started {
            running: Running { ended: child.ended, leash: child.leash, shell: self.clone() },
            output: pipe::Receiver::from_owned_fd(OwnedFd::from(child.stdout))?,
        })
    }
}

impl Running {
    /// Waits for the shell itself and returns its exit code, which after a signal is 128 plus the signal, as in shells. Call it
    /// once.
    pub async fn wait(&mut self) -> Option<i32> {
        let exit = (&mut self.ended).await.ok()?;
        exit.code.or(exit.signal.map(|signal| 128 + signal))
    }

    /// Ends the shell and all it started.
    pub fn end(&self) {
        self.leash.end();
    }

    /// Lets processes that the command left behind live as long as the host.
    pub fn leave(self) {
        let Self { leash, shell, .. } = self;
        let mut left = shell.0.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.retain(|leash| !leash.is_over());
        if !leash.is_over() {
            left.push(leash);
        }
    }
}
