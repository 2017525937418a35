//! The state of the screen.
//!
//! The state is one value behind a lock. It consists of groups, each of which owns a part of it. Extensions change it through
//! [`super::port`], the agent through [`super::events`], the user through [`View::typed`]; [`super::draw`] renders it. Work for
//! the session's thread is returned as [`UiTask`].
//!
//! The groups are independent of each other; behaviour that concerns several groups is here: the focus, the end of a component,
//! the end of a realm, and the end of the session.

mod component_pictures;
mod conversation;
mod editor_state;
mod key_listeners;
mod key_state;
mod prompt_history;
mod quota;
mod run_status;
mod session_status;
mod widgets;

pub(super) use component_pictures::{ComponentId, ComponentPictures};
pub(super) use conversation::Conversation;
pub(super) use editor_state::EditorState;
pub(super) use key_listeners::KeyListeners;
pub(super) use key_state::KeyState;
pub(super) use quota::{MAX_KEPT, too_large, used_up};
pub(super) use run_status::{Retrying, RunStatus};
pub(super) use session_status::SessionStatus;
pub(super) use widgets::{WidgetArea, WidgetContent};

use super::clip::{self, clipped};
use super::completion::CompletionState;
use super::completion_request::CompletionRequest;
use super::floating::Overlay;
use super::inserted_text::author_of_message;
use super::layers::{Layer, LayerStack};
use super::task::UiTask;
use super::transcript::Style;
use pijs_protocol::{ExtensionId, HostcallError};
use serde_json::{Map, Value};
use std::time::{Duration, Instant};

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct View {
    /// Columns and rows.
    pub(super) size: (usize, usize),
    pub(super) conversation: Conversation,
    pub(super) editor: EditorState,
    pub(super) completion: CompletionState,
    pub(super) layers: LayerStack,
    pub(super) pictures: ComponentPictures,
    pub(super) widgets: WidgetArea,
    pub(super) listeners: KeyListeners,
    pub(super) keys: KeyState,
    pub(super) run: RunStatus,
    pub(super) session: SessionStatus,
}

impl View {
    /// Returns an empty screen.
    pub(super) fn new(size: (usize, usize)) -> Self {
        Self { size, ..Self::default() }
    }

    /// Appends a notice.
    pub(super) fn say(&mut self, style: Style, text: &str) {
        self.conversation.say(style, text);
    }

    /// Replaces the text of the current editor.
    pub(super) fn set_editor_text(&mut self, text: &str) -> Vec<UiTask> {
        self.completion.popup = None;
        self.editor.set_text(text)
    }

    /// Inserts a message before the text in the editor.
    pub(super) fn put_back(&mut self, message: &str) -> Vec<UiTask> {
        let before = self.editor.field.whole();
        let text = if before.is_empty() { message.to_owned() } else { format!("{message}\n\n{before}") };
        let work = self.set_editor_text(&text);
        if let Some(by) = author_of_message(&text) {
            self.editor.note_inserted(&by);
        }
        work
    }

    /// Inserts text of an extension into the editor.
    pub(super) fn insert_of(
        &mut self,
        extension: &ExtensionId,
        text: &str,
        is_paste: bool,
    ) -> Result<Vec<UiTask>, HostcallError> {
        let work = self.editor.insert_of(extension, text, is_paste)?;
        self.completion.popup = None;
        Ok(work)
    }

    /// Sets or removes the editor of an extension.
    pub(super) fn replace_editor(&mut self, id: Option<&ComponentId>) {
        if let Some(before) = self.editor.replace(id.cloned()) {
            self.pictures.remove(&before);
        }
        self.completion.popup = None;
        if let Some(id) = id {
            self.pictures.insert(id.clone());
        }
    }

    /// Shows suggestions for the editor, unless a layer has the focus.
    pub(super) fn take_suggestions(&mut self, request: CompletionRequest, answer: &Value) -> Vec<UiTask> {
        match self.layers.focused() {
            Some(_) => Vec::new(),
            None => self.completion.take_suggestions(request, answer, &mut self.editor.field),
        }
    }

    /// Opens a dialog, a component or a built-in list on top.
    pub(super) fn push(&mut self, layer: Layer) {
        let before = self.layers.focused_component();
        if !self.session.is_leaving {
            self.completion.popup = None;
            self.layers.push(layer);
        }
        self.focus_moved(before);
    }

    /// Redraws the old and new component when the focus has moved.
    fn focus_moved(&mut self, before: Option<ComponentId>) {
        let now = self.layers.focused_component();
        if now != before {
            let editor = self.editor.replacement_id().cloned();
            for id in before.into_iter().chain(now).chain(editor) {
                self.pictures.dirty(&id);
            }
        }
    }

