//! Starts a program and controls its process tree.
//!
//! With a supervisor ([`super::supervisor`]), the whole tree can be stopped. Without one (on other systems, and for embedders
//! that do not call [`super::supervisor::enter`] in `main`), only the program's process group can be stopped, which its processes
//! can leave.

use super::program::Program;
use super::{ExecOptions, signals};
use crate::held_folders::HeldFolder;
use pijs_git_bounds::FileBounds;
use pijs_hostcall::places::ProgramView;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// Describes a program to start.
pub(super) struct StartOptions {
    pub(super) program: Program,
    /// `argv[0]`.
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    /// The working folder. The handle is used if there is a supervisor, and the path otherwise.
    pub(super) folder: Arc<File>,
    pub(super) cwd: PathBuf,
    /// Keeps the working folder in place until the program has ended.
    pub(super) held: Option<HeldFolder>,
    /// Whether standard input is a pipe; if not, it is empty.
    pub(super) has_stdin: bool,
    /// Whether standard error is merged into standard output, in the order of the writes.
    pub(super) joins_streams: bool,
    /// Whether the user started the command; it then keeps all of the user's privileges.
    pub(super) is_own: bool,
    /// Files that the program cannot access, if the kernel has Landlock and there is a supervisor.
    pub(super) view: ProgramView,
    /// Files that it can access, under the same conditions; `None` for all others than those.
    pub(super) bounds: Option<FileBounds>,
}

