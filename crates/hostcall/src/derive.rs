//! Derives the capability that a call needs: a pure function of method and parameters.
//!
//! The realm states the capability that it expects; this module ignores the claim. [`ParsedCall::parse`] reads the parameters
//! once, and [`ParsedCall::required`] borrows from them, so the gate decides about the same value that the connector gets. The
//! capability of a tool depends on its exact name: ` bash` or `Bash` is an unknown tool, which needs the capability `tool`.

use crate::scope::is_near;
use crate::subject::{Access, Input, PathForm, PathUse, ProgramContext, Required, Subject};
use crate::variables::Variable;
use crate::vocabulary::{MCP_OPS, RUMMY_DB_OPS, SESSION_OPS, UI_OPS};
use pijs_programs::input::InputUse;
use pijs_protocol::call::reader::kind;
use pijs_protocol::call::{
    EnvCall, ExecCall, FileTarget, FsCall, HttpCall, NetCall, OpenFlags, ProgramParams, SocketTarget, SqliteCall,
    StdinPipe, TimerCall, VariableNames, WebSocketCall,
};
use pijs_protocol::{HostcallError, Method, TypedCall};
use serde_json::{Map, Value};

/// A call whose parameters have been read.
#[derive(Debug, Clone)]
pub struct ParsedCall {
    /// The method.
    pub method: Method,
    /// Op and parameters of the call.
    pub call: TypedCall,
    /// Parameters of an untyped method.
    pub params: Map<String, Value>,
    /// Attachments of an untyped method.
    pub bytes: Vec<Vec<u8>>,
}

impl ParsedCall {
    /// Reads the parameters of a call.
    ///
    /// # Errors
    ///
    /// Fails with `invalid_request` (`schema`) for an unknown op, and for a parameter that is missing or of another type.
    pub fn parse(
        method: impl Into<Method>,
        mut params: Map<String, Value>,
        mut bytes: Vec<Vec<u8>>,
    ) -> Result<Self, HostcallError> {
        let method = method.into();
        let call = TypedCall::read(&method, &mut params, &mut bytes)?;
        Ok(Self { method, call, params, bytes })
    }

    /// Returns the input that a program may execute.
    pub(crate) fn input(&self, used: InputUse) -> Input {
        match (&self.call, used) {
            (TypedCall::Exec(ExecCall::Run { input: Some(input), .. }), InputUse::Unusual | InputUse::Code) => {
                Input::program(input)
            }
            // The connector gives no input to a program that usually gets none.
            (TypedCall::Exec(ExecCall::Spawn { stdin: StdinPipe(true), .. }), InputUse::Code) => Input::Later,
            _ => Input::Data,
        }
    }

    /// Derives the capability and the subject of the call.
    ///
    /// # Errors
    ///
    /// Fails with `invalid_request` for an invalid URL (`url`); for an untyped method also for an unknown method or op and for a
    /// missing member (`schema`).
    pub fn required(&self) -> Result<Required<'_>, HostcallError> {
        required(&self.method, &self.call, &self.params)
    }

    /// Returns the path whose content the call reads; `None` for calls without content, such as `stat`.
    pub(crate) fn content_read(&self) -> Option<&str> {
        match &self.call {
            TypedCall::Fs(call) => content_of_file(call),
            TypedCall::Untyped if self.method == "tool" => {
                let name = self.params.get("name").and_then(Value::as_str);
                let input = self.params.get("input").filter(|_| matches!(name, Some("read" | "grep" | "edit")))?;
                input.get("path").or_else(|| input.get("file_path"))?.as_str()
            }
            TypedCall::Env(_)
            | TypedCall::Exec(_)
            | TypedCall::Http(_)
            | TypedCall::Net(_)
            | TypedCall::Sqlite(_)
            | TypedCall::Timer(_)
            | TypedCall::WebSocket(_)
            | TypedCall::Untyped => None,
        }
    }
}

