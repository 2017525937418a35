//! Records the ports of the agent. Each type here forwards every value unchanged and records it.

use super::questions::{self, OF_EXTENSION, SLEPT};
use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt, StreamExt};
use pijs_agent::{
    AgentControl, AgentEvent, Authors, ChangedRules, CommandFate, Event, EventOutcome, ExtensionTool, Extensions,
    FrontEnd, ModelCall, OpenSession, PortObserver, RuleSource, RunShell, RunTool, SessionFault, ShellOutput,
    StateSink, StreamFate, SystemRole, ToolCheck, ToolFate, ToolRun, ToolUpdates,
};
use pijs_connectors::ports::{PortAnswer, SessionCall, SessionOp, SessionPort};
use pijs_environment::{Ambient, Randomness, Timer, Wait};
use pijs_host::{Behind, Between, ModelCallAuthority, PiProfile};
use pijs_hostcall::{BoxFuture, Caller, CancelToken, ChunkSink};
use pijs_llm::message::ToolCall;
use pijs_llm::models::{Credentials, RegisteredProvider};
use pijs_llm::provider::{Model, Outgoing, Provider, ProviderStream, Request};
use pijs_protocol::{ExtensionId, HostcallError, Now, StreamDelta, StreamSource};
use pijs_resources::{ResourcePlaces, ResourceProblem, Resources, reads_skill};
use pijs_session_store::Session;
use pijs_tape::{AgentRecord, AgentWire};
use pijs_tools::ToolOutput;
use pijs_tools::system::ShellOutcome;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Forwards the agent's, the session's and the control's accesses to their environment. In a recorded session it records them
/// from the moment the agent is created.
pub(crate) struct AgentTap {
    wire: OnceLock<AgentWire>,
    ambient: Ambient,
}

impl AgentTap {
    pub(crate) fn new(ambient: &Ambient) -> Arc<Self> {
        Arc::new(Self { wire: OnceLock::new(), ambient: ambient.clone() })
    }

    /// Returns the agent's sources of time and randomness.
    pub(crate) fn ambient(self: &Arc<Self>) -> Ambient {
        Ambient { timer: Arc::clone(self) as _, random: Arc::clone(self) as _ }
    }

    /// Returns the port through which extensions reach the session.
    pub(crate) fn session(self: &Arc<Self>, control: AgentControl) -> Arc<dyn SessionPort> {
        Arc::new(RecordedSession { control, tap: Arc::clone(self) })
    }

    /// Returns the sink for the state that extensions read.
    pub(crate) fn state(self: &Arc<Self>, state: Arc<dyn StateSink>) -> Arc<dyn StateSink> {
        Arc::new(RecordedState { state, tap: Arc::clone(self) })
    }

    /// Starts recording; the first record describes the parts of the agent.
    pub(crate) fn begin(&self, wire: AgentWire, parts: Value) {
        wire.record(AgentRecord::Begin { parts });
        // A session creates its agent only once.
        let _ = self.wire.set(wire);
    }

    fn record(&self, record: impl FnOnce() -> AgentRecord) {
        if let Some(wire) = self.wire.get() {
            wire.record(record());
        }
    }
}

impl Timer for AgentTap {
    fn now(&self) -> Now {
        let now = self.ambient.timer.now();
        self.record(|| AgentRecord::Clock { epoch_ms: now.epoch_ms });
        now
    }

    fn sleep(&self, wait: Wait, duration: Duration) -> BoxFuture<'static, ()> {
        let (sleep, wire) = (self.ambient.timer.sleep(wait, duration), self.wire.get().cloned());
        async move {
            sleep.await;
            if let Some(wire) = wire {
                wire.record(AgentRecord::Act { act: SLEPT.to_owned(), value: Value::Null });
            }
        }
        .boxed()
    }
}

impl Randomness for AgentTap {
    fn fill(&self, out: &mut [u8]) {
        self.ambient.random.fill(out);
        self.record(|| AgentRecord::Random { hex: hex::encode(out) });
    }
}

