//! [`Extensions`] for [`pijs_host::Host`]: names and shapes are translated here and nowhere else.

use crate::extensions::{
    Abort, CommandFate, Event, EventOutcome, ExtensionTool, Extensions, StateSink, StreamFate, ToolFate, ToolRun,
};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use pijs_host::{CallbackOutcome, CommandOutcome, Host, ReadableState, Signal, StreamOutcome, ToolInfo, ToolOutcome};
use pijs_protocol::registration::ToolSpec;
use pijs_protocol::wire::EntriesDelta;
use pijs_protocol::{Handle, StreamDelta, StreamSource};
use serde_json::{Value, json};
use std::cell::RefCell;

/// A host as the agent sees it.
pub struct HostExtensions {
    host: Host,
    /// `ctx.signal` of the run that is on.
    signal: RefCell<Option<Signal>>,
}

impl HostExtensions {
    /// Wraps a host. Its extensions may be loaded before or after.
    pub fn new(host: Host) -> Self {
        Self { host, signal: RefCell::new(None) }
    }
}

impl Extensions for HostExtensions {
    fn has_handlers(&self, event: &str) -> bool {
        self.host.has_handlers(event)
    }

    fn emit(&self, event: Event) -> LocalBoxFuture<'_, EventOutcome> {
        let emitted = event
            .payload
            .into_iter()
            .fold(pijs_host::Event::new(event.name), |event, (key, value)| event.with(&key, value));
        async move {
            let outcome = self.host.emit(emitted).await;
            EventOutcome { payload: outcome.payload, answer: outcome.answer, thrown: outcome.thrown.is_some() }
        }
        .boxed_local()
    }

    fn hears(&self, source: StreamSource) -> bool {
        self.host.hears(source)
    }

    fn stream(&self, delta: &StreamDelta) -> StreamFate {
        match self.host.stream(delta) {
            StreamOutcome::Continue => StreamFate::Continue,
            StreamOutcome::Abort(verdict) => StreamFate::Abort(Abort {
                extension: verdict.extension.to_string(),
                retry: verdict.retry,
                latency_us: verdict.latency_us,
            }),
        }
    }

    fn tools(&self) -> Vec<ExtensionTool> {
        self.host.tools().into_iter().map(tool).collect()
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
                CallbackOutcome::Ended(reason) => Err(format!("The extension of tool {tool} was {reason}")),
            }
        }
        .boxed_local()
    }

    fn call_tool<'a>(&'a self, call: ToolRun<'a>) -> LocalBoxFuture<'a, ToolFate> {
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
                    ToolFate::Threw(format!("The extension of tool {} was {reason}", call.name))
                }
            }
        }
        .boxed_local()
    }

    fn has_command(&self, name: &str) -> bool {
        self.host.commands().iter().any(|command| command.invocation == name)
    }

    fn run_command<'a>(&'a self, name: &'a str, args: &'a str) -> LocalBoxFuture<'a, CommandFate> {
        async move {
            match self.host.run_command(name, args).await {
                CommandOutcome::Done => CommandFate::Done,
                CommandOutcome::Threw(error) => CommandFate::Threw(error.message),
                CommandOutcome::Unknown => CommandFate::Threw(format!("no command /{name}")),
                CommandOutcome::Ended(reason) => CommandFate::Threw(format!("the extension of /{name} was {reason}")),
            }
        }
        .boxed_local()
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
    }

    fn run_ended(&self) {
        self.signal.borrow_mut().take();
        self.host.set_signal(None);
    }
}

/// The handle of `prepareArguments`.
fn prepares(spec: &ToolSpec) -> Option<Handle> {
    spec.functions.iter().find(|function| function.name == "prepareArguments").map(|function| function.handle)
}

fn tool(info: ToolInfo) -> ExtensionTool {
    let ToolInfo { owner, spec } = info;
    let prepares_arguments = prepares(&spec).is_some();
    ExtensionTool {
        name: spec.name,
        description: spec.description.unwrap_or_default(),
        parameters: spec.parameters.unwrap_or_else(|| json!({"type": "object"})),
        prepares_arguments,
        path: owner.path,
        sequential: spec.execution_mode.as_deref() == Some("sequential"),
        prompt_snippet: spec.prompt_snippet,
        prompt_guidelines: spec.prompt_guidelines.unwrap_or_default(),
    }
}

impl StateSink for ReadableState {
    fn set(&self, key: &str, value: Value) {
        ReadableState::set(self, key, value);
    }

    fn change_entries(&self, keep: usize, append: Vec<Value>) {
        ReadableState::change_entries(self, EntriesDelta { keep, append });
    }
}
