//! The interface between the agent and extensions.
//!
//! [`crate::host`] implements [`Extensions`] for [`pijs_host::Host`]; [`NoExtensions`] is a session without extensions; the tests
//! use a fake. Handlers are called in load order, one after the other, and their answers arrive combined by pi's rules.
//!
//! A payload is built only after [`Extensions::has_handlers`] returned `true`.

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
pub use pijs_host::SystemRole;
use pijs_host::{Behind, ModelCallAuthority};
use pijs_host::{Between, PiProfile};
use pijs_inputs::Authors;
use pijs_llm::models::{Credentials, RegisteredProvider};
use pijs_llm::provider::Model;
use pijs_protocol::StreamSource;
use pijs_protocol::stream::Injection;
use pijs_protocol::{ExtensionId, StreamDelta};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// The extensions of a session.
pub trait Extensions {
    /// Returns whether an event has handlers.
    fn has_handlers(&self, event: &str) -> bool;
    /// Calls the handlers of an event.
    fn emit(&self, event: Event) -> LocalBoxFuture<'_, EventOutcome>;
    /// Calls the handlers of an event, except those of the extension `_teller`, which runs its own.
    fn emit_except<'a>(&'a self, event: Event, _teller: &'a ExtensionId) -> LocalBoxFuture<'a, EventOutcome> {
        self.emit(event)
    }
    /// Returns a version number that changes whenever the subscribers of an event change.
    fn listeners(&self, _event: &str) -> u64 {
        0
    }
    /// Returns the extension of an event's first handler.
    fn first_handler(&self, _event: &str) -> Option<ExtensionId> {
        None
    }
    /// Returns whether a `stream_text` handler subscribes to this stream, with one branch, because every delta asks.
    fn has_stream_handlers(&self, source: StreamSource) -> bool;
    /// Passes a delta to the handlers and waits for their verdict. The provider's stream is not polled meanwhile.
    fn stream(&self, delta: &StreamDelta) -> StreamFate;
    /// Returns how many deltas after the first [`Extensions::stream_ahead`] accepts: 0 if passing several gains nothing, or if
    /// the update for each delta must precede the next delta.
    fn lookahead(&self, _source: StreamSource) -> usize {
        0
    }
    /// Passes the first delta as [`Extensions::stream`] does, and the following ones up to the first at which a handler does more
    /// than continue. Returns the verdict on the first delta, and how many of the following ones passed.
    fn stream_ahead(&self, deltas: &[StreamDelta]) -> (StreamFate, usize) {
        (self.stream(&deltas[0]), 0)
    }
    /// Ends the deltas of an attempt.
    fn stream_over(&self) {}
    /// Returns the tools of all extensions in load order.
    fn tools(&self) -> Vec<ExtensionTool>;
    /// Returns the names of tools whose extension was stopped and is not restarted yet. No other tool replaces them.
    fn missed_tools(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the names of tools that the model can call only after a search has found them.
    fn deferred_tools(&self) -> Vec<String> {
        Vec::new()
    }
    /// Runs `prepareArguments` of a tool on the model's arguments; an exception becomes the error.
    fn prepare_arguments<'a>(&'a self, _tool: &'a str, raw: Value) -> LocalBoxFuture<'a, Result<Value, String>> {
        async move { Ok(raw) }.boxed_local()
    }
    /// Runs a tool.
    fn call_tool<'a>(&'a self, call: ToolRun<'a>) -> LocalBoxFuture<'a, ToolFate>;
    /// Returns the rights for a call of a built-in or MCP tool that this extension influenced; `None` if the call is not
    /// restricted. The model receives the error text.
    fn vouch<'a>(
        &'a self,
        _extension: &'a str,
        _tool: &'a str,
        _input: &'a Value,
        _behind: Behind,
    ) -> LocalBoxFuture<'a, Result<Option<ModelCallAuthority>, String>> {
        async { Ok(None) }.boxed_local()
    }

    /// Returns whether an extension provides models without consent of the user.
    fn answers_unasked(&self, _extension: &str) -> bool {
        false
    }

    /// Returns whether the system role is granted to an extension, not granted, or denied.
    fn system_role(&self, _extension: &str) -> SystemRole {
        SystemRole::Granted
    }

    /// Checks that the gate allows requests to an address that the extension chose, for a model that the user did not choose.
    fn reaches<'a>(&'a self, _extension: &'a str, _address: &'a str) -> LocalBoxFuture<'a, Result<(), String>> {
        async { Ok(()) }.boxed_local()
    }

    /// Returns whether an extension may name a file as a skill, prompt template or theme. `extension` is the path of the
    /// extension, `real` the resolved path of the file.
    fn admits_text(&self, _extension: &str, _real: &Path) -> bool {
        true
    }

    /// Reports that a file which an extension named is ignored, because the extension may not name it.
    fn leaves_out_text(&self, extension: &str, real: &Path) {
        self.report(extension, "resources_discover", &format!("{} is left out", real.display()));
    }

    /// Returns sections of the system prompt that no extension wrote.
    fn prompt_sections(&self) -> Map<String, Value> {
        Map::new()
    }

    /// Returns whether a slash command exists.
    fn has_command(&self, name: &str) -> bool;
    /// Returns whether an extension that was stopped and is not restarted yet had this slash command.
    fn misses_command(&self, _name: &str) -> bool {
        false
    }
    /// Runs a slash command to its end. `by` are the extensions that wrote the prompt.
    fn run_command<'a>(&'a self, name: &'a str, args: &'a str, by: &'a Authors) -> LocalBoxFuture<'a, CommandFate>;
    /// Returns the slash commands as `pi.getCommands()` lists them.
    fn commands(&self) -> Vec<Value> {
        Vec::new()
    }
    /// Returns the providers of extensions that may register them.
    fn offers(&self) -> Vec<RegisteredProvider> {
        Vec::new()
    }
    /// Returns the credentials of a provider; an exception of the extension becomes the error.
    fn credentials<'a>(
        &'a self,
        _provider: &'a str,
        _model: &'a Model,
    ) -> LocalBoxFuture<'a, Result<Credentials, String>> {
        async { Ok(Credentials::default()) }.boxed_local()
    }
    /// Calls the account function of a provider's extension. `{op: "log_in"}` and `{op: "renew", stored}` return credentials in
    /// pi's format; `{op: "stored", stored}` passes the stored credentials to the extension. An exception becomes the error.
    fn account<'a>(&'a self, provider: &'a str, _question: Value) -> LocalBoxFuture<'a, Result<Value, String>> {
        async move { Err(format!("the provider {provider} has no account")) }.boxed_local()
    }
    /// Calls `refreshModels` of a provider, which updates the provider's models. An exception becomes the error.
    fn look_up_models<'a>(&'a self, _provider: &'a str, _how: Value) -> LocalBoxFuture<'a, Result<(), String>> {
        async { Ok(()) }.boxed_local()
    }
    /// Calls the stream function of a provider.
    fn stream_model<'a>(&'a self, call: ModelCall<'a>) -> LocalBoxFuture<'a, Result<(), String>> {
        async move { Err(format!("the provider {} has no stream function", call.provider)) }.boxed_local()
    }
    /// Returns the version of pi that extensions see.
    fn profile(&self) -> PiProfile {
        PiProfile::default()
    }
    /// Runs a command with the operations that a `user_bash` handler returned. `exec` is the handle of the operation to call,
    /// `answer` the handler's complete answer. Returns the result of the operation.
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
    /// Discards all extensions and loads them again; handlers that are still running finish in the old realms. Returns the
    /// extensions that failed to load with their errors. With `in_session` the session stays the same.
    fn reload(&self, _in_session: bool) -> LocalBoxFuture<'_, Vec<(String, String)>> {
        async { Vec::new() }.boxed_local()
    }
    /// Calls the handlers of an event one after the other, so that each sees the changes of the earlier ones: `between` updates
    /// the event after each handler. An error of `between` is reported as the handler's.
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
    /// Waits until every extension that is restarting has restarted or was given up.
    fn restarts_done(&self) -> LocalBoxFuture<'_, ()> {
        std::future::ready(()).boxed_local()
    }

    /// Waits until the extension of a tool has completed the synchronous part of its call.
    fn begun<'a>(&'a self, _tool: &'a str) -> LocalBoxFuture<'a, ()> {
        std::future::ready(()).boxed_local()
    }

    /// Waits until all extensions are idle, and the tasks that waited for an extension have continued.
    fn at_rest(&self) -> LocalBoxFuture<'_, ()> {
        std::future::ready(()).boxed_local()
    }

    /// Waits until the extension has completed its current turn.
    fn turn_over<'a>(&'a self, _extension: &'a ExtensionId) -> LocalBoxFuture<'a, ()> {
        async {}.boxed_local()
    }
    /// Reports an error of an extension that no caller receives.
    fn report(&self, path: &str, event: &str, message: &str) {
        tracing::warn!(path, event, "{message}");
    }
    /// Begins a run with a new `ctx.signal`.
    fn run_began(&self);
    /// Aborts the signal of the run.
    fn run_aborted(&self);
    /// Ends the run, after which there is no `ctx.signal`.
    fn run_ended(&self);
}

