//! Implements the ports of `pijs-connectors` for sessions and dialogs.
//!
//! [`AgentControl`] implements [`SessionPort`] and [`ToolsPort`]. [`NoUi`] answers dialogs with pi's defaults if there is no
//! user. The gate has allowed a call before it arrives here.

use crate::control::size_of_values;
use crate::control::{AgentControl, is_reserved};
use crate::mailbox::AgentTask;
use crate::mailbox::ModelRequest;
use crate::outcome::ControlError;
use crate::transcript;
use pijs_connectors::ports::{
    PortAnswer, SessionCall, SessionOp, SessionPort, ToolsCall, ToolsOp, ToolsPort, UiCall, UiOp, UiPort, unsupported,
};
use pijs_hostcall::{Caller, CancelToken, ChunkSink};
use pijs_inputs::{DeliverAs, Inputs};
use pijs_llm::catalogue;
use pijs_llm::known_models::KnownModels;
use pijs_llm::message::{Content, CustomMessage, Message};
use pijs_llm::provider::Model;
use pijs_protocol::{ErrorCode, ExtensionId, HostcallError, guard};
use pijs_session_store::{Body, EntryId};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

impl SessionPort for AgentControl {
    fn call(&self, caller: &Caller, call: SessionCall, cancel: CancelToken) -> PortAnswer {
        if let Some(elsewhere) = asks_model(call.op) {
            return self.ask_model(caller, call.params, elsewhere, None, cancel);
        }
        if !takes_time(call.op) {
            return Box::pin(std::future::ready(SessionPort::call_sync(self, caller, call)));
        }
        if grows(call.op)
            && let Err(full) = self.charge_session(size_of_values(call.params.values()))
        {
            return Box::pin(std::future::ready(Err(full)));
        }
        let (done, answer) = oneshot::channel();
        self.send(AgentTask::Call(caller.extension().clone(), call, done));
        answered(answer, cancel)
    }

    fn call_in_pieces(&self, caller: &Caller, call: SessionCall, cancel: CancelToken, pieces: ChunkSink) -> PortAnswer {
        let Some(elsewhere) = asks_model(call.op) else { return SessionPort::call(self, caller, call, cancel) };
        let wanted = call.params.get("pieces").and_then(Value::as_bool) == Some(true);
        self.ask_model(caller, call.params, elsewhere, wanted.then_some(pieces), cancel)
    }

    fn call_sync(&self, caller: &Caller, call: SessionCall) -> Result<Value, HostcallError> {
        let params = &call.params;
        let extension = caller.extension().to_string();
        if grows(call.op) {
            self.charge_session(size_of_values(params.values()))?;
        }
        match call.op {
            SessionOp::SendMessage | SessionOp::SendUserMessage => self.may_wait()?,
            SessionOp::SetSessionName | SessionOp::SetThinkingLevel => self.may_announce()?,
            _ => {}
        }
        match call.op {
            SessionOp::SendMessage => self.call_send_message(caller.extension(), params)?,
            SessionOp::SendUserMessage => self.call_send_user_message(caller.extension(), params)?,
            SessionOp::AppendEntry => {
                let data = params.get("data").cloned();
                let custom_type = text(params, "customType")?;
                expect_unreserved(custom_type)?;
                let id = self.append_custom(custom_type, data).map_err(refused)?;
                return Ok(json!({"id": id}));
            }
            SessionOp::SetSessionName => {
                let begins = self.set_session_name_of(Some(caller.extension()), text(params, "name")?);
                return Ok(begun(begins.map_err(refused)?));
            }
            SessionOp::SetLabel => {
                let label = params.get("label").and_then(Value::as_str).map(str::to_owned);
                self.set_label(text(params, "entryId")?, label).map_err(refused)?;
            }
            SessionOp::SetActiveTools => {
                let names = params.get("names").cloned().unwrap_or_default();
                let names: Vec<String> = serde_json::from_value(names)
                    .map_err(|error| HostcallError::invalid("schema", format!("session.set_active_tools: {error}")))?;
                self.set_active_tools(&names);
            }
            SessionOp::Abort => self.abort(),
            SessionOp::SetThinkingLevel => {
                let begins = self.set_thinking_of(Some(caller.extension()), text(params, "level")?);
                return Ok(begun(begins.map_err(refused)?));
            }
            SessionOp::Append => return self.call_append(&extension, params),
            SessionOp::SetLeaf => {
                let leaf = params.get("entryId").and_then(Value::as_str).map(|id| EntryId(id.to_owned()));
                if !self.change_session(|session| session.go_to(leaf.as_ref())) {
                    let id = leaf.map(|leaf| leaf.0).unwrap_or_default();
                    return Err(HostcallError::invalid("state", format!("Entry {id} not found")));
                }
            }
            SessionOp::ReadEntry => return self.read_entry(text(params, "entryId")?),
            SessionOp::ReadEntries => {
                let from = params.get("from").and_then(Value::as_u64).and_then(|from| usize::try_from(from).ok());
                return self.read_entries(from.unwrap_or(0));
            }
            SessionOp::Shutdown => match params.get("code").and_then(Value::as_u64) {
                Some(code) => self.leave(u8::try_from(code & 0xff).unwrap_or_default()),
                None => self.shutdown(),
            },
            SessionOp::ListModels => return Ok(list_models(self.known().as_ref(), params)),
            other => return Err(unsupported("session", other.as_str(), "this version of PiJS does not support it")),
        }
        Ok(json!({}))
    }
}

