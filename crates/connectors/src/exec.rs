//! Runs programs without a shell, and stops each together with all processes that it started.
//!
//! The program's name is looked up in a search path that extensions cannot write to ([`program`]); arguments are passed verbatim;
//! the environment is an allow list ([`mod@environment`]); the working folder is opened before the gate's decision is checked for
//! it, and stays in place until the program has ended ([`held_folders`](crate::held_folders)). Each program runs under a supervisor
//! ([`supervisor`]), so that a deadline, a cancellation and the end of the extension stop all processes that it started: `SIGTERM`,
//! a grace period, `SIGKILL`. Processes that a program leaves behind when it exits by itself live as long as the extension.
//!
//! The result has pi's members (`code` 1 and no output for a program that does not exist, `killed` with code 0 after a timeout)
//! and those that `child_process` needs (`signal`, `error`).

use crate::blocking::{run_blocking, thread_error};
use crate::fs::system_error;
use crate::held_folders::HeldFolder;
use child::{Child, StartOptions, start};
use pijs_hostcall::connector::{cancelled, deadline};
use pijs_hostcall::places::Protection;
use pijs_hostcall::scope::Command;
use pijs_hostcall::subject::Input;
use pijs_hostcall::{Access, BoxFuture, CancelToken, ChunkSink, Connector, Output, Permit, Reason, Request, Subject};
use pijs_programs::input::InputUse;
use pijs_protocol::call::{CallData, ExecCall, KillSignal, ProgramParams, StdinPipe};
use pijs_protocol::{ExtensionId, HostcallError, TypedCall, guard};
use program::ProgramLine;
use programs::Programs;
use run::{ProgramLimits, ProgramOutcome, run};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

mod child;
mod code_files;
mod environment;
mod git;
mod ignored_signals;
mod own_shell;
mod program;
mod programs;
mod reads;
mod run;
mod shims;
mod signals;
pub mod supervisor;
mod view;

pub use code_files::{NamedCommand, code_files};
pub use environment::{STARTED_BY, STARTED_WITH};
pub use own_shell::{OwnShell, RunningCommand, StartedCommand};

/// Configures how programs are run.
#[derive(Debug, Clone)]
pub struct ExecOptions {
    /// The host's environment; programs see an allow list of it.
    pub env: BTreeMap<String, String>,
    /// Time between `SIGTERM` and `SIGKILL`.
    pub grace: Duration,
    /// Number of bytes of each output stream that are kept if the call sets no `maxBuffer`; the oldest bytes are dropped.
    pub kept_output: usize,
    /// The program whose `main` begins with [`supervisor::enter`]. Without a supervisor, and on systems other than Linux, only
    /// the process group of a program can be stopped, and the isolation of [`supervisor`] is missing.
    pub supervisor: Option<PathBuf>,
    /// Folders below which programs may write; `None` if they may write wherever the user may. Enforced only if the kernel has
    /// Landlock and there is a supervisor.
    pub writable: Option<Vec<PathBuf>>,
}

impl ExecOptions {
    /// Creates options with the host's environment, a grace period of 2 s, 16 MiB of kept output per stream, and no supervisor.
    pub fn new(env: BTreeMap<String, String>) -> Self {
        Self { env, grace: Duration::from_secs(2), kept_output: 16 << 20, supervisor: None, writable: None }
    }

    /// Uses the running program as supervisor; its `main` begins with [`supervisor::enter`].
    #[must_use]
    pub fn supervised(self) -> Self {
        Self { supervisor: Some(PathBuf::from(supervisor::THIS_PROGRAM)), ..self }
    }
}

/// Returns the file that `command` resolves to for a call without a grant for that file. `reach` lists folders that extensions
/// can write to; programs in them are skipped.
pub fn locate(command: &str, cwd: &Path, env: &BTreeMap<String, String>, reach: &[PathBuf]) -> Option<PathBuf> {
    program::locate(command, cwd, env.get("PATH").map(String::as_str), reach)
}

/// Serves the `exec` method.
pub struct ExecConnector {
    inner: Arc<ExecState>,
}

