//! Stands in for the ports of a replayed agent: each answers from the stage.

use super::questions;
use super::record::{shown_entries, shown_event};
use super::stage::{Input, Stage};
use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt, StreamExt};
use pijs_agent::{
    AgentEvent, Authors, ChangedRules, CommandFate, Event, EventOutcome, ExtensionTool, Extensions, FrontEnd,
    OpenSession, PortObserver, RuleSource, RunShell, RunTool, SessionFault, ShellOutput, StateSink, StreamFate,
    SystemRole, ToolFate, ToolRun, ToolUpdates,
};
use pijs_environment::{Ambient, Randomness, Timer, Wait};
use pijs_host::{Behind, Between, ModelCallAuthority, PiProfile};
use pijs_hostcall::BoxFuture;
use pijs_llm::provider::{Model, Outgoing, Provider, ProviderError, ProviderEvent, ProviderStream, Request};
use pijs_protocol::{ExtensionId, Now, StreamDelta, StreamSource, guard};
use pijs_resources::{ResourcePlaces, ResourceProblem, Resources, reads_skill};
use pijs_session_store::{Session, SessionOptions};
use pijs_tools::ToolOutput;
use pijs_tools::system::{DirectoryEntry, FileKind, Shell, ShellOutcome, ToolSystem};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Provides the recorded time and randomness.
pub(super) struct TapedAmbient(pub(super) Arc<Stage>);

impl TapedAmbient {
    pub(super) fn of(stage: &Arc<Stage>) -> Ambient {
        let both = Arc::new(Self(Arc::clone(stage)));
        Ambient { timer: Arc::clone(&both) as _, random: both }
    }
}

impl Timer for TapedAmbient {
    fn now(&self) -> Now {
        let (epoch_ms, elapsed_ms) = self.0.clock();
        Now { epoch_ms, elapsed_us: elapsed_ms * 1000 }
    }

    fn sleep(&self, _: Wait, _: Duration) -> BoxFuture<'static, ()> {
        let stage = Arc::clone(&self.0);
        std::future::poll_fn(move |cx| stage.poll_slept(cx)).boxed()
    }
}

impl Randomness for TapedAmbient {
    fn fill(&self, out: &mut [u8]) {
        self.0.random(out);
    }
}

/// Compares the entries of the session with the tape, from the moment the agent is created.
pub(super) struct TapedState {
    pub(super) stage: Arc<Stage>,
    pub(super) begun: std::sync::atomic::AtomicBool,
}

impl StateSink for TapedState {
    fn set(&self, _: &str, _: Value) {}

    fn change_entries(&self, keep: usize, append: Vec<Value>) {
        if self.begun.load(std::sync::atomic::Ordering::Relaxed) {
            self.stage.output(shown_entries(keep, &append));
        }
    }
}

/// Compares the events for front ends with the tape.
pub(super) struct TapedFrontEnd(pub(super) Arc<Stage>);

impl FrontEnd for TapedFrontEnd {
    fn event(&mut self, event: &AgentEvent<'_>) -> io::Result<()> {
        if let Some(record) = shown_event(event) {
            self.0.output(record);
        }
        Ok(())
    }
}

/// Stands in for providers and built-in tools, and for the data that is read when a session starts.
pub(super) struct TapedPorts {
    pub(super) stage: Arc<Stage>,
    /// Resources as they were last read.
    pub(super) resources: RefCell<Resources>,
    /// Options for sessions that replace the first one.
    pub(super) sessions: SessionOptions,
}

impl PortObserver for TapedPorts {
    fn provider(&self, opened: Arc<dyn Provider>) -> Arc<dyn Provider> {
        Arc::new(TapedProvider { provider: opened, stage: Arc::clone(&self.stage) })
    }

