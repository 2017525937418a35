//! Implements [`Extensions`] for [`pijs_host::Host`]; the only module that converts between their types.

use crate::event_queue::EventQueue;
use crate::extensions::{
    CommandError, CommandFate, Event, EventOutcome, ExtensionTool, Extensions, ModelCall, StateSink, StreamFate,
    ToolFate, ToolRun, ToolSource, VerdictAbort,
};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use pijs_host::{Behind, ModelCallAuthority};
use pijs_host::{
    Between, CallbackOutcome, CommandOutcome, Host, LoadAgain, LoadError, LoadReport, Outcome, Package, PiProfile,
    ReadableState, RegistrationOwner, Signal, StreamOutcome, SystemRole, ToolInfo, ToolOutcome,
};
use pijs_inputs::Authors;
use pijs_llm::models::{Credentials, RegisteredProvider};
use pijs_llm::provider::Model;
use pijs_protocol::registration::{Registration, ToolSpec};
use pijs_protocol::wire::{EntriesDelta, Json};
use pijs_protocol::{EntryIndex, ExtensionId, Handle, StreamDelta, StreamSource, chat_markup, guard};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use tokio_util::sync::CancellationToken;

/// Adapter from a host to [`Extensions`].
pub struct HostExtensions {
    host: Host,
    /// `ctx.signal` of the current run.
    signal: RefCell<Option<Signal>>,
    source: Option<PackageFinder>,
    /// pi's `sourceInfo` by the path of an extension.
    provenance: RefCell<BTreeMap<String, Value>>,
    /// Queue of events that are delivered asynchronously under the session's pi profile.
    queue: Rc<EventQueue>,
    /// Source of tools that do not belong to extensions (MCP servers).
    beside: Option<Rc<dyn ToolSource>>,
}

/// Finds the packages of a session again, as they are on disk now.
pub type PackageFinder = Box<dyn Fn() -> LocalBoxFuture<'static, Reloaded>>;

/// Packages that replace the loaded ones.
#[derive(Default)]
pub struct Reloaded {
    /// Packages in load order.
    pub packages: Vec<Package>,
    /// pi's `sourceInfo` by the path of an extension.
    pub provenance: BTreeMap<String, Value>,
    /// Problems, each with the path of the extension and a message.
    pub problems: Vec<(String, String)>,
    /// Actions that restore the grants of an extension's earlier version when the new one fails to load.
    pub takes_back: BTreeMap<ExtensionId, Box<dyn Fn()>>,
}

/// Suffix of the message about an extension that could not be reloaded.
pub const EARLIER_STAYS: &str = "\nthe earlier version stays loaded";

/// Functions of a registered provider.
struct ProviderHandles {
    credentials: Option<Handle>,
    stream: Option<Handle>,
    reply: Option<Handle>,
    account: Option<Handle>,
    /// Handle of `refreshModels`.
    refresh_handle: Option<Handle>,
}

impl HostExtensions {
    /// Creates an adapter for a host. Its extensions may be loaded before or after this call.
    pub fn new(host: Host) -> Self {
        let queue = EventQueue::new(host.clone());
        Self { host, signal: RefCell::new(None), source: None, provenance: RefCell::default(), queue, beside: None }
    }

    /// Sets the source of packages for `/reload`. Without it the same packages are loaded again, as for a new session.
    #[must_use]
    pub fn with_source(mut self, source: PackageFinder) -> Self {
        self.source = Some(source);
        self
    }

    /// Adds a source of tools and commands that do not belong to extensions.
    #[must_use]
    pub fn with_tools(mut self, source: Rc<dyn ToolSource>) -> Self {
        self.beside = Some(source);
        self
    }

    /// Returns the non-extension source of tools, unless an extension has the tool or command.
    fn beside(&self, is_extensions: impl FnOnce() -> bool) -> Option<&Rc<dyn ToolSource>> {
        self.beside.as_ref().filter(|_| !is_extensions())
    }

    /// Sets pi's `sourceInfo` by path. An extension without an entry is treated as if the user had named it.
    pub fn set_provenance(&self, known: BTreeMap<String, Value>) {
        *self.provenance.borrow_mut() = known;
    }

