//! pi's own shell: the model's `bash` and what the person types after `!`.
//!
//! No extension asks here, so nothing is decided and nothing taken away: the user's whole environment, privileges as
//! the user may gain them, files wherever the user may write. A command that an extension is behind is kept from what its
//! caller says. What is the same as for programs of extensions is the
//! leash: a process of our own between host and shell, which ends all the shell started at a timeout, an abort and the
//! end of the host, however that comes. What a command leaves running when it ends by itself lives as long as the host.

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

/// Between `SIGTERM` and `SIGKILL`: the person has asked for an end, and waits.
const GRACE: Duration = Duration::from_millis(200);

/// Where pi looks for `bash` before it looks where the user has it.
const FIRST: &str = "/bin";

/// Starts command lines.
#[derive(Clone)]
pub struct OwnShell(Arc<Inner>);

struct Inner {
    options: ExecOptions,
    /// What commands that have ended left running.
    left: Mutex<Vec<Leash>>,
}

/// A command line that has been started.
pub struct Started {
    /// The hand on it.
    pub running: Running,
    /// Carries what it prints on either stream, in its order.
    pub output: pipe::Receiver,
}

/// A command line that runs. Dropping this ends all it started.
pub struct Running {
    ended: oneshot::Receiver<Exit>,
    leash: Leash,
    shell: OwnShell,
}

impl OwnShell {
    /// A shell with exactly this environment, on a leash that its process group can slip.
    pub fn new(env: BTreeMap<String, String>) -> Self {
        Self::with(ExecOptions::new(env))
    }

    /// The same on a leash that holds everything, for programs whose `main` begins with
    /// [`supervisor::enter`](super::supervisor::enter).
    pub fn supervised(env: BTreeMap<String, String>) -> Self {
        Self::with(ExecOptions::new(env).supervised())
    }

    fn with(options: ExecOptions) -> Self {
        Self(Arc::new(Inner { options: ExecOptions { grace: GRACE, ..options }, left: Mutex::default() }))
    }

    /// Starts `bash -c COMMAND`, with these variables beside its own; an empty one is taken away. `view` is what it is kept from.
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
    /// Waits for the shell itself; once. Its exit code, which after a signal is 128 and the signal, as shells have it.
    pub async fn wait(&mut self) -> Option<i32> {
        let exit = (&mut self.ended).await.ok()?;
        exit.code.or(exit.signal.map(|signal| 128 + signal))
    }

    /// Ends the shell and all it started.
    pub fn end(&self) {
        self.leash.end();
    }

    /// Lets what the command left running live as long as the host.
    pub fn leave(self) {
        let Self { leash, shell, .. } = self;
        let mut left = shell.0.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.retain(|leash| !leash.is_over());
        if !leash.is_over() {
            left.push(leash);
        }
    }
}
