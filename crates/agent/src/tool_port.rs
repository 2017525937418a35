//! Tool calls by extensions: `pi.tool(name, input)`.
//!
//! [`HostTools`] implements [`ToolPort`]. A built-in tool has the rights of the caller: the caller's permit is checked for every
//! file, and `bash` gets the environment of an extension's programs, not the agent's. A tool of an extension runs on the agent's
//! thread, where [`ToolRequests::serve`] carries out such calls.
//!
//! A failed tool rejects with the error `io` and the reason `tool_failed`, unless it failed because an operation was denied.

use crate::extensions::{Extensions, ToolFate, ToolRun};
use crate::options::AgentOptions;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use pijs_connectors::exec::ExecConnector;
use pijs_connectors::fs::{FsConnector, PermittedFiles};
use pijs_connectors::ports::{PortAnswer, ToolCall, ToolPort};
use pijs_connectors::system::Kind as ConnectorKind;
use pijs_host::ModelCallAuthority;
use pijs_hostcall::{Caller, CancelToken, CommandLimits, Permit};
use pijs_protocol::{ErrorCode, HostcallError};
use pijs_tools::system::{DirectoryEntry, FileKind, Shell, ShellOutcome, ToolSystem};
use pijs_tools::words::Words;
use pijs_tools::{Builtin, SessionFacts, ToolContext, ToolOutput, validate};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Implements `pi.tool`.
pub struct HostTools {
    files: Arc<FsConnector>,
    programs: Arc<ExecConnector>,
    cwd: PathBuf,
    others: mpsc::UnboundedSender<ToolRequest>,
}

/// A call of an extension's tool for the agent's thread.
struct ToolRequest {
    name: String,
    id: String,
    input: Value,
    cancel: CancellationToken,
    done: oneshot::Sender<Result<Value, HostcallError>>,
}

/// Pending calls of extensions' tools.
pub struct ToolRequests(mpsc::UnboundedReceiver<ToolRequest>);

impl HostTools {
    /// Creates the port over the connectors of `fs` and `exec`; relative paths are resolved against `cwd`.
    pub fn new(files: Arc<FsConnector>, programs: Arc<ExecConnector>, cwd: PathBuf) -> (Self, ToolRequests) {
        let (others, requests) = mpsc::unbounded_channel();
        (Self { files, programs, cwd, others }, ToolRequests(requests))
    }

    fn builtin(&self, tool: Builtin, call: ToolCall, cancel: CancelToken) -> PortAnswer {
        let input = match validate::arguments(
            &call.name,
            &Words::own().of(tool).parameters,
            true,
            &with_home(call.input, call.path),
        ) {
            Ok(input) => input,
            Err(message) => return ready(Err(HostcallError::invalid("schema", message))),
        };
        let system = PermittedSystem {
            files: self.files.permitted(call.permit.clone(), cancel),
            programs: ShellAccess::Own(Arc::clone(&self.programs), call.permit),
            refusal: Mutex::default(),
        };
        let cwd = self.cwd.clone();
        Box::pin(async move {
            let mut context = ToolContext {
                system: &system,
                about: SessionFacts::default(),
                cwd: &cwd,
                // Cancelling the call drops this future and everything it started.
                cancel: CancellationToken::new(),
                tool_call_id: "",
                on_update: &mut |_| {},
            };
            let outcome = tool.run(&mut context, input).await;
            outcome.map(to_value).map_err(|message| system.failure(message))
        })
    }

    fn other(&self, name: String, input: Value, cancel: CancelToken) -> PortAnswer {
        let (done, answer) = oneshot::channel();
        let token = CancellationToken::new();
        let guard = token.clone().drop_guard();
        let request = ToolRequest { id: format!("tool-{}", uuid::Uuid::now_v7()), name, input, cancel: token, done };
        if self.others.send(request).is_err() {
            return ready(Err(gone()));
        }
        Box::pin(async move {
            // Dropped when the caller stops waiting, which aborts the tool's signal.
            let _guard = guard;
            tokio::select! {
                biased;
                answer = answer => answer.unwrap_or_else(|_| Err(gone())),
                () = cancel.cancelled() => Err(gone()),
            }
        })
    }
}

