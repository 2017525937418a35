//! Tracks the running programs of extensions: finds them by process number, and stops them when their extension ends.

use super::child::{Child, SignalTarget, TreeHandle};
use super::run::sender;
use super::signals;
use pijs_hostcall::{CancelToken, Output, Reason, Request};
use pijs_protocol::call::KillSignal;
use pijs_protocol::{ExtensionId, HostcallError};
use rustix::process::{Pid, Signal};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::PipeWriter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;

/// Maximum number of running programs of one extension.
const MAX_PROGRAMS: usize = 1024;

/// Maximum length of a path in bytes (`PATH_MAX` of Linux).
const LONGEST_PATH: usize = 4096;

/// The programs of all extensions.
#[derive(Default)]
pub(super) struct Programs {
    by_extension: Mutex<BTreeMap<ExtensionId, ExtensionPrograms>>,
}

#[derive(Default)]
struct ExtensionPrograms {
    spawned: BTreeMap<u32, Arc<Spawned>>,
    /// Process trees of programs that have exited and left processes behind.
    orphaned: Vec<TreeHandle>,
}

/// A program started by `spawn`.
pub(super) struct Spawned {
    pub(super) stdin: Stdin,
    /// Whether the program was permitted with input.
    takes_input: bool,
    /// The last line of the input so far, which the next write may continue.
    unfinished: Mutex<Vec<u8>>,
    pub(super) tree: TreeHandle,
    /// The output streams, until `wait` takes them.
    pub(super) output: Mutex<Option<PendingOutput>>,
}

/// Output streams and exit of a program, for `wait`.
pub(super) type PendingOutput =
    (std::io::PipeReader, std::io::PipeReader, tokio::sync::oneshot::Receiver<super::child::ProgramExit>);

/// Standard input of a program: a pipe that becomes asynchronous at its first use.
pub(super) struct Stdin(tokio::sync::Mutex<Input>);

enum Input {
    None,
    Fresh(PipeWriter),
    Used(pipe::Sender),
}

impl Programs {
    fn all(&self) -> MutexGuard<'_, BTreeMap<ExtensionId, ExtensionPrograms>> {
        self.by_extension.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if the extension has reached its quota of running programs. Drops process trees that have ended.
    pub(super) fn check_quota(&self, extension: &ExtensionId) -> Result<(), HostcallError> {
        let mut all = self.all();
        let Some(own) = all.get_mut(extension) else { return Ok(()) };
        own.orphaned.retain(|tree| !tree.is_over());
        let count = own.spawned.len() + own.orphaned.len();
        if count >= MAX_PROGRAMS {
            return Err(HostcallError::denied("quota", format!("exec: {count} programs are running; stop some first"))
                .with("quota", "programs")
                .with("limit", MAX_PROGRAMS)
                .retryable());
        }
        Ok(())
    }

    /// Registers a program for the operations that refer to it by its process number. `takes_input`: whether the extension may
    /// write to its input.
    pub(super) fn register(&self, extension: &ExtensionId, child: Child, takes_input: bool) -> u32 {
        let Child { pid, stdin, stdout, stderr, ended, tree } = child;
        let stdin = Stdin(tokio::sync::Mutex::new(stdin.map_or(Input::None, Input::Fresh)));
        let spawned = Spawned {
            stdin,
            takes_input,
            unfinished: Mutex::default(),
            tree,
            output: Mutex::new(Some((stdout, stderr, ended))),
        };
        self.all().entry(extension.clone()).or_default().spawned.insert(pid, Arc::new(spawned));
        pid
    }

    /// Returns the extension's program with the number `pid`.
    ///
    /// Fails with `io` `ESRCH` if the program has ended or does not belong to this extension.
    pub(super) fn find(&self, request: &Request, pid: u64) -> Result<(u32, Arc<Spawned>), HostcallError> {
        let found = u32::try_from(pid).ok().and_then(|pid| {
            let program = self.all().get(request.caller.extension())?.spawned.get(&pid).cloned()?;
            Some((pid, program))
        });
        found.ok_or_else(|| {
            HostcallError::io("ESRCH", "kill", format!("ESRCH: no such process, {pid}")).with("pid", pid)
        })
    }