/// Derives a call from its parts.
pub(crate) fn required<'a>(
    method: &'a str,
    call: &'a TypedCall,
    params: &'a Map<String, Value>,
) -> Result<Required<'a>, HostcallError> {
    match call {
        TypedCall::Env(EnvCall::Get { names: VariableNames(names) }) => {
            Ok(Required::new("env", Subject::Names(names.iter().map(String::as_str).collect())))
        }
        TypedCall::Exec(call) => Ok(exec(call)),
        TypedCall::Fs(call) => Ok(fs(call)),
        TypedCall::Http(call) => http(call),
        TypedCall::Net(call) => net(call),
        TypedCall::Sqlite(call) => Ok(sqlite(call)),
        TypedCall::Timer(TimerCall::Sleep { .. }) => Ok(Required::new("timer", Subject::None)),
        TypedCall::WebSocket(call) => websocket(call),
        TypedCall::Untyped => untyped(method, params),
    }
}

fn untyped<'a>(method: &'a str, params: &'a Map<String, Value>) -> Result<Required<'a>, HostcallError> {
    let (capability, subject) = match method {
        "tool" => tool(params)?,
        "session" => (session(params)?, Subject::None),
        "ui" => {
            let op = text(method, params, "op")?;
            if !UI_OPS.contains(&op) {
                return Err(unknown_op(method, op));
            }
            if op == "editor_submit" { said(params)? } else { ("ui", Subject::None) }
        }
        "tools" => {
            op_of(method, params, &["list", "active"])?;
            ("tools", Subject::None)
        }
        "events" => {
            op_of(method, params, &["emit"])?;
            ("events", Subject::None)
        }
        "module" => {
            op_of(method, params, &["quote", "source", "compile"])?;
            if text(method, params, "op")? == "compile" { code(params)? } else { ("module", Subject::None) }
        }
        "log" => ("log", Subject::None),
        "mcp" => ("mcp", mcp(params)?),
        // Only plugins write the store of a rummy session, and only these methods access it.
        "rummy.entries" => {
            text(method, params, "method")?;
            ("session", Subject::None)
        }
        "rummy.db" => {
            op_of(method, params, RUMMY_DB_OPS)?;
            text(method, params, "statement")?;
            ("session", Subject::None)
        }
        other => {
            return Err(
                HostcallError::invalid("schema", format!("unknown hostcall method {other:?}")).with("method", other)
            );
        }
    };
    let is_probe = method == "module" && params.get("probe") == Some(&Value::Bool(true));
    Ok(Required { capability, subject, is_probe })
}

type Derived<'a> = Result<(&'static str, Subject<'a>), HostcallError>;

