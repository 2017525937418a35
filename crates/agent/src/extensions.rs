//! What the agent needs of extensions, and nothing more.
//!
//! [`Extensions`] is the seam between the loop and whatever runs extensions. [`crate::host`]
//! implements it for [`pijs_host::Host`]; [`NoExtensions`] is a session without any; the tests use
//! a fake. Handlers are called in load order, one after the other, and their answers are already
//! combined by pi's rules when they arrive here.
//!
//! A payload is built only after [`Extensions::has_handlers`] said that somebody listens.

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use pijs_host::Bound;
pub use pijs_host::SystemRole;
use pijs_host::{Between, PiProfile};
use pijs_hostcall::Behind;
use pijs_llm::models::{Credentials, Offer};
use pijs_llm::provider::Model;
use pijs_protocol::StreamSource;
use pijs_protocol::stream::Injection;
use pijs_protocol::{ExtensionId, StreamDelta};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use tokio_util::sync::CancellationToken;

/// Runs extensions for the agent.
pub trait Extensions {
    /// Whether some handler listens to this event.
    fn has_handlers(&self, event: &str) -> bool;
    /// Calls the handlers of an event.
    fn emit(&self, event: Event) -> LocalBoxFuture<'_, EventOutcome>;
    /// Calls the handlers of an event but for those of one extension, which tells its own.
    fn emit_except<'a>(&'a self, event: Event, _teller: &'a ExtensionId) -> LocalBoxFuture<'a, EventOutcome> {
        self.emit(event)
    }
    /// A number that changes when somebody begins to hear an event, or ceases to.
    fn listeners(&self, _event: &str) -> u64 {
        0
    }
    /// Returns the extension whose handler of an event comes first.
    fn first_handler(&self, _event: &str) -> Option<ExtensionId> {
        None
    }
    /// Whether some `stream_text` handler hears this source. One branch: asked for every delta.
    fn hears(&self, source: StreamSource) -> bool;
    /// Shows a delta to the handlers and waits for their verdict. The stream stands still meanwhile.
    fn stream(&self, delta: &StreamDelta) -> StreamFate;
    /// Returns how many deltas after the first one [`Extensions::stream_ahead`] would show now: none where that gains nothing, or
    /// where somebody is told of each before the next one comes.
    fn lookahead(&self, _source: StreamSource) -> usize {
        0
    }
    /// Shows the first delta as [`Extensions::stream`] does, and those that follow it up to the first at which a handler does
    /// more than continue. Returns the fate of the first one, and how many of the others have passed.
    fn stream_ahead(&self, deltas: &[StreamDelta]) -> (StreamFate, usize) {
        (self.stream(&deltas[0]), 0)
    }
    /// Ends an attempt: it has no more deltas.
    fn stream_over(&self) {}
    /// Tools of all extensions, in load order.
    fn tools(&self) -> Vec<ExtensionTool>;
    /// Names of tools whose extension was stopped and is not back: nobody else's are run in their place.
    fn missed_tools(&self) -> Vec<String> {
        Vec::new()
    }
    /// What `prepareArguments` of a tool makes of the model's arguments; what it throws is an error.
    fn prepare_arguments<'a>(&'a self, _tool: &'a str, raw: Value) -> LocalBoxFuture<'a, Result<Value, String>> {
        async move { Ok(raw) }.boxed_local()
    }
    /// Runs a tool.
    fn call_tool<'a>(&'a self, call: ToolRun<'a>) -> LocalBoxFuture<'a, ToolFate>;
    /// Returns what a call of one of pi's own tools, or of a tool of an MCP server, is carried out under that this extension is
    /// behind; `None` where nothing binds it. The error is for the model.
    fn vouch<'a>(
        &'a self,
        _extension: &'a str,
        _tool: &'a str,
        _input: &'a Value,
        _behind: Behind,
    ) -> LocalBoxFuture<'a, Result<Option<Bound>, String>> {
        async { Ok(None) }.boxed_local()
    }

    /// Returns whether an extension answers requests to models without anybody having been asked about it.
    fn answers_unasked(&self, _extension: &str) -> bool {
        false
    }

    /// Returns whether the system role is granted to an extension, not granted, or denied.
    fn system_role(&self, _extension: &str) -> SystemRole {
        SystemRole::Granted
    }

    /// Whether a model that no person chose may be asked at this address, which the extension chose. The error says why not.
    fn reaches<'a>(&'a self, _extension: &'a str, _address: &'a str) -> LocalBoxFuture<'a, Result<(), String>> {
        async { Ok(()) }.boxed_local()
    }

    /// Sections of the system prompt that are no extension's.
    fn prompt_sections(&self) -> Map<String, Value> {
        Map::new()
    }

    /// Whether a slash command of this name exists.
    fn has_command(&self, name: &str) -> bool;
    /// Whether an extension that was stopped and is not back had a slash command of this name.
    fn misses_command(&self, _name: &str) -> bool {
        false
    }
    /// Runs a slash command to its end.
    fn run_command<'a>(&'a self, name: &'a str, args: &'a str) -> LocalBoxFuture<'a, CommandFate>;
    /// Slash commands as `pi.getCommands()` lists them.
    fn commands(&self) -> Vec<Value> {
        Vec::new()
    }
    /// Providers that extensions registered and may register.
    fn offers(&self) -> Vec<Offer> {
        Vec::new()
    }
    /// What stands for the key of a provider; what the extension throws is an error.
    fn credentials<'a>(
        &'a self,
        _provider: &'a str,
        _model: &'a Model,
    ) -> LocalBoxFuture<'a, Result<Credentials, String>> {
        async { Ok(Credentials::default()) }.boxed_local()
    }
    /// Asks the extension of a provider about its account: `{op: "log_in"}` and `{op: "renew", stored}` answer pi's
    /// credentials, `{op: "stored", stored}` says what holds now. What the extension throws is an error.
    fn account<'a>(&'a self, provider: &'a str, _question: Value) -> LocalBoxFuture<'a, Result<Value, String>> {
        async move { Err(format!("the provider {provider} has no account")) }.boxed_local()
    }
    /// Has a provider look up its models; what it offers is changed then. What the extension throws is an error.
    fn look_up_models<'a>(&'a self, _provider: &'a str, _how: Value) -> LocalBoxFuture<'a, Result<(), String>> {
        async { Ok(()) }.boxed_local()
    }
    /// Has a provider's own stream function answer.
    fn stream_model<'a>(&'a self, call: ModelCall<'a>) -> LocalBoxFuture<'a, Result<(), String>> {
        async move { Err(format!("the provider {} has no stream function", call.provider)) }.boxed_local()
    }
    /// Which pi extensions meet.
    fn profile(&self) -> PiProfile {
        PiProfile::default()
    }
    /// Runs a command by the operations that a handler of `user_bash` answered with. `exec` names its
    /// function, `answer` is the whole answer. Answers what the function returned.
    fn run_operation<'a>(
        &'a self,
        _exec: &'a Value,
        _answer: &'a Value,
        _command: &'a str,
        _cwd: &'a str,
        _cancel: CancellationToken,
        _on_output: &'a mut dyn FnMut(&str),
    ) -> LocalBoxFuture<'a, Result<Value, String>> {
        async { Err("there is no extension to run the command".to_owned()) }.boxed_local()
    }
    /// Discards every extension and loads it again. What still runs in the old ones goes on until it
    /// ends. Answers which could not be loaded, and why. `in_session`: the session stays the same one.
    fn reload(&self, _in_session: bool) -> LocalBoxFuture<'_, Vec<(String, String)>> {
        async { Vec::new() }.boxed_local()
    }
    /// Tells handlers of whom each sees what those before it left: after each, `between` brings the event up to date. What it
    /// refuses is reported as an error of that handler.
    fn emit_between<'a>(&'a self, event: Event, between: &'a mut Between<'a>) -> LocalBoxFuture<'a, EventOutcome> {
        async move {
            let mut outcome = self.emit(event).await;
            if let Some(Value::Object(answer)) = &outcome.answer {
                outcome.payload.extend(answer.clone());
            }
            if let Err(message) = between(&mut outcome.payload) {
                self.report("<boundary>", "boundary", &message);
            }
            outcome
        }
        .boxed_local()
    }
    /// Waits until every extension that is being restarted has restarted, or is left out.
    fn restarts_done(&self) -> LocalBoxFuture<'_, ()> {
        std::future::ready(()).boxed_local()
    }

    /// Waits until the extension of a tool has done what it does at once when it is called.
    fn begun<'a>(&'a self, _tool: &'a str) -> LocalBoxFuture<'a, ()> {
        std::future::ready(()).boxed_local()
    }

    /// Waits until no extension has anything to do, and those who wait for one have gone on.
    fn at_rest(&self) -> LocalBoxFuture<'_, ()> {
        std::future::ready(()).boxed_local()
    }

    /// Waits until what the extension does right now is over, up to where it waits itself.
    fn turn_over<'a>(&'a self, _extension: &'a ExtensionId) -> LocalBoxFuture<'a, ()> {
        async {}.boxed_local()
    }
    /// Reports an error of an extension that no caller waits for.
    fn report(&self, path: &str, event: &str, message: &str) {
        tracing::warn!(path, event, "{message}");
    }
    /// A run begins: `ctx.signal` is a new one.
    fn run_began(&self);
    /// The run was aborted: `ctx.signal` fires.
    fn run_aborted(&self);
    /// The run has ended: there is no `ctx.signal`.
    fn run_ended(&self);
}

