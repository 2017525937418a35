//! Runs the tool calls of one reply in pi's order.
//!
//! For each call in turn: `tool_execution_start` with the raw arguments, lookup, `prepareArguments`, validation, and the
//! `tool_call` handlers, which may change the input or block the call. Then the remaining calls run concurrently (or sequentially
//! when a tool requires it), each followed by its `tool_result` handlers and `tool_execution_end`. Results become messages in the
//! order of the calls: after all calls, or one by one for sequential calls.
//!
//! A call with incomplete or invalid arguments never reaches a handler.

use crate::agent::Agent;
use crate::control::size_of_values;
use crate::events::AgentEvent;
use crate::extensions::Event;
use crate::front_end::ToolCheck;
use crate::outcome::AgentError;
use crate::run::{Run, may_call_tools};
use crate::tool::RestrictedTool;
use crate::tool::{Tool, ToolEnvironment};
use futures_util::future::{join, join_all};
use pijs_host::{Behind, ModelCallAuthority};
use pijs_inputs::{Inputs, Stage};
use pijs_llm::message::bytes_of;
use pijs_llm::message::{AssistantMessage, Block, Content, Message, StopReason, ToolCall, ToolResultMessage};
use pijs_llm::provider::Model;
use pijs_protocol::guard;
use pijs_session_store::EntryId;
use pijs_tools::call_order::{CallOrder, CallTurn};
use pijs_tools::{Builtin, SessionFacts, ToolOutput, edit, validate};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Maximum number of bytes of a tool's partial results that wait for delivery. Further results are dropped, because each replaces
/// the previous one.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// Results of the calls of a reply.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) results: Vec<ToolResultMessage>,
    /// Session entries of the results.
    pub(crate) entries: Vec<EntryId>,
    /// Whether every result asks to end the run.
    pub(crate) terminate: bool,
}

/// Returns the error of a call in a reply that reached the token limit: its arguments may be incomplete.
fn cut_short(tool: &str) -> String {
    format!(
        "Tool call \"{tool}\" was not executed: the response hit the output token limit, so its arguments may be truncated. Re-issue the tool call with complete arguments."
    )
}

/// A reply with tool calls.
struct CallingReply<'a> {
    /// Errors of arguments by call id.
    bad_arguments: &'a BTreeMap<String, String>,
    /// The extension to which the reply is attributed, if any.
    by: Option<String>,
    /// Calls of the reply.
    wanted: &'a [ToolCall],
    /// Extensions that replaced the reply.
    authors: Vec<String>,
    /// Names of the tools that may be called.
    callable: Vec<String>,
}

/// A call after the checks.
enum Prepared {
    Run(CheckedCall),
    Done(FinishedCall),
}

/// A call that may run.
struct CheckedCall {
    tool: RestrictedTool,
    input: Value,
    /// Extensions that changed the input, to which the result is attributed.
    authors: Vec<String>,
}

/// Returns whether a value is truthy in JavaScript.
fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// Result of the `tool_call` handlers.
enum Intercepted {
    /// The call may run.
    Passed {
        input: Value,
        authors: Vec<String>,
        /// Rights of the call; `None` if no extension influenced it.
        bound: Option<Arc<ModelCallAuthority>>,
    },
    Blocked {
        input: Value,
        reason: Option<String>,
        thrown: bool,
        terminate: bool,
        /// Extensions that provided the reason.
        authors: Vec<String>,
    },
}

/// The result of a call.
#[derive(Debug, Clone, Default)]
struct FinishedCall {
    content: Value,
    details: Option<Value>,
    is_error: bool,
    terminate: bool,
    usage: Option<Value>,
    /// Other members returned by the tool, including `terminate`.
    rest: Map<String, Value>,
    /// Whether the tool returned no readable result, so that handlers are not called.
    is_unread: bool,
    /// Extensions that changed the text for the model.
    authors: BTreeSet<String>,
}

