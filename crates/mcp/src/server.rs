//! One server: connects and reconnects to it, and keeps its tools and prompts. [`consent`] compares them with what the user
//! agreed to.
//!
//! The session connects to a server at its start, and again at the next call after a lost connection. The delay between failed
//! attempts doubles. After [`MAX_FAILURES`] consecutive failures without an answered call, the server is quarantined: the session
//! makes no further attempts. Calls are not retried, since the server may have executed them.
//!
//! ```text
//! Idle --> Starting --> Open --> Down --> Starting ...
//!              \___________________/ \--> Quarantined
//! ```

use crate::calls::Calls;
use crate::close_reason::CloseReason;
use crate::config::{Exposure, Reach, ServerConfig, Source};
use crate::connection::{Connection, PeerFacts, RequestFailure};
use crate::handler::Handler;
use crate::http_transport::{TransportOptions, transport};
use crate::names;
use crate::needs::{SAFE_PATH, grants_for, runs_module};
use crate::oauth::{self, Bearer, PendingSignIn};
use crate::session_port::SessionPort;
use crate::stdio::{self, Program};
use crate::values::{self, RunCommand, ValueTemplate};
use pijs_environment::{Randomness, Timer};
use pijs_hostcall::Grant;
use pijs_protocol::{ErrorCode, HostcallError, guard};
use rmcp::model::{Prompt, Tool};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

mod consent;

/// Number of consecutive failures without an answered call after which a server is quarantined.
pub const MAX_FAILURES: u32 = 5;
/// Timeout of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// Maximum delay between two attempts.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// Maximum length of a tool's description for the model, in bytes.
const MAX_DESCRIPTION: usize = 8 << 10;
/// Maximum number of announcements of changed tools that are handled in a session.
const MAX_REFRESHES: u32 = 100;

/// A server of the session.
pub(crate) struct Server {
    pub(crate) config: ServerConfig,
    pub(crate) calls: Calls,
    pub(crate) options: ServerParts,
    pub(crate) state: Mutex<State>,
    /// Locked while the server is being connected, or its lists are fetched.
    pub(crate) connecting: tokio::sync::Mutex<()>,
}

/// Services of the session for one server.
#[derive(Clone)]
pub(crate) struct ServerParts {
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) session: Arc<dyn SessionPort>,
    pub(crate) run: Option<Arc<RunCommand>>,
    pub(crate) key: String,
    pub(crate) changes: watch::Sender<u64>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) connection: Option<Arc<Connection>>,
    pub(crate) known: Known,
    failures: u32,
    refreshes: u32,
    /// Whether the server was removed from the session; later failures are then ignored.
    pub(crate) is_removed: bool,
    /// Earliest time of the next attempt in microseconds, on the session's monotonic clock.
    not_before_us: u64,
    problem: Option<String>,
}

/// The connection state of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not started, or disabled.
    #[default]
    Idle,
    /// Waiting for consent to start it.
    Asking,
    /// Starting, or in the handshake.
    Starting,
    /// Connected and usable.
    Open,
    /// The connection was lost or failed. The next call reconnects.
    Down,
    /// Failed too often. The session makes no further attempts.
    Quarantined,
}

impl Phase {
    /// Returns the name for display.
    pub fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Asking => "asking",
            Self::Starting => "starting",
            Self::Open => "connected",
            Self::Down => "disconnected",
            Self::Quarantined => "quarantined",
        }
    }
}

/// Tools and prompts of a server, as last fetched.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) facts: PeerFacts,
    pub(crate) tools: Vec<Tool>,
    pub(crate) prompts: Vec<Prompt>,
    /// Tools that are new or changed and that the user has not agreed to.
    pub(crate) withheld: BTreeSet<String>,
    pub(crate) notes: Vec<String>,
}

/// A tool of a server, in the form for the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerTool {
    /// `mcp__SERVER__TOOL`.
    pub name: String,
    /// Name of the server.
    pub server: String,
    /// Name of the tool on the server.
    pub tool: String,
    /// Description that the server gives.
    pub description: String,
    /// JSON Schema of the tool's arguments.
    pub parameters: Value,
    /// The server's annotations. Unverified, and for display only.
    pub annotations: Value,
    /// Exposure to the model.
    pub exposure: Exposure,
}