/// A request to a provider's own stream function.
pub struct ModelCall<'a> {
    /// Provider name.
    pub provider: &'a str,
    /// pi's `Model`.
    pub model: Value,
    /// pi's `Context`.
    pub context: Value,
    /// pi's `SimpleStreamOptions`, without functions and signal.
    pub options: Value,
    /// Ends it.
    pub cancel: CancellationToken,
    /// Takes events; answers what the stream function waits for (a payload, or nothing).
    pub on_event: Box<dyn FnMut(Value) -> LocalBoxFuture<'a, Value> + 'a>,
}

/// An event for the handlers of one name.
#[derive(Debug, Clone)]
pub struct Event {
    /// pi's name.
    pub name: &'static str,
    /// The event object without `type`.
    pub payload: Map<String, Value>,
    /// Handlers see it as `signal`.
    pub cancel: Option<CancellationToken>,
}

impl Event {
    /// An event without members.
    pub fn new(name: &'static str) -> Self {
        Self { name, payload: Map::new(), cancel: None }
    }

    /// Adds `signal`.
    #[must_use]
    pub fn with_signal(mut self, cancel: CancellationToken) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Adds a member.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.payload.insert(key.to_owned(), value.into());
        self
    }
}

/// What became of an event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EventOutcome {
    /// The event object as the last handler left it, where changes in place count.
    pub payload: Map<String, Value>,
    /// The combined answer.
    pub answer: Option<Value>,
    /// What a handler threw, where that is the answer (`tool_call`, `user_bash`).
    pub thrown: Option<String>,
    /// Extensions whose answers put messages into the conversation.
    pub authors: Vec<String>,
}