/// A call of a provider's stream function.
pub struct ModelCall<'a> {
    /// Provider name.
    pub provider: &'a str,
    /// pi's `Model`.
    pub model: Value,
    /// pi's `Context`.
    pub context: Value,
    /// pi's `SimpleStreamOptions`, without functions and signal.
    pub options: Value,
    /// Cancels the call.
    pub cancel: CancellationToken,
    /// Receives events; returns the value that the stream function waits for (a payload, or nothing).
    pub on_event: Box<dyn FnMut(Value) -> LocalBoxFuture<'a, Value> + 'a>,
}

/// An event for handlers.
#[derive(Debug, Clone)]
pub struct Event {
    /// Name in pi's vocabulary.
    pub name: &'static str,
    /// Members of the event without `type`.
    pub payload: Map<String, Value>,
    /// The token behind the `signal` that handlers see.
    pub cancel: Option<CancellationToken>,
}

impl Event {
    /// Creates an event without members.
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

/// Result of an event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EventOutcome {
    /// The event after changes in place by its handlers.
    pub payload: Map<String, Value>,
    /// The combined answer of the handlers.
    pub answer: Option<Value>,
    /// Exception of a handler, for events where it is treated as a result (`tool_call`, `user_bash`).
    pub thrown: Option<String>,
    /// Extensions whose answers added messages to the conversation.
    pub authors: Vec<String>,
}