fn fs(call: &FsCall) -> Required<'_> {
    use Access::{Look, Make, Read, Write};
    let at = |access, path| PathUse { access, path, form: PathForm::Node };
    let one = |access: Access, path| Required::new(access.capability(), Subject::Paths(at(access, path), None));
    let both = |first, second| Required::new("write", Subject::Paths(first, Some(second)));
    match call {
        FsCall::Close { .. }
        | FsCall::Fdatasync { .. }
        | FsCall::Fstat { .. }
        | FsCall::Fsync { .. }
        | FsCall::Read { .. }
        | FsCall::ReadFile { file: FileTarget::Handle(_), .. } => Required::new("read", Subject::Handle),
        FsCall::Fchmod { .. }
        | FsCall::Ftruncate { .. }
        | FsCall::Futimes { .. }
        | FsCall::Write { .. }
        | FsCall::AppendFile { file: FileTarget::Handle(_), .. }
        | FsCall::WriteFile { file: FileTarget::Handle(_), .. } => Required::new("write", Subject::Handle),
        // The answer reveals the kind of the file at the path.
        FsCall::Access { path, .. } | FsCall::Exists { path } | FsCall::Stat { path } => {
            Required { is_probe: true, ..one(Look, path) }
        }
        // The answer reveals the kind, the real path or the target at the path.
        FsCall::Lstat { path } | FsCall::Readlink { path } | FsCall::Realpath { path } | FsCall::Statfs { path } => {
            Required { is_probe: true, ..one(Read, path) }
        }
        FsCall::ReadFile { file: FileTarget::Path(path), .. }
        | FsCall::Readdir { path, .. }
        | FsCall::Opendir { path, .. }
        | FsCall::Watch { path, .. } => one(Read, path),
        FsCall::AppendFile { file: FileTarget::Path(path), flag, .. }
        | FsCall::WriteFile { file: FileTarget::Path(path), flag, .. } => {
            one(if flag.is_none_or(|flags| flags.create) { Make } else { Write }, path)
        }
        FsCall::Mkdir { path, .. } | FsCall::Mkdtemp { prefix: path } => one(Make, path),
        FsCall::Chmod { path, .. }
        | FsCall::Lutimes { path, .. }
        | FsCall::Rm { path, .. }
        | FsCall::Rmdir { path }
        | FsCall::Truncate { path, .. }
        | FsCall::Unlink { path }
        | FsCall::Utimes { path, .. } => one(Write, path),
        FsCall::Link { from, to } | FsCall::Rename { from, to } => both(at(Write, from), at(Write, to)),
        FsCall::CopyFile { from, to, .. } | FsCall::Cp { from, to, .. } => both(at(Read, from), at(Write, to)),
        FsCall::Symlink { target, path } => {
            both(at(Write, path), PathUse { access: Read, path: target, form: PathForm::TargetOf(path) })
        }
        FsCall::Open { path, flags, .. } => {
            let access = opening(*flags);
            // A handle that reads and writes needs both capabilities; the write side is checked first.
            let other = (flags.writes() && flags.read).then(|| at(Read, path));
            Required::new(access.capability(), Subject::Paths(at(access, path), other))
        }
    }
}

/// Returns the access that is needed to open a file with these flags.
pub fn opening(flags: OpenFlags) -> Access {
    match flags {
        OpenFlags { create: true, .. } => Access::Make,
        flags if flags.writes() => Access::Write,
        _ => Access::Read,
    }
}

fn content_of_file(call: &FsCall) -> Option<&str> {
    match call {
        FsCall::ReadFile { file: FileTarget::Path(path), .. } => Some(path),
        FsCall::Open { path, flags, .. } => flags.read.then_some(path),
        FsCall::CopyFile { from, .. }
        | FsCall::Cp { from, .. }
        | FsCall::Rename { from, .. }
        | FsCall::Link { from, .. } => Some(from),
        FsCall::Symlink { target, .. } => Some(target),
        _ => None,
    }
}

fn net(call: &NetCall) -> Result<Required<'_>, HostcallError> {
    let at_path =
        |access, path| Ok(Required::new("write", Subject::Paths(PathUse { access, path, form: PathForm::Node }, None)));
    let at_host = |scheme, host: &str, port: u16| {
        Ok(Required::new("http", Subject::Host { scheme, host: net_host(host)?, port }))
    };
    match call {
        NetCall::Connect { at: SocketTarget::Path(path), .. } => at_path(Access::Speak, path),
        NetCall::Listen { at: SocketTarget::Path(path), .. } => at_path(Access::Write, path),
        NetCall::Connect { at: SocketTarget::Host(host, port), tls, protocol, .. } => {
            let scheme = match (protocol.as_deref() == Some("http"), tls) {
                (false, _) => "tcp",
                (true, None) => "http",
                (true, Some(_)) => "https",
            };
            at_host(scheme, host, *port)
        }
        NetCall::Listen { at: SocketTarget::Host(host, port), .. } => at_host("tcp", host, *port),
        NetCall::Accept { .. }
        | NetCall::Close { .. }
        | NetCall::End { .. }
        | NetCall::Refuse { .. }
        | NetCall::Write { .. } => Ok(Required::new("http", Subject::Handle)),
    }
}