/// A running program.
pub(super) struct Child {
    pub(super) pid: u32,
    pub(super) stdin: Option<PipeWriter>,
    pub(super) stdout: PipeReader,
    pub(super) stderr: PipeReader,
    pub(super) ended: oneshot::Receiver<ProgramExit>,
    pub(super) tree: TreeHandle,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProgramExit {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// Controls a program and all processes that it started. Dropping the last clone stops them.
pub(super) struct TreeHandle {
    tree: Arc<EndTreeOnDrop>,
}

/// Stops a process tree on drop.
struct EndTreeOnDrop(Arc<dyn TreeControl>);

impl Drop for EndTreeOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Selects the processes that receive a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalTarget {
    /// The program alone.
    Program,
    /// The program's process group.
    Group,
}

trait TreeControl: Send + Sync {
    /// Sends a signal; returns `false` if the program has ended.
    fn signal(&self, signal: Signal, to: SignalTarget) -> bool;
    /// Sends a signal to one descendant of the program; returns `false` if `pid` is not a descendant or has ended.
    fn signal_descendant(&self, _pid: Pid, _signal: Signal) -> bool {
        false
    }
    /// Stops the tree: `SIGTERM`, then `SIGKILL` after the grace period.
    fn end(&self);
    /// Returns whether no process of the tree is left.
    fn is_over(&self) -> bool;
}

impl TreeHandle {
    /// Sends a signal; returns `false` if the program has ended.
    pub(super) fn signal(&self, signal: Signal, to: SignalTarget) -> bool {
        self.tree.0.signal(signal, to)
    }

    /// Sends a signal to one process of the tree; returns `false` if `pid` is not in the tree, or if there is no supervisor.
    pub(super) fn signal_descendant(&self, pid: Pid, signal: Signal) -> bool {
        self.tree.0.signal_descendant(pid, signal)
    }

    /// Returns another handle to the same tree.
    pub(super) fn share(other: &Self) -> Self {
        Self { tree: Arc::clone(&other.tree) }
    }

    fn new(tree: Arc<dyn TreeControl>) -> Self {
        Self { tree: Arc::new(EndTreeOnDrop(tree)) }
    }

    /// Stops the tree: `SIGTERM`, a grace period, `SIGKILL`. Returns at once.
    pub(super) fn end(&self) {
        self.tree.0.end();
    }

    /// Returns whether no process of the tree is left.
    pub(super) fn is_over(&self) -> bool {
        self.tree.0.is_over()
    }
}

/// Starts a program. Blocks until it runs, or could not be started.
pub(super) fn start(start: StartOptions, options: &ExecOptions) -> io::Result<Child> {
    let (stdout, stdout_end) = io::pipe()?;
    let (stderr, mut stderr_end) = io::pipe()?;
    if start.joins_streams {
        stderr_end = stdout_end.try_clone()?;
    }
    let (stdin_end, stdin) = if start.has_stdin { io::pipe().map(|(r, w)| (Some(r), Some(w)))? } else { (None, None) };
    let (sender, ended) = oneshot::channel();
    let pipes = Pipes { stdin: stdin_end, stdout: stdout_end, stderr: stderr_end };
    #[cfg(target_os = "linux")]
    if let Some(supervisor) = &options.supervisor {
        let (pid, tree) = supervised::start(start, pipes, supervisor, options, sender)?;
        return Ok(Child { pid, stdin, stdout, stderr, ended, tree: TreeHandle::new(tree) });
    }
    let (pid, tree) = unsupervised::start(start, pipes, options, sender)?;
    Ok(Child { pid, stdin, stdout, stderr, ended, tree: TreeHandle::new(tree) })
}

/// The program's ends of the pipes.
struct Pipes {
    stdin: Option<PipeReader>,
    stdout: PipeWriter,
    stderr: PipeWriter,
}

#[cfg(target_os = "linux")]
mod supervised {
    use super::super::supervisor::{
        ARGUMENT, ProgramRestrictions, SupervisorMessage, SupervisorRequest, receive_message, send_request,
        signal_descendant, sweep,
    };
    use super::{
        Arc, ExecOptions, HeldFolder, Mutex, Pid, Pipes, PoisonError, ProgramExit, Signal, SignalTarget, StartOptions,
        TreeControl, io, oneshot,
    };
    use pijs_protocol::guard;
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    use std::io::{BufReader, Write as _};
    use std::net::Shutdown;
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::CommandExt as _;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    /// Maximum wait for a supervisor's first message.
    const FIRST_MESSAGE: Duration = Duration::from_secs(20);

    /// Name of a supervisor in a process list.
    const NAME: &str = "pijs-exec";

    struct Supervised {
        control: Mutex<UnixStream>,
        running: AtomicBool,
        supervisor: Pid,
        /// Whether the supervisor was reaped, after which its process number may be reused.
        reaped: Mutex<bool>,
        over: AtomicBool,
    }

    impl TreeControl for Supervised {
        fn signal(&self, signal: Signal, to: SignalTarget) -> bool {
            let running = self.running.load(Ordering::Acquire);
            let word = match to {
                SignalTarget::Program => "signal",
                SignalTarget::Group => "signal-group",
            };
            running && self.send_line(&format!("{word} {}\n", signal.as_raw()))
        }

        fn end(&self) {
            self.send_line("end\n");
            let control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
            // The supervisor may have exited.
            let _ = control.shutdown(Shutdown::Write);
        }

        fn signal_descendant(&self, pid: Pid, signal: Signal) -> bool {
            let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
            !*reaped && signal_descendant(self.supervisor, pid, signal)
        }

        fn is_over(&self) -> bool {
            self.over.load(Ordering::Acquire)
        }
    }

    impl Supervised {
        fn send_line(&self, line: &str) -> bool {
            let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
            control.write_all(line.as_bytes()).is_ok()
        }
    }

    pub(super) fn start(
        start: StartOptions,
        pipes: Pipes,
        supervisor: &Path,
        options: &ExecOptions,
        sender: oneshot::Sender<ProgramExit>,
    ) -> io::Result<(u32, Arc<dyn TreeControl>)> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut process = Command::new(supervisor)
            .arg0(NAME)
            .arg(ARGUMENT)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let request = SupervisorRequest {
            program: start.program.file,
            identity: start.program.identity,
            args: start.args,
            name: start.name,
            env: start.env,
            has_stdin: pipes.stdin.is_some(),
            grace_ms: u64::try_from(options.grace.as_millis()).unwrap_or(u64::MAX),
            writable: options.writable.clone(),
            closed: start.view.closed,
            unwritten: start.view.unwritten,
            bounds: start.bounds,
            restrictions: ProgramRestrictions {
                no_new_privileges: !start.is_own && guard!(ExecNoNewPrivileges),
                session: guard!(ExecSession),
                tree: guard!(ExecTree),
                kill: guard!(ExecKill),
            },
        };
        let mut files = vec![start.folder.as_fd(), pipes.stdout.as_fd(), pipes.stderr.as_fd()];
        files.extend(pipes.stdin.as_ref().map(|stdin| stdin.as_fd()));
        ours.set_read_timeout(Some(FIRST_MESSAGE))?;
        let mut messages = BufReader::new(ours.try_clone()?);
        let first = send_request(&ours, &request, &files).and_then(|()| receive_message(&mut messages));
        drop(pipes);
        let pid = match first {
            Ok(Some(SupervisorMessage::Started(pid))) => pid,
            other => {
                drop(ours);
                drop(messages);
                // The process is not a supervisor, or did not answer, so it must not keep running.
                let _ = process.kill();
                let _ = process.wait();
                // The program may have killed its supervisor before the supervisor answered.
                sweep(process.id());
                return Err(match other {
                    Ok(Some(SupervisorMessage::Failed(code))) => io::Error::from_raw_os_error(code),
                    Err(error) if error.raw_os_error().is_some() => error,
                    _ => io::Error::other(format!(
                        "{} is not a supervisor of programs; its `main` must begin with pijs_connectors::exec::supervisor::enter()",
                        supervisor.display()
                    )),
                });
            }
        };
        ours.set_read_timeout(None)?;
        let supervisor = i32::try_from(process.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        let tree = Arc::new(Supervised {
            control: Mutex::new(ours),
            running: AtomicBool::new(true),
            supervisor,
            reaped: Mutex::new(false),
            over: AtomicBool::new(false),
        });
        let watched = Arc::clone(&tree);
        let thread = std::thread::Builder::new().name("pijs-exec".to_owned());
        let program = WatchedProgram { pid, sender: Some(sender), held: start.held };
        thread.spawn(move || watch(&watched, process, messages, program))?;
        Ok((pid, tree))
    }

    /// A program whose end is awaited.
    struct WatchedProgram {
        pid: u32,
        /// Receives the program's exit.
        sender: Option<oneshot::Sender<ProgramExit>>,
        held: Option<HeldFolder>,
    }

    /// Reads the messages of a supervisor until it exits, and reaps it.
    fn watch(
        watched: &Supervised,
        mut process: std::process::Child,
        mut messages: BufReader<UnixStream>,
        program: WatchedProgram,
    ) {
        let WatchedProgram { pid, mut sender, mut held } = program;
        while let Ok(Some(message)) = receive_message(&mut messages) {
            if let (SupervisorMessage::Ended { code, signal }, Some(sender)) = (message, sender.take()) {
                watched.running.store(false, Ordering::Release);
                drop(held.take());
                // The receiver may have been dropped.
                let _ = sender.send(ProgramExit { code, signal });
            }
        }
        watched.running.store(false, Ordering::Release);
        // Waits first and reaps under the lock, so that no signal goes to a reused process number.
        let _ = waitid(WaitId::Pid(watched.supervisor), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let mut reaped = watched.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        let killed = process.wait().is_ok_and(|status| !status.success());
        *reaped = true;
        drop(reaped);
        if killed {
            // The supervisor itself was killed: only the program's process group can still be stopped.
            if let (Some(group), Some(_)) = (i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw), &sender)
            {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            sweep(process.id());
        }
        drop(sender);
        watched.over.store(true, Ordering::Release);
    }
}

mod unsupervised {
    use super::super::ignored_signals;
    use super::{
        Arc, ExecOptions, Mutex, Pid, Pipes, PoisonError, ProgramExit, Signal, SignalTarget, StartOptions, TreeControl,
        io, oneshot,
    };
    use rustix::process::{WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    struct ProcessGroup {
        leader: Pid,
        grace: Duration,
        /// Whether the leader was reaped, after which its process number may be reused.
        reaped: Mutex<bool>,
    }

    impl TreeControl for ProcessGroup {
        fn signal(&self, signal: Signal, to: SignalTarget) -> bool {
            let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
            let send = match to {
                SignalTarget::Program => kill_process,
                SignalTarget::Group => kill_process_group,
            };
            !*reaped && send(self.leader, signal).is_ok()
        }

        fn end(&self) {
            let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
            if *reaped {
                return;
            }
            let _ = kill_process_group(self.leader, Signal::TERM);
            let (leader, grace) = (self.leader, self.grace);
            // After the grace period the group is killed, even when its leader has exited.
            let _ = std::thread::Builder::new().name("pijs-exec".to_owned()).spawn(move || {
                std::thread::sleep(grace);
                let _ = kill_process_group(leader, Signal::KILL);
            });
        }

        fn is_over(&self) -> bool {
            *self.reaped.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    pub(super) fn start(
        start: StartOptions,
        pipes: Pipes,
        options: &ExecOptions,
        sender: oneshot::Sender<ProgramExit>,
    ) -> io::Result<(u32, Arc<dyn TreeControl>)> {
        let mut command = Command::new(&start.program.file);
        command
            .arg0(&start.name)
            .args(&start.args)
            .env_clear()
            .envs(&start.env)
            .current_dir(&start.cwd)
            .process_group(0)
            .stdin(pipes.stdin.map_or_else(Stdio::null, Stdio::from))
            .stdout(pipes.stdout)
            .stderr(pipes.stderr);
        ignored_signals::install_handlers();
        let mut child = command.spawn()?;
        drop(command);
        let pid = child.id();
        let leader = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        let tree = Arc::new(ProcessGroup { leader, grace: options.grace, reaped: Mutex::new(false) });
        let (watched, held) = (Arc::clone(&tree), start.held);
        std::thread::Builder::new().name("pijs-exec".to_owned()).spawn(move || {
            // Waits first and reaps under the lock, so that no signal goes to a reused process number.
            let _ = waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let mut reaped = watched.reaped.lock().unwrap_or_else(PoisonError::into_inner);
            if let Ok(status) = child.wait() {
                drop(held);
                let _ = sender.send(ProgramExit { code: status.code(), signal: status.signal() });
            }
            *reaped = true;
        })?;
        Ok((pid, tree))
    }
}

impl ProgramExit {
    /// Returns the JSON form for the result of a call.
    pub(super) fn value(self) -> Value {
        json!({ "code": self.code, "signal": self.signal_name() })
    }

    /// Returns Node's name of the signal.
    pub(super) fn signal_name(self) -> Option<&'static str> {
        self.signal.map(signals::name)
    }
}
