//! Implements `ctx.ui` over RPC: sends `extension_ui_request` records, and receives the responses to dialogs.

use super::wire::Wire;
use pijs_connectors::ports::{PortAnswer, UiCall, UiOp, UiPort, dialog_timeout};
use pijs_hostcall::{Answer, AnswerExtent, BoxFuture, Caller, CancelToken, Prompter, Question};
use pijs_protocol::{ExtensionId, HostcallError, guard};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// The client as a user interface.
#[derive(Clone)]
pub(super) struct RpcUi(Arc<RpcDialogs>);

struct RpcDialogs {
    wire: Wire,
    dialogs: Mutex<Dialogs>,
}

#[derive(Default)]
struct Dialogs {
    next: u64,
    /// Whether the client's input has ended.
    is_closed: bool,
    /// Dialogs that wait for a response, by request id.
    waiting: BTreeMap<String, oneshot::Sender<Value>>,
    /// Dialogs whose answer has not been awaited yet, by extension: other extensions cannot read an answer, which may be a
    /// password.
    open: BTreeMap<(ExtensionId, u64), OpenDialog>,
}

struct OpenDialog {
    id: String,
    op: UiOp,
    timeout: Option<Duration>,
    response: oneshot::Receiver<Value>,
}

impl RpcUi {
    pub(super) fn new(wire: Wire) -> Self {
        Self(Arc::new(RpcDialogs { wire, dialogs: Mutex::default() }))
    }

    /// Delivers an `extension_ui_response`. A response without a waiting dialog is ignored, as in pi.
    pub(super) fn respond(&self, response: Value) {
        let id = response["id"].as_str().unwrap_or_default();
        let waiting = self.lock().waiting.remove(id);
        if let Some(waiting) = waiting {
            let _ = waiting.send(response);
        }
    }

    /// Cancels all open dialogs, and all later ones, because there will be no response.
    pub(super) fn close(&self) {
        let mut dialogs = self.lock();
        dialogs.is_closed = true;
        dialogs.waiting.clear();
    }

    fn request(&self, method: &str, members: Value) -> String {
        let id = uuid::Uuid::new_v4().to_string();
        let mut record = Map::from_iter([
            ("type".to_owned(), Value::from("extension_ui_request")),
            ("id".to_owned(), id.clone().into()),
            ("method".to_owned(), method.into()),
        ]);
        if let Value::Object(members) = members {
            record.extend(members.into_iter().filter(|(_, value)| !value.is_null()));
        }
        // A disconnected client does not respond; the end of its input cancels open dialogs.
        let _ = self.0.wire.send(&Value::Object(record));
        id
    }

    fn ask(&self, op: UiOp, members: Value, timeout: Option<Duration>) -> OpenDialog {
        let (sender, response) = oneshot::channel();
        // The lock is held for both steps, so that the response cannot precede the registration.
        let mut dialogs = self.lock();
        let id = self.request(op.as_str(), members);
        if !dialogs.is_closed || !guard!(RpcClosed) {
            dialogs.waiting.insert(id.clone(), sender);
        }
        OpenDialog { id, op, timeout, response }
    }

