//! The user interface of a scenario: records everything, answers dialogs from the script, and in mode `tui` draws components at
//! the given width.

use super::keys::{Keys, PendingGuard};
use super::scenario::{Ui, UiMode};
use super::trace::{ItemIndex, Trace};
use crate::normalise::without_escapes;
use pijs_agent::StateSink;
use pijs_connectors::ports::{PortAnswer, UiCall, UiOp, UiPort, dialog_timeout};
use pijs_hostcall::{Caller, CancelToken};
use pijs_protocol::{ExtensionId, HostcallError};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The recording user interface.
pub(super) struct RecordedUi {
    mode: UiMode,
    real_timeouts: bool,
    trace: Trace,
    state: Arc<dyn StateSink>,
    keys: mpsc::UnboundedSender<KeyWork>,
    first_keys: Keys,
    inner: Mutex<RecordingState>,
}

struct RecordingState {
    answers: Vec<Map<String, Value>>,
    editor_text: String,
    dialogs: BTreeMap<u64, Dialog>,
    next_dialog: u64,
    /// Components by extension and handle.
    components: BTreeMap<(ExtensionId, u64), PlacedComponent>,
}

/// A dialog without a scripted answer, which stays open until its signal or its timeout.
struct Dialog {
    item: ItemIndex,
    timeout: Option<Duration>,
}

struct PlacedComponent {
    item: ItemIndex,
    /// The scripted actions of a `custom` component, until it is drawn for the first time.
    custom: Option<Custom>,
}

struct Custom {
    answer: Option<Map<String, Value>>,
    /// Receiver of the result, which the realm's `answer` call takes.
    outcome: Option<oneshot::Receiver<Option<Value>>>,
    close: Option<oneshot::Sender<Option<Value>>>,
    /// Cancels [`KeyWork::gone`] when the component is closed.
    gone: DropGuard,
    /// Keeps the first key pending; set if keys are scripted.
    first_key: Option<PendingGuard>,
}

/// A request to press the scripted keys of a custom component that was drawn, and then to close the component if the script says
/// so.
pub(super) struct KeyWork {
    pub(super) extension: ExtensionId,
    pub(super) component: u64,
    pub(super) item: ItemIndex,
    pub(super) answer: Option<Map<String, Value>>,
    pub(super) close: oneshot::Sender<Option<Value>>,
    /// Cancelled when the component has closed itself.
    pub(super) gone: CancellationToken,
    pub(super) first_key: Option<PendingGuard>,
}

impl RecordedUi {
    /// Creates the interface with its scripted answers, in which placeholders such as `{{cwd}}` are already replaced.
    pub(super) fn new(
        ui: &Ui,
        answers: Vec<Map<String, Value>>,
        trace: Trace,
        state: Arc<dyn StateSink>,
        first_keys: Keys,
    ) -> (Self, mpsc::UnboundedReceiver<KeyWork>) {
        let (keys, work) = mpsc::unbounded_channel();
        let inner = RecordingState {
            answers,
            editor_text: String::new(),
            dialogs: BTreeMap::new(),
            next_dialog: 1,
            components: BTreeMap::new(),
        };
        let inner = Mutex::new(inner);
        (Self { mode: ui.mode, real_timeouts: ui.real_timeouts, trace, state, keys, first_keys, inner }, work)
    }

    /// Returns the number of unused scripted answers.
    pub(super) fn answers_left(&self) -> usize {
        self.lock().answers.iter().filter(|answer| !truthy(answer.get("repeat"))).count()
    }

    fn record(&self, method: &str, mut args: Vec<Value>) -> ItemIndex {
        while args.last() == Some(&Value::Null) && !keeps_null(method, args.len()) {
            args.pop();
        }
        self.trace.record("ui", json!({"method": method, "args": args}))
    }

    /// Takes the first unused answer that matches the method and its arguments.
    fn take(&self, method: &str, args: &[Value]) -> Option<Map<String, Value>> {
        let text = without_escapes(&serde_json::to_string(args).unwrap_or_default());
        let mut inner = self.lock();
        let fits = |answer: &Map<String, Value>| {
            let part = answer.get("match").and_then(Value::as_str).unwrap_or_default();
            answer.get("method").and_then(Value::as_str) == Some(method) && text.contains(part)
        };
        let at = inner.answers.iter().position(fits)?;
        if truthy(inner.answers[at].get("repeat")) {
            return Some(inner.answers[at].clone());
        }
        Some(inner.answers.remove(at))
    }