impl FinishedCall {
    fn failed(message: impl Into<String>) -> Self {
        let content = json!([Block::text(message)]);
        Self { content, details: Some(json!({})), is_error: true, ..Self::default() }
    }

    fn to_value(&self) -> Value {
        let known = [
            ("content", Some(&self.content).filter(|content| !content.is_null())),
            ("details", self.details.as_ref()),
            ("usage", self.usage.as_ref()),
        ];
        let mut members: Map<String, Value> =
            known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.clone()))).collect();
        members.extend(self.rest.clone());
        Value::Object(members)
    }
}

impl Agent {
    /// Runs the tool calls of a reply.
    pub(crate) async fn run_tools(
        &self,
        run: &mut Run,
        message: &AssistantMessage,
        bad_arguments: &BTreeMap<String, String>,
        (wanted, authors): (&[ToolCall], Vec<String>),
    ) -> Result<Batch, AgentError> {
        let calls: Vec<&ToolCall> = message.tool_calls().collect();
        let mut batch = Batch::default();
        if calls.is_empty() || !may_call_tools(message) {
            return Ok(batch);
        }
        let cancel = run.cancel.clone();
        let by = self.model.offered.borrow().unchosen_extension(&message.provider).map(str::to_owned);
        let reply = CallingReply { bad_arguments, by, wanted, authors, callable: run.callable.clone() };
        if message.stop_reason == StopReason::Length {
            for call in &calls {
                self.started(call).await?;
                let result = FinishedCall::failed(cut_short(&call.name));
                self.ended(call, &result).await?;
                self.add_result(run, &mut batch, call, result).await?;
            }
            return Ok(batch);
        }
        let sequential =
            calls.iter().any(|call| self.callable(&call.name, &reply).is_some_and(|tool| tool.sequential()));
        if !sequential {
            for (call, result) in self.run_concurrently(&calls, &reply, &cancel).await? {
                self.add_result(run, &mut batch, call, result).await?;
            }
            return Ok(batch);
        }
        for call in &calls {
            let result = match self.prepare(call, &reply, &cancel).await? {
                Prepared::Run(CheckedCall { tool, input, authors }) => {
                    let executed = self.execute(call, tool, input.clone(), &cancel).await?;
                    self.settle_extensions().await;
                    self.complete(call, input, authors, executed).await?
                }
                Prepared::Done(result) => {
                    self.ended(call, &result).await?;
                    result
                }
            };
            self.add_result(run, &mut batch, call, result).await?;
            if cancel.is_cancelled() {
                break;
            }
        }
        Ok(batch)
    }

    /// Checks calls one after the other, then runs the valid ones concurrently. After an abort no further call is checked.
    async fn run_concurrently<'a>(
        &self,
        calls: &[&'a ToolCall],
        reply: &CallingReply<'_>,
        cancel: &CancellationToken,
    ) -> Result<Vec<(&'a ToolCall, FinishedCall)>, AgentError> {
        let mut finished: Vec<(&ToolCall, Option<FinishedCall>)> = Vec::new();
        let mut prepared = Vec::new();
        for call in calls {
            match self.prepare(call, reply, cancel).await? {
                Prepared::Done(result) => {
                    self.ended(call, &result).await?;
                    finished.push((call, Some(result)));
                }
                Prepared::Run(checked) => {
                    prepared.push((*call, checked));
                    finished.push((call, None));
                }
            }
            if cancel.is_cancelled() {
                break;
            }
        }
        let order = CallOrder::new(prepared.len());
        let running = prepared
            .into_iter()
            .enumerate()
            .map(|(place, (call, checked))| self.run_in_order(call, checked, cancel, order.of(place)));
        let mut results = join_all(running).await.into_iter();
        let whole = |(call, result)| match result {
            Some(result) => Ok((call, result)),
            None => results.next().expect("every call without a result has run").map(|result| (call, result)),
        };
        finished.into_iter().map(whole).collect()
    }