    /// Removes a program that has ended. Its process tree can still be stopped.
    pub(super) fn remove(&self, extension: &ExtensionId, pid: u32) {
        self.all().entry(extension.clone()).or_default().spawned.remove(&pid);
    }

    /// Sends a signal to a descendant of one of the extension's programs; returns `false` if `pid` is not one.
    pub(super) fn signal_descendant(&self, request: &Request, pid: u64, signal: Option<Signal>, group: bool) -> bool {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).filter(|_| !group);
        let (Some(pid), Some(signal)) = (pid, signal) else { return false };
        let trees: Vec<TreeHandle> = match self.all().get(request.caller.extension()) {
            Some(own) => {
                own.spawned.values().map(|program| &program.tree).chain(&own.orphaned).map(TreeHandle::share).collect()
            }
            None => Vec::new(),
        };
        trees.iter().any(|tree| tree.signal_descendant(pid, signal))
    }

    /// Keeps the handle to processes that a program left behind.
    pub(super) fn keep_tree(&self, extension: &ExtensionId, tree: TreeHandle) {
        if !tree.is_over() {
            self.all().entry(extension.clone()).or_default().orphaned.push(tree);
        }
    }

    /// Stops all programs of an extension, by dropping their tree handles.
    pub(super) fn end(&self, extension: &ExtensionId) {
        let own = self.all().remove(extension);
        drop(own);
    }
}

impl Spawned {
    /// Returns data of the next write behind the line that it continues.
    pub(super) fn continued(&self, data: &[u8]) -> Vec<u8> {
        let mut unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        let all = [&unfinished[..], data].concat();
        let behind = all.iter().rposition(|byte| matches!(byte, b'\n' | 0)).map_or(0, |at| at + 1);
        *unfinished = all[behind.max(all.len().saturating_sub(LONGEST_PATH))..].to_vec();
        all
    }

    /// Performs `write`: writes all of `data`, or fails.
    pub(super) async fn write(&self, data: &[u8], cancel: &CancelToken) -> Result<Output, HostcallError> {
        if !self.takes_input && !data.is_empty() {
            let hint = "pass it as `input` of spawnSync, to be asked, or grant every use of the program: exec:NAME *";
            return Err(Reason::Scope.refusal("exec", "exec", "input that is not in the grant").with("hint", hint));
        }
        let broken = |words: &str| HostcallError::io("EPIPE", "write", format!("EPIPE: {words}, write"));
        let mut input = self.stdin.0.lock().await;
        *input = match std::mem::replace(&mut *input, Input::None) {
            Input::Fresh(pipe) => {
                Input::Used(sender(pipe).map_err(|error| broken(&format!("the pipe cannot be used ({error})")))?)
            }
            other => other,
        };
        let Input::Used(pipe) = &mut *input else {
            return Err(broken("the program's input is closed"));
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(pijs_hostcall::connector::cancelled("exec")),
            written = pipe.write_all(data) => match written {
                Ok(()) => Ok(Output::empty()),
                Err(_) => {
                    *input = Input::None;
                    Err(broken("broken pipe"))
                }
            },
        }
    }

    /// Performs `end`: closes standard input after the writes in progress.
    pub(super) async fn end_input(&self) -> Output {
        *self.stdin.0.lock().await = Input::None;
        Output::empty()
    }

    /// Performs `kill`; with `group`, the program's whole process group gets the signal.
    pub(super) fn kill(&self, signal: Option<Signal>, group: bool) -> Output {
        let Some(signal) = signal else {
            return Output::new(json!({ "sent": !self.tree.is_over() }));
        };
        let to = if group { SignalTarget::Group } else { SignalTarget::Program };
        Output::new(json!({ "sent": self.tree.signal(signal, to) }))
    }
}

/// Parses the signal of a call; `None` for 0, which only tests whether the process exists.
pub(super) fn signal_of(signal: &KillSignal) -> Result<Option<Signal>, HostcallError> {
    let unknown = || HostcallError::invalid("schema", "exec.kill: `signal` is not a signal's name or number");
    match signal {
        KillSignal::Default => Ok(Some(Signal::TERM)),
        KillSignal::Name(name) => signals::named(name).map(Some).ok_or_else(unknown),
        KillSignal::Number(0) => Ok(None),
        KillSignal::Number(number) => signals::numbered(*number).map(Some).ok_or_else(unknown),
    }
}