struct RecordedState {
    state: Arc<dyn StateSink>,
    tap: Arc<AgentTap>,
}

impl StateSink for RecordedState {
    fn set(&self, key: &str, value: Value) {
        self.state.set(key, value);
    }

    fn change_entries(&self, keep: usize, append: Vec<Value>) {
        self.tap.record(|| shown_entries(keep, &append));
        self.state.change_entries(keep, append);
    }
}

pub(super) fn shown_entries(keep: usize, append: &[Value]) -> AgentRecord {
    AgentRecord::Shown { to: "entries".to_owned(), value: json!({"keep": keep, "append": append}) }
}

struct RecordedSession {
    control: AgentControl,
    tap: Arc<AgentTap>,
}

impl RecordedSession {
    fn record(&self, caller: &Caller, call: &SessionCall, form: &str) {
        if !matches!(call.op, SessionOp::ReadEntry | SessionOp::ReadEntries | SessionOp::ListModels) {
            self.tap.record(|| AgentRecord::Act {
                act: format!("{OF_EXTENSION}{}", call.op.as_str()),
                value: json!({"extension": caller.extension(), "params": call.params, "form": form}),
            });
        }
    }
}

impl SessionPort for RecordedSession {
    fn call(&self, caller: &Caller, call: SessionCall, cancel: CancelToken) -> PortAnswer {
        self.record(caller, &call, "call");
        SessionPort::call(&self.control, caller, call, cancel)
    }

    fn call_in_pieces(&self, caller: &Caller, call: SessionCall, cancel: CancelToken, pieces: ChunkSink) -> PortAnswer {
        self.record(caller, &call, "pieces");
        self.control.call_in_pieces(caller, call, cancel, pieces)
    }

    fn call_sync(&self, caller: &Caller, call: SessionCall) -> Result<Value, HostcallError> {
        self.record(caller, &call, "sync");
        SessionPort::call_sync(&self.control, caller, call)
    }
}

/// Records the events of a front end.
pub(crate) struct RecordedFrontEnd {
    pub(crate) front_end: Box<dyn FrontEnd>,
    pub(crate) wire: AgentWire,
}

/// Encodes an event for front ends. Pieces of a reply or of a result are not repeated: the tape has them as the answer of their
/// port.
pub(super) fn shown_event(event: &AgentEvent<'_>) -> Option<AgentRecord> {
    match event {
        AgentEvent::MessageUpdate { .. } | AgentEvent::ToolExecutionUpdate { .. } => None,
        event => event.record().map(|value| AgentRecord::Shown { to: "event".to_owned(), value }),
    }
}

impl FrontEnd for RecordedFrontEnd {
    fn event(&mut self, event: &AgentEvent<'_>) -> io::Result<()> {
        if let Some(record) = shown_event(event) {
            self.wire.record(record);
        }
        self.front_end.event(event)
    }

    fn unloading(&mut self) {
        self.front_end.unloading();
    }

    fn tool_checked(&mut self, call: &ToolCall, check: &ToolCheck<'_>) -> io::Result<()> {
        self.front_end.tool_checked(call, check)
    }
}

/// Records providers, built-in tools, and the data that is read when a session starts.
pub(crate) struct RecordedPorts {
    wire: AgentWire,
    /// Resources that were recorded last.
    resources: RefCell<Value>,
}

impl RecordedPorts {
    /// Creates ports that record to `wire`. `parts` describe the agent and include its resources.
    pub(crate) fn new(wire: AgentWire, parts: &Value) -> Self {
        Self { wire, resources: RefCell::new(parts.get("resources").cloned().unwrap_or_default()) }
    }
}

impl PortObserver for RecordedPorts {
    fn provider(&self, opened: Arc<dyn Provider>) -> Arc<dyn Provider> {
        Arc::new(RecordedProvider { provider: opened, wire: self.wire.clone() })
    }