    fn source_info(&self, path: &str) -> Value {
        let known = self.provenance.borrow().get(path).cloned();
        known.unwrap_or_else(|| json!({"path": path, "source": "cli", "scope": "temporary", "origin": "top-level"}))
    }

    /// Returns the provider that was registered last with a name.
    fn provider(&self, name: &str) -> Option<(RegistrationOwner, ProviderHandles)> {
        self.host.providers().into_iter().rev().find_map(|(owner, registration)| match registration {
            Registration::Provider { name: known, credentials, stream, reply, account, config, .. }
                if known == name =>
            {
                let refresh_handle = crate::model_lists::refresh_handle(&config);
                Some((owner, ProviderHandles { credentials, stream, reply, account, refresh_handle }))
            }
            _ => None,
        })
    }
}

impl HostExtensions {
    fn is_extension_command(&self, name: &str) -> bool {
        self.host.commands().iter().any(|command| command.invocation == name)
    }
}

/// Converts an event to the host's type.
fn emitted(event: Event) -> pijs_host::Event {
    let told = pijs_host::Event::new(event.name);
    event.payload.into_iter().fold(told, |told, (key, value)| told.with(&key, value))
}

fn told(outcome: Outcome) -> EventOutcome {
    EventOutcome {
        payload: outcome.payload,
        answer: outcome.answer,
        thrown: outcome.thrown.map(|error| error.message),
        authors: outcome.authors.iter().map(ToString::to_string).collect(),
    }
}

/// Converts the outcome of a provider's function.
fn returned(provider: &str, answer: CallbackOutcome) -> Result<Value, String> {
    match answer {
        CallbackOutcome::Returned(value) => Ok(value.unwrap_or_default()),
        CallbackOutcome::Threw(error) => Err(error.message),
        CallbackOutcome::Gone => Err(format!("the provider {provider} no longer exists")),
        CallbackOutcome::Ended(reason) => Err(format!("the extension of provider {provider} stopped: {reason}")),
    }
}

impl Extensions for HostExtensions {
    fn has_handlers(&self, event: &str) -> bool {
        self.host.has_handlers(event)
    }

