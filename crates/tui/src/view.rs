//! The state of the screen.
//!
//! One value behind a lock. Extensions change it through [`super::port`], the agent through [`super::events`], the user through
//! [`View::typed`]; [`super::draw`] renders it. Work for the session's thread is returned as [`UiTask`].

use super::clip::{self, clipped};
use super::completion::{CompletionProvider, Popup};
use super::dialog::ExtensionDialog;
use super::floating::CustomComponent;
use super::footer::FooterData;
use super::input::TerminalInput;
use super::inserted_text::InsertedText;
use super::layers::{ComponentId, Layer};
use super::permission_prompt::PermissionPrompt;
use super::picker::ListKind;
use super::selections::model_name;
use super::task::UiTask;
use super::text_field::TextField;
use super::transcript::{Style, Transcript};
use pijs_protocol::{ExtensionId, HostcallError, guard};
use pijs_runtime::repeated::Repeated;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Widgets, statuses, open dialogs and layers: the limit of each for one extension.
const MOST_KEPT: usize = 64;
/// Components of one extension, and bytes of their pictures.
const MOST_COMPONENTS: usize = 256;
const MOST_DRAWN: usize = 16 << 20;
/// Bytes of one extension's open dialogs.
const MOST_ASKED: usize = 32 << 20;
/// Bytes of undelivered text that extensions inserted into the editors of others.
const MOST_HANDED: usize = 4 << 20;
/// Longest shown name of a session or model in bytes.
const LONGEST_NAME: usize = 1 << 10;
/// Lines of a text widget.
const WIDGET_LINES: usize = 10;

/// The picture of a component.
#[derive(Debug, Default)]
pub(super) struct ComponentPicture {
    pub(super) lines: Vec<String>,
    /// Width of the widest line.
    pub(super) made: usize,
    /// Bytes of the lines.
    pub(super) bytes: usize,
    /// Last requested width, and whether rendering is due.
    pub(super) width: usize,
    pub(super) is_dirty: bool,
    pub(super) is_asked: bool,
    /// Whether its caches are of another theme.
    pub(super) is_stale: bool,
}

/// Content of a widget.
#[derive(Debug)]
pub(super) enum WidgetContent {
    Lines(Vec<String>),
    Component(ComponentId),
}

/// A widget of an extension above or below the editor.
#[derive(Debug)]
pub(super) struct Widget {
    pub(super) extension: ExtensionId,
    pub(super) key: String,
    pub(super) content: WidgetContent,
    pub(super) is_below: bool,
}

/// A caller that waits for suggestions.
#[derive(Debug)]
pub(super) struct PendingSuggestion {
    pub(super) by: ExtensionId,
    pub(super) answer: oneshot::Sender<Value>,
}

/// The working indicator.
#[derive(Debug, Clone)]
pub(super) struct WorkingIndicator {
    pub(super) message: Option<String>,
    pub(super) is_visible: bool,
    pub(super) frames: Vec<String>,
    pub(super) interval: Duration,
}

impl Default for WorkingIndicator {
    fn default() -> Self {
        let frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"].map(str::to_owned).to_vec();
        Self { message: None, is_visible: true, frames, interval: Duration::from_millis(80) }
    }
}