impl ServerTool {
    /// Returns the tool's name in grants: `SERVER/TOOL`.
    pub fn target(&self) -> String {
        format!("{}/{}", self.server, self.tool)
    }
}

/// A prompt of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPrompt {
    /// `mcp__SERVER__PROMPT`.
    pub name: String,
    /// Name of the server.
    pub server: String,
    /// Name of the prompt on the server.
    pub prompt: String,
    /// Description that the server gives.
    pub description: String,
    /// Names of the prompt's arguments, and whether each is required.
    pub arguments: Vec<(String, bool)>,
}

/// The status of a server, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Name of the server.
    pub name: String,
    /// Origin of the server's entry.
    pub source: Source,
    /// Command line or URL.
    pub reach: String,
    /// Whether the server is enabled.
    pub enabled: bool,
    /// Default exposure of the server's tools.
    pub exposure: Exposure,
    /// Connection state of the server.
    pub phase: Phase,
    /// Negotiated protocol version.
    pub protocol: String,
    /// Names of the server's usable tools.
    pub tools: Vec<String>,
    /// Names of tools that are withheld until the user agrees.
    pub withheld: Vec<String>,
    /// Current problem.
    pub problem: Option<String>,
    /// Notes about tools that are left out.
    pub notes: Vec<String>,
    /// Description from the server's entry, or the first line of the server's instructions.
    pub summary: Option<String>,
}

/// Returns the extension id under which a server makes hostcalls.
pub fn extension_of(server: &str) -> String {
    format!("{}{server}", pijs_protocol::ExtensionId::OF_SERVERS)
}

/// Returns the key of a server's pins and stored answers, which consists of its source and its name.
pub fn key_of(config: &ServerConfig, project: &std::path::Path) -> String {
    let place = match &config.source {
        Source::User => String::new(),
        Source::Project => format!("{}#", project.display()),
        Source::Extension(extension) => format!("{extension}#"),
    };
    format!("mcp:{place}{}", config.name)
}

impl Server {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_phase(&self, phase: Phase) {
        self.lock().phase = phase;
        self.options.changes.send_modify(|number| *number += 1);
    }

    pub(crate) fn hides(&self, withheld: &BTreeSet<String>, tool: &str) -> bool {
        (withheld.contains(tool) && guard!(McpPins)) || self.config.exposure_of(tool) == Exposure::Hidden
    }

    pub(crate) fn described(&self, tool: Tool) -> ServerTool {
        let said = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
        let mut parameters = Value::Object((*tool.input_schema).clone());
        if parameters.get("type").is_none() {
            parameters["type"] = json!("object");
        }
        ServerTool {
            name: String::new(),
            server: self.config.name.clone(),
            exposure: self.config.exposure_of(&tool.name),
            description: names::visible(said, MAX_DESCRIPTION),
            parameters,
            annotations: tool.annotations.and_then(|hints| serde_json::to_value(hints).ok()).unwrap_or_default(),
            tool: tool.name.into_owned(),
        }
    }

    pub(crate) fn status(&self) -> Status {
        let state = self.lock();
        let names = |withheld: bool| {
            let tools = state.known.tools.iter().map(|tool| tool.name.to_string());
            tools.filter(|name| state.known.withheld.contains(name) == withheld).collect()
        };
        let instructions =
            state.known.facts.instructions.as_deref().and_then(|text| text.lines().next()).map(str::to_owned);
        Status {
            name: self.config.name.clone(),
            source: self.config.source.clone(),
            reach: self.config.reach_in_words(),
            enabled: self.config.enabled,
            exposure: self.config.exposure,
            phase: state.phase,
            protocol: state.known.facts.protocol.clone(),
            tools: names(false),
            withheld: names(true),
            problem: state.problem.clone(),
            notes: state.known.notes.clone(),
            summary: self.config.description.clone().or(instructions),
        }
    }