impl ToolPort for HostTools {
    fn call(&self, _caller: &Caller, call: ToolCall, cancel: CancelToken) -> PortAnswer {
        match Builtin::named(&call.name) {
            Some(tool) => self.builtin(tool, call, cancel),
            None => self.other(call.name, call.input, cancel),
        }
    }
}

impl ToolRequests {
    /// Carries out calls of extensions' tools concurrently until the port is dropped.
    pub async fn serve(mut self, extensions: Rc<dyn Extensions>) {
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                request = self.0.recv() => match request {
                    Some(request) => running.push(run(&*extensions, request)),
                    None => break,
                },
                Some(()) = running.next(), if !running.is_empty() => {}
            }
        }
        while running.next().await.is_some() {}
    }
}

async fn run(extensions: &dyn Extensions, request: ToolRequest) {
    let ToolRequest { name, id, input, cancel, done } = request;
    let Some(tool) = extensions.tools().into_iter().find(|tool| tool.name == name) else {
        let message = format!("tool: there is no tool {name:?}");
        let _ = done.send(Err(HostcallError::invalid("unknown_tool", message).with("name", name)));
        return;
    };
    let prepared = if tool.prepares_arguments { extensions.prepare_arguments(&name, input).await } else { Ok(input) };
    let checked = match prepared {
        Ok(input) => validate::arguments_of(&name, &tool.parameters, tool.converts, &input).await,
        Err(thrown) => Err(thrown),
    };
    let outcome = match checked {
        Err(message) => Err(HostcallError::invalid("schema", message)),
        Ok(input) => {
            let call = ToolRun { name: &name, tool_call_id: &id, input, cancel, on_update: Box::new(|_| {}) };
            match extensions.call_tool(call).await {
                ToolFate::Returned(value) => Ok(value),
                ToolFate::Threw(message) => Err(failed(message)),
            }
        }
    };
    // The caller may have stopped waiting.
    let _ = done.send(outcome);
}

/// Replaces a path below `~` by the path that the gate resolved, because the tools do not know the home folder.
fn with_home(mut input: Value, decided: Option<PathBuf>) -> Value {
    let from_home =
        input.get("path").and_then(Value::as_str).is_some_and(|path| path.trim_start_matches('@').starts_with('~'));
    if let (true, Some(path)) = (from_home, decided) {
        input["path"] = json!(path);
    }
    input
}

fn to_value(output: ToolOutput) -> Value {
    let ToolOutput { content, details, .. } = output;
    match details {
        Some(details) => json!({"content": content, "details": details}),
        None => json!({"content": content}),
    }
}

fn ready(answer: Result<Value, HostcallError>) -> PortAnswer {
    Box::pin(std::future::ready(answer))
}

fn failed(message: String) -> HostcallError {
    HostcallError::new(ErrorCode::Io, message).with("reason", "tool_failed")
}

fn gone() -> HostcallError {
    HostcallError::new(ErrorCode::Io, "tool: the session has ended").with("reason", "cancelled")
}

/// Files and a shell restricted by a permit.
pub(crate) struct PermittedSystem {
    files: PermittedFiles,
    programs: ShellAccess,
    /// The first denied operation.
    refusal: Mutex<Option<HostcallError>>,
}

/// The ways to run a command line.
enum ShellAccess {
    /// As a program of the calling extension.
    Own(Arc<ExecConnector>, Permit),
    /// In the model's shell with these limits.
    Model(Arc<dyn ToolSystem>, CommandLimits),
}