    /// Runs a call. It starts after the previous call has started, so that the synchronous part of a call, such as aborting the
    /// run, precedes the next call, as on pi's single thread, and continues after all calls have started.
    async fn run_in_order(
        &self,
        call: &ToolCall,
        CheckedCall { tool, input, authors }: CheckedCall,
        cancel: &CancellationToken,
        start: CallTurn<'_>,
    ) -> Result<FinishedCall, AgentError> {
        start.turn().await;
        if cancel.is_cancelled() {
            start.begun();
            let result = FinishedCall::failed("Operation aborted");
            self.ended(call, &result).await?;
            return Ok(result);
        }
        let beginning = async {
            if let Tool::Extension(_) = &tool.tool {
                self.extensions.begun(&call.name).await;
            }
            self.yield_to_extensions().await;
            start.begun();
        };
        let executing = async {
            let executed = self.execute(call, tool.clone(), input.clone(), cancel).await;
            start.ended().await;
            executed
        };
        let (executed, ()) = join(executing, beginning).await;
        self.settle_extensions().await;
        start.settled().await;
        self.complete(call, input, authors, executed?).await
    }

    /// Adds a result to the conversation.
    async fn add_result(
        &self,
        run: &mut Run,
        batch: &mut Batch,
        call: &ToolCall,
        result: FinishedCall,
    ) -> Result<(), AgentError> {
        batch.terminate = (batch.results.is_empty() || batch.terminate) && result.terminate;
        let mut result = result;
        let mut authors = std::mem::take(&mut result.authors);
        if !guard!(AttributionAuthor) {
            authors.clear();
        }
        let message = Message::ToolResult(self.result_message(call, result));
        self.emit(AgentEvent::MessageStart { message: &message }).await?;
        let (message, _) = self.end_message_of(authors, message).await?;
        batch.entries.extend(self.control.with_session(|session| session.leaf().cloned()));
        run.messages.push(message.clone());
        if let Message::ToolResult(result) = message {
            batch.results.push(result);
        }
        Ok(())
    }

    async fn started(&self, call: &ToolCall) -> Result<(), AgentError> {
        self.emit(AgentEvent::ToolExecutionStart {
            tool_call_id: &call.id,
            tool_name: &call.name,
            args: &call.arguments,
        })
        .await
    }

    async fn ended(&self, call: &ToolCall, result: &FinishedCall) -> Result<(), AgentError> {
        self.emit(AgentEvent::ToolExecutionEnd {
            tool_call_id: &call.id,
            tool_name: &call.name,
            result: &result.to_value(),
            is_error: result.is_error,
        })
        .await
    }

    /// Returns a tool by name, if the reply may call it. A selection of tools made during the turn applies to the next turn.
    fn callable(&self, name: &str, reply: &CallingReply<'_>) -> Option<Tool> {
        let is_callable = reply.callable.iter().any(|callable| callable == name);
        is_callable.then(|| self.tools.borrow().find(name, &*self.extensions)).flatten()
    }

