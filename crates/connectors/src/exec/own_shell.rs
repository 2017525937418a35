//! Runs pi's own shell: the model's `bash` tool and the commands that the user types after `!`.
//!
//! No extension is the caller, so no grant applies: a command has the user's whole environment and privileges, and may write
//! wherever the user may. The caller passes limits for a command that an extension influenced; one that an extension wrote is
//! restricted like a program of that extension. As for such programs, a supervisor between host and shell stops all processes
//! that the shell started, at a timeout, at an abort, and when the host exits. Processes that a command leaves behind when it exits by itself live as long as the host.

use super::child::{ProgramExit, StartOptions, TreeHandle, start};
use super::program;
use super::view::terminals;
use super::{ExecOptions, restricted_shell};
use crate::blocking::run_blocking;
use pijs_hostcall::CommandLimits;
use pijs_hostcall::places::ProgramView;
use pijs_protocol::guard;
use pijs_redact::is_secret_key;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

/// Time between `SIGTERM` and `SIGKILL`: short, because the user waits for the command to stop.
const GRACE: Duration = Duration::from_millis(200);

/// Folder that pi searches for `bash` before the user's search path.
const FIRST: &str = "/bin";

/// Starts command lines.
#[derive(Clone)]
pub struct OwnShell(Arc<ShellState>);

struct ShellState {
    options: ExecOptions,
    /// Process trees of commands that have exited and left processes behind.
    orphaned: Mutex<Vec<TreeHandle>>,
}

/// A started command line.
pub struct StartedCommand {
    /// Controls the command.
    pub running: RunningCommand,
    /// Both output streams, merged in the order of the writes.
    pub output: pipe::Receiver,
}

/// A running command line. Dropping it stops all processes that it started.
pub struct RunningCommand {
    ended: oneshot::Receiver<ProgramExit>,
    tree: TreeHandle,
    shell: OwnShell,
}

impl OwnShell {
    /// Creates a shell with exactly this environment and no supervisor, so only the process group is stopped, which processes can
    /// leave.
    pub fn new(env: BTreeMap<String, String>) -> Self {
        Self::with(ExecOptions::new(env))
    }

    /// Creates a shell with a supervisor, which stops every process. The `main` of this program must begin with
    /// [`supervisor::enter`](super::supervisor::enter).
    pub fn supervised(env: BTreeMap<String, String>) -> Self {
        Self::with(ExecOptions::new(env).supervised())
    }

    fn with(options: ExecOptions) -> Self {
        Self(Arc::new(ShellState { options: ExecOptions { grace: GRACE, ..options }, orphaned: Mutex::default() }))
    }

    /// Starts `bash -c COMMAND` with `extra_env` added to its environment; an empty value removes a variable.
    ///
    /// # Errors
    ///
    /// Fails with the system's error if there is no `bash`, or the folder does not exist, or with the reason that a program of
    /// the command's author may not start.
    pub async fn start(
        &self,
        command: &str,
        cwd: &Path,
        extra_env: &BTreeMap<String, String>,
        CommandLimits { mut view, author }: CommandLimits,
    ) -> io::Result<StartedCommand> {
        let mut env = self.0.options.env.clone();
        if !view.is_open() && guard!(ExecTerminals) {
            view.closed.extend(terminals());
        }
        if view.hides_secrets && guard!(ExecEnv) {
            env.retain(|name, _| !is_secret_key(name));
        }
        for (name, value) in extra_env {
            match value.is_empty() {
                true => env.remove(name),
                false => env.insert(name.clone(), value.clone()),
            };
        }
        let (inner, command, cwd) = (Arc::clone(&self.0), command.to_owned(), cwd.to_owned());
        let child = run_blocking(move || {
            let options = &inner.options;
            let mut what = match author.filter(|_| guard!(ExecWrittenCommand)) {
                Some(author) => {
                    let program = restricted_shell(&author, command, &cwd, env, options)?;
                    StartOptions { joins_streams: true, ..program }
                }
                None => unrestricted(command, cwd, env, options)?,
            };
            what.view.closed.append(&mut view.closed);
            what.view.unwritten.append(&mut view.unwritten);
            start(what, options)
        });
        let child = child.await??;
        Ok(StartedCommand {
            running: RunningCommand { ended: child.ended, tree: child.tree, shell: self.clone() },
            output: pipe::Receiver::from_owned_fd(OwnedFd::from(child.stdout))?,
        })
    }
}

/// Returns how to start a command of the user or the model.
fn unrestricted(
    command: String,
    cwd: PathBuf,
    env: BTreeMap<String, String>,
    options: &ExecOptions,
) -> io::Result<StartOptions> {
    let search = options.env.get("PATH").map(String::as_str);
    let program = program::find_for_user("bash", Some(FIRST)).or_else(|| program::find_for_user("bash", search));
    let program = program.ok_or(io::ErrorKind::NotFound)?;
    Ok(StartOptions {
        name: program.found.display().to_string(),
        program,
        args: vec!["-c".to_owned(), command],
        env,
        folder: Arc::new(crate::system::open_folder(&std::fs::canonicalize(&cwd)?)?),
        held: None,
        cwd,
        has_stdin: false,
        joins_streams: true,
        is_own: true,
        view: ProgramView::default(),
        bounds: None,
    })
}

impl RunningCommand {
    /// Waits for the shell itself and returns its exit code: 128 plus the signal number if a signal ended it. Must be called only
    /// once.
    pub async fn wait(&mut self) -> Option<i32> {
        let exit = (&mut self.ended).await.ok()?;
        exit.code.or(exit.signal.map(|signal| 128 + signal))
    }

    /// Stops the shell and all processes that it started.
    pub fn end(&self) {
        self.tree.end();
    }

    /// Lets processes that the command left behind live as long as the host.
    pub fn leave(self) {
        let Self { tree, shell, .. } = self;
        let mut orphaned = shell.0.orphaned.lock().unwrap_or_else(PoisonError::into_inner);
        orphaned.retain(|tree| !tree.is_over());
        if !tree.is_over() {
            orphaned.push(tree);
        }
    }
}
