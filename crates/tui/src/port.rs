//! Implements `ctx.ui` and the permission prompts of the gate.

use super::clip::{self, LONGEST_LINE, clipped};
use super::completion::{CompletionProvider, PendingSuggestion};
use super::completion_request::CompletionRequest;
use super::dialog::ExtensionDialog;
use super::floating::{CustomComponent, Overlay};
use super::inserted_text::command_sign;
use super::key_dispatch::is_on;
use super::layers::Layer;
use super::permission_prompt::PermissionPrompt;
use super::picture::{picture, texts};
use super::screen::Screen;
use super::task::UiTask;
use super::text_field::LONGEST;
use super::transcript::Style;
use super::view::{ComponentId, WidgetContent, too_large};
use pijs_connectors::ports::{PortAnswer, UiCall, UiOp, UiPort, dialog_timeout};
use pijs_host::ReadableState;
use pijs_hostcall::{Answer, BoxFuture, Caller, CancelToken, Prompter, Question};
use pijs_protocol::{ExtensionId, HostcallError, guard};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Maximum number of trigger characters of a completion provider.
const MAX_TRIGGERS: usize = 64;

/// The port to the user at the terminal.
#[derive(Clone)]
pub(super) struct TuiPort {
    screen: Screen,
    shared: Arc<PortState>,
}

#[derive(Default)]
struct PortState {
    /// State that extensions read, once the session exists.
    state: OnceLock<ReadableState>,
    waiting: Mutex<PendingAnswers>,
}

/// A pending answer with the timeout of the dialog.
type PendingAnswer = (oneshot::Receiver<Option<Value>>, Option<Duration>);

#[derive(Default)]
struct PendingAnswers {
    next: u64,
    /// Open dialogs whose answer is not awaited yet, with their timeouts.
    dialogs: BTreeMap<(ExtensionId, u64), PendingAnswer>,
    /// Custom components that are not awaited yet.
    customs: BTreeMap<ComponentId, oneshot::Receiver<()>>,
}

impl TuiPort {
    pub(super) fn new(screen: Screen) -> Self {
        Self { screen, shared: Arc::default() }
    }

    /// Sets the state in which `footer`, `toolsExpanded` and other members are published.
    pub(super) fn publish_to(&self, state: ReadableState) {
        // There is a single session.
        let _ = self.shared.state.set(state);
        self.publish_footer();
    }

    fn publish(&self, key: &str, value: Value) {
        if let Some(state) = self.shared.state.get() {
            state.set(key, value);
        }
    }