/// Returns the host of a `net` call in the form that the gate decides and the connector connects to: `localhost` is `127.0.0.1`,
/// names are lower case without a trailing dot, IPv6 addresses have brackets.
pub fn net_host(written: &str) -> Result<String, HostcallError> {
    let host = written.trim_end_matches('.').to_ascii_lowercase();
    no_pattern("net", &host)?;
    let spelled = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.clone() };
    match url::Host::parse(&spelled) {
        Ok(url::Host::Domain(name)) if name == "localhost" || name.ends_with(".localhost") => {
            Ok("127.0.0.1".to_owned())
        }
        Ok(url::Host::Domain(name)) => Ok(name),
        Ok(url::Host::Ipv4(address)) => Ok(address.to_string()),
        Ok(url::Host::Ipv6(address)) => Ok(format!("[{address}]")),
        Err(error) => Err(HostcallError::invalid("url", format!("net: {host:?} is not a host: {error}"))),
    }
}

fn websocket(call: &WebSocketCall) -> Result<Required<'_>, HostcallError> {
    match call {
        WebSocketCall::Open { url, .. } => Ok(websocket_target(url)?.1.required()),
        WebSocketCall::Close { .. } | WebSocketCall::Send { .. } => Ok(Required::new("http", Subject::Handle)),
    }
}

/// Parses a `ws:` or `wss:` URL, and returns it with the `http:` or `https:` target that the gate decides.
pub fn websocket_target(url: &str) -> Result<(url::Url, HttpTarget), HostcallError> {
    let parsed =
        url::Url::parse(url).map_err(|error| HostcallError::invalid("url", format!("websocket: {error}: {url:?}")))?;
    let scheme = match parsed.scheme() {
        "ws" => "http",
        "wss" => "https",
        other => {
            return Err(HostcallError::invalid("url", format!("websocket: the scheme {other:?} is not ws or wss")));
        }
    };
    let rest = parsed.as_str().split_once(':').map_or("", |(_, rest)| rest);
    let target = HttpTarget::parse(&format!("{scheme}:{rest}"))?;
    Ok((parsed, target))
}

fn sqlite(call: &SqliteCall) -> Required<'_> {
    match call {
        SqliteCall::Open { path, .. } if path == ":memory:" => Required::new("read", Subject::Handle),
        SqliteCall::Open { path, read_only, .. } => {
            let access = if *read_only { Access::Read } else { Access::Write };
            let used = PathUse { access, path, form: PathForm::Node };
            Required::new(access.capability(), Subject::Paths(used, None))
        }
        SqliteCall::All { .. }
        | SqliteCall::Close { .. }
        | SqliteCall::Exec { .. }
        | SqliteCall::Get { .. }
        | SqliteCall::Prepare { .. }
        | SqliteCall::Run { .. } => Required::new("read", Subject::Handle),
    }
}

fn exec(call: &ExecCall) -> Required<'_> {
    let program = match call {
        ExecCall::Run { program, .. } | ExecCall::Spawn { program, .. } => program,
        ExecCall::Alive { .. }
        | ExecCall::End { .. }
        | ExecCall::Kill { .. }
        | ExecCall::Wait { .. }
        | ExecCall::Write { .. } => return Required::new("exec", Subject::Handle),
    };
    let ProgramParams { command, args, cwd, env, inherits } = program;
    let variables = env.iter().flatten().map(|(name, value)| Variable::new(command, name, value)).collect();
    let args = args.iter().map(String::as_str).collect();
    // The gate adds the input, because the host's own variables are not known here.
    let given = ProgramContext { variables, is_inherited: *inherits, input: Input::Data };
    Required::new("exec", Subject::Program { command, args, cwd: cwd.as_deref(), given })
}

/// Derives the capability for text that an extension's editor submits for the user; the text may be anything that a user can
/// submit. A command for the shell is decided when it runs, as one that the extension wrote.
fn said(params: &Map<String, Value>) -> Derived<'_> {
    let capability = match text("ui", params, "text")?.trim().chars().next() {
        Some('!') => "ui",
        Some('/') => "session.control",
        _ => "session.inject",
    };
    Ok((capability, Subject::None))
}

