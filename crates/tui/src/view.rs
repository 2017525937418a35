//! Everything that is on the screen, as data: what there is to see, and what a key does to it.
//!
//! One value behind one lock. Extensions change it through [`super::port`], the agent through [`super::events`], the
//! person through [`View::typed`]; [`super::draw`] makes lines of it. What needs the session's own thread is returned as
//! [`Work`].

use super::completion::{Popup, Provider, Request};
use super::field::Field;
use super::floating::Custom;
use super::footer::Standing;
use super::input::Input;
use super::layers::{Asked, ComponentId, Dialog, Layer};
use super::picker::Choice;
use super::put::Put;
use super::selections::model_name;
use super::shown::{self, clipped};
use super::transcript::{Style, Transcript};
use pijs_protocol::{ExtensionId, HostcallError, guard};
use pijs_runtime::repeated::Repeated;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Work for the thread that the session lives on.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    /// The person said something, or wants to say it when the run is over; `by` wrote it.
    Say { text: String, later: bool, by: Option<ExtensionId> },
    /// The run is to stop.
    Abort,
    /// A key that an extension has a shortcut on.
    Shortcut(String),
    /// What could complete the editor's text.
    Complete(Request),
    /// What could complete a text, for the provider that stands on those that are asked.
    Suggest { number: u64, request: Request, below: Option<ComponentId> },
    /// A completion was chosen where an extension completes: it says what the text becomes.
    Apply { provider: ComponentId, request: Request, item: Value, prefix: String },
    /// The next thinking level.
    CycleThinking,
    /// The next model, or the one before.
    CycleModel { back: bool },
    /// A list of pi's own is to be shown.
    Pick(Choice),
    /// Something was chosen of one.
    Picked(Choice, String),
    /// A list was closed without a choice.
    Unpicked,
    /// The key of a provider was typed.
    Entered { provider: String, key: String },
    /// The editor's text is to be edited in the person's own editor.
    EditOutside,
    /// The model's last reply goes to the clipboard.
    Copy,
    /// What waits to be said comes back into the editor.
    Unqueue,
    /// Results are shown whole, or not.
    Expanded(bool),
    /// A component is to be drawn this wide; `fresh` without anything it has kept.
    Render { id: ComponentId, columns: usize, focused: bool, fresh: bool },
    /// A key for a component.
    Key(ComponentId, String),
    /// A key for those that listen to all of them.
    Listen { data: String, listeners: Vec<ComponentId> },
    /// The editor of an extension is to hold this text.
    EditorText(ComponentId, String),
    /// The same, or a paste, from another extension than its own; it is counted in [`View::handed`].
    Handed { to: ComponentId, text: String, is_paste: bool },
    /// A block of the transcript is to be drawn.
    Draw { block: u64, columns: usize, expanded: bool },
    /// The session is to end.
    Exit,
    /// The program is to stop until it is continued.
    Suspend,
}

/// Widgets, texts of its state, open dialogs and components that take the keys or float: what one extension has of each at a
/// time.
const MOST_KEPT: usize = 64;
/// Components of one extension altogether, and what their pictures take.
const MOST_COMPONENTS: usize = 256;
const MOST_DRAWN: usize = 16 << 20;
/// What the open dialogs of one extension take.
const MOST_ASKED: usize = 32 << 20;
/// What one extension may put into the editor of another one before that has taken it.
const MOST_HANDED: usize = 4 << 20;
/// Longest name of a session or model that is shown.
const LONGEST_NAME: usize = 1 << 10;
/// Lines of a widget that is given as text.
const WIDGET_LINES: usize = 10;

/// What a component drew.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    pub(super) lines: Vec<String>,
    /// The widest that one of them can be.
    pub(super) made: usize,
    /// What they take.
    pub(super) bytes: usize,
    /// The width that was asked for last, and whether that is to be done again.
    pub(super) width: usize,
    pub(super) is_dirty: bool,
    pub(super) is_asked: bool,
    /// What it has kept is of another theme.
    pub(super) is_stale: bool,
}

/// What a widget shows.
#[derive(Debug)]
pub(super) enum Content {
    Lines(Vec<String>),
    Component(ComponentId),
}

/// Something of an extension above or below the editor.
#[derive(Debug)]
pub(super) struct Widget {
    pub(super) extension: ExtensionId,
    pub(super) key: String,
    pub(super) content: Content,
    pub(super) is_below: bool,
}

/// Somebody who waits for what completes a text.
#[derive(Debug)]
pub(super) struct Suggested {
    pub(super) by: ExtensionId,
    pub(super) answer: oneshot::Sender<Value>,
}