impl EventOutcome {
    /// A member of the answer.
    pub fn field(&self, key: &str) -> Option<&Value> {
        self.answer.as_ref()?.get(key)
    }
}

/// The fate of a streamed delta.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum StreamFate {
    /// It goes on.
    Continue,
    /// The attempt is over.
    Abort(Abort),
}

/// A handler asked for an abort.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Abort {
    /// Whose handler.
    pub extension: String,
    /// What to inject before the retry; without it the run ends.
    pub retry: Option<Injection>,
    /// Time spent in handlers on this delta.
    pub latency_us: u64,
}

/// Tools and slash commands of a session that are no extension's: those of MCP servers.
pub trait ToolSource {
    /// The tools, after those of extensions; of two with one name the extension's counts.
    fn tools(&self) -> Vec<ExtensionTool>;
    /// Runs one of them.
    fn call_tool<'a>(&'a self, call: ToolRun<'a>) -> LocalBoxFuture<'a, ToolFate>;
    /// Parameters of the hostcalls `mcp` that a call of one of them makes, for the gate to judge; `None` for a tool of another source.
    fn hostcalls(&self, _name: &str, _input: &Value) -> Option<Vec<Value>> {
        None
    }
    /// Slash commands: name and description.
    fn commands(&self) -> Vec<(String, String)>;
    /// Runs one of them to its end.
    fn run_command<'a>(&'a self, name: &'a str, args: &'a str) -> LocalBoxFuture<'a, CommandFate>;
    /// Sections of the system prompt: name to text.
    fn prompt_sections(&self) -> Map<String, Value>;
}

