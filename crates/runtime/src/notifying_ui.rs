//! Notifies extensions when one of them prompts the user, and when the prompt closes.

use pijs_agent::{AgentControl, UiPrompt};
use pijs_connectors::ports::{PortAnswer, UiCall, UiOp, UiPort};
use pijs_hostcall::{Caller, CancelToken};
use pijs_protocol::{ExtensionId, HostcallError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Key of an open dialog or component: extension, kind and number.
type OpenPrompt = (ExtensionId, &'static str, u64);

/// A UI port that notifies extensions of its prompts.
pub(crate) struct NotifyingUi {
    port: Arc<dyn UiPort>,
    control: AgentControl,
    open: Mutex<BTreeMap<OpenPrompt, UiPrompt>>,
    /// Answers to dialogs that were resolved at once, kept until extensions have been notified of the prompt.
    answered: Mutex<EarlyAnswers>,
}

/// Answers by the number of their dialog.
#[derive(Default)]
struct EarlyAnswers {
    values: BTreeMap<(ExtensionId, u64), Value>,
    next: u64,
}

/// First number of [`EarlyAnswers`]; ports never count that far.
const FIRST_ANSWERED: u64 = 1 << 40;

impl NotifyingUi {
    pub(crate) fn new(port: Arc<dyn UiPort>, control: AgentControl) -> Self {
        Self { port, control, open: Mutex::default(), answered: Mutex::default() }
    }

    /// Keeps an answer until the extension fetches it.
    fn answer_later(&self, caller: &Caller, answer: Value) -> Value {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let number = FIRST_ANSWERED + answered.next;
        answered.next += 1;
        answered.values.insert((caller.extension().clone(), number), answer);
        json!({"dialog": number})
    }

    fn take_answered(&self, caller: &Caller, call: &UiCall) -> Option<Value> {
        let number = call.params.get("dialog").and_then(Value::as_u64).filter(|_| call.op == UiOp::Answer)?;
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.values.remove(&(caller.extension().clone(), number))
    }

    /// Removes and returns the prompt that a call closes.
    fn ended(&self, caller: &Caller, call: &UiCall) -> Option<UiPrompt> {
        let number = |key| call.params.get(key).and_then(Value::as_u64);
        let key = match call.op {
            UiOp::Answer => match number("dialog") {
                Some(dialog) => ("dialog", dialog),
                None => ("component", number("component")?),
            },
            UiOp::Closed => ("component", number("component")?),
            _ => return None,
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(&(caller.extension().clone(), key.0, key.1))
    }
}

impl UiPort for NotifyingUi {
    fn call(&self, caller: &Caller, call: UiCall, cancel: CancelToken) -> PortAnswer {
        let prompt = self.ended(caller, &call);
        let answer = match self.take_answered(caller, &call) {
            Some(answer) => Box::pin(std::future::ready(Ok(answer))),
            None => self.port.call(caller, call, cancel),
        };
        let control = self.control.clone();
        Box::pin(async move {
            let answer = answer.await;
            // As in pi, the caller continues after the others have been notified that the prompt closed.
            if let Some(prompt) = prompt.filter(|_| control.has_prompt_handlers()) {
                drop(prompt);
                control.barrier().await;
            }
            answer
        })
    }

    fn call_sync(&self, caller: &Caller, call: UiCall) -> Result<Value, HostcallError> {
        let (op, title) = (call.op, call.params.get("title").and_then(Value::as_str).unwrap_or_default().to_owned());
        let component = call.params.get("component").and_then(Value::as_u64);
        drop(self.ended(caller, &call));
        let answer = self.port.call_sync(caller, call)?;
        if matches!(op, UiOp::Select | UiOp::Confirm | UiOp::Input | UiOp::Editor | UiOp::Custom) {
            let prompt = self.control.ui_prompt(op.as_str(), &title);
            let mut answer = answer;
            if op != UiOp::Custom && answer.get("dialog").is_none() && self.control.has_prompt_handlers() {
                answer = self.answer_later(caller, answer);
            }
            let dialog = answer.get("dialog").and_then(Value::as_u64).map(|dialog| ("dialog", dialog));
            let drawn = component.filter(|_| answer.get("draws") == Some(&Value::Bool(true)));
            // A prompt that was answered at once is not open.
            if let Some((kind, number)) = dialog.or(drawn.map(|component| ("component", component))) {
                let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
                open.insert((caller.extension().clone(), kind, number), prompt);
            }
            return Ok(answer);
        }
        Ok(answer)
    }
}