impl AgentControl {
    /// Sends a model request to the agent's thread. The reply goes to `pieces`, if given, while it is streamed.
    fn ask_model(
        &self,
        caller: &Caller,
        params: Map<String, Value>,
        elsewhere: bool,
        pieces: Option<ChunkSink>,
        cancel: CancelToken,
    ) -> PortAnswer {
        let (done, answer) = oneshot::channel();
        let extension = caller.extension().clone();
        self.send(AgentTask::Ask(ModelRequest { extension, params, elsewhere, pieces, cancel: cancel.clone(), done }));
        answered(answer, cancel)
    }

    fn call_send_message(&self, sender: &ExtensionId, params: &Map<String, Value>) -> Result<(), HostcallError> {
        let message: CustomMessage = serde_json::from_value(params.get("message").cloned().unwrap_or_default())
            .map_err(|error| HostcallError::invalid("schema", format!("session.send_message: {error}")))?;
        let trigger = option(params, "triggerTurn").and_then(Value::as_bool);
        let deliver_as = deliver_as(params)?;
        let is_for_later = !self.inputs(Inputs::is_streaming) && trigger != Some(true);
        let waits = deliver_as == Some(DeliverAs::NextTurn) || is_for_later;
        self.send_message_of(Some(sender), message, deliver_as, trigger).map_err(refused)?;
        if !waits {
            self.note_speaker(sender.as_str());
        }
        Ok(())
    }

    fn call_send_user_message(&self, sender: &ExtensionId, params: &Map<String, Value>) -> Result<(), HostcallError> {
        let content: Content = serde_json::from_value(params.get("content").cloned().unwrap_or_default())
            .map_err(|error| HostcallError::invalid("schema", format!("session.send_user_message: {error}")))?;
        let expand = option(params, "expandPromptTemplates").and_then(Value::as_bool).unwrap_or(false);
        self.send_user_message_of(Some(sender), content, deliver_as(params)?, expand).map_err(refused)?;
        self.note_speaker(sender.as_str());
        Ok(())
    }

    fn call_append(&self, extension: &str, params: &Map<String, Value>) -> Result<Value, HostcallError> {
        let entry = params.get("entry").cloned().unwrap_or_default();
        let body: Body = serde_json::from_value(entry)
            .map_err(|error| HostcallError::invalid("schema", format!("session.append: {error}")))?;
        let body = match body {
            // Custom messages are converted to a single form, so that the checks for custom messages apply.
            Body::Message { message: Message::Custom(custom) } if guard!(SessionCustomRole) => Body::of_custom(custom),
            other => other,
        };
        if let Body::CustomMessage { custom_type, .. } | Body::Custom { custom_type, .. } = &body {
            expect_unreserved(custom_type)?;
        }
        let body = match body {
            // An extension must not choose the system message of a compaction.
            Body::Compaction { summary, first_kept_entry_id, tokens_before, mut extra } => {
                extra.shift_remove("systemMessage");
                Body::Compaction { summary, first_kept_entry_id, tokens_before, extra }
            }
            Body::Message { message } => Body::Message { message: transcript::neutralised(message) },
            other => other,
        };
        let speaks = matches!(body, Body::CustomMessage { .. } | Body::Message { .. });
        let id = self.append_of(extension, body).map_err(refused)?;
        if speaks && self.inputs(Inputs::is_streaming) {
            self.note_speaker(extension);
        }
        Ok(json!({"id": id}))
    }
}

impl ToolsPort for AgentControl {
    fn call(&self, caller: &Caller, call: ToolsCall, _cancel: CancelToken) -> PortAnswer {
        Box::pin(std::future::ready(ToolsPort::call_sync(self, caller, call)))
    }

    fn call_sync(&self, _caller: &Caller, call: ToolsCall) -> Result<Value, HostcallError> {
        let (all, active) = self.tools();
        Ok(match call.op {
            ToolsOp::List => json!({"tools": all}),
            ToolsOp::Active => json!({"tools": active}),
        })
    }
}