    fn tool<'a>(
        &'a self,
        name: &'a str,
        input: &Value,
        mut updates: ToolUpdates,
        run: RunTool<'a>,
    ) -> LocalBoxFuture<'a, Result<ToolOutput, String>> {
        let id = self.wire.ask("tool", json!({"name": name, "input": input}));
        let wire = self.wire.clone();
        let running = run(Box::new(move |update: Value| {
            wire.part(id, update.clone());
            updates(update);
        }));
        async move {
            let result = running.await;
            self.wire.answer(id, questions::tool_result(&result));
            result
        }
        .boxed_local()
    }

    fn shell<'a>(
        &'a self,
        command: &'a str,
        mut output: ShellOutput<'a>,
        run: RunShell<'a>,
    ) -> LocalBoxFuture<'a, Result<ShellOutcome, String>> {
        let id = self.wire.ask("shell", json!(command));
        let running = run(Box::new(move |piece: &str| {
            self.wire.part(id, json!(piece));
            output(piece);
        }));
        async move {
            let outcome = running.await;
            self.wire.answer(id, questions::shell_outcome(&outcome));
            outcome
        }
        .boxed_local()
    }

    fn store_output<'a>(
        &'a self,
        name: &'a str,
        store: LocalBoxFuture<'a, Option<PathBuf>>,
    ) -> LocalBoxFuture<'a, Option<PathBuf>> {
        async move {
            let id = self.wire.ask("store_output", json!(name));
            let path = store.await;
            self.wire.answer(id, json!(path));
            path
        }
        .boxed_local()
    }

    fn resources(&self, places: &ResourcePlaces) -> Resources {
        let read = Resources::load(places);
        let written = json!(read);
        let id = self.wire.ask("resources", Value::Null);
        // Context files may be long, so unchanged ones are recorded only once.
        let is_known = *self.resources.borrow() == written;
        self.wire.answer(id, if is_known { Value::Null } else { written.clone() });
        *self.resources.borrow_mut() = written;
        read
    }

    fn expand(&self, text: &str, resources: &Resources) -> Result<String, ResourceProblem> {
        let expanded = resources.expand(text);
        if reads_skill(text) {
            let id = self.wire.ask("skill", json!(text));
            self.wire.answer(id, questions::expanded(&expanded));
        }
        expanded
    }

    fn session(&self, path: &Path, open: OpenSession<'_>) -> Result<Session, SessionFault> {
        let id = self.wire.ask("session", json!(path));
        let opened = open();
        self.wire.answer(id, questions::session(&opened));
        opened.map_err(SessionFault::File)
    }
}

/// Records changes of rule files.
pub(crate) struct RecordedRules {
    pub(crate) source: Option<Box<dyn RuleSource>>,
    pub(crate) wire: AgentWire,
}

impl RuleSource for RecordedRules {
    fn changed(&mut self) -> Option<ChangedRules> {
        let changed = self.source.as_mut()?.changed()?;
        let id = self.wire.ask("rules", Value::Null);
        self.wire.answer(id, questions::changed_rules(&changed));
        Some(changed)
    }
}

struct RecordedProvider {
    provider: Arc<dyn Provider>,
    wire: AgentWire,
}

impl Provider for RecordedProvider {
    fn model(&self) -> &Model {
        self.provider.model()
    }

    fn payload(&self, request: &Request) -> Value {
        self.provider.payload(request)
    }

    fn headers(&self) -> BTreeMap<String, String> {
        self.provider.headers()
    }

    fn is_open(&self) -> bool {
        self.provider.is_open()
    }

    fn has_own_payload(&self) -> bool {
        self.provider.has_own_payload()
    }

    fn tells_of_response(&self) -> bool {
        self.provider.tells_of_response()
    }

    fn send(&self, outgoing: Outgoing, cancel: CancellationToken) -> ProviderStream {
        let id = self.wire.ask("request", questions::request(&*self.provider, &outgoing));
        let (events, end) = (self.wire.clone(), self.wire.clone());
        let stream = self.provider.send(outgoing, cancel);
        let stream = stream.inspect(move |event| events.part(id, json!(event)));
        let ended = futures_util::stream::poll_fn(move |_| {
            end.answer(id, Value::Null);
            std::task::Poll::Ready(None)
        });
        stream.chain(ended).boxed()
    }
}