    /// Applies an operation of an overlay's handle.
    pub(super) fn steer(&mut self, id: Option<&ComponentId>, set: Option<&str>, target: Option<&Value>) {
        let before = self.layers.focused_component();
        if let Some(next) = self.layers.steer(id, set, target) {
            self.steer(Some(&next), Some("focus"), None);
        }
        self.focus_moved(before);
    }

    /// Checks whether an extension may have another component; `is_layer` is set if the component needs a layer.
    pub(super) fn expect_component_quota(&self, id: &ComponentId, is_layer: bool) -> Result<(), HostcallError> {
        self.pictures.expect_quota(id)?;
        if is_layer { self.layers.expect_custom_quota(&id.0) } else { Ok(()) }
    }

    /// Removes a component from any position.
    pub(super) fn close_component(&mut self, id: &ComponentId) {
        let before = self.layers.focused_component();
        self.layers.close_component(id);
        self.pictures.remove(id);
        self.widgets.close_component(id);
        self.editor.restore_if(|editor| editor == id);
        self.focus_moved(before);
    }

    /// Reports a component that threw an exception, and removes it.
    pub(super) fn component_failed(&mut self, id: &ComponentId, error: &str) {
        // A removed component was already reported.
        if self.pictures.contains(id) {
            self.close_component(id);
            let error = clipped(error, clip::MESSAGE);
            self.say(Style::Error, &format!("{}: a component failed and was removed: {error}", id.0));
        }
    }

    /// Handles the result of rendering a component: lines or an error, and the position of an overlay.
    pub(super) fn rendered(
        &mut self,
        id: &ComponentId,
        picture: Option<&Value>,
        lines: Option<Vec<String>>,
        made: usize,
    ) {
        if let Some(drawn) = self.pictures.get_mut(id) {
            drawn.is_asked = false;
        }
        let Some(picture) = picture.and_then(Value::as_object) else { return };
        match picture.get("failed").and_then(Value::as_str) {
            Some(error) => self.component_failed(id, error),
            None => self.take_picture(id, picture, lines, made),
        }
    }

    /// Takes the first picture of a component, which has the width of the screen.
    pub(super) fn take_first_picture(
        &mut self,
        id: &ComponentId,
        picture: &Map<String, Value>,
        lines: Option<Vec<String>>,
        columns: usize,
    ) {
        let before = self.layers.focused_component();
        if let Some(custom) = self.layers.custom(id) {
            custom.is_there = true;
        }
        self.take_picture(id, picture, lines, columns);
        if let Some(drawn) = self.pictures.get_mut(id) {
            drawn.width = columns;
        }
        self.focus_moved(before);
    }

    /// Stores the lines of a component for a width, and its current options.
    fn take_picture(
        &mut self,
        id: &ComponentId,
        picture: &Map<String, Value>,
        lines: Option<Vec<String>>,
        made: usize,
    ) {
        let before = self.layers.focused_component();
        if let Some(lines) = lines {
            self.pictures.keep_lines(id, lines, made);
        }
        if let Some(custom) = self.layers.custom(id) {
            custom.is_out = picture.get("shown") == Some(&Value::Bool(false));
            if let (Some(overlay), Some(options)) = (&mut custom.overlay, picture.get("overlay")) {
                *overlay = Overlay::read(options);
            }
        }
        self.focus_moved(before);
    }

    /// Returns the time until the picture changes by itself: a spinner or a countdown.
    pub(super) fn next_change(&self) -> Option<Duration> {
        let counts_down = self.layers.counts_down() || self.run.retrying.is_some();
        let countdown = counts_down.then_some(Duration::from_millis(250));
        self.run.next_frame().into_iter().chain(countdown).min()
    }

    /// Returns the author if Enter submits the text, and `None` if it does not submit it yet. The inner `None` means the user.
    pub(super) fn submits(&mut self, now: Instant) -> Option<Option<ExtensionId>> {
        match self.editor.take_author(now) {
            Ok(by) => Some(by),
            Err(by) => {
                self.say(Style::Warning, &format!("{by} has just changed the text; press Enter again to send it"));
                None
            }
        }
    }

    /// Removes everything that belongs to an extension whose realm ended, or to all extensions for `None`.
    pub(super) fn forget(&mut self, gone: Option<&ExtensionId>) {
        let is_gone = |extension: &ExtensionId| gone.is_none_or(|gone| gone == extension);
        self.layers.forget(is_gone);
        self.pictures.forget(is_gone);
        self.widgets.forget(is_gone);
        self.listeners.forget(is_gone);
        self.completion.forget(is_gone);
        self.editor.restore_if(|editor| is_gone(&editor.0));
        if gone.is_none() {
            self.run.working = run_status::WorkingIndicator::default();
            self.conversation.transcript.label_thinking(None);
        }
    }

    /// Begins to close the session: cancels open prompts and dialogs.
    pub(super) fn leave(&mut self) {
        self.session.is_leaving = true;
        self.completion.pending.clear();
        self.layers.cancel_all();
    }
}
