//! What extensions ask of the session and of the person: the doors of `pijs-connectors`.
//!
//! [`AgentControl`] is the [`SessionPort`] and the [`ToolsPort`]. [`NoUi`] answers dialogs where nobody can be asked, with
//! pi's fall-backs. Both answer at once, in either form; the gate has decided before.

use crate::control::{AgentControl, ControlError, DeliverAs};
use crate::message::{Content, CustomMessage};
use pijs_connectors::ports::{
    PortAnswer, SessionCall, SessionOp, SessionPort, ToolsCall, ToolsOp, ToolsPort, UiCall, UiOp, UiPort, unsupported,
};
use pijs_hostcall::{Caller, CancelToken};
use pijs_protocol::{ErrorCode, HostcallError};
use serde_json::{Map, Value, json};

impl SessionPort for AgentControl {
    fn call(&self, caller: &Caller, call: SessionCall, _cancel: CancelToken) -> PortAnswer {
        Box::pin(std::future::ready(SessionPort::call_sync(self, caller, call)))
    }

    fn call_sync(&self, _caller: &Caller, call: SessionCall) -> Result<Value, HostcallError> {
        let params = &call.params;
        match call.op {
            SessionOp::SendMessage => {
                let message: CustomMessage = serde_json::from_value(params.get("message").cloned().unwrap_or_default())
                    .map_err(|error| HostcallError::invalid("schema", format!("session.send_message: {error}")))?;
                let trigger = option(params, "triggerTurn").and_then(Value::as_bool).unwrap_or(false);
                self.send_message(message, deliver_as(params)?, trigger).map_err(refused)?;
            }
            SessionOp::SendUserMessage => {
                let content: Content = serde_json::from_value(params.get("content").cloned().unwrap_or_default())
                    .map_err(|error| HostcallError::invalid("schema", format!("session.send_user_message: {error}")))?;
                self.send_user_message(content, deliver_as(params)?).map_err(refused)?;
            }
            SessionOp::AppendEntry => {
                let data = params.get("data").filter(|data| !data.is_null()).cloned();
                let id = self.append_custom(text(params, "customType")?, data).map_err(refused)?;
                return Ok(json!({"id": id}));
            }
            SessionOp::SetSessionName => self.set_session_name(text(params, "name")?).map_err(refused)?,
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
            // Print and json mode bind no such action: pi does nothing there.
            SessionOp::Shutdown => {}
            other => return Err(unsupported("session", other.as_str(), "this version of PiJS does not do it yet")),
        }
        Ok(json!({}))
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
        Some(other) => Err(HostcallError::invalid("schema", format!("session: there is no delivery {other:?}"))),
    }
}

fn refused(error: ControlError) -> HostcallError {
    match &error {
        ControlError::Refused(message) => HostcallError::invalid("state", message.clone()),
        ControlError::Session(_) => HostcallError::new(ErrorCode::Io, error.to_string()),
    }
}

/// Nobody to ask: dialogs are cancelled, notices are dropped, as pi does in print and json mode.
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