    /// Opens a dialog. A scripted answer is returned at once.
    fn dialog(&self, method: &str, args: Vec<Value>, params: &Map<String, Value>) -> Value {
        let mut shown = args.clone();
        shown.extend(params.get("settings").cloned());
        let item = self.trace.record("ui", json!({"method": method, "args": shown}));
        if truthy(params.get("aborted")) {
            self.trace.set(item, "answer", "<aborted>".into());
            return json!({});
        }
        let answer = self.take(method, &args);
        let timeout = dialog_timeout(params);
        let hangs = answer.as_ref().is_some_and(|answer| truthy(answer.get("hang")));
        if hangs || (answer.is_none() && timeout.is_some() && self.real_timeouts) {
            let mut inner = self.lock();
            let number = inner.next_dialog;
            inner.next_dialog += 1;
            inner.dialogs.insert(number, Dialog { item, timeout });
            return json!({"dialog": number});
        }
        let value = answer.as_ref().and_then(|answer| answer.get("value")).filter(|value| !value.is_null());
        let given = value.and_then(|value| read(method, value, &args));
        // A cancelled confirmation counts as *no*.
        let given = if method == "confirm" { Some(given.unwrap_or(false.into())) } else { given };
        let noted = match (&answer, &given) {
            (None, _) => "<none>".into(),
            (Some(_), None) => "<cancelled>".into(),
            (Some(_), Some(value)) => value.clone(),
        };
        self.trace.set(item, "answer", noted);
        given.map_or_else(|| json!({}), |value| json!({"value": value}))
    }

    /// Records a component that may be drawn in a fixed position.
    fn place(&self, caller: &Caller, method: &str, mut args: Vec<Value>, params: &Map<String, Value>) -> Value {
        let component = params.get("component").and_then(Value::as_u64);
        let content = match component {
            Some(_) => "<function>".into(),
            None => params.get("content").cloned().unwrap_or_default(),
        };
        args.push(content);
        args.extend(params.get("options").cloned());
        let item = self.trace.record("ui", json!({"method": method, "args": args}));
        let Some(component) = component.filter(|_| self.mode == UiMode::Tui) else { return json!({}) };
        self.lock().components.insert((caller.extension().clone(), component), PlacedComponent { item, custom: None });
        json!({"draws": true})
    }

    fn custom(&self, caller: &Caller, params: &Map<String, Value>) -> Value {
        let mut args = vec!["<function>".into()];
        args.extend(params.get("options").cloned());
        let item = self.trace.record("ui", json!({"method": "custom", "args": args}));
        let answer = self.take("custom", &args);
        let Some(component) = params.get("component").and_then(Value::as_u64).filter(|_| self.mode == UiMode::Tui)
        else {
            return json!({});
        };
        let (close, outcome) = oneshot::channel();
        let has_keys = |answer: &Map<String, Value>| {
            answer.get("keys").and_then(Value::as_array).is_some_and(|keys| !keys.is_empty())
        };
        let first_key = answer.as_ref().is_some_and(has_keys).then(|| self.first_keys.expect());
        let custom = Custom {
            answer,
            outcome: Some(outcome),
            close: Some(close),
            gone: CancellationToken::new().drop_guard(),
            first_key,
        };
        let placed = PlacedComponent { item, custom: Some(custom) };
        self.lock().components.insert((caller.extension().clone(), component), placed);
        json!({"draws": true})
    }

    /// Records the first rendering of a new component in its item, and sends the scripted keys to a custom component.
    fn drawn(&self, caller: &Caller, params: &Map<String, Value>) {
        let Some(component) = params.get("component").and_then(Value::as_u64) else { return };
        let mut inner = self.lock();
        let Some(placed) = inner.components.get_mut(&(caller.extension().clone(), component)) else { return };
        match params.get("error") {
            Some(error) => self.trace.set(placed.item, "error", error.clone()),
            None => self.trace.set(placed.item, "render", shown_lines(params.get("lines").unwrap_or(&Value::Null))),
        }
        let custom = placed.custom.as_mut();
        let taken = custom.and_then(|custom| {
            Some((custom.close.take()?, custom.answer.take(), custom.first_key.take(), custom.gone.token().clone()))
        });
        if let Some((close, answer, first_key, gone)) = taken {
            let extension = caller.extension().clone();
            // The receiver is dropped when the driver is closed; no more keys are pressed then.
            let _ = self.keys.send(KeyWork { extension, component, item: placed.item, answer, close, gone, first_key });
        }
    }