/// The current model.
#[derive(Debug, Default)]
pub(super) struct ModelStatus {
    /// Name as `provider/id`.
    pub(super) name: String,
    /// Thinking level.
    pub(super) thinking: String,
}

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct View {
    /// Columns and rows.
    pub(super) size: (usize, usize),
    pub(super) transcript: Transcript,
    /// Reports of extensions that were already shown.
    pub(super) repeated: Repeated,
    /// Lines below the visible part of the transcript.
    pub(super) scroll: usize,
    /// Whether results are expanded.
    pub(super) expanded: bool,
    pub(super) editor: TextField,
    /// Author of the editor's text, when an extension wrote it.
    pub(super) inserted: Option<InsertedText>,
    pub(super) history: Vec<String>,
    /// Position in the history; 0 is the text being typed.
    pub(super) back: usize,
    /// The text being typed, while the history is shown.
    pub(super) draft: Option<TextField>,
    /// The editor of an extension in place of the built-in one; `editor` is then a copy of its text.
    pub(super) own_editor: Option<ComponentId>,
    /// The key that it handles, and whether the user pressed Enter in it since its last submission.
    pub(super) handling: Option<String>,
    pub(super) may_submit: bool,
    pub(super) layers: Vec<Layer>,
    pub(super) questions: VecDeque<PermissionPrompt>,
    pub(super) components: BTreeMap<ComponentId, ComponentPicture>,
    /// Header components; the last one is shown.
    pub(super) headers: Vec<ComponentId>,
    pub(super) footers: Vec<ComponentId>,
    pub(super) widgets: Vec<Widget>,
    pub(super) statuses: BTreeMap<(ExtensionId, String), String>,
    /// Lines at the top without a header.
    pub(super) welcome: Vec<String>,
    pub(super) standing: FooterData,
    pub(super) working: WorkingIndicator,
    /// Git branch for footers.
    pub(super) branch: Option<String>,
    /// Counter of the stacking order.
    pub(super) orders: u64,
    /// Components that listen to keys, and the keys that wait for them.
    pub(super) listeners: Vec<ComponentId>,
    pub(super) listening: Option<TerminalInput>,
    pub(super) unheard: VecDeque<TerminalInput>,
    /// Start of the current run.
    pub(super) running: Option<Instant>,
    /// Delay before a retry.
    pub(super) retrying: Option<Retrying>,
    /// Error of the last reply, as it was shown.
    pub(super) failure: Option<String>,
    /// Address and cause of failures since the last prompt, as they were shown.
    pub(super) told_cause: Option<String>,
    /// Keys with shortcuts of extensions.
    pub(super) shortcuts: BTreeSet<String>,
    pub(super) shortcut_warnings: Vec<String>,
    /// Queued messages.
    pub(super) queued: Vec<String>,
    pub(super) model: ModelStatus,
    pub(super) title: Option<String>,
    /// Open list of suggestions.
    pub(super) popup: Option<Popup>,
    /// Completion providers, newest last.
    pub(super) providers: Vec<CompletionProvider>,
    /// Whether a provider is inserting a suggestion, so that keys wait.
    pub(super) applying: bool,
    /// Callers that wait for suggestions.
    pub(super) suggestions: BTreeMap<u64, PendingSuggestion>,
    /// Undelivered bytes that extensions inserted into the editors of others.
    pub(super) handed: usize,
    /// Running shell commands of the user.
    pub(super) shells: usize,
    pub(super) interrupted: Option<Instant>,
    pub(super) escaped: Option<Instant>,
    /// List that two Escapes open.
    pub(super) escapes_to: Option<ListKind>,
    /// Whether the `session_start` handlers have run.
    pub(super) has_begun: bool,
    /// Whether the session is being closed.
    pub(super) is_leaving: bool,
}

/// A delay before a retry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retrying {
    /// Number of the retry, from 1.
    pub(super) attempt: u32,
    pub(super) max_attempts: u32,
    pub(super) until: Instant,
}

impl Retrying {
    /// Returns the countdown line, in pi's format.
    pub(super) fn line(&self, now: Instant) -> String {
        let Self { attempt, max_attempts, until } = self;
        let left = until.saturating_duration_since(now).as_millis().div_ceil(1000);
        format!("Retrying ({attempt}/{max_attempts}) in {left}s... (escape to cancel)")
    }
}

