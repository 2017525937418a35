//! Programs, without a shell and with everything they started.
//!
//! The program's name is looked up in a search path that extensions cannot write to; arguments go
//! verbatim; the environment is an allow list. Each program runs in a session of its own, so a
//! deadline, a cancellation or the end of the extension reaches the whole group: `SIGTERM`, a
//! grace, `SIGKILL`. What leaves that session on purpose is not followed.
//!
//! The answer is pi's (`code` 1 and no output for a program that does not exist, `killed` with
//! code 0 after a timeout) with what `child_process` needs beside it (`signal`, `error`).

use crate::fs::error_words;
use crate::params;
use pijs_hostcall::connector::{cancelled, deadline};
use pijs_hostcall::vocabulary::PLAIN_ENV;
use pijs_hostcall::{Access, BoxFuture, CancelToken, ChunkSink, Connector, Output, Permit, Reason, Request};
use pijs_protocol::HostcallError;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

mod run;

use run::{Ended, run};

/// What programs get from the host.
#[derive(Debug, Clone)]
pub struct ExecOptions {
    /// The host's environment, of which programs see an allow list.
    pub env: BTreeMap<String, String>,
    /// Between `SIGTERM` and `SIGKILL`.
    pub grace: Duration,
    /// Bytes of each output stream that are kept when the call sets no `maxBuffer`; older ones
    /// go first.
    pub kept_output: usize,
}

impl ExecOptions {
    /// Options with the host's environment.
    pub fn new(env: BTreeMap<String, String>) -> Self {
        Self { env, grace: Duration::from_secs(2), kept_output: 16 << 20 }
    }
}

/// Serves the `exec` method.
pub struct ExecConnector {
    options: Arc<ExecOptions>,
}

impl ExecConnector {
    /// Runs programs with these options.
    pub fn new(options: ExecOptions) -> Self {
        Self { options: Arc::new(options) }
    }
}

impl Connector for ExecConnector {
    fn call(&self, request: Request, sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let options = Arc::clone(&self.options);
        Box::pin(async move {
            let spec = Spec::read(&request, &options)?;
            let sink = params::flag(&request, "stream")?.then_some(sink);
            answer(spec, &options, &request.cancel, sink).await
        })
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        let spec = Spec::read(request, &self.options)?;
        crate::block::on(async {
            let work = answer(spec, &self.options, &request.cancel, None);
            match request.timeout_ms {
                None => work.await,
                Some(timeout_ms) => tokio::time::timeout(Duration::from_millis(timeout_ms), work)
                    .await
                    .unwrap_or_else(|_| Err(deadline("exec", timeout_ms))),
            }
        })
    }
}

/// A command line run by [`ExecConnector::shell`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellEnd {
    /// Its exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Whether its time was up.
    pub timed_out: bool,
    /// What it printed; of more than [`ExecOptions::kept_output`], the end.
    pub stdout: Vec<u8>,
    /// The same for errors.
    pub stderr: Vec<u8>,
}

impl ExecConnector {
    /// Runs `bash -c` for a tool that the gate allowed to run exactly this command line, with the
    /// environment that every program of an extension gets. Dropping the future kills the group.
    pub async fn shell(
        &self,
        permit: &Permit,
        command: &str,
        cwd: &Path,
        timeout: Option<Duration>,
    ) -> io::Result<ShellEnd> {
        let spec = Spec {
            command: "bash".to_owned(),
            program: find("bash", cwd, &self.options, permit),
            args: vec!["-c".to_owned(), command.to_owned()],
            cwd: cwd.to_owned(),
            env: visible_environment(&self.options),
            input: None,
            timeout,
            max_buffer: None,
            as_bytes: false,
        };
        let Ended { code, killed, stdout, stderr, .. } = run(spec, &self.options, &CancelToken::new(), None).await?;
        Ok(ShellEnd { code, timed_out: killed, stdout, stderr })
    }
}

/// A program ready to start.
struct Spec {
    /// As the caller wrote it, for messages and `argv[0]`.
    command: String,
    /// Absent when there is no such program.
    program: Option<PathBuf>,
    args: Vec<String>,
    cwd: PathBuf,
    env: BTreeMap<String, String>,
    input: Option<Vec<u8>>,
    timeout: Option<Duration>,
    max_buffer: Option<usize>,
    as_bytes: bool,
}

impl Spec {
    fn read(request: &Request, options: &ExecOptions) -> Result<Self, HostcallError> {
        let command = params::text(request, "command")?.to_owned();
        let args: Vec<String> = request
            .params
            .get("args")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|arg| arg.as_str().map(str::to_owned))
            .collect();
        if command.is_empty() || command.contains('\0') || args.iter().any(|arg| arg.contains('\0')) {
            return Err(HostcallError::invalid(
                "schema",
                "exec: the command is empty, or an argument contains a null byte",
            ));
        }
        let permit = &request.permit;
        let named = params::text_or_none(request, "cwd")?;
        let cwd = match named {
            Some(cwd) => permit.places().node_path(cwd)?,
            None => permit.places().project.clone(),
        };
        // A link must not lead a program out of what the caller may read. A folder that does not
        // exist is pi's business: code 1.
        if let (Some(named), Ok(real)) = (named, std::fs::canonicalize(&cwd)) {
            let reading = permit.path(Access::Read, &real);
            reading.map_err(|reason| reason.refusal("read", "exec", &format!("cwd '{named}'")))?;
        }
        let env = environment(request, options)?;
        let program = find(&command, &cwd, options, permit);
        Ok(Self {
            command,
            program,
            args,
            cwd,
            env,
            input: params::bytes_or_none(request, "input")?.map(std::borrow::Cow::into_owned),
            timeout: params::whole_or_none(request, "timeout")?.filter(|ms| *ms > 0).map(Duration::from_millis),
            max_buffer: params::whole_or_none(request, "maxBuffer")?
                .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            as_bytes: params::text_or_none(request, "encoding")? == Some("buffer"),
        })
    }
}