    fn tool<'a>(
        &'a self,
        name: &'a str,
        input: &Value,
        updates: ToolUpdates,
        _: RunTool<'a>,
    ) -> LocalBoxFuture<'a, Result<ToolOutput, String>> {
        let id = self.stage.ask("tool", json!({"name": name, "input": input}));
        async move { questions::read_tool_result(self.stage.answer(id, updates).await) }.boxed_local()
    }

    fn shell<'a>(
        &'a self,
        command: &'a str,
        mut output: ShellOutput<'a>,
        _: RunShell<'a>,
    ) -> LocalBoxFuture<'a, Result<ShellOutcome, String>> {
        let id = self.stage.ask("shell", json!(command));
        async move {
            let printed = |piece: Value| output(piece.as_str().unwrap_or_default());
            questions::read_shell_outcome(&self.stage.answer(id, printed).await)
        }
        .boxed_local()
    }

    fn store_output<'a>(
        &'a self,
        name: &'a str,
        _: LocalBoxFuture<'a, Option<PathBuf>>,
    ) -> LocalBoxFuture<'a, Option<PathBuf>> {
        async move {
            let id = self.stage.ask("store_output", json!(name));
            questions::read(self.stage.answer(id, |_| {}).await)
        }
        .boxed_local()
    }

    fn resources(&self, _: &ResourcePlaces) -> Resources {
        // A tape of an older version has only the initial resources.
        if self.stage.asks_next("resources") {
            let id = self.stage.ask("resources", Value::Null);
            if let Ok(read) = serde_json::from_value(self.stage.answer_now(id)) {
                *self.resources.borrow_mut() = read;
            }
        }
        self.resources.borrow().clone()
    }

    fn expand(&self, text: &str, resources: &Resources) -> Result<String, ResourceProblem> {
        // A tape may name any file as a skill, so nothing is read for it.
        if !reads_skill(text) || !guard!(TapeSkills) {
            return resources.expand(text);
        }
        if !self.stage.asks_next("skill") {
            let message = "the tape does not have the text of this skill; record it again".to_owned();
            return Err(ResourceProblem { path: text.into(), message });
        }
        let id = self.stage.ask("skill", json!(text));
        questions::read_expanded(self.stage.answer_now(id))
    }

    fn session(&self, path: &Path, _: OpenSession<'_>) -> Result<Session, SessionFault> {
        let id = self.stage.ask("session", json!(path));
        let answer = self.stage.answer_now(id);
        // The entries of an old file were named as it was read.
        for entry in answer.get("entries").and_then(Value::as_array).into_iter().flatten() {
            self.stage.skip_random(entry.get("id").and_then(Value::as_str).unwrap_or_default());
        }
        questions::read_session(answer, path, self.sessions.clone())
    }
}

/// Returns the changed rules where the tape records a change.
pub(super) struct TapedRules(pub(super) Arc<Stage>);

impl RuleSource for TapedRules {
    fn changed(&mut self) -> Option<ChangedRules> {
        self.0.asks_next("rules").then(|| {
            let id = self.0.ask("rules", Value::Null);
            questions::read_changed_rules(&self.0.answer_now(id))
        })
    }
}

/// A provider that builds requests like the real one, and takes the replies from the tape.
struct TapedProvider {
    provider: Arc<dyn Provider>,
    stage: Arc<Stage>,
}

impl Provider for TapedProvider {
    fn model(&self) -> &Model {
        self.provider.model()
    }

    fn payload(&self, request: &Request) -> Value {
        self.provider.payload(request)
    }

    fn headers(&self) -> BTreeMap<String, String> {
        self.provider.headers()
    }

    fn has_own_payload(&self) -> bool {
        self.provider.has_own_payload()
    }

    fn tells_of_response(&self) -> bool {
        self.provider.tells_of_response()
    }

    fn send(&self, outgoing: Outgoing, _: CancellationToken) -> ProviderStream {
        let id = self.stage.ask("request", questions::request(&*self.provider, &outgoing));
        let stage = Arc::clone(&self.stage);
        futures_util::stream::poll_fn(move |cx| {
            stage.poll_input(id, cx).map(|input| match input {
                Input::End(_) => None,
                Input::Part(event) => serde_json::from_value::<Result<ProviderEvent, ProviderError>>(event).ok(),
            })
        })
        .boxed()
    }
}

/// Stands in for the extensions.
pub(super) struct TapedExtensions {
    pub(super) stage: Arc<Stage>,
    pub(super) profile: PiProfile,
}

impl TapedExtensions {
    fn fact<T: serde::de::DeserializeOwned + Default>(&self, name: &str) -> T {
        questions::read(self.stage.fact(name))
    }