impl View {
    /// Returns whether Escape has something to abort.
    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some() || self.retrying.is_some() || self.shells > 0
    }

    /// Appends a notice.
    pub(super) fn say(&mut self, style: Style, text: &str) {
        self.transcript.say(style, text);
    }

    /// Removes a dialog.
    pub(super) fn close_dialog(&mut self, number: u64) {
        self.layers.retain(|layer| !matches!(layer, Layer::Dialog(dialog) if dialog.number == number));
    }

    /// Opens a dialog or a built-in list on top.
    pub(super) fn push(&mut self, mut layer: Layer) {
        let before = self.focused_component();
        let next = self.next_order();
        match &mut layer {
            Layer::Dialog(dialog) => dialog.order = next,
            Layer::Picker(picker) => picker.order = next,
            Layer::Custom(custom) => custom.order = next,
            Layer::Entry(_) => {}
        }
        if !self.is_leaving {
            self.popup = None;
            self.layers.push(layer);
        }
        self.focus_moved(before);
    }

    /// Removes a component from any position.
    pub(super) fn close_component(&mut self, id: &ComponentId) {
        let before = self.focused_component();
        self.layers.retain(|layer| !matches!(layer, Layer::Custom(custom) if custom.id == *id));
        self.components.remove(id);
        self.headers.retain(|other| other != id);
        self.footers.retain(|other| other != id);
        self.widgets.retain(|widget| !matches!(&widget.content, WidgetContent::Component(other) if other == id));
        if self.own_editor.as_ref() == Some(id) {
            self.own_editor = None;
        }
        self.focus_moved(before);
    }

    /// Records that a component handles a key. Effects of an editor during the key count as the user's.
    pub(super) fn begin_handling(&mut self, id: &ComponentId, key: Option<String>) {
        if self.own_editor.as_ref() == Some(id) {
            self.may_submit |= matches!(key.as_deref(), Some("enter" | "alt+enter"));
            self.handling = key;
        }
    }

    /// Reports a component that threw an exception, and removes it.
    pub(super) fn component_failed(&mut self, id: &ComponentId, error: &str) {
        // A removed component was already reported.
        if self.components.contains_key(id) {
            self.close_component(id);
            let error = clipped(error, clip::MESSAGE);
            self.say(Style::Error, &format!("{}: a component failed and was removed: {error}", id.0));
        }
    }

    /// Returns the custom components.
    pub(super) fn customs(&self) -> BTreeSet<ComponentId> {
        let id = |layer: &Layer| match layer {
            Layer::Custom(custom) => Some(custom.id.clone()),
            _ => None,
        };
        self.layers.iter().filter_map(id).collect()
    }

    /// Checks whether an extension may have another component; `is_layer` for one with a layer of its own.
    pub(super) fn expect_component_quota(&self, id: &ComponentId, is_layer: bool) -> Result<(), HostcallError> {
        let (first, last) = ((id.0.clone(), u32::MIN), (id.0.clone(), u32::MAX));
        let components = self.components.range(first..=last).count();
        let is_known = self.components.contains_key(id);
        let owns = |layer: &&Layer| matches!(layer, Layer::Custom(custom) if custom.id.0 == id.0);
        let layers = self.layers.iter().filter(owns).count();
        match () {
            () if !guard!(TuiComponents) => Ok(()),
            () if !is_known && components >= MOST_COMPONENTS => Err(used_up("components", MOST_COMPONENTS)),
            () if is_layer && layers >= MOST_KEPT => Err(used_up("layers", MOST_KEPT)),
            () => Ok(()),
        }
    }

    /// Checks whether an extension may open another dialog.
    pub(super) fn expect_dialog_quota(&self, asked: &ExtensionDialog) -> Result<(), HostcallError> {
        let open = self.layers.iter().filter_map(|layer| match layer {
            Layer::Dialog(dialog) if dialog.extension == asked.extension => Some(dialog.bytes),
            _ => None,
        });
        let (count, bytes) = open.fold((0, asked.bytes), |(count, sum), bytes| (count + 1, sum + bytes));
        match () {
            () if !guard!(TuiComponents) => Ok(()),
            () if count >= MOST_KEPT => Err(used_up("dialogs", MOST_KEPT)),
            () if bytes > MOST_ASKED => Err(used_up("dialog_bytes", MOST_ASKED)),
            () => Ok(()),
        }
    }

    /// Adds a completion provider, or updates the triggers of an existing one.
    pub(super) fn add_provider(&mut self, provider: CompletionProvider) -> Result<(), HostcallError> {
        if let Some(known) = self.providers.iter_mut().find(|known| known.id == provider.id) {
            known.triggers = provider.triggers;
            return Ok(());
        }
        let own = self.providers.iter().filter(|known| known.id.0 == provider.id.0).count();
        if own >= MOST_KEPT && guard!(TuiComponents) {
            return Err(used_up("autocomplete_providers", MOST_KEPT));
        }
        self.providers.push(provider);
        Ok(())
    }

    /// Inserts a text of one extension into the editor of another one.
    pub(super) fn hand(&mut self, to: ComponentId, text: &str, is_paste: bool) -> Result<Vec<UiTask>, HostcallError> {
        if self.handed + text.len() > MOST_HANDED && guard!(TuiInsertedSize) {
            return Err(used_up("handed_bytes", MOST_HANDED));
        }
        self.handed += text.len();
        Ok(vec![UiTask::Handed { to, text: text.to_owned(), is_paste }])
    }

    /// Stores the lines of a component up to its extension's limit; none is wider than `made`.
    pub(super) fn keep_lines(&mut self, id: &ComponentId, mut lines: Vec<String>, made: usize) {
        let (first, last) = ((id.0.clone(), u32::MIN), (id.0.clone(), u32::MAX));
        let others: usize =
            self.components.range(first..=last).filter(|(other, _)| *other != id).map(|(_, drawn)| drawn.bytes).sum();
        let Some(drawn) = self.components.get_mut(id) else { return };
        let mut bytes = 0;
        let fits = lines.iter().take_while(|line| {
            bytes += line.len();
            others + bytes <= MOST_DRAWN
        });
        let fits = fits.count();
        lines.truncate(fits);
        drawn.bytes = lines.iter().map(String::len).sum();
        (drawn.lines, drawn.made) = (lines, made);
    }

    /// Sets the name of the session.
    pub(super) fn set_session_name(&mut self, name: Option<&str>) {
        self.standing.name = name.map(|name| clipped(name, LONGEST_NAME).to_owned());
    }

    /// Sets the current model.
    pub(super) fn set_model_name(&mut self, provider: &str, id: &str) {
        self.model.name = clipped(&model_name(provider, id), LONGEST_NAME).to_owned();
    }

    /// Returns a custom component.
    pub(super) fn custom(&mut self, id: &ComponentId) -> Option<&mut CustomComponent> {
        self.layers.iter_mut().find_map(|layer| match layer {
            Layer::Custom(custom) if custom.id == *id => Some(custom),
            _ => None,
        })
    }

    /// Removes everything of an extension whose realm ended, or of all extensions with `None`.
    pub(super) fn forget(&mut self, gone: Option<&ExtensionId>) {
        let is_gone = |extension: &ExtensionId| gone.is_none_or(|gone| gone == extension);
        self.layers.retain(|layer| match layer {
            Layer::Dialog(dialog) => !is_gone(&dialog.extension),
            Layer::Custom(custom) => !is_gone(&custom.id.0),
            Layer::Picker(_) | Layer::Entry(_) => true,
        });
        self.components.retain(|(extension, _), _| !is_gone(extension));
        self.headers.retain(|(extension, _)| !is_gone(extension));
        self.footers.retain(|(extension, _)| !is_gone(extension));
        self.widgets.retain(|widget| !is_gone(&widget.extension));
        self.statuses.retain(|(extension, _), _| !is_gone(extension));
        self.listeners.retain(|(extension, _)| !is_gone(extension));
        self.providers.retain(|provider| !is_gone(&provider.id.0));
        if self.own_editor.as_ref().is_some_and(|(extension, _)| is_gone(extension)) {
            self.own_editor = None;
        }
        if gone.is_none() {
            self.working = WorkingIndicator::default();
            self.transcript.label_thinking(None);
        }
    }

    /// Adds, replaces or removes a widget.
    pub(super) fn set_widget(
        &mut self,
        extension: ExtensionId,
        key: String,
        content: Option<WidgetContent>,
        is_below: bool,
    ) {
        let old = self.widgets.iter().position(|widget| widget.extension == extension && widget.key == key);
        let old = old.map(|at| (at, self.widgets.remove(at)));
        if let Some((_, Widget { content: WidgetContent::Component(id), .. })) = &old {
            self.components.remove(id);
        }
        let Some(mut content) = content else { return };
        if old.is_none() && self.widgets.iter().filter(|widget| widget.extension == extension).count() >= MOST_KEPT {
            if let WidgetContent::Component(id) = &content {
                self.components.remove(id);
            }
            return;
        }
        if let WidgetContent::Lines(lines) = &mut content
            && lines.len() > WIDGET_LINES
        {
            lines.truncate(WIDGET_LINES);
            lines.push("... (widget truncated)".to_owned());
        }
        let at = old.map_or(self.widgets.len(), |(at, _)| at);
        self.widgets.insert(at, Widget { extension, key, content, is_below });
    }

    /// Sets a status of an extension, up to its limit.
    pub(super) fn set_status(&mut self, key: (ExtensionId, String), text: Option<String>) {
        let Some(text) = text else { return drop(self.statuses.remove(&key)) };
        let kept = self.statuses.keys().filter(|(extension, _)| *extension == key.0).count();
        if kept < MOST_KEPT || self.statuses.contains_key(&key) {
            self.statuses.insert(key, text);
        }
    }

    /// Begins closing the session: open prompts and dialogs are cancelled.
    pub(super) fn leave(&mut self) {
        self.is_leaving = true;
        self.questions.clear();
        self.suggestions.clear();
        for layer in self.layers.drain(..) {
            if let Layer::Custom(custom) = layer {
                // A component that has ended does not wait.
                let _ = custom.end.send(());
            }
        }
    }

    /// Returns an empty screen.
    pub(super) fn new(size: (usize, usize)) -> Self {
        Self { size, ..Self::default() }
    }
}