    fn closed(&self, caller: &Caller, params: &Map<String, Value>) {
        let Some(component) = params.get("component").and_then(Value::as_u64) else { return };
        if let Some(placed) = self.lock().components.remove(&(caller.extension().clone(), component)) {
            let value = params.get("value").cloned().unwrap_or_else(|| "<undefined>".into());
            self.trace.set(placed.item, "answer", value);
        }
    }

    fn lock(&self) -> MutexGuard<'_, RecordingState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pending call of a dialog without a scripted answer. The call is dropped when the extension aborts the dialog.
struct OpenDialog {
    trace: Trace,
    item: ItemIndex,
    noted: &'static str,
}

impl OpenDialog {
    fn ended(mut self, noted: &'static str) {
        self.noted = noted;
    }
}

impl Drop for OpenDialog {
    fn drop(&mut self) {
        self.trace.set(self.item, "answer", self.noted.into());
    }
}

impl UiPort for RecordedUi {
    fn call(&self, caller: &Caller, call: UiCall, cancel: CancelToken) -> PortAnswer {
        if call.op != UiOp::Answer {
            return Box::pin(std::future::ready(self.call_sync(caller, call)));
        }
        let number = |key: &str| call.params.get(key).and_then(Value::as_u64);
        if let Some(dialog) = number("dialog").and_then(|number| self.lock().dialogs.remove(&number)) {
            let open = OpenDialog { trace: self.trace.clone(), item: dialog.item, noted: "<aborted>" };
            return Box::pin(async move {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => drop(open),
                    () = timeout(dialog.timeout) => open.ended("<timeout>"),
                }
                Ok(json!({}))
            });
        }
        let key = (caller.extension().clone(), number("component").unwrap_or(u64::MAX));
        let outcome = self.lock().components.get_mut(&key).and_then(|placed| placed.custom.as_mut()?.outcome.take());
        Box::pin(async move {
            let value = match outcome {
                Some(outcome) => outcome.await.ok().flatten(),
                None => None,
            };
            Ok(value.map_or_else(|| json!({}), |value| json!({"value": value})))
        })
    }

    fn call_sync(&self, caller: &Caller, call: UiCall) -> Result<Value, HostcallError> {
        let params = &call.params;
        let get = |key: &str| params.get(key).cloned().unwrap_or_default();
        match call.op {
            UiOp::Select => return Ok(self.dialog("select", vec![get("title"), get("options")], params)),
            UiOp::Confirm => {
                let args = std::iter::once(get("title")).chain(params.get("message").cloned()).collect();
                return Ok(self.dialog("confirm", args, params));
            }
            UiOp::Input => return Ok(self.dialog("input", vec![get("title"), get("placeholder")], params)),
            UiOp::Editor => return Ok(self.dialog("editor", vec![get("title"), get("prefill")], params)),
            UiOp::SetWidget => return Ok(self.place(caller, "setWidget", vec![get("key")], params)),
            UiOp::SetFooter => return Ok(self.place(caller, "setFooter", Vec::new(), params)),
            UiOp::SetHeader => return Ok(self.place(caller, "setHeader", Vec::new(), params)),
            UiOp::Custom => return Ok(self.custom(caller, params)),
            UiOp::Drawn => self.drawn(caller, params),
            UiOp::Closed => self.closed(caller, params),
            UiOp::Notify => drop(self.record("notify", vec![get("message"), get("type")])),
            UiOp::SetStatus => drop(self.record("setStatus", vec![get("key"), get("text")])),
            UiOp::SetTitle => drop(self.record("setTitle", vec![get("title")])),
            UiOp::SetWorkingMessage => drop(self.record("setWorkingMessage", vec![get("message")])),
            UiOp::SetWorkingVisible => drop(self.record("setWorkingVisible", vec![get("visible")])),
            UiOp::SetWorkingIndicator => drop(self.record("setWorkingIndicator", vec![get("options")])),
            UiOp::SetHiddenThinkingLabel => drop(self.record("setHiddenThinkingLabel", vec![get("label")])),
            UiOp::OnTerminalInput => drop(self.record("onTerminalInput", vec!["<function>".into()])),
            UiOp::AddAutocompleteProvider => drop(self.record("addAutocompleteProvider", vec!["<function>".into()])),
            UiOp::SetEditorComponent => {
                let factory = if truthy(params.get("custom")) { "<function>".into() } else { Value::Null };
                self.trace.record("ui", json!({"method": "setEditorComponent", "args": [factory]}));
            }
            UiOp::SetEditorText | UiOp::PasteToEditor => {
                let text = get("text");
                let shown = text.as_str().unwrap_or_default();
                let is_set = call.op == UiOp::SetEditorText;
                let mut inner = self.lock();
                if is_set {
                    inner.editor_text.clear();
                }
                inner.editor_text.push_str(shown);
                drop(inner);
                self.record(if is_set { "setEditorText" } else { "pasteToEditor" }, vec![text]);
            }
            UiOp::GetEditorText => {
                let text = if self.mode == UiMode::Tui { self.lock().editor_text.clone() } else { String::new() };
                return Ok(json!({"text": text}));
            }
            UiOp::SetTheme => {
                self.record("setTheme", vec![get("theme")]);
                return Ok(match self.mode {
                    UiMode::Tui => json!({"success": true}),
                    _ => json!({"success": false, "error": "Theme switching not supported in RPC mode"}),
                });
            }
            UiOp::SetToolsExpanded => {
                if self.mode == UiMode::Tui {
                    self.state.set("toolsExpanded", get("expanded"));
                }
                self.record("setToolsExpanded", vec![get("expanded")]);
            }
            UiOp::Redraw
            | UiOp::Answer
            | UiOp::Overlay
            | UiOp::Suggest
            | UiOp::EndTerminalInput
            | UiOp::EditorText
            | UiOp::EditorSubmit
            | UiOp::EditorAction => {}
        }
        Ok(json!({}))
    }
}