    fn emit(&self, event: Event) -> LocalBoxFuture<'_, EventOutcome> {
        let cancel = event.cancel.clone();
        let emitted = emitted(event);
        let profile = self.host.profile();
        if profile.queues(emitted.name()) {
            self.queue.push(emitted);
            return async {
                // The first handler begins before the caller continues, as in pi.
                tokio::task::yield_now().await;
                EventOutcome::default()
            }
            .boxed_local();
        }
        async move {
            if profile.is_barrier(&emitted) {
                self.queue.settled().await;
            }
            let outcome = match cancel {
                None => self.host.emit(emitted).await,
                Some(cancel) => {
                    let signal = Signal::new();
                    let emitting = self.host.emit(emitted.with_signal("signal", &signal));
                    tokio::pin!(emitting);
                    tokio::select! {
                        biased;
                        outcome = &mut emitting => outcome,
                        () = cancel.cancelled() => {
                            signal.abort();
                            emitting.await
                        }
                    }
                }
            };
            told(outcome)
        }
        .boxed_local()
    }

    fn emit_except<'a>(&'a self, event: Event, teller: &'a ExtensionId) -> LocalBoxFuture<'a, EventOutcome> {
        async move { told(self.host.emit_except(emitted(event), teller).await) }.boxed_local()
    }

    fn listeners(&self, event: &str) -> u64 {
        self.host.listeners(event)
    }

    fn first_handler(&self, event: &str) -> Option<ExtensionId> {
        self.host.first_handler(event)
    }

    fn emit_between<'a>(&'a self, event: Event, between: &'a mut Between<'a>) -> LocalBoxFuture<'a, EventOutcome> {
        if self.host.profile().queues(event.name) {
            return self.emit(event);
        }
        async move { told(self.host.emit_between(emitted(event), between).await) }.boxed_local()
    }

    fn profile(&self) -> PiProfile {
        self.host.profile()
    }

    fn has_stream_handlers(&self, source: StreamSource) -> bool {
        self.host.has_stream_handler(source)
    }

    fn stream(&self, delta: &StreamDelta) -> StreamFate {
        fate(self.host.stream(delta))
    }

    fn lookahead(&self, source: StreamSource) -> usize {
        // With `message_update` handlers, the update for each delta precedes the next delta.
        if self.host.has_handlers("message_update") { 0 } else { self.host.lookahead(source) }
    }

    fn stream_ahead(&self, deltas: &[StreamDelta]) -> (StreamFate, usize) {
        let (outcome, passed) = self.host.stream_ahead(deltas);
        (fate(outcome), passed)
    }

    fn stream_over(&self) {
        self.host.stream_over();
    }

    fn system_role(&self, extension: &str) -> SystemRole {
        self.host.system_role(&ExtensionId::new(extension))
    }

    fn tools(&self) -> Vec<ExtensionTool> {
        let of_extension = |info: ToolInfo| {
            let source_info = self.source_info(&info.owner.path);
            tool(info, source_info)
        };
        let mut tools: Vec<ExtensionTool> = self.host.tools().into_iter().map(of_extension).collect();
        if let Some(beside) = &self.beside {
            let mut more = beside.tools();
            more.retain(|tool| !tools.iter().any(|known| known.name == tool.name));
            tools.extend(more);
        }
        tools
    }

    fn missed_tools(&self) -> Vec<String> {
        self.host.missed_tools()
    }

    fn deferred_tools(&self) -> Vec<String> {
        self.beside.as_ref().map(|source| source.deferred()).unwrap_or_default()
    }

    fn prepare_arguments<'a>(&'a self, tool: &'a str, raw: Value) -> LocalBoxFuture<'a, Result<Value, String>> {
        async move {
            let found = self.host.tools().into_iter().find(|info| info.spec.name == tool);
            let Some((owner, handle)) = found.and_then(|info| Some((info.owner, prepares(&info.spec)?))) else {
                return Ok(raw);
            };
            match self.host.call_back(&owner.extension, owner.entry, handle, vec![raw]).await {
                CallbackOutcome::Returned(value) => Ok(value.unwrap_or_default()),
                CallbackOutcome::Threw(error) => Err(error.message),
                CallbackOutcome::Gone => Err(format!("Tool {tool} not found")),
                CallbackOutcome::Ended(reason) => Err(format!("The extension of tool {tool} stopped: {reason}")),
            }
        }
        .boxed_local()
    }

    fn call_tool<'a>(&'a self, call: ToolRun<'a>) -> LocalBoxFuture<'a, ToolFate> {
        if let Some(beside) = self.beside(|| self.host.tools().iter().any(|info| info.spec.name == call.name)) {
            return beside.call_tool(call);
        }
        async move {
            let signal = Signal::new();
            let running = self.host.call_tool(call.name, call.tool_call_id, call.input, Some(&signal), call.on_update);
            tokio::pin!(running);
            let outcome = tokio::select! {
                biased;
                outcome = &mut running => outcome,
                () = call.cancel.cancelled() => {
                    signal.abort();
                    running.await
                }
            };
            match outcome {
                ToolOutcome::Returned(value) => ToolFate::Returned(value),
                ToolOutcome::Threw(error) => ToolFate::Threw(error.message),
                ToolOutcome::Unknown => ToolFate::Threw(format!("Tool {} not found", call.name)),
                ToolOutcome::Ended(reason) => {
                    ToolFate::Threw(format!("The extension of tool {} stopped: {reason}", call.name))
                }
            }
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
            let extension = ExtensionId::new(extension);
            let is_extensions = || self.host.tools().iter().any(|info| info.spec.name == tool);
            let Some(calls) = self.beside(is_extensions).and_then(|beside| beside.hostcalls(tool, input)) else {
                return self.host.vouch(&extension, tool, input, behind).await;
            };
            for params in calls {
                self.host.vouch_mcp(&extension, tool, params, behind).await?;
            }
            Ok(None)
        }
        .boxed_local()
    }

    fn answers_unasked(&self, extension: &str) -> bool {
        self.host.answers_unasked(&ExtensionId::new(extension))
    }

    fn reaches<'a>(&'a self, extension: &'a str, address: &'a str) -> LocalBoxFuture<'a, Result<(), String>> {
        async move { self.host.reaches(&ExtensionId::new(extension), address).await }.boxed_local()
    }

    fn admits_text(&self, extension: &str, real: &Path) -> bool {
        self.host.admits_text(extension, real)
    }

    fn leaves_out_text(&self, extension: &str, real: &Path) {
        self.host.leaves_out_text(extension, real);
    }

    fn prompt_sections(&self) -> Map<String, Value> {
        self.beside.as_ref().map(|beside| beside.prompt_sections()).unwrap_or_default()
    }

    fn has_command(&self, name: &str) -> bool {
        let is_beside = |beside: &Rc<dyn ToolSource>| beside.commands().iter().any(|(known, _)| known == name);
        self.is_extension_command(name) || self.beside.as_ref().is_some_and(is_beside)
    }

    fn misses_command(&self, name: &str) -> bool {
        self.host.misses_command(name)
    }

    fn run_command<'a>(&'a self, name: &'a str, args: &'a str, by: &'a Authors) -> LocalBoxFuture<'a, CommandFate> {
        let owner = self.host.commands().into_iter().find(|command| command.invocation == name);
        let owner = owner.map(|command| command.owner.extension.to_string());
        if let Some(author) =
            by.iter().find(|author| Some(*author) != owner.as_ref()).filter(|_| guard!(AgentForeignCommands))
        {
            let refusal = format!("/{name} is no command of {author}, whose message names it: only the user runs it");
            // Nobody waits for the result of a message.
            self.report("<runtime>", "send_user_message", &refusal);
            return async move { CommandFate::Threw(refusal.into()) }.boxed_local();
        }
        if let Some(beside) = self.beside(|| self.is_extension_command(name)) {
            return beside.run_command(name, args);
        }
        async move {
            match self.host.run_command(name, args).await {
                CommandOutcome::Done => CommandFate::Done,
                CommandOutcome::Threw(error) => {
                    let place = error.position.map(|at| format!("{}:{}:{}", at.file, at.line, at.column));
                    CommandFate::Threw(CommandError { message: error.message, place })
                }
                CommandOutcome::Unknown => CommandFate::Threw(format!("no command /{name}").into()),
                CommandOutcome::Ended(reason) => {
                    CommandFate::Threw(format!("the extension of /{name} stopped: {reason}").into())
                }
            }
        }
        .boxed_local()
    }

    fn commands(&self) -> Vec<Value> {
        let info = |command: pijs_host::CommandInfo| {
            let mut value = json!({"name": command.invocation});
            if let Some(description) = command.spec.description {
                value["description"] = json!(description);
            }
            value["source"] = json!("extension");
            value["sourceInfo"] = self.source_info(&command.owner.path);
            value
        };
        let mut commands: Vec<Value> = self.host.commands().into_iter().map(info).collect();
        for (name, description) in self.beside.iter().flat_map(|beside| beside.commands()) {
            if !self.is_extension_command(&name) {
                let source = json!({"path": format!("<mcp:{name}>"), "source": "mcp", "scope": "temporary", "origin": "top-level"});
                commands.push(
                    json!({"name": name, "description": description, "source": "extension", "sourceInfo": source}),
                );
            }
        }
        commands
    }

    fn offers(&self) -> Vec<RegisteredProvider> {
        let offer = |(owner, registration): (RegistrationOwner, Registration)| match registration {
            Registration::Provider { name, config, configured, stream, .. } => Some(RegisteredProvider {
                name,
                path: owner.path,
                extension: owner.extension.to_string(),
                config,
                streams: stream.is_some(),
                configured,
            }),
            _ => None,
        };
        self.host.providers().into_iter().filter_map(offer).collect()
    }

    fn credentials<'a>(
        &'a self,
        provider: &'a str,
        model: &'a Model,
    ) -> LocalBoxFuture<'a, Result<Credentials, String>> {
        async move {
            let Some((owner, ProviderHandles { credentials: Some(handle), .. })) = self.provider(provider) else {
                return Ok(Credentials::default());
            };
            let answer = self.host.call_back(&owner.extension, owner.entry, handle, vec![model.to_value()]).await;
            let value = returned(provider, answer)?;
            let headers = value.get("headers").cloned().and_then(|headers| serde_json::from_value(headers).ok());
            let key = value.get("apiKey").and_then(Value::as_str).filter(|key| !key.is_empty()).map(str::to_owned);
            let base_url = value.get("baseUrl").and_then(Value::as_str).map(str::to_owned);
            Ok(Credentials { key, headers: headers.unwrap_or_default(), base_url })
        }
        .boxed_local()
    }

    fn account<'a>(&'a self, provider: &'a str, question: Value) -> LocalBoxFuture<'a, Result<Value, String>> {
        async move {
            let Some((owner, ProviderHandles { account: Some(handle), .. })) = self.provider(provider) else {
                return Err(format!("the provider {provider} has no account"));
            };
            let answer = self.host.call_back(&owner.extension, owner.entry, handle, vec![question]).await;
            returned(provider, answer)
        }
        .boxed_local()
    }

    fn look_up_models<'a>(&'a self, provider: &'a str, how: Value) -> LocalBoxFuture<'a, Result<(), String>> {
        async move {
            let Some((owner, ProviderHandles { refresh_handle: Some(handle), .. })) = self.provider(provider) else {
                return Ok(());
            };
            let answer = self.host.call_back(&owner.extension, owner.entry, handle, vec![how]).await;
            returned(provider, answer).map(|_| ())
        }
        .boxed_local()
    }

    fn stream_model<'a>(&'a self, call: ModelCall<'a>) -> LocalBoxFuture<'a, Result<(), String>> {
        async move {
            let ModelCall { provider, model, context, options, cancel, mut on_event } = call;
            let Some((owner, ProviderHandles { stream: Some(handle), reply, .. })) = self.provider(provider) else {
                return Err(format!("the provider {provider} has no stream function"));
            };
            let signal = Signal::new();
            let on_update = async |event: Value| {
                let number = event.get("reply").cloned();
                let answer = on_event(event).await;
                if let (Some(number), Some(reply)) = (number, reply) {
                    // The stream function waits for the answer.
                    self.host.call_back(&owner.extension, owner.entry, reply, vec![number, answer]).await;
                }
            };
            let args = vec![model, context, options];
            let streaming = self.host.call_back_streaming(&owner, handle, args, &signal, on_update);
            tokio::pin!(streaming);
            let answer = tokio::select! {
                biased;
                answer = &mut streaming => answer,
                () = cancel.cancelled() => {
                    signal.abort();
                    // Further events are ignored, and the function may never return.
                    let over = self.host.turn_over(&owner.extension);
                    tokio::select! {
                        biased;
                        answer = &mut streaming => answer,
                        () = over, if guard!(ShutdownModelRequest) => return Err("the request was aborted".to_owned()),
                    }
                }
            };
            returned(provider, answer).map(|_| ())
        }
        .boxed_local()
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
            let handle = exec.get("$handle").and_then(Value::as_u64).and_then(|handle| u32::try_from(handle).ok());
            let entry = answer.get("$entry").and_then(Value::as_u64).and_then(|entry| u32::try_from(entry).ok());
            let owner = answer.get("$extension").and_then(Value::as_str);
            let (Some(handle), Some(entry), Some(owner)) = (handle, entry, owner) else {
                return Err("the operations of a user_bash handler have no exec function".to_owned());
            };
            let owner =
                RegistrationOwner { extension: ExtensionId::new(owner), entry: EntryIndex(entry), path: String::new() };
            let signal = Signal::new();
            let on_update = async |piece: Value| on_output(piece.as_str().unwrap_or_default());
            let args = vec![json!(command), json!(cwd)];
            let running = self.host.call_back_streaming(&owner, Handle(handle), args, &signal, on_update);
            tokio::pin!(running);
            let answer = tokio::select! {
                biased;
                answer = &mut running => answer,
                () = cancel.cancelled() => {
                    signal.abort();
                    running.await
                }
            };
            returned("of user_bash", answer)
        }
        .boxed_local()
    }

    fn reload(&self, in_session: bool) -> LocalBoxFuture<'_, Vec<(String, String)>> {
        async move {
            let mut wrong = Vec::new();
            let loaded = match (&self.source, in_session) {
                (Some(source), true) => {
                    let Reloaded { packages, provenance, problems, takes_back } = source().await;
                    wrong = problems;
                    self.set_provenance(provenance);
                    let takes_back =
                        |id: &ExtensionId| takes_back.get(id).into_iter().for_each(|take_back| take_back());
                    self.host.reload_or_keep(packages, &takes_back).await
                }
                (None, true) => alone(self.host.reload_in_session(None).await),
                (_, false) => alone(self.host.change_session(None).await),
            };
            for LoadAgain { loaded, stays } in loaded {
                let stays = if stays { EARLIER_STAYS } else { "" };
                match loaded {
                    Ok(report) => {
                        let failures = report.failures().map(|(path, error)| {
                            let at = error.position.as_ref();
                            let at = at.map(|at| format!("\n  at {}:{}:{}", at.file, at.line, at.column));
                            (path.to_owned(), format!("{}{}{stays}", error.message, at.unwrap_or_default()))
                        });
                        wrong.extend(failures);
                    }
                    Err(error) => wrong.push(("<reload>".to_owned(), format!("{error}{stays}"))),
                }
            }
            wrong
        }
        .boxed_local()
    }

    fn begun<'a>(&'a self, tool: &'a str) -> LocalBoxFuture<'a, ()> {
        let owner = self.host.tools().into_iter().find(|info| info.spec.name == tool).map(|info| info.owner.extension);
        async move {
            if let Some(extension) = owner {
                self.host.drained(&extension).await;
            }
        }
        .boxed_local()
    }

    fn restarts_done(&self) -> LocalBoxFuture<'_, ()> {
        self.host.restarts_done().boxed_local()
    }

    fn at_rest(&self) -> LocalBoxFuture<'_, ()> {
        self.host.at_rest().boxed_local()
    }

    fn turn_over<'a>(&'a self, extension: &'a ExtensionId) -> LocalBoxFuture<'a, ()> {
        self.host.turn_over(extension).boxed_local()
    }

    fn report(&self, path: &str, event: &str, message: &str) {
        self.host.report_error(path, event, message);
    }

    fn run_began(&self) {
        let signal = Signal::new();
        self.host.set_signal(Some(&signal));
        *self.signal.borrow_mut() = Some(signal);
    }

    fn run_aborted(&self) {
        if let Some(signal) = &*self.signal.borrow() {
            signal.abort();
        }
        self.host.limit_waits_after_abort();
    }

    fn run_ended(&self) {
        self.signal.borrow_mut().take();
        self.host.set_signal(None);
    }
}