fn http(call: &HttpCall) -> Result<Required<'_>, HostcallError> {
    match call {
        HttpCall::Request { url, .. } => Ok(HttpTarget::parse(url)?.required()),
        // Decided like a request, because the queried name leaves this machine. Looking up this machine's own name queries no
        // name server and connects to nothing, so no decision is needed; a prompt would name no particular server, and its answer
        // would cover all of them.
        HttpCall::Lookup { url } => {
            let target = HttpTarget::parse(url)?;
            let is_near = is_near(&target.host);
            Ok(if is_near { Required::new("http", Subject::Handle) } else { target.required() })
        }
        HttpCall::Finish { .. } | HttpCall::Send { .. } => Ok(Required::new("http", Subject::Handle)),
    }
}

/// The target of a URL that extensions may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpTarget {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Host, lower case, without a trailing dot.
    pub host: String,
    /// Port; the scheme's default is filled in.
    pub port: u16,
}

impl HttpTarget {
    fn required(self) -> Required<'static> {
        Required::new("http", Subject::Host { scheme: self.scheme, host: self.host, port: self.port })
    }

    /// Parses the target of an `http` or `https` URL. The URL must have a host and no user information.
    pub fn parse(url: &str) -> Result<Self, HostcallError> {
        let parsed =
            url::Url::parse(url).map_err(|error| HostcallError::invalid("url", format!("http: {error}: {url:?}")))?;
        Self::of(&parsed)
    }

    /// Returns the target of a parsed URL.
    pub fn of(url: &url::Url) -> Result<Self, HostcallError> {
        let scheme = match url.scheme() {
            "http" => "http",
            "https" => "https",
            other => {
                return Err(HostcallError::invalid("url", format!("http: the scheme {other:?} is not http or https")));
            }
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(HostcallError::invalid("url", "http: a URL must not contain a user name or password"));
        }
        let host = url.host_str().unwrap_or_default();
        let host = host.strip_suffix('.').unwrap_or(host).to_owned();
        no_pattern("http", &host)?;
        match (host.is_empty(), url.port_or_known_default()) {
            (false, Some(port)) => Ok(Self { scheme, host, port }),
            _ => Err(HostcallError::invalid("url", "http: the URL has no host")),
        }
    }
}

/// Refuses `*` in a host, which the URL parser accepts: a grant treats it as a wildcard, and a user's answer becomes a grant.
fn no_pattern(method: &str, host: &str) -> Result<(), HostcallError> {
    if host.contains('*') && pijs_protocol::guard!(GateStar) {
        return Err(HostcallError::invalid("url", format!("{method}: {host:?} is not a host name")));
    }
    Ok(())
}

/// Derives the subject of an `mcp` call. Refuses `*` in a target, because a grant treats it as a wildcard over a server's tools.
fn mcp(params: &Map<String, Value>) -> Result<Subject<'_>, HostcallError> {
    let op = text("mcp", params, "op")?;
    let Some((_, fixed)) = MCP_OPS.iter().find(|(name, _)| *name == op) else { return Err(unknown_op("mcp", op)) };
    let target = text("mcp", params, "target")?;
    let (server, name) = target.split_once('/').unwrap_or_default();
    let fits = fixed.map_or(!name.is_empty() && !name.starts_with('@'), |fixed| name == fixed);
    if server.is_empty() || !fits || target.contains('*') {
        return Err(HostcallError::invalid("schema", format!("mcp.{op}: {target:?} is not a target of an MCP server")));
    }
    let arguments = params.get(if op == "read_resource" { "uri" } else { "arguments" });
    Ok(Subject::Mcp { target, arguments })
}

fn code(params: &Map<String, Value>) -> Derived<'_> {
    let bytes = params.get("bytes").and_then(Value::as_u64);
    let bytes = bytes.ok_or_else(|| HostcallError::invalid("schema", "module: `bytes` is not a length"))?;
    // A call that compiles text has no path.
    let path = if params.contains_key("path") { text("module", params, "path")? } else { "" };
    let subject = Subject::Code { path, bytes, digest: text("module", params, "digest")? };
    Ok((if pijs_protocol::guard!(GateEval) { "eval" } else { "module" }, subject))
}

