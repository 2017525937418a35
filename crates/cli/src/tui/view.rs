//! Everything that is on the screen, as data: what there is to see, and what a key does to it.
//!
//! One value behind one lock. Extensions change it through [`super::port`], the agent through [`super::events`], the
//! person through [`View::typed`]; [`super::draw`] makes lines of it. What needs the session's own thread is returned as
//! [`Work`].

use super::field::Field;
use super::input::{self, Input};
use super::layers::{Asked, ComponentId, Custom, Layer};
use super::transcript::{Style, Transcript};
use pijs_protocol::{ExtensionId, guard};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// Work for the thread that the session lives on.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    /// The person said something, or wants to say it when the run is over.
    Say { text: String, later: bool },
    /// The run is to stop.
    Abort,
    /// A key that an extension has a shortcut on.
    Shortcut(String),
    /// What could complete this text.
    Complete(String),
    /// The next thinking level.
    CycleThinking,
    /// A component is to be drawn this wide.
    Render(ComponentId, usize),
    /// A key for a component.
    Key(ComponentId, String),
    /// A block of the transcript is to be drawn.
    Draw { block: u64, columns: usize, expanded: bool },
    /// The session is to end.
    Exit,
    /// The program is to stop until it is continued.
    Suspend,
}

/// Two Ctrl-C within this time end the program, whatever has the keys.
const CHORD: Duration = Duration::from_millis(1_000);
/// Lines of a widget that is given as text.
const WIDGET_LINES: usize = 10;
/// Prompts that are remembered.
const MOST_HISTORY: usize = 200;

/// What a component drew.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    pub(super) lines: Vec<String>,
    /// The width that was asked for last, and whether that is to be done again.
    pub(super) width: usize,
    pub(super) is_dirty: bool,
    pub(super) is_asked: bool,
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
    history: Vec<String>,
    /// How far back the editor shows the history; 0 is what is being typed.
    back: usize,
    pub(super) layers: Vec<Layer>,
    pub(super) questions: VecDeque<Asked>,
    pub(super) components: BTreeMap<ComponentId, Drawn>,
    /// The last one is shown.
    pub(super) headers: Vec<ComponentId>,
    pub(super) footers: Vec<ComponentId>,
    pub(super) widgets: Vec<Widget>,
    pub(super) statuses: BTreeMap<(ExtensionId, String), String>,
    pub(super) working: Working,
    pub(super) thinking_label: Option<String>,
    /// Since when the model is at work.
    pub(super) running: Option<Instant>,
    /// Keys that extensions have shortcuts on.
    pub(super) shortcuts: BTreeSet<String>,
    /// What waits to be said to the model.
    pub(super) queued: Vec<String>,
    pub(super) model: Model,
    pub(super) title: Option<String>,
    /// Completions of what is typed, and the one that stands there.
    pub(super) completions: Vec<String>,
    completed: usize,
    interrupted: Option<Instant>,
    /// The session is being closed.
    pub(super) is_leaving: bool,
}

impl View {
    /// Appends a notice.
    pub(super) fn say(&mut self, style: Style, text: &str) {
        self.transcript.say(style, text);
    }

    /// Takes what was typed.
    pub(super) fn typed(&mut self, input: &Input, now: Instant) -> Vec<Work> {
        match input {
            Input::Key(data) => match input::name(data) {
                Some(name) => self.key(&name, data, now),
                // A key we have no name for may have one in a component.
                None => self.to_component(data).into_iter().collect(),
            },
            Input::Paste(text) => {
                self.paste(text);
                match self.focused_component() {
                    Some(id) if self.questions.is_empty() => {
                        vec![Work::Key(id, format!("\u{1b}[200~{text}\u{1b}[201~"))]
                    }
                    _ => Vec::new(),
                }
            }
        }
    }

    fn paste(&mut self, text: &str) {
        // A paste answers no question.
        if !self.questions.is_empty() {
            return;
        }
        match self.focused() {
            Some(Layer::Dialog(dialog)) => dialog.paste(text),
            Some(Layer::Custom(_)) => {}
            None => self.editor.insert(text),
        }
    }

    fn key(&mut self, name: &str, data: &str, now: Instant) -> Vec<Work> {
        if name == "ctrl+c" {
            let before = self.interrupted.replace(now);
            let is_chord = before.is_some_and(|before| now.duration_since(before) <= CHORD);
            if is_chord && guard::is_up("tui.exit-chord") {
                self.leave();
                return vec![Work::Exit];
            }
        } else {
            self.interrupted = None;
        }
        if let Some(asked) = self.questions.front() {
            if let Some(answer) = asked.key(name, now)
                && let Some(asked) = self.questions.pop_front()
            {
                // Whoever asked may have stopped waiting.
                let _ = asked.answer.send(answer);
            }
            return Vec::new();
        }
        if name == "ctrl+z" {
            return vec![Work::Suspend];
        }
        match self.focused() {
            Some(Layer::Dialog(dialog)) => {
                if let Some(answer) = dialog.key(name, data) {
                    let number = dialog.number;
                    let done = dialog.done.take();
                    self.close_dialog(number);
                    if let Some(done) = done {
                        let _ = done.send(answer);
                    }
                }
                Vec::new()
            }
            Some(Layer::Custom(_)) => self.to_component(data).into_iter().collect(),
            None => self.editor_key(name, data),
        }
    }