    /// Performs the checks of a call.
    async fn prepare(
        &self,
        call: &ToolCall,
        reply: &CallingReply<'_>,
        cancel: &CancellationToken,
    ) -> Result<Prepared, AgentError> {
        self.started(call).await?;
        if let Some(problem) = reply.bad_arguments.get(&call.id) {
            let message = format!("The arguments of tool \"{}\" cannot be read: {problem}. It was not run.", call.name);
            return Ok(Prepared::Done(FinishedCall::failed(message)));
        }
        self.restarts_done(cancel).await;
        let found = self.callable(&call.name, reply);
        let Some(tool) = found else {
            let message = if self.extensions.missed_tools().contains(&call.name) {
                format!("Tool {} is unavailable: its extension was stopped", call.name)
            } else if self.extensions.deferred_tools().contains(&call.name) {
                let cure =
                    "find it with tool_search first; the user can declare it with \"exposure\": \"direct\" in mcp.json";
                format!("Tool {} is deferred: {cure} (pi mcp add --exposure direct)", call.name)
            } else {
                format!("Tool {} not found", call.name)
            };
            return Ok(Prepared::Done(FinishedCall::failed(message)));
        };
        let prepared = match &tool {
            Tool::Extension(tool) if tool.prepares_arguments => {
                self.extensions.prepare_arguments(&tool.name, call.arguments.clone()).await
            }
            Tool::Builtin(Builtin::Edit, _) => Ok(edit::prepare(call.arguments.clone())),
            _ => Ok(call.arguments.clone()),
        };
        let checked = match prepared {
            Ok(given) => validate::arguments_of(&call.name, tool.parameters(), tool.converts(), &given).await,
            Err(thrown) => Err(thrown),
        };
        let input = match checked {
            Ok(input) => input,
            Err(message) => return Ok(Prepared::Done(FinishedCall::failed(message))),
        };
        let intercepted = match self.intercept(call, input).await {
            Intercepted::Passed { input, authors, .. } => self.restricted(&tool, call, input, authors, reply).await,
            blocked => blocked,
        };
        let (input, authors, bound) = match intercepted {
            Intercepted::Passed { input, authors, bound } => {
                self.front_end.borrow_mut().tool_checked(call, &ToolCheck::Runs { input: &input })?;
                (input, authors, bound)
            }
            Intercepted::Blocked { input, reason, thrown, terminate, authors } => {
                let check = ToolCheck::Blocked { input: &input, reason: reason.as_deref(), thrown };
                self.front_end.borrow_mut().tool_checked(call, &check)?;
                let aborted = cancel.is_cancelled() && !thrown;
                let reason = reason.as_deref().filter(|reason| !reason.is_empty());
                let reason = if aborted { "Operation aborted" } else { reason.unwrap_or("Tool execution was blocked") };
                let mut result = FinishedCall::failed(reason);
                result.authors.extend(authors);
                if terminate && !aborted {
                    result.terminate = true;
                    result.rest.insert("terminate".to_owned(), json!(true));
                }
                return Ok(Prepared::Done(result));
            }
        };
        if cancel.is_cancelled() {
            return Ok(Prepared::Done(FinishedCall::failed("Operation aborted")));
        }
        Ok(Prepared::Run(CheckedCall { tool: RestrictedTool { tool, bound }, input, authors }))
    }

    /// Emits `tool_call`. Returns the input as changed by handlers, or why the call is blocked.
    async fn intercept(&self, call: &ToolCall, input: Value) -> Intercepted {
        if !self.extensions.has_handlers("tool_call") {
            return Intercepted::Passed { input, authors: Vec::new(), bound: None };
        }
        let event = Event::new("tool_call")
            .with("toolName", call.name.as_str())
            .with("toolCallId", call.id.as_str())
            .with("input", input.clone());
        let mut outcome = self.extensions.emit(event).await;
        let left = outcome.payload.remove("input").unwrap_or(input);
        if outcome.field("block").is_some_and(is_truthy) {
            let reason = outcome.field("reason").and_then(Value::as_str).map(str::to_owned);
            let terminate = outcome.field("terminate").is_some_and(|terminate| *terminate == Value::Bool(true));
            let (thrown, authors) = (outcome.thrown.is_some(), outcome.authors);
            return Intercepted::Blocked { input: left, reason, thrown, terminate, authors };
        }
        Intercepted::Passed { input: left, authors: outcome.authors, bound: None }
    }