    /// Waits where the recording waited.
    fn wait(&self, port: &'static str) -> LocalBoxFuture<'_, ()> {
        async move {
            if self.stage.asks_next(port) {
                let id = self.stage.ask(port, Value::Null);
                self.stage.answer(id, |_| {}).await;
            }
        }
        .boxed_local()
    }
}

impl Extensions for TapedExtensions {
    fn has_handlers(&self, event: &str) -> bool {
        self.fact(&format!("has_handlers {event}"))
    }

    fn emit(&self, event: Event) -> LocalBoxFuture<'_, EventOutcome> {
        async move {
            let id = self.stage.ask("event", questions::event(&event));
            questions::read_outcome(&self.stage.answer(id, |_| {}).await, event.payload)
        }
        .boxed_local()
    }

    fn emit_between<'a>(&'a self, event: Event, between: &'a mut Between<'a>) -> LocalBoxFuture<'a, EventOutcome> {
        async move {
            let id = self.stage.ask("event", questions::event(&event));
            let passed = |payload: Value| {
                // A refusal was passed to a handler, whose reaction is on the tape.
                let _ = between(&mut questions::read(payload));
            };
            questions::read_outcome(&self.stage.answer(id, passed).await, event.payload)
        }
        .boxed_local()
    }

    fn listeners(&self, event: &str) -> u64 {
        self.fact(&format!("listeners {event}"))
    }

    fn first_handler(&self, event: &str) -> Option<ExtensionId> {
        self.fact(&format!("first_handler {event}"))
    }

    fn has_stream_handlers(&self, source: StreamSource) -> bool {
        self.fact(&format!("hears {source:?}"))
    }

    fn stream(&self, delta: &StreamDelta) -> StreamFate {
        self.stream_ahead(std::slice::from_ref(delta)).0
    }

    fn lookahead(&self, source: StreamSource) -> usize {
        self.fact(&format!("lookahead {source:?}"))
    }

    fn stream_ahead(&self, deltas: &[StreamDelta]) -> (StreamFate, usize) {
        let id = self.stage.ask("stream", questions::deltas(deltas));
        serde_json::from_value(self.stage.answer_now(id)).unwrap_or((StreamFate::Continue, 0))
    }

    fn tools(&self) -> Vec<ExtensionTool> {
        self.fact("tools")
    }

    fn missed_tools(&self) -> Vec<String> {
        self.fact("missed_tools")
    }

    fn deferred_tools(&self) -> Vec<String> {
        self.fact("deferred_tools")
    }

    fn prepare_arguments<'a>(&'a self, tool: &'a str, raw: Value) -> LocalBoxFuture<'a, Result<Value, String>> {
        async move {
            let id = self.stage.ask("prepare_arguments", json!({"tool": tool, "raw": raw}));
            let prepared = serde_json::from_value(self.stage.answer(id, |_| {}).await);
            prepared.unwrap_or_else(|error| Err(error.to_string()))
        }
        .boxed_local()
    }

    fn call_tool<'a>(&'a self, call: ToolRun<'a>) -> LocalBoxFuture<'a, ToolFate> {
        let ToolRun { name, tool_call_id, input, mut on_update, .. } = call;
        let id = self.stage.ask("tool", json!({"name": name, "id": tool_call_id, "input": input}));
        async move {
            let fate = serde_json::from_value(self.stage.answer(id, &mut on_update).await);
            fate.unwrap_or_else(|error| ToolFate::Threw(error.to_string()))
        }
        .boxed_local()
    }

    fn vouch<'a>(
        &'a self,
        extension: &'a str,
        tool: &'a str,
        input: &'a Value,
        _: Behind,
    ) -> LocalBoxFuture<'a, Result<Option<ModelCallAuthority>, String>> {
        async move {
            let id = self.stage.ask("vouch", json!({"extension": extension, "tool": tool, "input": input}));
            let vouched: Result<Value, String> = questions::read_result(self.stage.answer(id, |_| {}).await);
            // The tape carries out the tool, so the call needs no binding.
            vouched.map(|_| None)
        }
        .boxed_local()
    }

    fn answers_unasked(&self, extension: &str) -> bool {
        self.fact(&format!("answers_unasked {extension}"))
    }

    fn system_role(&self, extension: &str) -> SystemRole {
        match self.fact::<String>(&format!("system_role {extension}")).as_str() {
            "NotGranted" => SystemRole::NotGranted,
            "Denied" => SystemRole::Denied,
            _ => SystemRole::Granted,
        }
    }

    fn has_command(&self, name: &str) -> bool {
        self.fact(&format!("has_command {name}"))
    }

    fn misses_command(&self, name: &str) -> bool {
        self.fact(&format!("misses_command {name}"))
    }

    fn run_command<'a>(&'a self, name: &'a str, args: &'a str, _: &'a Authors) -> LocalBoxFuture<'a, CommandFate> {
        async move {
            let id = self.stage.ask("command", json!({"name": name, "args": args}));
            serde_json::from_value(self.stage.answer(id, |_| {}).await).unwrap_or(CommandFate::Done)
        }
        .boxed_local()
    }

    fn commands(&self) -> Vec<Value> {
        self.fact("commands")
    }

    fn profile(&self) -> PiProfile {
        self.profile
    }

    fn reaches<'a>(&'a self, extension: &'a str, address: &'a str) -> LocalBoxFuture<'a, Result<(), String>> {
        async move {
            let id = self.stage.ask("reaches", json!({"extension": extension, "address": address}));
            let reached = serde_json::from_value(self.stage.answer(id, |_| {}).await);
            reached.unwrap_or_else(|error| Err(error.to_string()))
        }
        .boxed_local()
    }

    fn run_operation<'a>(
        &'a self,
        _: &'a Value,
        _: &'a Value,
        command: &'a str,
        cwd: &'a str,
        cancel: CancellationToken,
        on_output: &'a mut dyn FnMut(&str),
    ) -> LocalBoxFuture<'a, Result<Value, String>> {
        async move {
            let id = self.stage.ask("operation", json!({"command": command, "cwd": cwd}));
            let printed = |piece: Value| on_output(piece.as_str().unwrap_or_default());
            let mut ended = self.stage.answer(id, printed).await;
            if ended.get("cancelled") == Some(&Value::Bool(true)) {
                cancel.cancel();
            }
            questions::read_result(ended.get_mut("result").map(Value::take).unwrap_or_default())
        }
        .boxed_local()
    }

    fn reload(&self, in_session: bool) -> LocalBoxFuture<'_, Vec<(String, String)>> {
        async move {
            let id = self.stage.ask("reload", json!(in_session));
            questions::read(self.stage.answer(id, |_| {}).await)
        }
        .boxed_local()
    }

    fn restarts_done(&self) -> LocalBoxFuture<'_, ()> {
        self.wait("restarts_done")
    }

    fn begun<'a>(&'a self, _: &'a str) -> LocalBoxFuture<'a, ()> {
        self.wait("begun")
    }

    fn at_rest(&self) -> LocalBoxFuture<'_, ()> {
        self.wait("at_rest")
    }

    fn turn_over<'a>(&'a self, _: &'a ExtensionId) -> LocalBoxFuture<'a, ()> {
        self.wait("turn_over")
    }

    fn report(&self, _: &str, _: &str, _: &str) {}

    fn run_began(&self) {}

    fn run_aborted(&self) {}

    fn run_ended(&self) {}
}

/// A file system and shell that do not exist: a replay touches neither.
pub(super) struct NoSystem;

fn none<T>() -> io::Result<T> {
    Err(io::Error::other("a replay reaches no file and no program"))
}

impl ToolSystem for NoSystem {
    fn read<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, io::Result<Vec<u8>>> {
        std::future::ready(none()).boxed()
    }

    fn write<'a>(&'a self, _: &'a Path, _: Vec<u8>) -> BoxFuture<'a, io::Result<()>> {
        std::future::ready(none()).boxed()
    }

    fn kind<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, io::Result<FileKind>> {
        std::future::ready(none()).boxed()
    }

    fn list<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, io::Result<Vec<DirectoryEntry>>> {
        std::future::ready(none()).boxed()
    }

    fn shell(&self, _: Shell) -> BoxFuture<'static, io::Result<ShellOutcome>> {
        std::future::ready(none()).boxed()
    }

    fn pause(&self, _: Duration) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    fn keep(&self, _: String, _: Vec<u8>) -> BoxFuture<'_, io::Result<PathBuf>> {
        std::future::ready(none()).boxed()
    }
}