    fn editor_key(&mut self, name: &str, data: &str) -> Vec<Work> {
        if name != "tab" {
            self.completions.clear();
        }
        match name {
            "ctrl+c" if self.editor.text().is_empty() && self.running.is_some() => vec![Work::Abort],
            "ctrl+c" => {
                self.editor.take();
                Vec::new()
            }
            "ctrl+d" if self.editor.text().is_empty() => {
                self.leave();
                vec![Work::Exit]
            }
            "escape" if self.running.is_some() => vec![Work::Abort],
            "enter" | "alt+enter" => {
                let text = self.editor.take();
                self.back = 0;
                self.scroll = 0;
                if text.trim().is_empty() {
                    return Vec::new();
                }
                self.history.retain(|said| *said != text);
                self.history.push(text.clone());
                if self.history.len() > MOST_HISTORY {
                    self.history.remove(0);
                }
                vec![Work::Say { text, later: name == "alt+enter" }]
            }
            "tab" => self.complete(),
            "ctrl+o" => {
                self.expanded = !self.expanded;
                Vec::new()
            }
            "shift+tab" => vec![Work::CycleThinking],
            "pageup" => {
                self.scroll += (self.size.1 / 2).max(1);
                Vec::new()
            }
            "pagedown" => {
                self.scroll = self.scroll.saturating_sub((self.size.1 / 2).max(1));
                Vec::new()
            }
            "up" | "down" => {
                if !self.editor.key(name, data) {
                    self.recall(name == "up");
                }
                Vec::new()
            }
            name if self.shortcuts.contains(name) && may_be_shortcut(name) => vec![Work::Shortcut(name.to_owned())],
            name => {
                self.editor.key(name, data);
                Vec::new()
            }
        }
    }

    fn recall(&mut self, is_back: bool) {
        let back = if is_back { (self.back + 1).min(self.history.len()) } else { self.back.saturating_sub(1) };
        if back != self.back {
            self.back = back;
            let text = if back == 0 { "" } else { &self.history[self.history.len() - back] };
            self.editor.set(text);
        }
    }

    fn complete(&mut self) -> Vec<Work> {
        if self.completions.is_empty() {
            return vec![Work::Complete(self.editor.text().to_owned())];
        }
        self.completed = (self.completed + 1) % self.completions.len();
        self.editor.set(&self.completions[self.completed].clone());
        Vec::new()
    }

    /// Completions of `text`: the first one stands in its place, Tab goes on to the next.
    pub(super) fn take_completions(&mut self, text: &str, found: Vec<String>) {
        if self.editor.text() == text && !found.is_empty() {
            self.editor.set(&found[0]);
            self.completions = found;
            self.completed = 0;
        }
    }

    /// What has the keys: the top layer that wants them.
    fn focused(&mut self) -> Option<&mut Layer> {
        self.layers.iter_mut().rev().find(|layer| takes_keys(layer))
    }

    /// The component that has the keys.
    pub(super) fn focused_component(&self) -> Option<ComponentId> {
        match self.layers.iter().rev().find(|layer| takes_keys(layer)) {
            Some(Layer::Custom(custom)) => Some(custom.id.clone()),
            _ => None,
        }
    }

    fn to_component(&self, data: &str) -> Option<Work> {
        if !self.questions.is_empty() {
            return None;
        }
        self.focused_component().map(|id| Work::Key(id, data.to_owned()))
    }

    /// Takes a dialog away.
    pub(super) fn close_dialog(&mut self, number: u64) {
        self.layers.retain(|layer| !matches!(layer, Layer::Dialog(dialog) if dialog.number == number));
    }

    /// Takes a custom component away.
    pub(super) fn close_component(&mut self, id: &ComponentId) {
        self.layers.retain(|layer| !matches!(layer, Layer::Custom(custom) if custom.id == *id));
        self.components.remove(id);
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
        });
        self.components.retain(|(extension, _), _| !is_gone(extension));
        self.headers.retain(|(extension, _)| !is_gone(extension));
        self.footers.retain(|(extension, _)| !is_gone(extension));
        self.widgets.retain(|widget| !is_gone(&widget.extension));
        self.statuses.retain(|(extension, _), _| !is_gone(extension));
        if gone.is_none() {
            self.working = Working::default();
            self.thinking_label = None;
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
        if let Content::Lines(lines) = &mut content
            && lines.len() > WIDGET_LINES
        {
            lines.truncate(WIDGET_LINES);
            lines.push("... (widget truncated)".to_owned());
        }
        let at = old.map_or(self.widgets.len(), |(at, _)| at);
        self.widgets.insert(at, Widget { extension, key, content, is_below });
    }

    /// The session is to end: nobody answers any more.
    pub(super) fn leave(&mut self) {
        self.is_leaving = true;
        self.questions.clear();
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

fn takes_keys(layer: &Layer) -> bool {
    match layer {
        Layer::Dialog(_) => true,
        Layer::Custom(custom) => {
            custom.is_there && !custom.overlay.as_ref().is_some_and(super::layers::Overlay::lets_keys_through)
        }
    }
}

/// Whether a key may be a shortcut: it is held with a modifier, or is a function key. Others are what people type.
fn may_be_shortcut(name: &str) -> bool {
    let function = name.strip_prefix('f').is_some_and(|number| !number.is_empty() && number.parse::<u8>().is_ok());
    function || name.starts_with("ctrl+") || name.starts_with("alt+")
}