/// Returns whether a trailing null argument is kept: a cleared status is recorded as null; for other methods, a null at the end
/// is an absent argument.
fn keeps_null(method: &str, length: usize) -> bool {
    method == "setStatus" && length == 2
}

fn truthy(value: Option<&Value>) -> bool {
    value.is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)) && value.as_f64() != Some(0.0))
}

/// Converts the script's value to the user's answer.
fn read(method: &str, value: &Value, args: &[Value]) -> Option<Value> {
    match (method, value) {
        ("confirm", value) => Some((*value == Value::Bool(true)).into()),
        ("select", Value::Object(chosen)) => {
            let index = usize::try_from(chosen.get("index")?.as_u64()?).ok()?;
            args.get(1)?.get(index).cloned()
        }
        ("editor", Value::Object(changed)) => {
            let before = args.get(1).and_then(Value::as_str).unwrap_or_default();
            let added = changed.get("append").and_then(Value::as_str).unwrap_or_default();
            Some(format!("{before}{added}").into())
        }
        ("input", Value::String(_)) => Some(value.clone()),
        ("input", other) => Some(other.to_string().into()),
        (_, value) => Some(value.clone()),
    }
}

/// Returns lines in their compared form: no escape sequences, no blank lines at the end.
pub(super) fn shown_lines(lines: &Value) -> Value {
    let lines = lines.as_array().into_iter().flatten();
    lines.map(|line| Value::from(without_escapes(line.as_str().unwrap_or_default()).trim_end())).collect()
}

/// Returns the characters that a key sends, one piece per key press.
pub(super) fn key_presses(key: &str) -> Vec<String> {
    if let Some(typed) = key.strip_prefix("text:") {
        return typed.chars().map(String::from).collect();
    }
    let sent = match key {
        "enter" => "\r",
        "esc" | "escape" => "\u{1b}",
        "up" => "\u{1b}[A",
        "down" => "\u{1b}[B",
        "right" => "\u{1b}[C",
        "left" => "\u{1b}[D",
        "home" => "\u{1b}[H",
        "end" => "\u{1b}[F",
        "tab" => "\t",
        "shift+tab" => "\u{1b}[Z",
        "space" => " ",
        "backspace" => "\u{7f}",
        "ctrl+c" => "\u{3}",
        "ctrl+d" => "\u{4}",
        "ctrl+s" => "\u{13}",
        raw => raw,
    };
    vec![sent.to_owned()]
}

async fn timeout(after: Option<Duration>) {
    match after {
        Some(after) => tokio::time::sleep(after).await,
        None => std::future::pending().await,
    }
}