/// Derives a tool call as in `docs/spec/hostcalls.md`, Derivation: `read grep find ls` read, `write edit` write, `bash` is exec,
/// all others need `tool`.
fn tool(params: &Map<String, Value>) -> Derived<'_> {
    let name = text("tool", params, "name")?;
    let empty = &Value::Null;
    let input = params.get("input").unwrap_or(empty);
    let member = |key: &str| input.get(key).and_then(Value::as_str);
    let used = |access, default| {
        let path = member("path").or_else(|| member("file_path")).unwrap_or(default);
        PathUse { access, path, form: PathForm::Tool }
    };
    let path = |access, default| Subject::Paths(used(access, default), None);
    Ok(match name {
        "read" => ("read", path(Access::Read, "")),
        "grep" | "find" | "ls" => ("read", path(Access::Read, ".")),
        "write" => ("write", path(Access::Write, "")),
        // An edit also reads: it searches for the text that it replaces.
        "edit" => ("write", Subject::Paths(used(Access::Write, ""), Some(used(Access::Read, "")))),
        "bash" => {
            let command = member("command").unwrap_or_default();
            (
                "exec",
                Subject::Program {
                    command: "bash",
                    args: vec!["-c", command],
                    cwd: None,
                    given: ProgramContext::default(),
                },
            )
        }
        "powershell" => {
            let command = member("command").unwrap_or_default();
            (
                "exec",
                Subject::Program {
                    command: "powershell",
                    args: vec!["-Command", command],
                    cwd: None,
                    given: ProgramContext::default(),
                },
            )
        }
        other => ("tool", Subject::Tool(other)),
    })
}

fn session(params: &Map<String, Value>) -> Result<&'static str, HostcallError> {
    let op = text("session", params, "op")?;
    match SESSION_OPS.iter().find(|(name, _)| *name == op) {
        Some(("append", capability)) => Ok(appended(params.get("entry")).unwrap_or(capability)),
        Some((_, capability)) => Ok(capability),
        None => Err(unknown_op("session", op)),
    }
}

/// Returns the additional capability for an entry that is more than a message: one that changes the summary, the context or the
/// prompt of the model, or selects the session's model.
fn appended(entry: Option<&Value>) -> Option<&'static str> {
    let entry = entry?;
    match entry.get("type")?.as_str()? {
        _ if !pijs_protocol::guard!(GateEntries) => None,
        "compaction" | "branch_summary" => Some("compaction"),
        "context_edit" => Some("context.modify"),
        "model_change" | "thinking_level_change" => Some("session.control"),
        "message" if entry.get("message")?.get("role")? == "system" => Some("prompt.modify"),
        _ => None,
    }
}

/// Returns a member of parameters. Optimized for `op`, which is the first member of nearly every call and read often.
pub(crate) fn member<'a>(params: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    match params.iter().next() {
        Some((first, value)) if first == key => Some(value),
        _ => params.get(key),
    }
}

fn text<'a>(method: &str, params: &'a Map<String, Value>, key: &str) -> Result<&'a str, HostcallError> {
    match member(params, key) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => {
            Err(HostcallError::invalid("schema", format!("{method}: `{key}` is {}, not a string", kind(other))))
        }
        None => Err(HostcallError::invalid("schema", format!("{method}: `{key}` is missing"))),
    }
}

fn op_of(method: &str, params: &Map<String, Value>, known: &[&str]) -> Result<(), HostcallError> {
    let op = text(method, params, "op")?;
    if known.contains(&op) { Ok(()) } else { Err(unknown_op(method, op)) }
}

fn unknown_op(method: &str, op: &str) -> HostcallError {
    HostcallError::invalid("schema", format!("{method}: there is no operation {op:?}")).with("op", op)
}

#[cfg(test)]
#[path = "derive_tests.rs"]
mod tests;