    /// Publishes the data of footers to extensions.
    pub(super) fn publish_footer(&self) {
        let statuses: Map<String, Value> = self.screen.read(|view| {
            view.widgets.statuses.iter().map(|((_, key), text)| (key.clone(), text.clone().into())).collect()
        });
        let branch = self.screen.read(|view| view.session.branch.clone());
        let models = self.shared.state.get().and_then(|state| state.get("models"));
        let providers = models.and_then(|models| {
            let available = models["available"].as_array()?;
            let names = available.iter().filter_map(|model| model["provider"].as_str());
            Some(names.collect::<std::collections::BTreeSet<_>>().len())
        });
        self.publish("footer", json!({"statuses": statuses, "branch": branch, "providers": providers.unwrap_or(1)}));
        self.screen.change(|view| {
            for id in view.widgets.footers() {
                view.pictures.dirty(id);
            }
        });
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, PendingAnswers> {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, caller: &Caller, op: UiOp, params: &Map<String, Value>) -> Result<Value, HostcallError> {
        if params.contains_key("aborted") {
            return Ok(json!({}));
        }
        let timeout = dialog_timeout(params);
        let (done, answer) = oneshot::channel();
        let number = self.next_number();
        let mut dialog = ExtensionDialog::new(number, caller.extension().clone(), op.as_str(), params);
        dialog.deadline = timeout.map(|timeout| Instant::now() + timeout);
        dialog.done = Some(done);
        self.screen.change(|view| -> Result<(), HostcallError> {
            view.layers.expect_dialog_quota(&dialog)?;
            view.push(Layer::Dialog(dialog));
            Ok(())
        })?;
        self.waiting().dialogs.insert((caller.extension().clone(), number), (answer, timeout));
        Ok(json!({"dialog": number}))
    }

    fn next_number(&self) -> u64 {
        let mut waiting = self.waiting();
        waiting.next += 1;
        waiting.next
    }

    /// Shows a component at a fixed position.
    fn place(&self, caller: &Caller, op: UiOp, params: &Map<String, Value>) -> Result<Value, HostcallError> {
        let extension = caller.extension().clone();
        let component = component_of(caller, params);
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
        self.screen.change(|view| -> Result<(), HostcallError> {
            if let Some(id) = &component {
                view.expect_component_quota(id, false)?;
                view.pictures.insert(id.clone());
            }
            match op {
                UiOp::SetWidget => {
                    let lines =
                        params.get("content").and_then(Value::as_array).map(|lines| WidgetContent::Lines(texts(lines)));
                    let content = component.clone().map(WidgetContent::Component).or(lines);
                    let placement = params.get("options").and_then(|options| options["placement"].as_str());
                    let key = clipped(text("key"), LONGEST_LINE).to_owned();
                    let is_below = placement == Some("belowEditor");
                    view.widgets.set_widget(extension, key, content, is_below, &mut view.pictures);
                }
                UiOp::SetHeader => view.widgets.set_header(&extension, component.clone(), &mut view.pictures),
                UiOp::SetFooter => view.widgets.set_footer(&extension, component.clone(), &mut view.pictures),
                _ => {}
            }
            Ok(())
        })?;
        Ok(if component.is_some() { json!({"draws": true}) } else { json!({}) })
    }

    fn custom(&self, caller: &Caller, params: &Map<String, Value>) -> Result<Value, HostcallError> {
        let Some(id) = component_of(caller, params) else { return Ok(json!({})) };
        let options = params.get("options").cloned().unwrap_or_default();
        let floats = options["overlay"] == Value::Bool(true);
        let overlay = floats.then(|| Overlay::read(&options["overlayOptions"]));
        let (end, ended) = oneshot::channel();
        let layer = id.clone();
        self.screen.change(|view| -> Result<(), HostcallError> {
            view.expect_component_quota(&layer, true)?;
            // A handle belongs to one component.
            view.close_component(&layer);
            view.pictures.insert(layer.clone());
            view.push(Layer::Custom(CustomComponent::new(layer, overlay, 0, end)));
            Ok(())
        })?;
        // Failed components that no caller awaits are removed.
        let there = self.screen.read(|view| view.layers.custom_ids());
        let mut waiting = self.waiting();
        waiting.customs.retain(|other, _| there.contains(other));
        waiting.customs.insert(id, ended);
        Ok(json!({"draws": true}))
    }

    fn drawn(&self, caller: &Caller, params: &Map<String, Value>) {
        let Some(id) = component_of(caller, params) else { return };
        let columns = self.screen.read(|view| view.size.0);
        let error = ["error", "failed"].iter().find_map(|key| params.get(*key)?.as_str());
        // Formatted before the screen is locked, because it may be large.
        let lines = params.get("lines").and_then(Value::as_array).map(|lines| picture(lines, columns));
        self.screen.change(|view| {
            if let Some(error) = error {
                return view.component_failed(&id, error);
            }
            view.take_first_picture(&id, params, lines, columns);
        });
    }

    /// Sets or removes the editor of an extension.
    fn editor(&self, caller: &Caller, params: &Map<String, Value>) -> Result<Value, HostcallError> {
        let id = component_of(caller, params);
        self.screen.change(|view| -> Result<(), HostcallError> {
            if let Some(id) = &id {
                view.expect_component_quota(id, false)?;
            }
            view.replace_editor(id.as_ref());
            Ok(())
        })?;
        Ok(match id {
            Some(_) => json!({"draws": true, "text": self.screen.read(|view| view.editor.field.whole())}),
            None => json!({}),
        })
    }

    /// Handles an operation of an extension's editor, which may only have the effects of the user's key.
    fn edited(&self, caller: &Caller, op: UiOp, params: &Map<String, Value>) -> Result<Value, HostcallError> {
        let id = component_of(caller, params);
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
        let now = Instant::now();
        let done = self.screen.change(|view| {
            if id.is_none() || view.editor.replacement_id() != id.as_ref() {
                return None;
            }
            match op {
                UiOp::EditorText => {
                    view.editor.field.set(text("text"));
                    view.editor.note_inserted(caller.extension());
                    if let Some(id) = &id {
                        view.pictures.dirty(id);
                    }
                    Some(Vec::new())
                }
                UiOp::EditorAction => {
                    let key = view.editor.handled_key().filter(|key| is_on(text("action"), key))?.to_owned();
                    Some(view.act(&key, now))
                }
                _ => {
                    let is_meant = view.editor.take_submission() || !guard!(TuiEditorSubmit);
                    let line = text("text").to_owned();
                    // Only the extension knows what the user typed into its editor.
                    let is_command = command_sign(&line).is_some_and(|sign| sign == '/' || guard!(TuiEditorCommand));
                    let by = is_command.then(|| caller.extension().clone());
                    is_meant.then(|| view.submit(line, params.get("later") == Some(&Value::Bool(true)), by))
                }
            }
        });
        let Some(work) = done else {
            let reason = "an editor acts only in response to a key of the user";
            return Err(HostcallError::invalid("state", reason));
        };
        work.into_iter().for_each(|work| self.screen.ask(work));
        Ok(json!({}))
    }

    /// Sets the theme that the user chose.
    pub(super) fn choose_theme(&self, name: &str) {
        self.theme(name);
    }

    /// Sets the theme for all components.
    fn theme(&self, wanted: &str) -> Value {
        let files = self.shared.state.get().and_then(|state| state.get("themes"));
        let is_file = files
            .as_ref()
            .and_then(Value::as_array)
            .is_some_and(|files| files.iter().any(|file| file["name"] == wanted));
        if !is_file && !matches!(wanted, "dark" | "light" | "<theme>") {
            return json!({"success": false, "error": format!("Theme not found: {wanted}")});
        }
        // A theme object of an extension exists only in its realm.
        if wanted != "<theme>" {
            self.publish("theme", wanted.into());
        }
        self.screen.change(|view| {
            view.pictures.restyle();
            view.conversation.transcript.redraw(None);
        });
        json!({"success": true})
    }

    /// Carries out a call that is answered immediately.
    fn answer_at_once(&self, caller: &Caller, call: &UiCall) -> Result<Value, HostcallError> {
        let params = &call.params;
        match call.op {
            UiOp::GetEditorText => return Ok(json!({"text": self.screen.read(|view| view.editor.field.whole())})),
            UiOp::SetTheme => return Ok(self.theme(text_of(params, "theme").unwrap_or_default())),
            UiOp::Overlay => return Ok(self.overlay(caller, params)),
            UiOp::SetEditorComponent => return self.editor(caller, params),
            UiOp::EditorText | UiOp::EditorSubmit | UiOp::EditorAction => return self.edited(caller, call.op, params),
            UiOp::Select | UiOp::Confirm | UiOp::Input | UiOp::Editor => return self.open(caller, call.op, params),
            UiOp::SetWidget | UiOp::SetHeader | UiOp::SetFooter => return self.place(caller, call.op, params),
            UiOp::Custom => return self.custom(caller, params),
            UiOp::AddAutocompleteProvider => {
                if let Some(id) = handle_of(caller, params, "provider") {
                    let given = params.get("triggers").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                    let brief = |mark: &Value| Some(clipped(mark.as_str()?, LONGEST_LINE).to_owned());
                    let triggers = given.iter().take(MAX_TRIGGERS).filter_map(brief).collect();
                    self.screen.change(|view| view.completion.add_provider(CompletionProvider { id, triggers }))?;
                    return Ok(json!({"draws": true}));
                }
            }
            UiOp::Drawn => self.drawn(caller, params),
            UiOp::Closed => {
                if let Some(id) = component_of(caller, params) {
                    self.waiting().customs.remove(&id);
                    self.screen.change(|view| view.close_component(&id));
                }
            }
            UiOp::OnTerminalInput => {
                if let Some(id) = handle_of(caller, params, "listener") {
                    self.screen.change(|view| view.listeners.add(id));
                }
            }
            UiOp::EndTerminalInput => {
                self.screen.change(|view| view.listeners.remove(caller.extension()));
            }
            UiOp::Suggest | UiOp::Answer => {}
            UiOp::Notify
            | UiOp::SetStatus
            | UiOp::SetTitle
            | UiOp::SetWorkingMessage
            | UiOp::SetWorkingVisible
            | UiOp::SetWorkingIndicator
            | UiOp::SetHiddenThinkingLabel
            | UiOp::SetEditorText
            | UiOp::PasteToEditor
            | UiOp::SetToolsExpanded
            | UiOp::Redraw => self.show(caller, call)?,
        }
        Ok(json!({}))
    }

    /// Carries out a call that changes what the screen shows.
    fn show(&self, caller: &Caller, call: &UiCall) -> Result<(), HostcallError> {
        let params = &call.params;
        let text = |key: &str| text_of(params, key);
        let brief = |key: &str| Some(clipped(text_of(params, key)?, LONGEST_LINE).to_owned());
        match call.op {
            UiOp::Notify => {
                let style = match text("type") {
                    Some("error") => Style::Error,
                    Some("warning") => Style::Warning,
                    _ => Style::Info,
                };
                let message = clipped(text("message").unwrap_or_default(), clip::MESSAGE);
                self.screen.change(|view| view.say(style, &pijs_runtime::indented(message)));
            }
            UiOp::SetStatus => {
                let key = (caller.extension().clone(), brief("key").unwrap_or_default());
                self.screen.change(|view| view.widgets.set_status(key, brief("text")));
                self.publish_footer();
            }
            UiOp::SetTitle => self.screen.change(|view| view.session.title = brief("title")),
            UiOp::SetWorkingMessage => self.screen.change(|view| view.run.working.message = brief("message")),
            UiOp::SetWorkingVisible => {
                let is_visible = params.get("visible") != Some(&Value::Bool(false));
                self.screen.change(|view| view.run.working.is_visible = is_visible);
            }
            UiOp::SetWorkingIndicator => {
                let options = params.get("options").cloned().unwrap_or_default();
                self.screen.change(|view| view.run.working.take_options(&options));
            }
            UiOp::SetHiddenThinkingLabel => {
                self.screen.change(|view| view.conversation.transcript.label_thinking(brief("label")))
            }
            UiOp::SetEditorText | UiOp::PasteToEditor => {
                let text = text("text").unwrap_or_default();
                is_short(text, LONGEST)?;
                let is_paste = call.op == UiOp::PasteToEditor;
                let work = self.screen.change(|view| view.insert_of(caller.extension(), text, is_paste))?;
                work.into_iter().for_each(|work| self.screen.ask(work));
            }
            UiOp::SetToolsExpanded => {
                let expanded = params.get("expanded") == Some(&Value::Bool(true));
                self.screen.change(|view| view.conversation.expanded = expanded);
                self.publish("toolsExpanded", expanded.into());
            }
            UiOp::Redraw => self.screen.change(|view| match text("toolCallId") {
                Some(call) => view.conversation.transcript.redraw(Some(call)),
                None => view.pictures.dirty_of(caller.extension()),
            }),
            op => unreachable!("{op:?} does not change the screen by itself"),
        }
        Ok(())
    }

    /// Applies an operation of an overlay's handle. Returns the overlay's state.
    fn overlay(&self, caller: &Caller, params: &Map<String, Value>) -> Value {
        let id = component_of(caller, params);
        self.screen.change(|view| {
            match (&id, text_of(params, "set")) {
                // `setFocus(null)`.
                (None, Some("focus")) => view.layers.release(caller.extension()),
                (id, set @ Some(_)) => view.steer(id.as_ref(), set, params.get("target")),
                _ => {}
            }
            id.map_or_else(|| json!({}), |id| view.layers.about(&id))
        })
    }
}

fn text_of<'a>(params: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    params.get(key).and_then(Value::as_str)
}