impl PermittedSystem {
    /// Returns the system for a call of the model that extensions influenced.
    pub(crate) fn of_model(options: &AgentOptions, bound: &ModelCallAuthority) -> Self {
        Self {
            files: options.files.permitted(bound.permit.clone(), CancelToken::new()),
            programs: ShellAccess::Model(Arc::clone(&options.system), bound.limits.clone()),
            refusal: Mutex::default(),
        }
    }

    /// Returns the error of a failed tool for the caller.
    fn failure(&self, message: String) -> HostcallError {
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner).take();
        refusal.unwrap_or_else(|| failed(message))
    }

    fn noticed(&self, error: HostcallError) -> io::Error {
        let kind = match (error.code, error.details.get("errno").and_then(Value::as_str)) {
            (ErrorCode::Denied, _) => io::ErrorKind::PermissionDenied,
            (_, Some("ENOENT")) => io::ErrorKind::NotFound,
            _ => io::ErrorKind::Other,
        };
        let shown = io::Error::new(kind, error.message.clone());
        if error.code == ErrorCode::Denied {
            self.refusal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        shown
    }
}

impl ToolSystem for PermittedSystem {
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<Vec<u8>>> {
        async move { self.files.read(path).await.map_err(|error| self.noticed(error)) }.boxed()
    }

    fn write<'a>(&'a self, path: &'a Path, bytes: Vec<u8>) -> BoxFuture<'a, io::Result<()>> {
        async move { self.files.write(path, bytes).await.map_err(|error| self.noticed(error)) }.boxed()
    }

    fn kind<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<FileKind>> {
        async move {
            Ok(match self.files.kind(path).await.map_err(|error| self.noticed(error))? {
                ConnectorKind::File => FileKind::File,
                ConnectorKind::Dir => FileKind::Directory,
                _ => FileKind::Other,
            })
        }
        .boxed()
    }

    fn list<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<Vec<DirectoryEntry>>> {
        async move {
            let entries = self.files.list(path).await.map_err(|error| self.noticed(error))?;
            let listed = entries.into_iter().map(|(name, kind)| DirectoryEntry {
                name: name.to_string_lossy().into_owned(),
                is_directory: kind == ConnectorKind::Dir,
                is_file: kind == ConnectorKind::File,
            });
            Ok(listed.collect())
        }
        .boxed()
    }

    fn pause(&self, time: Duration) -> BoxFuture<'static, ()> {
        match &self.programs {
            // The output of a command is returned at its end.
            ShellAccess::Own(..) => std::future::ready(()).boxed(),
            ShellAccess::Model(system, _) => system.pause(time),
        }
    }

    fn home(&self) -> Option<&Path> {
        match &self.programs {
            ShellAccess::Own(..) => None,
            ShellAccess::Model(system, _) => system.home(),
        }
    }

    fn shell(&self, shell: Shell) -> BoxFuture<'static, io::Result<ShellOutcome>> {
        let (programs, permit) = match &self.programs {
            ShellAccess::Own(programs, permit) => (Arc::clone(programs), permit.clone()),
            ShellAccess::Model(system, limits) => return system.shell(Shell { limits: limits.clone(), ..shell }),
        };
        async move {
            let ended = programs.shell(&permit, &shell.command, &shell.cwd, shell.timeout).await?;
            for piece in [ended.stdout, ended.stderr].into_iter().filter(|piece| !piece.is_empty()) {
                // The receiver may be gone, in which case the output is dropped.
                let _ = shell.output.send(piece).await;
            }
            Ok(if ended.timed_out { ShellOutcome::TimedOut } else { ShellOutcome::Exited(ended.code) })
        }
        .boxed()
    }

    fn keep(&self, name: String, bytes: Vec<u8>) -> BoxFuture<'_, io::Result<PathBuf>> {
        match &self.programs {
            // The caller has no grant for the host's folder for long outputs.
            ShellAccess::Own(..) => async { Err(io::ErrorKind::PermissionDenied.into()) }.boxed(),
            ShellAccess::Model(system, _) => system.keep(name, bytes),
        }
    }
}
