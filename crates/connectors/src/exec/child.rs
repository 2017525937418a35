//! Starts a program and controls its process tree.
//!
//! With a supervisor ([`super::supervisor`]) the whole tree can be ended. Without one (other systems, embedders whose `main` does
//! not call [`super::supervisor::enter`]) only the program's process group can, and its processes can leave that.

use super::program::Program;
use super::{ExecOptions, signals};
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
pub(super) struct Start {
    pub(super) program: Program,
    /// `argv[0]`.
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    /// The working folder. The handle is used; the name is for systems without a supervisor.
    pub(super) folder: Arc<File>,
    pub(super) cwd: PathBuf,
    /// Whether standard input is a pipe; otherwise it is empty.
    pub(super) has_stdin: bool,
    /// Whether standard error is merged into standard output, in the order of the writes.
    pub(super) joins_streams: bool,
    /// Whether the user started the command, which then keeps all of the user's privileges.
    pub(super) is_own: bool,
    /// Files that are closed to the program, where the kernel has Landlock and there is a supervisor.
    pub(super) view: ProgramView,
}

/// A running program.
pub(super) struct Child {
    pub(super) pid: u32,
    pub(super) stdin: Option<PipeWriter>,
    pub(super) stdout: PipeReader,
    pub(super) stderr: PipeReader,
    pub(super) ended: oneshot::Receiver<Exit>,
    pub(super) leash: Leash,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// Controls a program and all it started. Dropping the last clone ends them.
pub(super) struct Leash {
    held: Arc<Ends>,
}

/// Ends a process tree on drop.
struct Ends(Arc<dyn Held>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Selects the processes that receive a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiver {
    /// The program alone.
    Program,
    /// The process group that it leads.
    Group,
}

trait Held: Send + Sync {
    /// Sends a signal; returns false when the program has ended.
    fn signal(&self, signal: Signal, to: Receiver) -> bool;
    /// Sends a signal to one descendant of the program; returns false when `pid` is no descendant or has ended.
    fn signal_below(&self, _pid: Pid, _signal: Signal) -> bool {
        false
    }
    /// Ends the tree: `SIGTERM`, then `SIGKILL` after the grace period.
    fn end(&self);
    /// Whether no process of the tree is left.
    fn is_over(&self) -> bool;
}

impl Leash {
    /// Sends a signal; returns false when the program has ended.
    pub(super) fn signal(&self, signal: Signal, to: Receiver) -> bool {
        self.held.0.signal(signal, to)
    }

    /// Sends a signal to one process of the tree; returns false when it is none, or when no supervisor knows the tree.
    pub(super) fn signal_below(&self, pid: Pid, signal: Signal) -> bool {
        self.held.0.signal_below(pid, signal)
    }

    /// Returns another handle of the same tree.
    pub(super) fn of(other: &Self) -> Self {
        Self { held: Arc::clone(&other.held) }
    }

    fn on(held: Arc<dyn Held>) -> Self {
        Self { held: Arc::new(Ends(held)) }
    }

    /// Ends the tree: `SIGTERM`, a grace period, `SIGKILL`. Returns at once.
    pub(super) fn end(&self) {
        self.held.0.end();
    }

    /// Whether no process of the tree is left.
    pub(super) fn is_over(&self) -> bool {
        self.held.0.is_over()
    }
}

/// Starts a program. Blocks until it runs, or could not be started.
pub(super) fn start(start: Start, options: &ExecOptions) -> io::Result<Child> {
    let (stdout, stdout_end) = io::pipe()?;
    let (stderr, mut stderr_end) = io::pipe()?;
    if start.joins_streams {
        stderr_end = stdout_end.try_clone()?;
    }
    let (stdin_end, stdin) = if start.has_stdin { io::pipe().map(|(r, w)| (Some(r), Some(w)))? } else { (None, None) };
    let (tell, ended) = oneshot::channel();
    let pipes = Pipes { stdin: stdin_end, stdout: stdout_end, stderr: stderr_end };
    #[cfg(target_os = "linux")]
    if let Some(supervisor) = &options.supervisor {
        let (pid, held) = supervised::start(start, pipes, supervisor, options, tell)?;
        return Ok(Child { pid, stdin, stdout, stderr, ended, leash: Leash::on(held) });
    }
    let (pid, held) = alone::start(start, pipes, options, tell)?;
    Ok(Child { pid, stdin, stdout, stderr, ended, leash: Leash::on(held) })
}

/// The program's ends of the pipes.
struct Pipes {
    stdin: Option<PipeReader>,
    stdout: PipeWriter,
    stderr: PipeWriter,
}

#[cfg(target_os = "linux")]
mod supervised {
    use super::super::supervisor::{ARGUMENT, Order, Walls, Word, receive_word, send_order, signal_below, sweep};
    use super::{Arc, ExecOptions, Exit, Held, Mutex, Pid, Pipes, PoisonError, Receiver, Signal, Start, io, oneshot};
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

    /// Longest wait for a supervisor's first message.
    const FIRST_WORD: Duration = Duration::from_secs(20);

    /// Name under which a supervisor shows in a process list.
    const NAME: &str = "pijs-exec";

    struct Supervised {
        control: Mutex<UnixStream>,
        running: AtomicBool,
        supervisor: Pid,
        /// Whether the supervisor was reaped: its process number may be reused then.
        reaped: Mutex<bool>,
        over: AtomicBool,
    }

    impl Held for Supervised {
        fn signal(&self, signal: Signal, to: Receiver) -> bool {
            let running = self.running.load(Ordering::Acquire);
            let word = match to {
                Receiver::Program => "signal",
                Receiver::Group => "signal-group",
            };
            running && self.say(&format!("{word} {}\n", signal.as_raw()))
        }

        fn end(&self) {
            self.say("end\n");
            let control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
            // The supervisor may have exited.
            let _ = control.shutdown(Shutdown::Write);
        }

        fn signal_below(&self, pid: Pid, signal: Signal) -> bool {
            let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
            !*reaped && signal_below(self.supervisor, pid, signal)
        }

        fn is_over(&self) -> bool {
            self.over.load(Ordering::Acquire)
        }
    }

    impl Supervised {
        fn say(&self, line: &str) -> bool {
            let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
            control.write_all(line.as_bytes()).is_ok()
        }
    }

    pub(super) fn start(
        start: Start,
        pipes: Pipes,
        supervisor: &Path,
        options: &ExecOptions,
        tell: oneshot::Sender<Exit>,
    ) -> io::Result<(u32, Arc<dyn Held>)> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut process = Command::new(supervisor)
            .arg0(NAME)
            .arg(ARGUMENT)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let order = Order {
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
            walls: Walls {
                no_new_privileges: !start.is_own && guard!(ExecNoNewPrivileges),
                session: guard!(ExecSession),
                tree: guard!(ExecTree),
                kill: guard!(ExecKill),
            },
        };
        let mut files = vec![start.folder.as_fd(), pipes.stdout.as_fd(), pipes.stderr.as_fd()];
        files.extend(pipes.stdin.as_ref().map(|stdin| stdin.as_fd()));
        ours.set_read_timeout(Some(FIRST_WORD))?;
        let mut words = BufReader::new(ours.try_clone()?);
        let first = send_order(&ours, &order, &files).and_then(|()| receive_word(&mut words));
        drop(pipes);
        let pid = match first {
            Ok(Some(Word::Started(pid))) => pid,
            other => {
                drop(ours);
                drop(words);
                // It is not a supervisor, or did not answer: it must not keep running.
                let _ = process.kill();
                let _ = process.wait();
                // The program may have killed its supervisor before the supervisor answered.
                sweep(process.id());
                return Err(match other {
                    Ok(Some(Word::Failed(code))) => io::Error::from_raw_os_error(code),
                    Err(error) if error.raw_os_error().is_some() => error,
                    _ => io::Error::other(format!(
                        "{} is no supervisor of programs; its `main` must begin with pijs_connectors::exec::supervisor::enter()",
                        supervisor.display()
                    )),
                });
            }
        };
        ours.set_read_timeout(None)?;
        let supervisor = i32::try_from(process.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        let held = Arc::new(Supervised {
            control: Mutex::new(ours),
            running: AtomicBool::new(true),
            supervisor,
            reaped: Mutex::new(false),
            over: AtomicBool::new(false),
        });
        let watched = Arc::clone(&held);
        std::thread::Builder::new().name("pijs-exec".to_owned()).spawn(move || {
            let mut tell = Some(tell);
            while let Ok(Some(word)) = receive_word(&mut words) {
                if let (Word::Ended { code, signal }, Some(tell)) = (word, tell.take()) {
                    watched.running.store(false, Ordering::Release);
                    // The receiver may have been dropped.
                    let _ = tell.send(Exit { code, signal });
                }
            }
            watched.running.store(false, Ordering::Release);
            // Waits first and reaps under the lock, so that no signal goes to a reused process number.
            let _ = waitid(WaitId::Pid(supervisor), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let mut reaped = watched.reaped.lock().unwrap_or_else(PoisonError::into_inner);
            let killed = process.wait().is_ok_and(|status| !status.success());
            *reaped = true;
            drop(reaped);
            if killed {
                // The supervisor itself was killed: the program's process group is all that can still be ended.
                if let (Some(group), Some(_)) =
                    (i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw), &tell)
                {
                    let _ = rustix::process::kill_process_group(group, Signal::KILL);
                }
                sweep(process.id());
            }
            drop(tell);
            watched.over.store(true, Ordering::Release);
        })?;
        Ok((pid, held))
    }
}

mod alone {
    use super::super::inherited;
    use super::{Arc, ExecOptions, Exit, Held, Mutex, Pid, Pipes, PoisonError, Receiver, Signal, Start, io, oneshot};
    use rustix::process::{WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    struct Group {
        leader: Pid,
        grace: Duration,
        /// Whether the leader was reaped: its process number may be reused then.
        reaped: Mutex<bool>,
    }

    impl Held for Group {
        fn signal(&self, signal: Signal, to: Receiver) -> bool {
            let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
            let send = match to {
                Receiver::Program => kill_process,
                Receiver::Group => kill_process_group,
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
        start: Start,
        pipes: Pipes,
        options: &ExecOptions,
        tell: oneshot::Sender<Exit>,
    ) -> io::Result<(u32, Arc<dyn Held>)> {
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
        inherited::stop_ignoring();
        let mut child = command.spawn()?;
        drop(command);
        let pid = child.id();
        let leader = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        let held = Arc::new(Group { leader, grace: options.grace, reaped: Mutex::new(false) });
        let watched = Arc::clone(&held);
        std::thread::Builder::new().name("pijs-exec".to_owned()).spawn(move || {
            // Waits first and reaps under the lock, so that no signal goes to a reused process number.
            let _ = waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let mut reaped = watched.reaped.lock().unwrap_or_else(PoisonError::into_inner);
            if let Ok(status) = child.wait() {
                let _ = tell.send(Exit { code: status.code(), signal: status.signal() });
            }
            *reaped = true;
        })?;
        Ok((pid, held))
    }
}

impl Exit {
    /// Returns the JSON form for an answer.
    pub(super) fn value(self) -> Value {
        json!({ "code": self.code, "signal": self.signal_name() })
    }

    /// Returns Node's name of the signal.
    pub(super) fn signal_name(self) -> Option<&'static str> {
        self.signal.map(signals::name)
    }
}