/// Records the port through which the agent reaches extensions.
pub(crate) struct RecordedExtensions {
    extensions: Rc<dyn Extensions>,
    wire: AgentWire,
    facts: RefCell<HashMap<String, Value>>,
}

impl RecordedExtensions {
    pub(crate) fn new(extensions: Rc<dyn Extensions>, wire: AgentWire) -> Self {
        Self { extensions, wire, facts: RefCell::default() }
    }

    /// Records a fact that is new or has changed.
    fn fact(&self, name: &str, value: Value) {
        let mut facts = self.facts.borrow_mut();
        if facts.get(name) != Some(&value) {
            self.wire.record(AgentRecord::Fact { fact: name.to_owned(), value: value.clone() });
            facts.insert(name.to_owned(), value);
        }
    }

    /// Records a wait for extensions, unless it ends at once.
    fn wait<'a>(&'a self, port: &'static str, mut waiting: LocalBoxFuture<'a, ()>) -> LocalBoxFuture<'a, ()> {
        async move {
            let waited = std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.poll_unpin(cx).is_ready())).await;
            if !waited {
                let id = self.wire.ask(port, Value::Null);
                waiting.await;
                self.wire.answer(id, Value::Null);
            }
        }
        .boxed_local()
    }

    fn emitted<'a>(
        &'a self,
        asked: Value,
        given: serde_json::Map<String, Value>,
        emitting: LocalBoxFuture<'a, EventOutcome>,
    ) -> LocalBoxFuture<'a, EventOutcome> {
        async move {
            let id = self.wire.ask("event", asked);
            let outcome = emitting.await;
            self.wire.answer(id, questions::outcome(&outcome, &given));
            outcome
        }
        .boxed_local()
    }
}

impl Extensions for RecordedExtensions {
    fn has_handlers(&self, event: &str) -> bool {
        let has = self.extensions.has_handlers(event);
        self.fact(&format!("has_handlers {event}"), json!(has));
        has
    }