struct ExecState {
    options: ExecOptions,
    programs: Programs,
}

impl ExecConnector {
    /// Creates a connector with these options.
    pub fn new(options: ExecOptions) -> Self {
        Self { inner: Arc::new(ExecState { options, programs: Programs::default() }) }
    }
}

impl Connector for ExecConnector {
    fn call(&self, request: Request, sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let TypedCall::Exec(call) = &request.call else { return Err(request.misdirected()) };
            match call {
                ExecCall::Run { stream, .. } => inner.run_to_end(&request, stream.then_some(sink)).await,
                ExecCall::Spawn { .. } => {
                    let worker = Arc::clone(&inner);
                    run_blocking(move || worker.spawn(&request)).await.map_err(|error| thread_error(&error))?
                }
                ExecCall::Wait { pid, timeout } => inner.wait(&request, *pid, *timeout, sink).await,
                ExecCall::Write { pid, data } => {
                    let (_, program) = inner.programs.find(&request, *pid)?;
                    reads::note_input(&request.permit, &program.continued(data));
                    program.write(data, &request.cancel).await
                }
                ExecCall::Alive { pid } => Ok(alive(*pid)),
                ExecCall::End { pid } => Ok(inner.programs.find(&request, *pid)?.1.end_input().await),
                ExecCall::Kill { pid, signal, group } => inner.kill(&request, *pid, signal, *group),
            }
        })
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        let inner = &self.inner;
        let TypedCall::Exec(call) = &request.call else { return Err(request.misdirected()) };
        match call {
            ExecCall::Run { .. } => {}
            ExecCall::Spawn { .. } => return inner.spawn(request),
            ExecCall::Kill { pid, signal, group } => return inner.kill(request, *pid, signal, *group),
            ExecCall::Alive { pid } => return Ok(alive(*pid)),
            ExecCall::End { .. } | ExecCall::Wait { .. } | ExecCall::Write { .. } => {
                return Err(HostcallError::invalid(
                    "sync",
                    format!("exec.{} has no synchronous form; use the asynchronous one", call.op()),
                ));
            }
        }
        crate::blocking::block_on(async {
            let work = inner.run_to_end(request, None);
            match request.timeout_ms {
                None => work.await,
                Some(timeout_ms) => tokio::time::timeout(Duration::from_millis(timeout_ms), work)
                    .await
                    .unwrap_or_else(|_| Err(deadline("exec", timeout_ms))),
            }
        })
    }

    fn end_extension(&self, extension: &ExtensionId) {
        self.inner.programs.end(extension);
    }
}

/// Result of [`ExecConnector::shell`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellEnd {
    /// Exit code; `None` if a signal ended the shell.
    pub code: Option<i32>,
    /// Whether the command was stopped at its timeout.
    pub timed_out: bool,
    /// The last [`ExecOptions::kept_output`] bytes of standard output.
    pub stdout: Vec<u8>,
    /// The last [`ExecOptions::kept_output`] bytes of standard error.
    pub stderr: Vec<u8>,
}

impl ExecConnector {
    /// Runs `bash -c` for a tool, after the gate has allowed exactly this command line. The command is restricted like other
    /// programs of an extension, and gets the same environment. Dropping the future stops the process tree.
    pub async fn shell(
        &self,
        permit: &Permit,
        command: &str,
        cwd: &Path,
        timeout: Option<Duration>,
    ) -> io::Result<ShellEnd> {
        let (inner, its) = (Arc::clone(&self.inner), permit.clone());
        let (command, cwd) = (command.to_owned(), cwd.to_owned());
        let find = move || restricted_shell(&its, command, &cwd, environment::visible(&inner.options), &inner.options);
        let start = run_blocking(find).await??;
        let child = self.inner.start(start).await?;
        let limits = self.inner.limits(None, timeout, None);
        let ProgramOutcome { exit, killed, stdout, stderr, tree, .. } =
            run(child, limits, &CancelToken::new(), None).await?;
        self.inner.programs.keep_tree(permit.extension(), tree);
        Ok(ShellEnd { code: exit.code, timed_out: killed, stdout, stderr })
    }
}