    /// Returns the open connection, or connects.
    pub(crate) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, String> {
        let _alone = self.connecting.lock().await;
        let name = &self.config.name;
        {
            let lost = {
                let state = self.lock();
                match &state.connection {
                    Some(connection) if connection.is_open() => return Ok(Arc::clone(connection)),
                    Some(connection) => Some(connection.why()),
                    None => None,
                }
            };
            if let Some(why) = lost {
                self.failed(&self.redacted(&why));
            }
            let state = self.lock();
            let problem = state.problem.as_deref().unwrap_or("unknown");
            if state.phase == Phase::Quarantined {
                return Err(format!("the server {name} is quarantined for this session: {problem}"));
            }
            let left = state.not_before_us.saturating_sub(self.options.timer.now().elapsed_us);
            if left > 0 {
                let seconds = left.div_ceil(1_000_000);
                return Err(format!(
                    "the server {name} is not connected: {problem}; it is tried again after {seconds} s"
                ));
            }
        }
        match self.connect().await {
            Ok(connection) => Ok(connection),
            Err(problem) => {
                let mut problem = self.redacted(&problem);
                if let Some(folder) = &self.config.start_folder {
                    problem.push_str(&format!("; it starts in {folder} because this folder is not trusted (pi trust)"));
                }
                self.failed(&problem);
                Err(format!("the server {name} is not connected: {problem}"))
            }
        }
    }

    /// Redacts secrets in a problem, which may contain output of the server.
    fn redacted(&self, problem: &str) -> String {
        match guard!(McpSecrets) {
            true => self.options.session.redacted(problem),
            false => problem.to_owned(),
        }
    }

    /// Resets the state, so that the next call connects without a delay.
    pub(crate) fn forget_connection(&self) {
        let mut state = self.lock();
        (state.connection, state.failures, state.not_before_us) = (None, 0, 0);
        (state.phase, state.problem) = (Phase::Idle, None);
    }

    /// Records a lost connection or a failed attempt. The phase changes last, so that waiting callers continue after the user was
    /// notified.
    fn failed(&self, problem: &str) {
        let name = &self.config.name;
        let phase = {
            let mut state = self.lock();
            state.connection = None;
            if state.is_removed {
                return;
            }
            state.failures += 1;
            state.problem = Some(problem.to_owned());
            // An immediate attempt follows the first failure; later delays double.
            let delay = match state.failures {
                0 | 1 => Duration::ZERO,
                more => Duration::from_secs(1 << (more - 2).min(6)).min(LONGEST_DELAY),
            };
            state.not_before_us =
                self.options.timer.now().elapsed_us + u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
            if state.failures >= MAX_FAILURES { Phase::Quarantined } else { Phase::Down }
        };
        self.note(Some(problem));
        self.options.session.notice(match phase {
            Phase::Quarantined => {
                format!(
                    "MCP server {name}: {problem}; it failed {MAX_FAILURES} times and is not used again in this session"
                )
            }
            _ => format!("MCP server {name}: {problem}; the session continues without it until it is called again"),
        });
        self.set_phase(phase);
    }

    /// Stores the problem for `pi mcp list`.
    fn note(&self, problem: Option<&str>) {
        let key = &self.options.key;
        if self.options.session.pins().problem(key) != problem {
            self.options.session.change_pins(&mut |pins| _ = pins.note(key, problem));
        }
    }

    /// Updates the failure count from the outcome of a request, and converts its error.
    pub(crate) fn record_outcome<T>(
        &self,
        outcome: Result<T, RequestFailure>,
        connection: &Arc<Connection>,
    ) -> Result<T, HostcallError> {
        match outcome {
            Ok(result) => {
                self.lock().failures = 0;
                Ok(result)
            }
            Err(RequestFailure::Refused(words)) => {
                self.lock().failures = 0;
                Err(HostcallError::new(ErrorCode::Io, format!("mcp: {}: {words}", self.config.name))
                    .with("reason", "tool_failed"))
            }
            Err(RequestFailure::TimedOut(words)) => {
                let words = self.redacted(&words);
                // A server that does not answer gets a new connection for the next call.
                let is_current = self.lock().connection.as_ref().is_some_and(|known| Arc::ptr_eq(known, connection));
                if is_current {
                    self.failed(&words);
                }
                Err(HostcallError::new(ErrorCode::Timeout, format!("mcp: {}: {words}", self.config.name)))
            }
            Err(RequestFailure::Disconnected(words)) => {
                let words = self.redacted(&words);
                let is_current = self.lock().connection.as_ref().is_some_and(|known| Arc::ptr_eq(known, connection));
                if is_current {
                    self.failed(&words);
                }
                Err(HostcallError::io("ECONNRESET", "mcp", format!("mcp: {}: {words}", self.config.name)))
            }
        }
    }