    fn emit(&self, event: Event) -> LocalBoxFuture<'_, EventOutcome> {
        let (asked, given) = (questions::event(&event), event.payload.clone());
        self.emitted(asked, given, self.extensions.emit(event))
    }

    fn emit_except<'a>(&'a self, event: Event, teller: &'a ExtensionId) -> LocalBoxFuture<'a, EventOutcome> {
        let (asked, given) = (questions::event(&event), event.payload.clone());
        self.emitted(asked, given, self.extensions.emit_except(event, teller))
    }

    fn emit_between<'a>(&'a self, event: Event, between: &'a mut Between<'a>) -> LocalBoxFuture<'a, EventOutcome> {
        async move {
            let given = event.payload.clone();
            let id = self.wire.ask("event", questions::event(&event));
            let mut passed = |payload: &mut serde_json::Map<String, Value>| {
                self.wire.part(id, json!(payload));
                between(payload)
            };
            let outcome = self.extensions.emit_between(event, &mut passed).await;
            self.wire.answer(id, questions::outcome(&outcome, &given));
            outcome
        }
        .boxed_local()
    }

    fn listeners(&self, event: &str) -> u64 {
        let listeners = self.extensions.listeners(event);
        self.fact(&format!("listeners {event}"), json!(listeners));
        listeners
    }

    fn first_handler(&self, event: &str) -> Option<ExtensionId> {
        let first = self.extensions.first_handler(event);
        self.fact(&format!("first_handler {event}"), json!(first));
        first
    }

    fn has_stream_handlers(&self, source: StreamSource) -> bool {
        let hears = self.extensions.has_stream_handlers(source);
        self.fact(&format!("hears {source:?}"), json!(hears));
        hears
    }

    fn stream(&self, delta: &StreamDelta) -> StreamFate {
        let id = self.wire.ask("stream", questions::deltas(std::slice::from_ref(delta)));
        let fate = self.extensions.stream(delta);
        self.wire.answer(id, json!([fate, 0]));
        fate
    }

    fn lookahead(&self, source: StreamSource) -> usize {
        let lookahead = self.extensions.lookahead(source);
        self.fact(&format!("lookahead {source:?}"), json!(lookahead));
        lookahead
    }

    fn stream_ahead(&self, deltas: &[StreamDelta]) -> (StreamFate, usize) {
        let id = self.wire.ask("stream", questions::deltas(deltas));
        let fate = self.extensions.stream_ahead(deltas);
        self.wire.answer(id, json!(fate));
        fate
    }

    fn stream_over(&self) {
        self.extensions.stream_over();
    }

    fn tools(&self) -> Vec<ExtensionTool> {
        let tools = self.extensions.tools();
        self.fact("tools", json!(tools));
        tools
    }

    fn missed_tools(&self) -> Vec<String> {
        let missed = self.extensions.missed_tools();
        self.fact("missed_tools", json!(missed));
        missed
    }

    fn deferred_tools(&self) -> Vec<String> {
        let deferred = self.extensions.deferred_tools();
        self.fact("deferred_tools", json!(deferred));
        deferred
    }

    fn prepare_arguments<'a>(&'a self, tool: &'a str, raw: Value) -> LocalBoxFuture<'a, Result<Value, String>> {
        async move {
            let id = self.wire.ask("prepare_arguments", json!({"tool": tool, "raw": raw}));
            let prepared = self.extensions.prepare_arguments(tool, raw).await;
            self.wire.answer(id, json!(prepared));
            prepared
        }
        .boxed_local()
    }

    fn call_tool<'a>(&'a self, call: ToolRun<'a>) -> LocalBoxFuture<'a, ToolFate> {
        let ToolRun { name, tool_call_id, input, cancel, mut on_update } = call;
        let id = self.wire.ask("tool", json!({"name": name, "id": tool_call_id, "input": input}));
        let on_update: Box<dyn FnMut(Value) + 'a> = Box::new(move |update: Value| {
            self.wire.part(id, update.clone());
            on_update(update);
        });
        let call = ToolRun { name, tool_call_id, input, cancel, on_update };
        async move {
            let fate = self.extensions.call_tool(call).await;
            self.wire.answer(id, json!(fate));
            fate
        }
        .boxed_local()
    }

    fn vouch<'a>(
        &'a self,
        extension: &'a str,
        tool: &'a str,
        input: &'a Value,
        behind: Behind,
    ) -> LocalBoxFuture<'a, Result<Option<ModelCallAuthority>, String>> {
        async move {
            let id = self.wire.ask("vouch", json!({"extension": extension, "tool": tool, "input": input}));
            let bound = self.extensions.vouch(extension, tool, input, behind).await;
            self.wire.answer(id, json!(bound.as_ref().map(|_| ())));
            bound
        }
        .boxed_local()
    }

    fn answers_unasked(&self, extension: &str) -> bool {
        let answers = self.extensions.answers_unasked(extension);
        self.fact(&format!("answers_unasked {extension}"), json!(answers));
        answers
    }

    fn system_role(&self, extension: &str) -> SystemRole {
        let role = self.extensions.system_role(extension);
        self.fact(&format!("system_role {extension}"), json!(format!("{role:?}")));
        role
    }

    fn reaches<'a>(&'a self, extension: &'a str, address: &'a str) -> LocalBoxFuture<'a, Result<(), String>> {
        async move {
            let id = self.wire.ask("reaches", json!({"extension": extension, "address": address}));
            let reached = self.extensions.reaches(extension, address).await;
            self.wire.answer(id, json!(reached));
            reached
        }
        .boxed_local()
    }

    fn admits_text(&self, extension: &str, real: &Path) -> bool {
        self.extensions.admits_text(extension, real)
    }

    fn leaves_out_text(&self, extension: &str, real: &Path) {
        self.extensions.leaves_out_text(extension, real);
    }

    fn has_command(&self, name: &str) -> bool {
        let has = self.extensions.has_command(name);
        self.fact(&format!("has_command {name}"), json!(has));
        has
    }

    fn misses_command(&self, name: &str) -> bool {
        let misses = self.extensions.misses_command(name);
        self.fact(&format!("misses_command {name}"), json!(misses));
        misses
    }

    fn run_command<'a>(&'a self, name: &'a str, args: &'a str, by: &'a Authors) -> LocalBoxFuture<'a, CommandFate> {
        async move {
            let id = self.wire.ask("command", json!({"name": name, "args": args}));
            let fate = self.extensions.run_command(name, args, by).await;
            self.wire.answer(id, json!(fate));
            fate
        }
        .boxed_local()
    }

    fn commands(&self) -> Vec<Value> {
        let commands = self.extensions.commands();
        self.fact("commands", json!(commands));
        commands
    }

    fn offers(&self) -> Vec<RegisteredProvider> {
        self.extensions.offers()
    }

    fn credentials<'a>(
        &'a self,
        provider: &'a str,
        model: &'a Model,
    ) -> LocalBoxFuture<'a, Result<Credentials, String>> {
        self.extensions.credentials(provider, model)
    }

    fn account<'a>(&'a self, provider: &'a str, question: Value) -> LocalBoxFuture<'a, Result<Value, String>> {
        self.extensions.account(provider, question)
    }

    fn look_up_models<'a>(&'a self, provider: &'a str, how: Value) -> LocalBoxFuture<'a, Result<(), String>> {
        self.extensions.look_up_models(provider, how)
    }

    fn stream_model<'a>(&'a self, call: ModelCall<'a>) -> LocalBoxFuture<'a, Result<(), String>> {
        self.extensions.stream_model(call)
    }

    fn profile(&self) -> PiProfile {
        self.extensions.profile()
    }

    fn run_operation<'a>(
        &'a self,
        exec: &'a Value,
        answer: &'a Value,
        command: &'a str,
        cwd: &'a str,
        cancel: CancellationToken,
        on_output: &'a mut dyn FnMut(&str),
    ) -> LocalBoxFuture<'a, Result<Value, String>> {
        async move {
            let id = self.wire.ask("operation", json!({"command": command, "cwd": cwd}));
            let stopped = cancel.clone();
            let mut recorded = |piece: &str| {
                self.wire.part(id, json!(piece));
                on_output(piece);
            };
            let ended = self.extensions.run_operation(exec, answer, command, cwd, cancel, &mut recorded).await;
            self.wire.answer(id, json!({"result": ended, "cancelled": stopped.is_cancelled()}));
            ended
        }
        .boxed_local()
    }

    fn reload(&self, in_session: bool) -> LocalBoxFuture<'_, Vec<(String, String)>> {
        async move {
            let id = self.wire.ask("reload", json!(in_session));
            let missing = self.extensions.reload(in_session).await;
            self.wire.answer(id, json!(missing));
            missing
        }
        .boxed_local()
    }

    fn restarts_done(&self) -> LocalBoxFuture<'_, ()> {
        self.wait("restarts_done", self.extensions.restarts_done())
    }

    fn begun<'a>(&'a self, tool: &'a str) -> LocalBoxFuture<'a, ()> {
        self.wait("begun", self.extensions.begun(tool))
    }

    fn at_rest(&self) -> LocalBoxFuture<'_, ()> {
        self.wait("at_rest", self.extensions.at_rest())
    }

    fn turn_over<'a>(&'a self, extension: &'a ExtensionId) -> LocalBoxFuture<'a, ()> {
        self.wait("turn_over", self.extensions.turn_over(extension))
    }

    fn report(&self, path: &str, event: &str, message: &str) {
        self.extensions.report(path, event, message);
    }

    fn run_began(&self) {
        self.extensions.run_began();
    }

    fn run_aborted(&self) {
        self.extensions.run_aborted();
    }

    fn run_ended(&self) {
        self.extensions.run_ended();
    }
}