    /// Restricts a call that extensions influenced: built-in and MCP tools get the rights of these extensions, extended by
    /// consent of the user.
    async fn restricted(
        &self,
        tool: &Tool,
        call: &ToolCall,
        input: Value,
        authors: Vec<String>,
        reply: &CallingReply<'_>,
    ) -> Intercepted {
        let mut bound: Option<ModelCallAuthority> = None;
        if tool.acts_for_user() {
            let starter = self.options.starter.iter().map(|extension| (extension.clone(), Behind::Starter));
            let led = self
                .control
                .attributed_extensions()
                .into_iter()
                .map(|(extension, asks)| (extension, Behind::Message { asks }));
            let changed = authors.iter().map(|extension| (extension.clone(), Behind::Call("tool.modify")));
            let is_wanted = |wanted: &ToolCall| wanted.name == call.name && wanted.arguments == call.arguments;
            let replaced: &[String] = if reply.wanted.iter().any(is_wanted) { &[] } else { &reply.authors };
            let put_in = replaced.iter().map(|extension| (extension.clone(), Behind::Call("context.modify")));
            let own = reply.by.iter().map(|extension| (extension.clone(), Behind::Reply));
            for (extension, behind) in starter.chain(led).chain(changed).chain(put_in).chain(own) {
                match self.extensions.vouch(&extension, tool.name(), &input, behind).await {
                    Ok(next) => {
                        bound = match (bound, next) {
                            (Some(bound), Some(next)) => Some(bound.and(next)),
                            (bound, next) => bound.or(next),
                        };
                    }
                    Err(reason) => {
                        let (reason, authors) = (Some(reason), Vec::new());
                        return Intercepted::Blocked { input, reason, thrown: false, terminate: false, authors };
                    }
                }
            }
        }
        Intercepted::Passed { input, authors, bound: bound.map(Arc::new) }
    }

    /// Waits until extensions have handled the messages of a tool that has ended.
    async fn settle_extensions(&self) {
        self.yield_to_extensions().await;
        let is_over = |inputs: &Inputs| inputs.is_over(Stage::Delivering) && inputs.is_over(Stage::Announcing);
        tokio::select! {
            biased;
            // Handlers that wait for a long time do not block the next step.
            () = self.control.until(is_over) => {}
            () = self.extensions.at_rest() => {}
        }
    }

    /// Emits `tool_result` for a result, and reports the end of the call.
    async fn complete(
        &self,
        call: &ToolCall,
        input: Value,
        authors: Vec<String>,
        mut executed: FinishedCall,
    ) -> Result<FinishedCall, AgentError> {
        executed.authors.extend(authors);
        let mut result = if executed.is_unread { executed } else { self.review(call, input, executed).await };
        // A handler may still replace the content by a list; otherwise pi fails when it iterates over it.
        if !result.content.is_array() && !result.content.is_null() {
            result = FinishedCall::failed("content.some is not a function");
        }
        self.ended(call, &result).await?;
        Ok(result)
    }

    /// Yields, so that tasks started by a tool or a handler begin before the next step.
    pub(crate) async fn yield_to_extensions(&self) {
        tokio::task::yield_now().await;
    }

    /// Returns the session data that a built-in tool needs.
    fn about(&self) -> SessionFacts {
        let model = self.control.model();
        let (id, file) = self.control.with_session(|session| {
            (session.header().id.clone(), session.path().map(|path| path.display().to_string()))
        });
        let of_model = |part: fn(&Model) -> &String| model.as_ref().map(part).cloned().unwrap_or_default();
        let variables = [
            ("PI_SESSION_ID", id),
            ("PI_SESSION_FILE", file.unwrap_or_default()),
            ("PI_PROVIDER", of_model(|model| &model.provider)),
            ("PI_MODEL", of_model(|model| &model.id)),
            ("PI_REASONING_LEVEL", self.control.thinking()),
        ];
        SessionFacts {
            variables: variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            blind: model.is_some_and(|model| model.is_blind()),
        }
    }