    fn lock(&self) -> MutexGuard<'_, Dialogs> {
        self.0.dialogs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UiPort for RpcUi {
    fn call(&self, caller: &Caller, call: UiCall, cancel: CancelToken) -> PortAnswer {
        let number = call.params.get("dialog").and_then(Value::as_u64);
        let own = number.filter(|_| call.op == UiOp::Answer).map(|number| (caller.extension().clone(), number));
        let open = own.and_then(|own| self.lock().open.remove(&own));
        let Some(OpenDialog { id, op, timeout, response }) = open else {
            return Box::pin(std::future::ready(self.call_sync(caller, call)));
        };
        let ui = self.clone();
        Box::pin(async move {
            let response = tokio::select! {
                biased;
                response = response => response.ok(),
                () = cancel.cancelled() => None,
                () = after(timeout) => None,
            };
            ui.lock().waiting.remove(&id);
            Ok(answer(op, response))
        })
    }

    fn call_sync(&self, caller: &Caller, call: UiCall) -> Result<Value, HostcallError> {
        let params = &call.params;
        let get = |key: &str| params.get(key).cloned().unwrap_or_default();
        let timeout = get("timeout");
        let members = match call.op {
            UiOp::Select => json!({"title": get("title"), "options": get("options"), "timeout": timeout}),
            UiOp::Confirm => json!({"title": get("title"), "message": get("message"), "timeout": timeout}),
            UiOp::Input => json!({"title": get("title"), "placeholder": get("placeholder"), "timeout": timeout}),
            UiOp::Editor => json!({"title": get("title"), "prefill": get("prefill")}),
            UiOp::Notify => {
                self.request("notify", json!({"message": get("message"), "notifyType": get("type")}));
                return Ok(json!({}));
            }
            UiOp::SetStatus => {
                self.request("setStatus", json!({"statusKey": get("key"), "statusText": get("text")}));
                return Ok(json!({}));
            }
            UiOp::SetWidget => {
                if !params.contains_key("component") {
                    let placement = get("options")["placement"].clone();
                    let members =
                        json!({"widgetKey": get("key"), "widgetLines": get("content"), "widgetPlacement": placement});
                    self.request("setWidget", members);
                }
                return Ok(json!({}));
            }
            UiOp::SetTitle => {
                self.request("setTitle", json!({"title": get("title")}));
                return Ok(json!({}));
            }
            UiOp::SetEditorText | UiOp::PasteToEditor => {
                self.request("set_editor_text", json!({"text": get("text")}));
                return Ok(json!({}));
            }
            UiOp::GetEditorText => return Ok(json!({"text": ""})),
            UiOp::SetTheme => {
                return Ok(json!({"success": false, "error": "Theme switching not supported in RPC mode"}));
            }
            _ => return Ok(json!({})),
        };
        if params.contains_key("aborted") {
            return Ok(json!({}));
        }
        let open = self.ask(call.op, members, dialog_timeout(params));
        let mut dialogs = self.lock();
        dialogs.next += 1;
        let number = dialogs.next;
        dialogs.open.insert((caller.extension().clone(), number), open);
        Ok(json!({"dialog": number}))
    }
}

/// Permission prompts: the client receives them as an extension's `select`.
impl Prompter for RpcUi {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answer> {
        // Clients recognise a permission prompt by its first option.
        let once = match question.holds {
            AnswerExtent::Change => "Allow this from now on",
            _ => "Allow this once",
        };
        let mut choices = vec![
            (once, Answer::AllowOnce),
            ("Allow this for the session", Answer::AllowSubject),
            ("Allow all of it for the session", Answer::AllowCapability),
            ("Deny", Answer::Deny),
            ("Never allow this", Answer::DenyAlways),
            ("Allow all that it requests, for the session", Answer::AllowPackage),
            ("Always allow all that it requests", Answer::AllowPackageAlways),
        ];
        if question.package.is_empty() {
            choices.truncate(5);
        }
        if !question.is_whole {
            choices.retain(|(_, answer)| *answer != Answer::AllowSubject);
        }
        if question.holds.is_yes_or_no() {
            choices.retain(|(_, answer)| matches!(answer, Answer::AllowOnce | Answer::Deny));
        }
        let notes: String = question.warnings.iter().map(|warning| format!("\nnote: {warning}")).collect();
        let all: String = question.package.iter().map(|line| format!("\n- {line}")).collect();
        let all = if all.is_empty() { all } else { format!("\nall that it requests:{all}") };
        let title = format!("{} asks to {}: {}{notes}{all}", question.who(), question.what, question.subject);
        let options: Vec<&str> = choices.iter().map(|(words, _)| *words).collect();
        let open = RpcUi::ask(self, UiOp::Select, json!({"title": title, "options": options}), None);
        Box::pin(async move {
            let Ok(response) = open.response.await else { return Answer::NoPerson };
            let chosen = answer(UiOp::Select, Some(response));
            let chosen = choices.iter().find(|(words, _)| chosen["value"] == *words);
            chosen.map_or(Answer::Deny, |(_, answer)| *answer)
        })
    }
}

/// Returns the result of a dialog for the extension; `None` as the response means that the dialog was cancelled.
fn answer(op: UiOp, response: Option<Value>) -> Value {
    let is_cancelled = |response: &Value| response["cancelled"] == Value::Bool(true);
    match (op, response.filter(|response| !is_cancelled(response))) {
        (UiOp::Confirm, Some(response)) => json!({"value": response["confirmed"] == Value::Bool(true)}),
        (UiOp::Confirm, None) => json!({"value": false}),
        (_, Some(response)) => match response.get("value") {
            Some(value) => json!({"value": value}),
            None => json!({}),
        },
        (_, None) => json!({}),
    }
}

async fn after(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_hostcall::Profile;

    #[tokio::test]
    async fn an_answer_is_told_to_whoever_asked() {
        let ui = RpcUi::new(Wire::new(std::io::sink()));
        let [own, other] = ["path:/own", "path:/other"].map(|id| Caller::new(Arc::new(Profile::new(id))));
        let call = |op: UiOp, params: Value| UiCall { op, params: params.as_object().cloned().unwrap_or_default() };
        let opened = ui.call_sync(&own, call(UiOp::Input, json!({"title": "password"}))).expect("there is room");
        let id = ui.lock().waiting.keys().next().cloned().expect("it is asked");
        ui.respond(json!({"id": id, "value": "secret"}));
        let asks = |caller: &Caller| ui.call(caller, call(UiOp::Answer, opened.clone()), CancelToken::new());
        assert_eq!(asks(&other).await.expect("no error"), json!({}));
        assert_eq!(asks(&own).await.expect("no error"), json!({"value": "secret"}));
    }
}