/// What is shown while the model is at work.
#[derive(Debug, Clone)]
pub(super) struct Working {
    pub(super) message: Option<String>,
    pub(super) is_visible: bool,
    pub(super) frames: Vec<String>,
    pub(super) interval: Duration,
}

impl Default for Working {
    fn default() -> Self {
        let frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"].map(str::to_owned).to_vec();
        Self { message: None, is_visible: true, frames, interval: Duration::from_millis(80) }
    }
}

/// Which model answers.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// `provider/id`.
    pub(super) name: String,
    /// Its thinking level.
    pub(super) thinking: String,
}

/// The screen as data.
#[derive(Debug, Default)]
pub(super) struct View {
    /// Columns and rows.
    pub(super) size: (usize, usize),
    pub(super) transcript: Transcript,
    /// The reports of extensions that were shown.
    pub(super) repeated: Repeated,
    /// Lines below the part of the transcript that is shown.
    pub(super) scroll: usize,
    /// Results are shown whole.
    pub(super) expanded: bool,
    pub(super) editor: Field,
    /// Whose the text in it is, when an extension wrote it.
    pub(super) put: Option<Put>,
    pub(super) history: Vec<String>,
    /// How far back the editor shows the history; 0 is what is being typed.
    pub(super) back: usize,
    /// What was being typed before that.
    pub(super) draft: Option<Field>,
    /// The editor of an extension that stands in the place of pi's; `editor` is then a copy of its text.
    pub(super) own_editor: Option<ComponentId>,
    /// The key that it handles now, and whether the person has pressed Enter in it since it last said something.
    pub(super) handling: Option<String>,
    pub(super) may_submit: bool,
    pub(super) layers: Vec<Layer>,
    pub(super) questions: VecDeque<Asked>,
    pub(super) components: BTreeMap<ComponentId, Drawn>,
    /// The last one is shown.
    pub(super) headers: Vec<ComponentId>,
    pub(super) footers: Vec<ComponentId>,
    pub(super) widgets: Vec<Widget>,
    pub(super) statuses: BTreeMap<(ExtensionId, String), String>,
    /// What stands at the top where no extension has a header.
    pub(super) welcome: Vec<String>,
    pub(super) standing: Standing,
    pub(super) working: Working,
    /// The git branch, for footers.
    pub(super) branch: Option<String>,
    /// Counts what was brought to the front.
    pub(super) orders: u64,
    /// Who sees keys before the editor, and the keys that wait until they have seen one.
    pub(super) listeners: Vec<ComponentId>,
    pub(super) listening: Option<Input>,
    pub(super) unheard: VecDeque<Input>,
    /// Since when the model is at work.
    pub(super) running: Option<Instant>,
    /// The wait before the model is asked again.
    pub(super) retrying: Option<Retrying>,
    /// What the last reply failed with, as it was shown.
    pub(super) failure: Option<String>,
    /// The address and the cause of the failures since the last prompt, as they were shown.
    pub(super) told_cause: Option<String>,
    /// Keys that extensions have shortcuts on.
    pub(super) shortcuts: BTreeSet<String>,
    pub(super) shortcut_warnings: Vec<String>,
    /// What waits to be said to the model.
    pub(super) queued: Vec<String>,
    pub(super) model: Model,
    pub(super) title: Option<String>,
    /// Completions of what is typed.
    pub(super) popup: Option<Popup>,
    /// Extensions that complete, the newest last.
    pub(super) providers: Vec<Provider>,
    /// An extension is putting what was chosen into the text: keys wait.
    pub(super) applying: bool,
    /// Those that wait for what completes a text.
    pub(super) suggestions: BTreeMap<u64, Suggested>,
    /// Bytes that extensions have put into the editor of another one, and that are on their way to it.
    pub(super) handed: usize,
    /// Commands of the person that run.
    pub(super) shells: usize,
    pub(super) interrupted: Option<Instant>,
    pub(super) escaped: Option<Instant>,
    /// The list that two escapes open, if any.
    pub(super) escapes_to: Option<Choice>,
    /// The session has begun: whoever wanted to hear of it has.
    pub(super) has_begun: bool,
    /// The session is being closed.
    pub(super) is_leaving: bool,
}

/// A wait before a request is sent again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retrying {
    /// 1 for the first retry.
    pub(super) attempt: u32,
    pub(super) max_attempts: u32,
    pub(super) until: Instant,
}