    /// Runs the tool and forwards its partial results, all of them before the result.
    async fn execute(
        &self,
        call: &ToolCall,
        tool: RestrictedTool,
        input: Value,
        cancel: &CancellationToken,
    ) -> Result<FinishedCall, AgentError> {
        let (sender, mut updates) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&waiting);
        let on_update = Box::new(move |update: Value| {
            let bytes = bytes_of([&update]);
            if counted.load(Ordering::Relaxed) + bytes > MAX_WAITING_BYTES && guard!(ToolUpdates) {
                return;
            }
            counted.fetch_add(bytes, Ordering::Relaxed);
            // Updates after the end of the tool have no receiver and are dropped.
            let _ = sender.send((update, bytes));
        });
        let RestrictedTool { tool, bound } = tool;
        let authored = matches!(tool, Tool::Extension(_));
        let around =
            ToolEnvironment { options: &self.options, extensions: &*self.extensions, about: self.about(), bound };
        let running = tool.run(around, &call.id, input, cancel.clone(), on_update);
        tokio::pin!(running);
        let outcome = loop {
            tokio::select! {
                biased;
                Some((update, bytes)) = updates.recv() => {
                    waiting.fetch_sub(bytes, Ordering::Relaxed);
                    self.update(call, &update).await?;
                }
                outcome = &mut running => break outcome,
            }
        };
        while let Ok((update, _)) = updates.try_recv() {
            self.update(call, &update).await?;
        }
        let outcome = match outcome {
            Ok(output) if authored => {
                let size = size_of_values([&output.content].into_iter().chain(&output.details).chain(&output.usage));
                self.control.charge_session(size).map(|()| output).map_err(|full| full.to_string())
            }
            outcome => outcome,
        };
        Ok(match outcome {
            Ok(ToolOutput { unread: Some(message), .. }) => {
                FinishedCall { is_unread: true, ..FinishedCall::failed(message) }
            }
            Ok(ToolOutput { content, details, terminate, usage, rest, unread: None }) => {
                let usage = usage.filter(|usage| !usage.is_null());
                FinishedCall { content, details, terminate, usage, rest, ..FinishedCall::default() }
            }
            Err(message) => FinishedCall::failed(message),
        })
    }

    async fn update(&self, call: &ToolCall, partial_result: &Value) -> Result<(), AgentError> {
        self.emit(AgentEvent::ToolExecutionUpdate {
            tool_call_id: &call.id,
            tool_name: &call.name,
            args: &call.arguments,
            partial_result,
        })
        .await
    }

    /// Emits `tool_result`: handlers replace single members of the result, and may turn a failure into a success or a success
    /// into a failure.
    async fn review(&self, call: &ToolCall, input: Value, mut result: FinishedCall) -> FinishedCall {
        if !self.extensions.has_handlers("tool_result") {
            return result;
        }
        let mut event = Event::new("tool_result")
            .with("toolName", call.name.as_str())
            .with("toolCallId", call.id.as_str())
            .with("input", input);
        if !result.content.is_null() {
            event = event.with("content", result.content.clone());
        }
        if let Some(details) = &result.details {
            event = event.with("details", details.clone());
        }
        if let Some(usage) = &result.usage {
            event = event.with("usage", usage.clone());
        }
        let outcome = self.extensions.emit(event.with("isError", result.is_error)).await;
        let replaced = |key: &str| outcome.field(key).filter(|value| !value.is_null()).cloned();
        if let Some(content) = replaced("content") {
            if content != result.content {
                result.authors.extend(outcome.authors.iter().cloned());
            }
            result.content = content;
        }
        if let Some(details) = replaced("details") {
            result.details = Some(details);
        }
        if let Some(usage) = replaced("usage") {
            result.usage = Some(usage);
        }
        if let Some(is_error) = replaced("isError").and_then(|value| value.as_bool()) {
            result.is_error = is_error;
        }
        result
    }

    fn result_message(&self, call: &ToolCall, result: FinishedCall) -> ToolResultMessage {
        let content = match result.content {
            Value::Null => Content::Blocks(Vec::new()),
            given => serde_json::from_value(given.clone()).unwrap_or_else(|_| Content::Text(given.to_string())),
        };
        ToolResultMessage {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            content,
            details: result.details,
            usage: result.usage,
            is_error: result.is_error,
            timestamp: self.now(),
        }
    }
}