    async fn connect(self: &Arc<Self>) -> Result<Arc<Connection>, String> {
        self.set_phase(Phase::Asking);
        let why = CloseReason::default();
        let timeout = self.config.timeout;
        let of_refresh = Arc::downgrade(self);
        let changed = Box::new(move || {
            if let Some(server) = of_refresh.upgrade() {
                server.refresh_later();
            }
        });
        let handler = Handler::new(&self.config.name, (Arc::clone(&self.options.session), self.calls.clone()), changed);
        let limits = (why.clone(), HANDSHAKE.min(timeout));
        let mut program_files = None;
        let connection = match &self.config.reach {
            Reach::Stdio { command, args, env, cwd } => {
                let mut env = self.expand_all(env).await?;
                let away = self.config.start_folder.as_deref();
                // Only for the user's entries: the working folder of an extension's server contains no modules.
                if away.is_some() && self.config.source == Source::User && runs_module(args) {
                    env.entry(SAFE_PATH.to_owned()).or_insert_with(|| "1".to_owned());
                }
                let cwd = cwd.as_deref().or(away);
                program_files = self.check_program(command, args, &env, cwd).await?;
                let start = stdio::Start { command, args, env, cwd };
                let (transport, program): (_, Program) =
                    stdio::start(&self.calls, start, &why).await.map_err(|error| error.message)?;
                self.set_phase(Phase::Starting);
                Connection::open(transport, handler, Some(program), limits).await?
            }
            Reach::Http { url, headers } => {
                let headers = self.expand_all(headers).await?;
                self.request_reach_consent(url).await?;
                self.set_phase(Phase::Starting);
                let options = TransportOptions {
                    calls: self.calls.clone(),
                    headers: headers.into_iter().collect(),
                    bearer: self.bearer(url).map(Arc::new),
                    why: why.clone(),
                    server: self.config.name.clone(),
                };
                let transport = transport(options, url);
                Connection::open(transport, handler, None, limits).await?
            }
        };
        let connection = Arc::new(connection.with_timeout(timeout));
        self.fetch_lists(&connection).await?;
        if let Some(files) = program_files {
            self.pin_program(&files);
        }
        {
            let mut state = self.lock();
            state.connection = Some(Arc::clone(&connection));
            state.problem = None;
        }
        if self.lock().known.withheld.is_empty() {
            self.note(None);
        }
        self.set_phase(Phase::Open);
        Ok(connection)
    }

    /// Expands values of the entry. Variables are read by a hostcall, so that variables in a project's file require consent.
    async fn expand_all(&self, values: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
        let mut names: Vec<&str> = values.values().flat_map(|value| ValueTemplate::parse(value).variables()).collect();
        names.sort_unstable();
        names.dedup();
        // An extension must not choose texts that the ledger redacts.
        let is_of_file = !matches!(self.config.source, Source::Extension(_)) && guard!(McpSecrets);
        let mut known = Map::new();
        if !names.is_empty() {
            let answer = self.calls.call("env", json!({"op": "get", "names": names}), Vec::new()).await;
            let answer = answer.map_err(|error| error.message)?;
            known = answer.output.get("values").and_then(Value::as_object).cloned().unwrap_or_default();
            if is_of_file {
                known.values().filter_map(Value::as_str).for_each(|value| self.options.session.learn_setting(value));
            }
        }
        let mut expanded = BTreeMap::new();
        for (name, written) in values {
            let variable = |name: &str| known.get(name).and_then(Value::as_str).map(str::to_owned);
            let value = values::expand(written, &self.config.source, variable, self.options.run.as_ref()).await;
            let expanded_value = with_name(value, name)?;
            if is_of_file {
                values::secret_parts(&expanded_value).for_each(|part| self.options.session.learn_setting(part));
            } else if expanded_value != *written {
                self.options.session.learn(&expanded_value);
            }
            expanded.insert(name.clone(), expanded_value);
        }
        Ok(expanded)
    }

