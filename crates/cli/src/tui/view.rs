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
use super::layers::{Asked, ComponentId, Layer};
use super::picker::Choice;
use super::put::Put;
use super::transcript::{Style, Transcript};
use pijs_protocol::ExtensionId;
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
    /// A block of the transcript is to be drawn.
    Draw { block: u64, columns: usize, expanded: bool },
    /// The session is to end.
    Exit,
    /// The program is to stop until it is continued.
    Suspend,
}

/// Widgets, and texts of its state, that one extension has at a time.
const MOST_KEPT: usize = 64;
/// Lines of a widget that is given as text.
const WIDGET_LINES: usize = 10;

/// What a component drew.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    pub(super) lines: Vec<String>,
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
    pub(super) suggestions: BTreeMap<u64, oneshot::Sender<Value>>,
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

impl View {
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
            self.say(Style::Error, &format!("{}: a component failed and was taken away: {error}", id.0));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

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
