//! `ctx.ui` on the screen, and the questions of the gate.

use super::layers::{Asked, ComponentId, Custom, Dialog, Layer, Overlay};
use super::screen::Screen;
use super::transcript::Style;
use super::view::{Content, Drawn, Working};
use pijs_connectors::ports::{PortAnswer, UiCall, UiOp, UiPort};
use pijs_host::ReadableState;
use pijs_hostcall::{Answer, BoxFuture, Caller, CancelToken, Prompter, Question};
use pijs_protocol::{ExtensionId, HostcallError};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Most lines of a component that are kept; a screen has fewer.
const MOST_LINES: usize = 1_000;
/// Frames of a working indicator.
const MOST_FRAMES: usize = 100;

/// The person at the terminal.
#[derive(Clone)]
pub(super) struct TuiPort {
    screen: Screen,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// What extensions read; there once the session is put together.
    state: OnceLock<ReadableState>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// Dialogs whose answer has not been asked for, with their time limit.
    dialogs: BTreeMap<u64, (oneshot::Receiver<Option<Value>>, Option<Duration>)>,
    /// Custom components likewise.
    customs: BTreeMap<ComponentId, oneshot::Receiver<()>>,
}

impl TuiPort {
    pub(super) fn new(screen: Screen) -> Self {
        Self { screen, shared: Arc::default() }
    }

    /// Where members such as `footer` and `toolsExpanded` are published.
    pub(super) fn publish_to(&self, state: ReadableState) {
        // There is one session.
        let _ = self.shared.state.set(state);
        self.publish_footer();
    }

    fn publish(&self, key: &str, value: Value) {
        if let Some(state) = self.shared.state.get() {
            state.set(key, value);
        }
    }

    /// What an extension's footer reads.
    fn publish_footer(&self) {
        let statuses: Map<String, Value> = self
            .screen
            .read(|view| view.statuses.iter().map(|((_, key), text)| (key.clone(), text.clone().into())).collect());
        self.publish("footer", json!({"statuses": statuses, "providers": 1}));
        self.screen.change(|view| {
            for id in view.footers.clone() {
                view.dirty(&id);
            }
        });
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, caller: &Caller, op: UiOp, params: &Map<String, Value>) -> Value {
        if params.contains_key("aborted") {
            return json!({});
        }
        let timeout = params.get("timeout").and_then(Value::as_f64).filter(|ms| *ms > 0.0);
        let timeout = timeout.map(|ms| Duration::from_secs_f64((ms / 1000.0).min(86_400.0)));
        let (done, answer) = oneshot::channel();
        let mut waiting = self.waiting();
        waiting.next += 1;
        let number = waiting.next;
        waiting.dialogs.insert(number, (answer, timeout));
        drop(waiting);
        let mut dialog = Dialog::new(number, caller.extension().clone(), op.as_str(), params);
        dialog.deadline = timeout.map(|timeout| Instant::now() + timeout);
        dialog.done = Some(done);
        self.screen.change(|view| {
            if !view.is_leaving {
                view.layers.push(Layer::Dialog(dialog));
            }
        });
        json!({"dialog": number})
    }

    /// Something in one of the fixed places.
    fn place(&self, caller: &Caller, op: UiOp, params: &Map<String, Value>) -> Value {
        let extension = caller.extension().clone();
        let component = component_of(caller, params);
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
        self.screen.change(|view| {
            if let Some(id) = &component {
                view.components.insert(id.clone(), Drawn::default());
            }
            match op {
                UiOp::SetWidget => {
                    let lines =
                        params.get("content").and_then(Value::as_array).map(|lines| Content::Lines(texts(lines)));
                    let content = component.clone().map(Content::Component).or(lines);
                    let placement = params.get("options").and_then(|options| options["placement"].as_str());
                    view.set_widget(extension, text("key").to_owned(), content, placement == Some("belowEditor"));
                }
                UiOp::SetHeader | UiOp::SetFooter => {
                    let place = if op == UiOp::SetHeader { &mut view.headers } else { &mut view.footers };
                    let old: Vec<ComponentId> = place.extract_if(.., |id| id.0 == extension).collect();
                    place.extend(component.clone());
                    for id in old {
                        view.components.remove(&id);
                    }
                }
                _ => {}
            }
        });
        if component.is_some() { json!({"draws": true}) } else { json!({}) }
    }