/// A tool of an extension.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExtensionTool {
    /// Name the model uses.
    pub name: String,
    /// What the model is told.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Whether typebox made them.
    pub converts: bool,
    /// Whether calls of this tool must not run beside others.
    pub sequential: bool,
    /// Whether it has `prepareArguments`.
    pub prepares_arguments: bool,
    /// Where its extension is.
    pub path: String,
    /// pi's `sourceInfo` of its extension.
    pub source_info: Value,
    /// One line for the list of available tools.
    pub prompt_snippet: Option<String>,
    /// Bullets for the guidelines.
    pub prompt_guidelines: Vec<String>,
}

/// One run of an extension's tool.
pub struct ToolRun<'a> {
    /// Name of the tool.
    pub name: &'a str,
    /// Id from the model.
    pub tool_call_id: &'a str,
    /// Validated arguments.
    pub input: Value,
    /// Ends it.
    pub cancel: CancellationToken,
    /// Takes partial results.
    pub on_update: Box<dyn FnMut(Value) + 'a>,
}

/// How a tool run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToolFate {
    /// `{content, details, terminate?}`.
    Returned(Value),
    /// It threw this.
    Threw(String),
}

/// How a slash command ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CommandFate {
    /// It is done.
    Done,
    /// It threw this.
    Threw(CommandError),
}

/// What a slash command threw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandError {
    /// As the extension said it.
    pub message: String,
    /// Where in the extension's source: file, line and column.
    pub place: Option<String>,
}

impl From<String> for CommandError {
    fn from(message: String) -> Self {
        Self { message, place: None }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.place.as_ref().map_or(Ok(()), |place| write!(f, " ({place})"))
    }
}

/// A session without extensions.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoExtensions;

impl Extensions for NoExtensions {
    fn has_handlers(&self, _event: &str) -> bool {
        false
    }

    fn emit(&self, event: Event) -> LocalBoxFuture<'_, EventOutcome> {
        async move { EventOutcome { payload: event.payload, ..EventOutcome::default() } }.boxed_local()
    }

    fn hears(&self, _source: StreamSource) -> bool {
        false
    }

    fn stream(&self, _delta: &StreamDelta) -> StreamFate {
        StreamFate::Continue
    }

    fn tools(&self) -> Vec<ExtensionTool> {
        Vec::new()
    }

    fn call_tool<'a>(&'a self, call: ToolRun<'a>) -> LocalBoxFuture<'a, ToolFate> {
        async move { ToolFate::Threw(format!("Tool {} not found", call.name)) }.boxed_local()
    }

    fn has_command(&self, _name: &str) -> bool {
        false
    }

    fn run_command<'a>(&'a self, name: &'a str, _args: &'a str) -> LocalBoxFuture<'a, CommandFate> {
        async move { CommandFate::Threw(format!("no command /{name}").into()) }.boxed_local()
    }

    fn run_began(&self) {}
    fn run_aborted(&self) {}
    fn run_ended(&self) {}
}

/// Takes what extensions read without asking: the readable state of the host.
pub trait StateSink: Send + Sync {
    /// Replaces a member (`isIdle`, `model`, `session`, ...).
    fn set(&self, key: &str, value: Value);
    /// Cuts the list of session entries to `keep` and appends.
    fn change_entries(&self, keep: usize, append: Vec<Value>);
}

/// Nobody reads it.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoState;

impl StateSink for NoState {
    fn set(&self, _key: &str, _value: Value) {}
    fn change_entries(&self, _keep: usize, _append: Vec<Value>) {}
}