impl Retrying {
    /// The line that counts the seconds down; pi's words.
    pub(super) fn line(&self, now: Instant) -> String {
        let Self { attempt, max_attempts, until } = self;
        let left = until.saturating_duration_since(now).as_millis().div_ceil(1000);
        format!("Retrying ({attempt}/{max_attempts}) in {left}s... (escape to cancel)")
    }
}

impl View {
    /// Whether there is something that escape ends.
    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some() || self.retrying.is_some() || self.shells > 0
    }

    /// Appends a notice.
    pub(super) fn say(&mut self, style: Style, text: &str) {
        self.transcript.say(style, text);
    }

    /// Takes a dialog away.
    pub(super) fn close_dialog(&mut self, number: u64) {
        self.layers.retain(|layer| !matches!(layer, Layer::Dialog(dialog) if dialog.number == number));
    }

    /// Puts a dialog, or a list of pi's own, before the person.
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

    /// Takes a component away, wherever it stands.
    pub(super) fn close_component(&mut self, id: &ComponentId) {
        let before = self.focused_component();
        self.layers.retain(|layer| !matches!(layer, Layer::Custom(custom) if custom.id == *id));
        self.components.remove(id);
        self.headers.retain(|other| other != id);
        self.footers.retain(|other| other != id);
        self.widgets.retain(|widget| !matches!(&widget.content, Content::Component(other) if other == id));
        if self.own_editor.as_ref() == Some(id) {
            self.own_editor = None;
        }
        self.focus_moved(before);
    }

    /// A component is handed a key. What an editor does with it counts as the person's doing.
    pub(super) fn begin_handling(&mut self, id: &ComponentId, key: Option<String>) {
        if self.own_editor.as_ref() == Some(id) {
            self.may_submit |= matches!(key.as_deref(), Some("enter" | "alt+enter"));
            self.handling = key;
        }
    }

    /// A component threw while it was drawn or got a key: it is reported and goes.
    pub(super) fn component_failed(&mut self, id: &ComponentId, error: &str) {
        // One that is gone already has been reported.
        if self.components.contains_key(id) {
            self.close_component(id);
            let error = clipped(error, shown::MESSAGE);
            self.say(Style::Error, &format!("{}: a component failed and was taken away: {error}", id.0));
        }
    }

    /// The components that take the keys or float.
    pub(super) fn customs(&self) -> BTreeSet<ComponentId> {
        let id = |layer: &Layer| match layer {
            Layer::Custom(custom) => Some(custom.id.clone()),
            _ => None,
        };
        self.layers.iter().filter_map(id).collect()
    }

    /// Whether an extension may have one more component; `floats` says that it is a layer of its own.
    pub(super) fn has_room_for(&self, id: &ComponentId, is_layer: bool) -> Result<(), HostcallError> {
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

    /// Whether an extension may ask one more thing.
    pub(super) fn may_ask(&self, asked: &Dialog) -> Result<(), HostcallError> {
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

    /// Adds who completes what is typed, or says the triggers of one that is known.
    pub(super) fn add_provider(&mut self, provider: Provider) -> Result<(), HostcallError> {
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

    /// A text of one extension goes to the editor of another one.
    pub(super) fn hand(&mut self, to: ComponentId, text: &str, is_paste: bool) -> Result<Vec<Work>, HostcallError> {
        if self.handed + text.len() > MOST_HANDED && guard!(TuiInsertedSize) {
            return Err(used_up("handed_bytes", MOST_HANDED));
        }
        self.handed += text.len();
        Ok(vec![Work::Handed { to, text: text.to_owned(), is_paste }])
    }

    /// Keeps what a component drew: lines that are no wider than `made`, and as many as its extension has room for.
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

    /// What the session is called.
    pub(super) fn call_session(&mut self, name: Option<&str>) {
        self.standing.name = name.map(|name| clipped(name, LONGEST_NAME).to_owned());
    }

    /// Which model answers.
    pub(super) fn call_model(&mut self, provider: &str, id: &str) {
        self.model.name = clipped(&model_name(provider, id), LONGEST_NAME).to_owned();
    }

    /// The custom component of a handle.
    pub(super) fn custom(&mut self, id: &ComponentId) -> Option<&mut Custom> {
        self.layers.iter_mut().find_map(|layer| match layer {
            Layer::Custom(custom) if custom.id == *id => Some(custom),
            _ => None,
        })
    }

    /// Everything of an extension goes: its realm ended. With `None`, of all of them.
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
            self.working = Working::default();
            self.transcript.label_thinking(None);
        }
    }

    /// Puts a widget in its place, or takes it away.
    pub(super) fn set_widget(&mut self, extension: ExtensionId, key: String, content: Option<Content>, is_below: bool) {
        let old = self.widgets.iter().position(|widget| widget.extension == extension && widget.key == key);
        let old = old.map(|at| (at, self.widgets.remove(at)));
        if let Some((_, Widget { content: Content::Component(id), .. })) = &old {
            self.components.remove(id);
        }
        let Some(mut content) = content else { return };
        if old.is_none() && self.widgets.iter().filter(|widget| widget.extension == extension).count() >= MOST_KEPT {
            if let Content::Component(id) = &content {
                self.components.remove(id);
            }
            return;
        }
        if let Content::Lines(lines) = &mut content
            && lines.len() > WIDGET_LINES
        {
            lines.truncate(WIDGET_LINES);
            lines.push("... (widget truncated)".to_owned());
        }
        let at = old.map_or(self.widgets.len(), |(at, _)| at);
        self.widgets.insert(at, Widget { extension, key, content, is_below });
    }

    /// What an extension says of its state under a key; no more than a screen can show.
    pub(super) fn set_status(&mut self, key: (ExtensionId, String), text: Option<String>) {
        let Some(text) = text else { return drop(self.statuses.remove(&key)) };
        let kept = self.statuses.keys().filter(|(extension, _)| *extension == key.0).count();
        if kept < MOST_KEPT || self.statuses.contains_key(&key) {
            self.statuses.insert(key, text);
        }
    }

    /// The session is to end: nobody answers any more.
    pub(super) fn leave(&mut self) {
        self.is_leaving = true;
        self.questions.clear();
        self.suggestions.clear();
        for layer in self.layers.drain(..) {
            if let Layer::Custom(custom) = layer {
                // One that has ended by itself does not wait.
                let _ = custom.end.send(());
            }
        }
    }

    /// An empty screen.
    pub(super) fn new(size: (usize, usize)) -> Self {
        Self { size, ..Self::default() }
    }
}