    fn custom(&self, caller: &Caller, params: &Map<String, Value>) -> Value {
        let Some(id) = component_of(caller, params) else { return json!({}) };
        let options = params.get("options").cloned().unwrap_or_default();
        let floats = options["overlay"] == Value::Bool(true);
        let overlay = floats.then(|| Overlay(options.get("overlayOptions").cloned().unwrap_or_default()));
        let (end, ended) = oneshot::channel();
        self.waiting().customs.insert(id.clone(), ended);
        let custom = Custom { id: id.clone(), overlay, is_there: false, end };
        self.screen.change(|view| {
            if !view.is_leaving {
                view.components.insert(id, Drawn::default());
                view.layers.push(Layer::Custom(custom));
            }
        });
        json!({"draws": true})
    }

    fn drawn(&self, caller: &Caller, params: &Map<String, Value>) {
        let Some(id) = component_of(caller, params) else { return };
        let columns = self.screen.read(|view| view.size.0);
        self.screen.change(|view| {
            if let Some(error) = params.get("error").and_then(Value::as_str) {
                view.close_component(&id);
                view.say(Style::Error, &format!("{}: a component failed: {error}", id.0));
                return;
            }
            if let Some(drawn) = view.components.get_mut(&id) {
                let lines = params.get("lines").and_then(Value::as_array);
                (drawn.lines, drawn.width) = (lines.map(|lines| texts(lines)).unwrap_or_default(), columns);
            }
            if let Some(custom) = view.custom(&id) {
                custom.is_there = true;
            }
        });
    }

    fn tell(&self, caller: &Caller, call: &UiCall) -> Result<Value, HostcallError> {
        let extension = || caller.extension().clone();
        let params = &call.params;
        let text = |key: &str| params.get(key).and_then(Value::as_str).map(str::to_owned);
        match call.op {
            UiOp::Notify => {
                let style = match params.get("type").and_then(Value::as_str) {
                    Some("error") => Style::Error,
                    Some("warning") => Style::Warning,
                    _ => Style::Info,
                };
                let message = text("message").unwrap_or_default();
                self.screen.change(|view| view.say(style, &crate::output::indented(&message)));
            }
            UiOp::SetStatus => {
                let key = (extension(), text("key").unwrap_or_default());
                self.screen.change(|view| match text("text") {
                    Some(text) => drop(view.statuses.insert(key, text)),
                    None => drop(view.statuses.remove(&key)),
                });
                self.publish_footer();
            }
            UiOp::SetTitle => self.screen.change(|view| view.title = text("title")),
            UiOp::SetWorkingMessage => self.screen.change(|view| view.working.message = text("message")),
            UiOp::SetWorkingVisible => {
                let is_visible = params.get("visible") != Some(&Value::Bool(false));
                self.screen.change(|view| view.working.is_visible = is_visible);
            }
            UiOp::SetWorkingIndicator => {
                let options = params.get("options").cloned().unwrap_or_default();
                self.screen.change(|view| {
                    let standard = Working::default();
                    let frames =
                        options["frames"].as_array().map(|frames| texts(&frames[..frames.len().min(MOST_FRAMES)]));
                    view.working.frames = frames.unwrap_or(standard.frames);
                    let interval = options["intervalMs"].as_u64().map(|ms| Duration::from_millis(ms.clamp(16, 60_000)));
                    view.working.interval = interval.unwrap_or(standard.interval);
                });
            }
            UiOp::SetHiddenThinkingLabel => self.screen.change(|view| view.thinking_label = text("label")),
            UiOp::SetEditorText => self.screen.change(|view| view.editor.set(&text("text").unwrap_or_default())),
            UiOp::PasteToEditor => self.screen.change(|view| view.editor.insert(&text("text").unwrap_or_default())),
            UiOp::GetEditorText => return Ok(json!({"text": self.screen.read(|view| view.editor.text().to_owned())})),
            // The theme lives in the realm, which draws with it.
            UiOp::SetTheme => {
                let known = matches!(text("theme").as_deref(), Some("dark" | "light" | "<theme>"));
                self.screen.change(|view| view.dirty_all(caller.extension()));
                return Ok(match known {
                    true => json!({"success": true}),
                    false => {
                        json!({"success": false, "error": format!("Theme not found: {}", text("theme").unwrap_or_default())})
                    }
                });
            }
            UiOp::SetToolsExpanded => {
                let expanded = params.get("expanded") == Some(&Value::Bool(true));
                self.screen.change(|view| view.expanded = expanded);
                self.publish("toolsExpanded", expanded.into());
            }
            UiOp::Redraw => self.screen.change(|view| view.dirty_all(caller.extension())),
            UiOp::Drawn => self.drawn(caller, params),
            UiOp::Closed => {
                if let Some(id) = component_of(caller, params) {
                    self.waiting().customs.remove(&id);
                    self.screen.change(|view| view.close_component(&id));
                }
            }
            // The editor stays pi's; raw keys are nobody's but the component's that has them visibly.
            UiOp::SetEditorComponent | UiOp::AddAutocompleteProvider | UiOp::OnTerminalInput | UiOp::Answer => {}
            UiOp::Select | UiOp::Confirm | UiOp::Input | UiOp::Editor => {
                return Ok(self.open(caller, call.op, params));
            }
            UiOp::SetWidget | UiOp::SetHeader | UiOp::SetFooter => return Ok(self.place(caller, call.op, params)),
            UiOp::Custom => return Ok(self.custom(caller, params)),
        }
        Ok(json!({}))
    }
}