impl TuiPort {
    /// Returns the suggestions of the providers below the caller.
    fn suggest(&self, caller: &Caller, params: &Map<String, Value>, cancel: CancelToken) -> PortAnswer {
        let Some(request) = CompletionRequest::read(params) else {
            let error = HostcallError::invalid("schema", "suggest: `lines`, `line` and `col` are not a position");
            return Box::pin(std::future::ready(Err(error)));
        };
        let below = handle_of(caller, params, "below");
        let (answer, answered) = oneshot::channel();
        let number = self.next_number();
        let by = caller.extension().clone();
        let added = self.screen.change(|view| view.completion.add_pending(number, PendingSuggestion { by, answer }));
        if let Err(error) = added {
            return Box::pin(std::future::ready(Err(error)));
        }
        self.screen.ask(UiTask::Suggest { number, request, below });
        let screen = self.screen.clone();
        Box::pin(async move {
            let answer = tokio::select! {
                answer = answered => answer.unwrap_or_default(),
                () = cancel.cancelled() => Value::Null,
            };
            screen.change(|view| view.completion.pending.remove(&number));
            Ok(if answer.is_object() { answer } else { json!({}) })
        })
    }
}

/// An open dialog, which is closed when its answer is no longer awaited.
struct DialogGuard {
    port: TuiPort,
    number: u64,
}