fn fate(outcome: StreamOutcome) -> StreamFate {
    match outcome {
        StreamOutcome::Continue => StreamFate::Continue,
        StreamOutcome::Abort(verdict) => StreamFate::Abort(VerdictAbort {
            extension: verdict.extension.to_string(),
            retry: verdict.retry,
            latency_us: verdict.latency_us,
        }),
    }
}

/// Converts reports of packages without an earlier version.
fn alone(loaded: Vec<Result<LoadReport, LoadError>>) -> Vec<LoadAgain> {
    loaded.into_iter().map(|loaded| LoadAgain { loaded, stays: false }).collect()
}

/// Returns the handle of `prepareArguments`.
fn prepares(spec: &ToolSpec) -> Option<Handle> {
    spec.functions.iter().find(|function| function.name == "prepareArguments").map(|function| function.handle)
}

/// Neutralises a text of a tool for the system prompt.
fn in_prompt(text: String) -> String {
    if guard!(SystemMarkup) { chat_markup::neutralise(&text).into_owned() } else { text }
}

fn tool(info: ToolInfo, source_info: Value) -> ExtensionTool {
    let ToolInfo { owner, spec } = info;
    let prepares_arguments = prepares(&spec).is_some();
    ExtensionTool {
        name: spec.name,
        description: spec.description.unwrap_or_default(),
        parameters: spec.parameters.unwrap_or_else(|| json!({"type": "object"})),
        converts: spec.converts,
        prepares_arguments,
        path: owner.path,
        source_info,
        sequential: spec.execution_mode.as_deref() == Some("sequential"),
        prompt_snippet: spec.prompt_snippet.map(in_prompt),
        prompt_guidelines: spec.prompt_guidelines.unwrap_or_default().into_iter().map(in_prompt).collect(),
    }
}

impl StateSink for ReadableState {
    fn set(&self, key: &str, value: Value) {
        ReadableState::set(self, key, value);
    }

    fn change_entries(&self, keep: usize, append: Vec<Value>) {
        let append = append.into_iter().map(Json::from).collect();
        ReadableState::change_entries(self, EntriesDelta { keep, append });
    }
}