impl UiPort for TuiPort {
    fn call(&self, caller: &Caller, call: UiCall, cancel: CancelToken) -> PortAnswer {
        if call.op != UiOp::Answer {
            return Box::pin(std::future::ready(self.tell(caller, &call)));
        }
        let port = self.clone();
        let number = call.params.get("dialog").and_then(Value::as_u64);
        if let Some(number) = number {
            let dialog = self.waiting().dialogs.remove(&number);
            return Box::pin(async move {
                let Some((answer, timeout)) = dialog else { return Ok(json!({})) };
                let value = tokio::select! {
                    biased;
                    answer = answer => answer.ok().flatten(),
                    () = cancel.cancelled() => None,
                    () = after(timeout) => None,
                };
                port.screen.change(|view| view.close_dialog(number));
                Ok(value.map_or_else(|| json!({}), |value| json!({"value": value})))
            });
        }
        let id = component_of(caller, &call.params);
        let ended = id.as_ref().and_then(|id| self.waiting().customs.remove(id));
        Box::pin(async move {
            if let (Some(id), Some(ended)) = (id, ended) {
                // The sender is dropped when the person or the session closes the component.
                tokio::select! {
                    _ = ended => {}
                    () = cancel.cancelled() => {}
                }
                port.screen.change(|view| view.close_component(&id));
            }
            Ok(json!({}))
        })
    }

    fn call_sync(&self, caller: &Caller, call: UiCall) -> Result<Value, HostcallError> {
        self.tell(caller, &call)
    }
}

impl Prompter for TuiPort {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answer> {
        let (answer, answered) = oneshot::channel();
        self.screen.change(|view| {
            if !view.is_leaving {
                view.questions.push_back(Asked::new(question, answer));
            }
        });
        Box::pin(async move { answered.await.unwrap_or(Answer::NoPerson) })
    }
}

impl super::view::View {
    /// A component has changed.
    pub(super) fn dirty(&mut self, id: &ComponentId) {
        if let Some(drawn) = self.components.get_mut(id) {
            drawn.is_dirty = true;
        }
    }

    /// Some component of an extension has changed.
    fn dirty_all(&mut self, extension: &ExtensionId) {
        for ((owner, _), drawn) in &mut self.components {
            drawn.is_dirty |= owner == extension;
        }
    }
}

fn component_of(caller: &Caller, params: &Map<String, Value>) -> Option<ComponentId> {
    let handle = u32::try_from(params.get("component")?.as_u64()?).ok()?;
    Some((caller.extension().clone(), handle))
}

/// What pi-tui's components put before their cursor; they draw one as well.
const CURSOR_MARKER: &str = "\u{1b}_pi:c\u{7}";

/// Lines as texts; of very many, the first.
pub(super) fn texts(lines: &[Value]) -> Vec<String> {
    let text = |line: &Value| line.as_str().unwrap_or_default().replace(CURSOR_MARKER, "");
    lines.iter().take(MOST_LINES).map(text).collect()
}

async fn after(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}