impl EventOutcome {
    /// Returns a member of the answer.
    pub fn field(&self, key: &str) -> Option<&Value> {
        self.answer.as_ref()?.get(key)
    }
}

/// Verdicts on a delta.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum StreamFate {
    /// The reply continues.
    Continue,
    /// The attempt ends.
    Abort(VerdictAbort),
}

/// An abort by a handler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictAbort {
    /// Extension of the handler.
    pub extension: String,
    /// Text to inject before the retry; `None` ends the run.
    pub retry: Option<Injection>,
    /// Time spent in handlers of this delta.
    pub latency_us: u64,
}

/// A source of tools and slash commands other than extensions: MCP servers.
pub trait ToolSource {
    /// Returns the tools. A tool of an extension with the same name has precedence.
    fn tools(&self) -> Vec<ExtensionTool>;
    /// Runs a tool of this source.
    fn call_tool<'a>(&'a self, call: ToolRun<'a>) -> LocalBoxFuture<'a, ToolFate>;
    /// Returns the parameters of the `mcp` hostcalls that a tool call makes, for the gate; `None` for an unknown tool.
    fn hostcalls(&self, _name: &str, _input: &Value) -> Option<Vec<Value>> {
        None
    }
    /// Returns the names of tools that the model can call only after a search has found them.
    fn deferred(&self) -> Vec<String>;
    /// Returns the slash commands as name and description.
    fn commands(&self) -> Vec<(String, String)>;
    /// Runs a slash command to its end.
    fn run_command<'a>(&'a self, name: &'a str, args: &'a str) -> LocalBoxFuture<'a, CommandFate>;
    /// Returns sections of the system prompt by name.
    fn prompt_sections(&self) -> Map<String, Value>;
}

/// A tool of an extension.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExtensionTool {
    /// Name that the model uses.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Whether the schema was made by typebox, which converts arguments.
    pub converts: bool,
    /// Whether calls of this tool must not run concurrently with others.
    pub sequential: bool,
    /// Whether the tool has `prepareArguments`.
    pub prepares_arguments: bool,
    /// Path of its extension.
    pub path: String,
    /// pi's `sourceInfo` of the extension.
    pub source_info: Value,
    /// Line for the list of available tools.
    pub prompt_snippet: Option<String>,
    /// Items for the guidelines.
    pub prompt_guidelines: Vec<String>,
}

/// A call of an extension's tool.
pub struct ToolRun<'a> {
    /// Name of the tool.
    pub name: &'a str,
    /// Id of the tool call.
    pub tool_call_id: &'a str,
    /// Validated arguments.
    pub input: Value,
    /// Cancels the call.
    pub cancel: CancellationToken,
    /// Receives partial results.
    pub on_update: Box<dyn FnMut(Value) + 'a>,
}

/// Outcomes of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToolFate {
    /// `{content, details, terminate?}`.
    Returned(Value),
    /// The tool threw an exception.
    Threw(String),
}

/// Outcomes of a slash command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CommandFate {
    /// The command completed.
    Done,
    /// The command threw an exception.
    Threw(CommandError),
}

/// The exception of a slash command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandError {
    /// Message of the exception.
    pub message: String,
    /// Source location: file, line and column.
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

    fn has_stream_handlers(&self, _source: StreamSource) -> bool {
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

    fn run_command<'a>(&'a self, name: &'a str, _args: &'a str, _by: &'a Authors) -> LocalBoxFuture<'a, CommandFate> {
        async move { CommandFate::Threw(format!("no command /{name}").into()) }.boxed_local()
    }

    fn run_began(&self) {}
    fn run_aborted(&self) {}
    fn run_ended(&self) {}
}

/// Receives the state that extensions read without a call.
pub trait StateSink: Send + Sync {
    /// Replaces a member (`isIdle`, `model`, `session`, ...).
    fn set(&self, key: &str, value: Value);
    /// Truncates the list of session entries to `keep` and appends to it.
    fn change_entries(&self, keep: usize, append: Vec<Value>);
}

/// Discards the state.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoState;

impl StateSink for NoState {
    fn set(&self, _key: &str, _value: Value) {}
    fn change_entries(&self, _keep: usize, _append: Vec<Value>) {}
}