/// Returns the error of an exhausted quota.
pub(super) fn used_up(quota: &str, limit: usize) -> HostcallError {
    HostcallError::denied("quota", format!("quota used up: {quota} {limit}")).with("quota", quota).with("limit", limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn components_and_dialogs_are_limited() {
        let (mut view, extension) = (View::new((80, 24)), ExtensionId::new("x"));
        let mut has = |handle: u32, is_layer: bool| {
            let id = (extension.clone(), handle);
            let may = view.expect_component_quota(&id, is_layer).is_ok();
            if may {
                view.components.insert(id.clone(), ComponentPicture::default());
                if is_layer {
                    let (end, _) = oneshot::channel();
                    view.push(Layer::Custom(CustomComponent::new(id, None, 0, end)));
                }
            }
            may
        };
        assert_eq!((0..1_000).filter(|handle| has(*handle, true)).count(), MOST_KEPT);
        assert_eq!((1_000..2_000).filter(|handle| has(*handle, false)).count(), MOST_COMPONENTS - MOST_KEPT);
        assert!(has(0, false), "one that is known is drawn anew");
        let params = |text: &str| json!({"title": text, "options": [text]}).as_object().cloned().expect("an object");
        let (mut view, mut asked) = (View::new((80, 24)), 0);
        for number in 0..100 {
            let dialog = ExtensionDialog::new(number, extension.clone(), "select", &params("small"));
            if view.expect_dialog_quota(&dialog).is_ok() {
                view.push(Layer::Dialog(dialog));
                asked += 1;
            }
        }
        assert_eq!(asked, MOST_KEPT);
        let large = ExtensionDialog::new(0, ExtensionId::new("y"), "select", &params(&"x".repeat(10 << 20)));
        assert!(view.expect_dialog_quota(&large).is_err());
    }

    #[test]
    fn pictures_and_undelivered_texts_are_limited() {
        let (mut view, extension) = (View::new((80, 24)), ExtensionId::new("x"));
        for handle in 0..MOST_COMPONENTS as u32 {
            view.components.insert((extension.clone(), handle), ComponentPicture::default());
            view.keep_lines(&(extension.clone(), handle), vec!["x".repeat(1 << 10); 1_000], 80);
        }
        let bytes: usize = view.components.values().flat_map(|drawn| &drawn.lines).map(String::len).sum();
        assert!(bytes <= MOST_DRAWN && bytes > MOST_DRAWN / 2, "{bytes}");
        let other = (ExtensionId::new("y"), 1);
        let handed = (0..100).filter(|_| view.hand(other.clone(), &"x".repeat(1 << 20), true).is_ok()).count();
        assert_eq!(handed, MOST_HANDED >> 20);
    }

    #[test]
    fn statuses_and_widgets_are_limited() {
        let (mut view, extension) = (View::default(), ExtensionId::new("x"));
        for number in 0..1_000 {
            let key = number.to_string();
            view.set_status((extension.clone(), key.clone()), Some(key.clone()));
            view.set_widget(extension.clone(), key, Some(WidgetContent::Lines(vec!["w".to_owned()])), false);
        }
        assert_eq!((view.statuses.len(), view.widgets.len()), (MOST_KEPT, MOST_KEPT));
        view.set_status((extension.clone(), "0".to_owned()), Some("new".to_owned()));
        assert_eq!(view.statuses[&(extension.clone(), "0".to_owned())], "new");
        view.set_status((extension.clone(), "0".to_owned()), None);
        view.set_status((ExtensionId::new("y"), "0".to_owned()), Some("other".to_owned()));
        assert_eq!(view.statuses.len(), MOST_KEPT);
    }
}