/// What an extension has enough of.
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
            let may = view.has_room_for(&id, is_layer).is_ok();
            if may {
                view.components.insert(id.clone(), Drawn::default());
                if is_layer {
                    let (end, _) = oneshot::channel();
                    view.push(Layer::Custom(Custom::new(id, None, 0, end)));
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
            let dialog = Dialog::new(number, extension.clone(), "select", &params("small"));
            if view.may_ask(&dialog).is_ok() {
                view.push(Layer::Dialog(dialog));
                asked += 1;
            }
        }
        assert_eq!(asked, MOST_KEPT);
        let large = Dialog::new(0, ExtensionId::new("y"), "select", &params(&"x".repeat(10 << 20)));
        assert!(view.may_ask(&large).is_err());
    }

    #[test]
    fn pictures_and_texts_on_their_way_are_limited() {
        let (mut view, extension) = (View::new((80, 24)), ExtensionId::new("x"));
        for handle in 0..MOST_COMPONENTS as u32 {
            view.components.insert((extension.clone(), handle), Drawn::default());
            view.keep_lines(&(extension.clone(), handle), vec!["x".repeat(1 << 10); 1_000], 80);
        }
        let bytes: usize = view.components.values().flat_map(|drawn| &drawn.lines).map(String::len).sum();
        assert!(bytes <= MOST_DRAWN && bytes > MOST_DRAWN / 2, "{bytes}");
        let other = (ExtensionId::new("y"), 1);
        let handed = (0..100).filter(|_| view.hand(other.clone(), &"x".repeat(1 << 20), true).is_ok()).count();
        assert_eq!(handed, MOST_HANDED >> 20);
    }

    #[test]
    fn an_extension_keeps_no_more_than_can_be_shown() {
        let (mut view, extension) = (View::default(), ExtensionId::new("x"));
        for number in 0..1_000 {
            let key = number.to_string();
            view.set_status((extension.clone(), key.clone()), Some(key.clone()));
            view.set_widget(extension.clone(), key, Some(Content::Lines(vec!["w".to_owned()])), false);
        }
        assert_eq!((view.statuses.len(), view.widgets.len()), (MOST_KEPT, MOST_KEPT));
        view.set_status((extension.clone(), "0".to_owned()), Some("new".to_owned()));
        assert_eq!(view.statuses[&(extension.clone(), "0".to_owned())], "new");
        view.set_status((extension.clone(), "0".to_owned()), None);
        view.set_status((ExtensionId::new("y"), "0".to_owned()), Some("other".to_owned()));
        assert_eq!(view.statuses.len(), MOST_KEPT);
    }
}