/// A resolved call: the command, and how to start it.
struct ResolvedCall {
    /// The command as the caller wrote it, for messages and `argv[0]`.
    command: String,
    /// How to start it, or the system's error if the program or the folder does not exist.
    start: io::Result<StartOptions>,
}

impl ResolvedCall {
    /// Resolves the program, folder and environment of a call. `input` is the standard input, as far as the call contains it.
    fn find(
        request: &Request,
        params: &ProgramParams,
        options: &ExecOptions,
        has_stdin: bool,
        input: &[u8],
    ) -> Result<Self, HostcallError> {
        let (command, args) = (params.command.clone(), params.args.clone());
        if command.is_empty() || command.contains('\0') || args.iter().any(|arg| arg.contains('\0')) {
            return Err(HostcallError::invalid(
                "schema",
                "exec: the command is empty, or an argument contains a null byte",
            ));
        }
        let (cwd, folder) = match folder(request, params.cwd.as_deref())? {
            Ok(found) => found,
            Err(error) => return Ok(Self { command, start: Err(error) }),
        };
        check_folder(request, &cwd)?;
        let place = match StartPlace::new(folder, cwd) {
            Ok(place) => place,
            Err(error) => return Ok(Self { command, start: Err(error) }),
        };
        let has_input = has_stdin || !input.is_empty();
        let env = environment(request, params, options, has_input)?;
        let line = (command.clone(), args);
        let start = restricted(&request.permit, line, place, env, options, (has_stdin, input))?;
        Ok(Self { command, start: start.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

/// A working folder.
struct StartPlace {
    cwd: PathBuf,
    folder: Arc<File>,
    /// Keeps the folder in place: the program finds everything as it is checked from here on.
    held: HeldFolder,
}

impl StartPlace {
    fn new(folder: File, cwd: PathBuf) -> io::Result<Self> {
        let held = HeldFolder::new(&folder, &cwd)?;
        Ok(Self { cwd, folder: Arc::new(folder), held })
    }
}

/// Restricts a program to what was decided about its line. `has_stdin` and `input` are its standard input. Returns `None` if there is no
/// such program.
fn restricted(
    permit: &Permit,
    (command, args): (String, Vec<String>),
    StartPlace { cwd, folder, held }: StartPlace,
    mut env: BTreeMap<String, String>,
    options: &ExecOptions,
    (has_stdin, input): (bool, &[u8]),
) -> Result<Option<StartOptions>, HostcallError> {
    let Some(program) = program::find(&command, &cwd, options, permit)? else { return Ok(None) };
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let line = ProgramLine::find((&command, &words), &program, &cwd, options, permit);
    let is_agent = view::is_agent(&line, options);
    program::check_name(&line, permit, is_agent, has_stdin || !input.is_empty())?;
    let starter = (line.started.command != command).then_some(&program);
    for program in line.file.iter().chain(starter) {
        shims::check(program, permit, (&command, &words), &cwd, &options.env)?;
    }
    environment::leave_out_written(permit, &command, &words, &mut env);
    environment::leave_out_folder(&line, &mut env);
    environment::name_starter(permit, is_agent, &args, &mut env);
    let call = git::Call { line: &line, permit, cwd: &cwd, folder: &folder, options };
    let bounds = git::restrict(&call, &mut env)?;
    if let Some(files) = view::check_arguments(permit, &line, &cwd, is_agent)? {
        environment::name_files(&files, &mut env);
    }
    reads::note(permit, &command, &args, input, &cwd);
    let mut view = view::of(permit, &line, options);
    let bounds = bounds.map(|(bounds, keys)| {
        git::close_keys(permit.places(), keys, &mut view);
        bounds
    });
    Ok(Some(StartOptions {
        program,
        view,
        bounds,
        name: command,
        args,
        env,
        folder,
        held: Some(held),
        cwd,
        has_stdin,
        joins_streams: false,
        is_own: false,
    }))
}

/// Restricts `bash -c COMMAND` like another program of the extension.
fn restricted_shell(
    permit: &Permit,
    command: String,
    cwd: &Path,
    env: BTreeMap<String, String>,
    options: &ExecOptions,
) -> io::Result<StartOptions> {
    let cwd = std::fs::canonicalize(cwd)?;
    let place = StartPlace::new(crate::system::open_folder(&cwd)?, cwd)?;
    let line = ("bash".to_owned(), vec!["-c".to_owned(), command]);
    let start = restricted(permit, line, place, env, options, (false, &[]));
    let start = start.map_err(|error| io::Error::new(io::ErrorKind::PermissionDenied, error.message))?;
    start.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns the environment of the program. The gate decided about the folder by its name, so variables are looked up by that
/// name.
fn environment(
    request: &Request,
    params: &ProgramParams,
    options: &ExecOptions,
    has_input: bool,
) -> Result<BTreeMap<String, String>, HostcallError> {
    let required = request.required()?;
    let (Some(_), Subject::Program { command, args, cwd, given }) = (&params.env, &required.subject) else {
        return Ok(environment::visible(options));
    };
    let places = request.permit.places();
    let folder = cwd.map_or_else(|| Ok(places.project.clone()), |cwd| places.node_path(cwd))?;
    environment::of(request, options, &Command { program: command, args, folder: &folder, given }, has_input)
}

/// Refuses a working folder that is reached through a link, if the program may not run in the link's target: the gate decided
/// about the name that the call used, and showed that name to the user.
fn check_folder(request: &Request, real: &Path) -> Result<(), HostcallError> {
    let required = request.required()?;
    let Subject::Program { command, args, cwd: Some(named), given } = &required.subject else { return Ok(()) };
    let is_other = request.permit.places().node_path(named)? != real;
    if !is_other || !guard!(ExecLinkedFolder) {
        return Ok(());
    }
    match request.permit.runs_in(&Command { program: command, args, folder: real, given }) {
        true => Ok(()),
        false => Err(Reason::Scope
            .refusal("exec", "exec", &format!("{command} in '{named}', which leads to {}", real.display()))
            .with("hint", "name the folder that the link leads to")),
    }
}

/// Returns whether the extension may write to the input of a program that it starts. That of a program which usually gets none
/// was not decided about, so a grant has to cover any. To an MCP server pi's own client writes.
fn takes_input(request: &Request, options: &ExecOptions) -> Result<bool, HostcallError> {
    let required = request.required()?;
    let Subject::Program { command, args, mut given, .. } = required.subject else { return Ok(true) };
    given.variables.retain(|variable| options.env.get(variable.name).is_none_or(|own| own != variable.value));
    if given.input_use(command, &args) != InputUse::Unusual || request.caller.extension().is_server() {
        return Ok(true);
    }
    given.input = Input::UNKNOWN;
    let folder = &request.permit.places().project;
    Ok(request.permit.runs_in(&Command { program: command, args: &args, folder, given: &given }))
}

/// Opens the working folder without following links, by the name that the gate decided about. The inner error means that the
/// folder does not exist, which pi reports as code 1.
fn folder(request: &Request, named: Option<&str>) -> Result<io::Result<(PathBuf, File)>, HostcallError> {
    let permit = &request.permit;
    let cwd = match named {
        Some(cwd) => permit.places().node_path(cwd)?,
        None => permit.places().project.clone(),
    };
    let real = match std::fs::canonicalize(&cwd) {
        Ok(real) => real,
        Err(error) => return Ok(Err(error)),
    };
    if let Some(named) = named
        && guard!(ExecCwd)
    {
        let reading = permit.path(Access::Read, &real);
        reading.map_err(|reason| reason.refusal("read", "exec", &format!("cwd '{named}'")))?;
        // A program may write relative to its working folder, as `git apply` would in `.git/hooks`.
        let is_own = |root: &Path| real.starts_with(root) && permit.places().is_installed(root);
        // No program can write to these folders ([`view`]). In the package's data folder, only programs start that do not execute
        // files of their folder.
        let is_data = |root: &Path| {
            let places = permit.places();
            [places.data_folder(root), places.server_folder(root)].iter().any(|data| data.as_deref() == Some(&*real))
        };
        let own = permit.package_root().is_some_and(|root| is_own(root) || is_data(root));
        if !own && matches!(permit.places().protection(&real, None), Protection::Write | Protection::All) {
            return Err(Reason::ProtectedPath.refusal("write", "exec", &format!("cwd '{named}'")));
        }
        if !own && permit.places().holds_own_files(&real) {
            return Err(Reason::ProtectedPath.refusal("read", "exec", &format!("cwd '{named}'")));
        }
    }
    Ok(crate::system::open_folder(&real).map(|folder| (real, folder)))
}

impl ExecState {
    async fn start(self: &Arc<Self>, what: StartOptions) -> io::Result<Child> {
        let inner = Arc::clone(self);
        run_blocking(move || start(what, &inner.options)).await?
    }

    fn limits(&self, input: Option<Vec<u8>>, timeout: Option<Duration>, max_buffer: Option<usize>) -> ProgramLimits {
        let ExecOptions { kept_output, grace, .. } = self.options;
        ProgramLimits { input, timeout, max_buffer, kept_output, grace, reads_to_the_end: false }
    }

    /// Handles the default operation: starts the program, writes its input, reads its output, and returns its result when it has
    /// ended.
    async fn run_to_end(self: &Arc<Self>, request: &Request, sink: Option<ChunkSink>) -> Result<Output, HostcallError> {
        let TypedCall::Exec(ExecCall::Run { program, input, timeout, max_buffer, encoding, .. }) = &request.call else {
            return Err(request.misdirected());
        };
        let max_buffer = max_buffer.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let as_bytes = encoding.as_deref() == Some("buffer");
        let input = input.clone().map(CallData::into_vec);
        let limits = self.limits(input, limit(*timeout), max_buffer);
        let extension = request.caller.extension();
        self.programs.check_quota(extension)?;
        let ResolvedCall { command, start } = {
            let (inner, request, input) = (Arc::clone(self), request.clone(), limits.input.clone());
            let (program, has_stdin) = (program.clone(), input.is_some());
            let input = input.unwrap_or_default();
            run_blocking(move || ResolvedCall::find(&request, &program, &inner.options, has_stdin, &input))
                .await
                .map_err(|error| thread_error(&error))??
        };
        let child = match start {
            Ok(start) => self.start(start).await,
            Err(error) => Err(error),
        };
        let child = match child {
            Ok(child) => child,
            Err(error) => return Ok(with_streams(start_failure(&command, &error), Vec::new(), Vec::new(), as_bytes)),
        };
        let pid = child.pid;
        if let Some(sink) = &sink {
            sink.send(Output::new(json!({ "pid": pid })))?;
        }
        let ended = run(child, limits, &request.cancel, sink).await;
        let ended = ended.map_err(|error| HostcallError::io("EIO", "wait", format!("exec: {error}")))?;
        let ProgramOutcome { exit, killed, stdout, stderr, truncated, tree } = ended;
        if request.cancel.is_cancelled() {
            return Err(cancelled("exec"));
        }
        if !killed {
            self.programs.keep_tree(extension, tree);
        }
        let mut value = json!({
            // pi maps *no code* to 0.
            "code": exit.code.unwrap_or(0),
            "killed": killed,
            "signal": exit.signal_name(),
            "pid": pid,
        });
        if truncated {
            value["truncated"] = Value::from(true);
        }
        Ok(with_streams(Output::new(value), stdout, stderr, as_bytes))
    }

    fn spawn(&self, request: &Request) -> Result<Output, HostcallError> {
        let TypedCall::Exec(ExecCall::Spawn { program, stdin: StdinPipe(has_stdin) }) = &request.call else {
            return Err(request.misdirected());
        };
        self.programs.check_quota(request.caller.extension())?;
        let ResolvedCall { command, start: what } =
            ResolvedCall::find(request, program, &self.options, *has_stdin, &[])?;
        let takes_input = takes_input(request, &self.options)?;
        match what.and_then(|what| start(what, &self.options)) {
            Ok(child) => {
                let pid = self.programs.register(request.caller.extension(), child, takes_input);
                Ok(Output::new(json!({ "pid": pid })))
            }
            Err(error) => Ok(start_failure(&command, &error)),
        }
    }

    async fn wait(
        &self,
        request: &Request,
        pid: u64,
        timeout: Option<u64>,
        sink: ChunkSink,
    ) -> Result<Output, HostcallError> {
        let (pid, program) = self.programs.find(request, pid)?;
        let output = program.output.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (stdout, stderr, ended) = output.ok_or_else(|| {
            HostcallError::invalid("schema", format!("exec.wait: another call already waits for the program {pid}"))
        })?;
        let extension = request.caller.extension().clone();
        // The guard removes the program from the table on every return path.
        let waiting = WaitGuard { programs: &self.programs, extension: &extension, pid };
        let tree = child::TreeHandle::share(&program.tree);
        let child = Child { pid, stdin: None, stdout, stderr, ended, tree };
        let limits = ProgramLimits { reads_to_the_end: true, ..self.limits(None, limit(timeout), None) };
        let ended = run(child, limits, &request.cancel, Some(sink)).await;
        let ended = ended.map_err(|error| HostcallError::io("EIO", "wait", format!("exec: {error}")))?;
        if request.cancel.is_cancelled() {
            return Err(cancelled("exec"));
        }
        if !ended.killed {
            self.programs.keep_tree(&extension, ended.tree);
        }
        drop(waiting);
        Ok(Output::new(json!({ "code": ended.exit.code, "signal": ended.exit.signal_name(), "killed": ended.killed })))
    }

    fn kill(&self, request: &Request, pid: u64, signal: &KillSignal, group: bool) -> Result<Output, HostcallError> {
        let signal = programs::signal_of(signal)?;
        match self.programs.find(request, pid) {
            Ok((_, program)) => Ok(program.kill(signal, group)),
            Err(error) if error.details.get("errno").is_some_and(|errno| errno == "ESRCH") => {
                Ok(Output::new(json!({ "sent": self.programs.signal_descendant(request, pid, signal, group) })))
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns whether a process with this number exists, like `kill` with signal 0. No signal is sent.
fn alive(pid: u64) -> Output {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};
    let found = i32::try_from(pid).ok().and_then(Pid::from_raw).map(test_kill_process);
    let error = match found {
        Some(Ok(())) => None,
        Some(Err(Errno::PERM)) => Some("EPERM"),
        // Not a valid process number, or no such process.
        _ => Some("ESRCH"),
    };
    Output::new(json!({ "error": error }))
}

/// Removes a program from the table when the call that waits for it ends.
struct WaitGuard<'a> {
    programs: &'a Programs,
    extension: &'a ExtensionId,
    pid: u32,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.programs.remove(self.extension, self.pid);
    }
}

fn limit(timeout_ms: Option<u64>) -> Option<Duration> {
    timeout_ms.filter(|ms| *ms > 0).map(Duration::from_millis)
}

fn with_streams(mut output: Output, stdout: Vec<u8>, stderr: Vec<u8>, as_bytes: bool) -> Output {
    for (key, bytes) in [("stdout", stdout), ("stderr", stderr)] {
        if as_bytes {
            output = output.with_bytes(key, bytes);
        } else {
            output.value[key] = Value::from(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    output
}

/// Returns the result for a program that could not be started: pi's members, and Node's error as `error`.
fn start_failure(command: &str, error: &io::Error) -> Output {
    let (name, _) = system_error(error);
    Output::new(json!({
        "code": 1,
        "killed": false,
        "signal": null,
        "error": {
            "errno": name,
            "syscall": format!("spawn {command}"),
            "path": command,
            "message": format!("spawn {command} {name}"),
        },
    }))
}