/// Variables that steer what a program loads or runs; never taken from an extension.
fn steers_programs(name: &str) -> bool {
    const HARMLESS: &[&str] = &["GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT", "NODE_ENV", "PYTHONUNBUFFERED"];
    const EXACT: &[&str] = &["BASH_ENV", "ENV", "HOME", "IFS", "PATH", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND"];
    const BEGINS: &[&str] = &["LD_", "DYLD_", "GIT_", "NODE_", "PYTHON", "PERL5", "RUBY", "npm_config_", "BASH_FUNC_"];
    let upper = name.to_ascii_uppercase();
    !HARMLESS.contains(&upper.as_str())
        && (EXACT.contains(&upper.as_str())
            || BEGINS.iter().any(|begin| upper.starts_with(&begin.to_ascii_uppercase()))
            || upper.ends_with("_OPTIONS"))
}

/// The part of the host's environment that programs see.
fn visible_environment(options: &ExecOptions) -> BTreeMap<String, String> {
    let visible =
        |name: &str| PLAIN_ENV.contains(&name) || name.starts_with("LC_") || name == "TZ" || name == "LOGNAME";
    options.env.iter().filter(|(name, _)| visible(name)).map(|(n, v)| (n.clone(), v.clone())).collect()
}

/// The allow list, or what the caller gave in its place.
fn environment(request: &Request, options: &ExecOptions) -> Result<BTreeMap<String, String>, HostcallError> {
    let Some(given) = request.params.get("env").filter(|env| !env.is_null()) else {
        return Ok(visible_environment(options));
    };
    let given = given.as_object().ok_or_else(|| HostcallError::invalid("schema", "exec: `env` is not an object"))?;
    let mut env = BTreeMap::new();
    for (name, value) in given {
        let Some(value) = value.as_str().filter(|value| !value.contains('\0')) else {
            return Err(HostcallError::invalid("schema", format!("exec: `env.{name}` is not a string")));
        };
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(HostcallError::invalid("schema", format!("exec: {name:?} is not a variable's name")));
        }
        // What the host itself has may be handed on: `{...process.env}` is the usual idiom.
        if steers_programs(name) && options.env.get(name).map(String::as_str) != Some(value) {
            return Err(Reason::Scope.refusal("exec", "exec", &format!("environment variable {name}")));
        }
        env.insert(name.clone(), value.to_owned());
    }
    // A program without a search path finds nothing it needs.
    for name in ["PATH", "HOME"] {
        if let (false, Some(value)) = (env.contains_key(name), options.env.get(name)) {
            env.insert(name.to_owned(), value.clone());
        }
    }
    Ok(env)
}

/// The file a command stands for. Folders of the search path that an extension could write to
/// count only for programs that a grant names in full.
fn find(command: &str, cwd: &Path, options: &ExecOptions, permit: &Permit) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(cwd.join(command));
    }
    let places = permit.places();
    let within_reach = |folder: &Path| {
        [Some(&*places.project), Some(&*places.temp), Some(&*places.agent_dir), permit.package_root()]
            .into_iter()
            .flatten()
            .any(|root| folder.starts_with(root))
    };
    let search = options.env.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
    search
        .split(':')
        .map(Path::new)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(command))
        .filter(|program| !within_reach(program) || permit.names_program(program))
        .find(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    path.is_file() && accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

async fn answer(
    spec: Spec,
    options: &ExecOptions,
    cancel: &CancelToken,
    sink: Option<ChunkSink>,
) -> Result<Output, HostcallError> {
    let (as_bytes, command) = (spec.as_bytes, spec.command.clone());
    let ended = match run(spec, options, cancel, sink).await {
        Ok(ended) => ended,
        Err(error) => return Ok(not_started(&command, &error, as_bytes)),
    };
    if cancel.is_cancelled() {
        return Err(cancelled("exec"));
    }
    let Ended { code, signal, killed, stdout, stderr, truncated } = ended;
    let mut value = json!({
        // pi maps *no code* to 0.
        "code": code.unwrap_or(0),
        "killed": killed,
        "signal": signal,
    });
    if truncated {
        value["truncated"] = Value::from(true);
    }
    Ok(with_streams(Output::new(value), stdout, stderr, as_bytes))
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

/// A program that could not be started: pi's answer, and Node's error beside it.
fn not_started(command: &str, error: &io::Error, as_bytes: bool) -> Output {
    let (name, _) = error_words(error);
    let value = json!({
        "code": 1,
        "killed": false,
        "signal": null,
        "error": {
            "errno": name,
            "syscall": format!("spawn {command}"),
            "path": command,
            "message": format!("spawn {command} {name}"),
        },
    });
    with_streams(Output::new(value), Vec::new(), Vec::new(), as_bytes)
}