    /// Returns the source of access tokens; `None` if the server cannot have a sign-in.
    fn bearer(&self, url: &str) -> Option<Bearer> {
        let key = self.config.sign_in_key()?;
        let (session, timer) = (Arc::clone(&self.options.session), Arc::clone(&self.options.timer));
        Some(Bearer { key, url: url.to_owned(), session, timer, refreshing: tokio::sync::Mutex::default() })
    }

    pub(crate) async fn begin_sign_in(&self, redirect: &str, random: &dyn Randomness) -> Result<PendingSignIn, String> {
        let Reach::Http { url, .. } = &self.config.reach else {
            return Err(
                "it is a local program, which has no sign-in; pass its credentials with `env` in its entry".to_owned()
            );
        };
        let key = self.config.sign_in_key();
        let key = key.ok_or("its entry has an `Authorization` header; remove it to sign in")?;
        self.request_reach_consent(url).await?;
        let mut config = self.config.clone();
        if let Some(settings) = &mut config.oauth
            && let Some(secret) = settings.client_secret.take()
        {
            let written = BTreeMap::from([("clientSecret".to_owned(), secret)]);
            settings.client_secret = self.expand_all(&written).await?.into_values().next();
        }
        let earlier = self.options.session.sign_in(&key);
        oauth::begin(&self.calls, &config, (redirect, earlier.as_ref()), random).await
    }

    pub(crate) async fn complete_sign_in(&self, pending: &PendingSignIn, code: &str) -> Result<(), String> {
        let key = self.config.sign_in_key().ok_or("it has no sign-in")?;
        let now_ms = self.options.timer.now().epoch_ms;
        let sign_in = oauth::complete(&self.calls, pending, code, now_ms).await?;
        self.options.session.keep_sign_in(&key, &sign_in);
        Ok(())
    }

    /// Requests consent for the URL once and grants it for the session, so that single requests do not prompt.
    async fn request_reach_consent(&self, url: &str) -> Result<(), String> {
        if self.config.source == Source::User {
            return Ok(());
        }
        let Value::Object(params) = json!({ "url": url }) else { unreachable!("written as an object") };
        let call = pijs_hostcall::ParsedCall::parse("http", params, Vec::new()).map_err(|error| error.message)?;
        let required = call.required().map_err(|error| error.message)?;
        let dispatcher = self.calls.dispatcher().map_err(|error| error.message)?;
        let (gate, caller) = (dispatcher.gate(), &self.calls.caller);
        let (decision, _) = gate.ask(caller, "http", &required).await.map_err(|error| error.message)?;
        if !decision.allowed {
            let reason = decision.reason.map_or("refused", |reason| reason.as_str());
            return Err(format!("http: capability `http` for {url} is not granted ({reason})"));
        }
        if matches!(self.config.source, Source::Extension(_)) {
            // The user's answer determines the scope: an additional grant here would apply to the whole extension.
            return Ok(());
        }
        let grants = grants_for(&self.config);
        let http: Vec<Grant> = grants.into_iter().filter(|grant| grant.capability.as_str() == "http").collect();
        gate.add_grants(&caller.profile, &http).map_err(|error| error.to_string())
    }

    /// Fetches the lists again after the server announced a change, at most [`MAX_REFRESHES`] times.
    fn refresh_later(self: &Arc<Self>) {
        {
            let mut state = self.lock();
            state.refreshes += 1;
            if state.refreshes > MAX_REFRESHES {
                return;
            }
        }
        let server = Arc::clone(self);
        tokio::spawn(async move {
            let _alone = server.connecting.lock().await;
            let connection = server.lock().connection.clone();
            if let Some(connection) = connection.filter(|connection| connection.is_open())
                && server.fetch_lists(&connection).await.is_ok()
            {
                server.options.changes.send_modify(|number| *number += 1);
            }
        });
    }
}

/// Returns the first 8 bytes of a digest in hex.
fn short_digest(text: &str) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn with_name(value: Result<String, String>, name: &str) -> Result<String, String> {
    value.map_err(|problem| format!("{name}: {problem}"))
}