/// Waits for the result from the agent's thread, unless the call is cancelled.
fn answered(answer: oneshot::Receiver<Result<Value, HostcallError>>, cancel: CancelToken) -> PortAnswer {
    Box::pin(async move {
        let gone = || HostcallError::new(ErrorCode::Io, "session: the session has ended").with("reason", "cancelled");
        tokio::select! {
            biased;
            answer = answer => answer.unwrap_or_else(|_| Err(gone())),
            () = cancel.cancelled() => Err(gone()),
        }
    })
}

/// Lists the models that exist without extensions, for each provider in `providers`; without `providers`, only the names of all
/// providers.
fn list_models(known: Option<&KnownModels>, params: &Map<String, Value>) -> Value {
    let Some(known) = known else { return json!({"models": {}, "providers": []}) };
    let builtin = params.get("builtin").and_then(Value::as_bool).unwrap_or(false);
    let Some(wanted) = params.get("providers").and_then(Value::as_array) else {
        let builtins = || catalogue::providers().map(|provider| provider.id.clone()).collect();
        let names: Vec<String> = if builtin { builtins() } else { known.providers() };
        return json!({"providers": names});
    };
    let models = |provider: &str| -> Vec<Value> {
        let models = if builtin { catalogue::models(provider) } else { known.models(provider) };
        models.iter().map(Model::to_value).collect()
    };
    let listed = wanted.iter().filter_map(Value::as_str).map(|provider| (provider.to_owned(), json!(models(provider))));
    json!({"models": listed.collect::<Map<_, _>>()})
}

/// Returns the result of a call: it contains the event for the caller's own handlers, if there is one.
fn begun(begins: Option<Value>) -> Value {
    begins.map_or_else(|| json!({}), |begins| json!({"begins": begins}))
}

/// Returns whether a model request may go to a server of the extension's choice; `None` for another operation.
fn asks_model(op: SessionOp) -> Option<bool> {
    match op {
        SessionOp::AskModel => Some(false),
        SessionOp::AskModelAt => Some(true),
        _ => None,
    }
}

/// Returns whether an operation runs asynchronously on the agent's thread.
fn takes_time(op: SessionOp) -> bool {
    matches!(
        op,
        SessionOp::SetModel
            | SessionOp::Compact
            | SessionOp::NewSession
            | SessionOp::StartSession
            | SessionOp::Fork
            | SessionOp::NavigateTree
            | SessionOp::SwitchSession
            | SessionOp::Reload
            | SessionOp::RefreshProviders
            | SessionOp::WaitForIdle
    )
}

/// Refuses a custom type that is reserved.
fn expect_unreserved(custom_type: &str) -> Result<(), HostcallError> {
    match is_reserved(custom_type) {
        true => Err(HostcallError::invalid("state", format!("the custom type {custom_type:?} is reserved"))),
        false => Ok(()),
    }
}

fn text<'a>(params: &'a Map<String, Value>, key: &str) -> Result<&'a str, HostcallError> {
    params
        .get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| HostcallError::invalid("schema", format!("session: {key} must be a string")))
}

fn option<'a>(params: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    params.get("options")?.get(key)
}

fn deliver_as(params: &Map<String, Value>) -> Result<Option<DeliverAs>, HostcallError> {
    match option(params, "deliverAs").and_then(Value::as_str) {
        None => Ok(None),
        Some("steer") => Ok(Some(DeliverAs::Steer)),
        Some("followUp") => Ok(Some(DeliverAs::FollowUp)),
        Some("nextTurn") => Ok(Some(DeliverAs::NextTurn)),
        Some(other) => Err(HostcallError::invalid("schema", format!("session: unknown delivery {other:?}"))),
    }
}

/// Returns whether an operation adds content to the session.
fn grows(op: SessionOp) -> bool {
    matches!(
        op,
        SessionOp::SendMessage
            | SessionOp::SendUserMessage
            | SessionOp::AppendEntry
            | SessionOp::Append
            | SessionOp::SetSessionName
            | SessionOp::SetLabel
            | SessionOp::SetThinkingLevel
            | SessionOp::SetModel
            | SessionOp::NavigateTree
    )
}

fn refused(error: ControlError) -> HostcallError {
    match &error {
        ControlError::Refused(message) => HostcallError::invalid("state", message.clone()),
        ControlError::Session(_) => HostcallError::new(ErrorCode::Io, error.to_string()),
    }
}

/// The user interface of a session without a user: cancels dialogs and drops notices, as in pi's print and json modes.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoUi;

impl UiPort for NoUi {
    fn call(&self, caller: &Caller, call: UiCall, _cancel: CancelToken) -> PortAnswer {
        Box::pin(std::future::ready(UiPort::call_sync(self, caller, call)))
    }

    fn call_sync(&self, _caller: &Caller, call: UiCall) -> Result<Value, HostcallError> {
        Ok(match call.op {
            UiOp::Confirm => json!({"value": false}),
            UiOp::GetEditorText => json!({"text": ""}),
            UiOp::SetTheme => json!({"success": false, "error": "UI not available"}),
            _ => json!({}),
        })
    }
}