impl Drop for DialogGuard {
    fn drop(&mut self) {
        self.port.screen.change(|view| view.layers.close_dialog(self.number));
    }
}

impl UiPort for TuiPort {
    fn call(&self, caller: &Caller, call: UiCall, cancel: CancelToken) -> PortAnswer {
        if call.op == UiOp::Suggest {
            return self.suggest(caller, &call.params, cancel);
        }
        if call.op != UiOp::Answer {
            return Box::pin(std::future::ready(self.answer_at_once(caller, &call)));
        }
        let port = self.clone();
        let number = call.params.get("dialog").and_then(Value::as_u64);
        if let Some(number) = number {
            let dialog = self.waiting().dialogs.remove(&(caller.extension().clone(), number));
            let Some((answer, timeout)) = dialog else { return Box::pin(std::future::ready(Ok(json!({})))) };
            // A call that was already cancelled shows nothing.
            let shown = DialogGuard { port, number };
            return Box::pin(async move {
                let value = tokio::select! {
                    biased;
                    answer = answer => answer.ok().flatten(),
                    () = cancel.cancelled() => None,
                    () = after(timeout) => None,
                };
                drop(shown);
                Ok(value.map_or_else(|| json!({}), |value| json!({"value": value})))
            });
        }
        let id = component_of(caller, &call.params);
        let ended = id.as_ref().and_then(|id| self.waiting().customs.remove(id));
        Box::pin(async move {
            if let (Some(id), Some(ended)) = (id, ended) {
                // The sender is dropped when the user or the session closes the component.
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
        self.answer_at_once(caller, &call)
    }
}

impl Prompter for TuiPort {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answer> {
        let (answer, answered) = oneshot::channel();
        self.screen.change(|view| {
            if !view.session.is_leaving {
                view.layers.prompts.push_back(PermissionPrompt::new(question, answer));
            }
        });
        Box::pin(async move { answered.await.unwrap_or(Answer::NoPerson) })
    }
}

/// Checks the size of a text for the editor.
fn is_short(text: &str, most: usize) -> Result<(), HostcallError> {
    match text.len() > most && guard!(TuiInsertedSize) {
        true => Err(too_large("editor_text", most)),
        false => Ok(()),
    }
}

fn component_of(caller: &Caller, params: &Map<String, Value>) -> Option<ComponentId> {
    handle_of(caller, params, "component")
}

fn handle_of(caller: &Caller, params: &Map<String, Value>, key: &str) -> Option<ComponentId> {
    let handle = u32::try_from(params.get(key)?.as_u64()?).ok()?;
    Some((caller.extension().clone(), handle))
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

    #[test]
    fn text_for_the_editor_is_bounded() {
        let large = "x".repeat(LONGEST);
        assert!(is_short(&large, LONGEST).is_ok() && is_short(&format!("{large}x"), LONGEST).is_err());
    }
}
