//! Dispatches keys.
//!
//! | in order | effect |
//! |---|---|
//! | Ctrl-C twice | ends the session, whichever component has the focus |
//! | permission prompt | answers it; no extension receives the key |
//! | listeners of extensions | may consume or change a key for the editor or for a component of their own |
//! | focused layer | a dialog, a list, a component |
//! | editor | the built-in one, or that of an extension |
//!
//! A key that a listener changed counts as the extension's: it does not submit text as the user.

use super::clip::clipped;
use super::input::{self, LONGEST_PASTE, TerminalInput};
use super::layers::{ComponentId, Layer};
use super::picker::ListKind;
use super::port::marked;
use super::task::UiTask;
use super::text_field::LONGEST;
use super::transcript::Style;
use super::view::View;
use pijs_protocol::{ExtensionId, guard};
use std::time::{Duration, Instant};

/// Two Ctrl-C within this time end the program.
const EXIT_CHORD: Duration = Duration::from_millis(1_000);
/// Two Escapes within this time open the tree of the session.
const DOUBLE_ESCAPE: Duration = Duration::from_millis(500);
/// Prompts of the history, and their bytes.
const MAX_HISTORY: usize = 200;
const MAX_HISTORY_BYTES: usize = 16 << 20;
/// Limits of a listener's replacement for one key: bytes, keys, and bytes of editor text that the keys process.
const LONGEST_CHANGED: usize = LONGEST_PASTE + 64;
const MAX_CHANGED_KEYS: usize = 4_096;
const MAX_CHANGED_WORK: usize = 64 << 20;
/// Keys that wait for a listener; later ones are dropped.
const MAX_WAITING_KEYS: usize = 10_000;

/// Built-in actions with their keys.
const ACTIONS: [(&str, &str); 13] = [
    ("app.clear", "ctrl+c"),
    ("app.clipboard.pasteImage", "ctrl+v"),
    ("app.editor.external", "ctrl+g"),
    ("app.exit", "ctrl+d"),
    ("app.interrupt", "escape"),
    ("app.message.copy", "ctrl+x"),
    ("app.message.dequeue", "alt+up"),
    ("app.model.cycleBackward", "ctrl+shift+p"),
    ("app.model.cycleForward", "ctrl+p"),
    ("app.model.select", "ctrl+l"),
    ("app.thinking.cycle", "shift+tab"),
    ("app.thinking.toggle", "ctrl+t"),
    ("app.tools.expand", "ctrl+o"),
];

/// Returns whether a key triggers an action.
pub(super) fn is_on(action: &str, key: &str) -> bool {
    ACTIONS.contains(&(action, key))
}

impl View {
    /// Handles an input event.
    pub(super) fn typed(&mut self, input: &TerminalInput, now: Instant) -> Vec<UiTask> {
        let lets_go = matches!(input, TerminalInput::Key(data) if input::is_release(data));
        if !lets_go && self.is_exit_chord(input, now) {
            self.leave();
            return vec![UiTask::Exit];
        }
        if self.listening.is_some() || self.applying {
            if self.unheard.len() < MAX_WAITING_KEYS {
                self.unheard.push_back(input.clone());
            }
            return Vec::new();
        }
        match self.listen(input) {
            Some(work) => vec![work],
            None => self.take(input, now),
        }
    }

    fn is_exit_chord(&mut self, input: &TerminalInput, now: Instant) -> bool {
        let is_interrupt = matches!(input, TerminalInput::Key(data) if input::name(data).as_deref() == Some("ctrl+c"));
        let before = std::mem::replace(&mut self.interrupted, is_interrupt.then_some(now));
        is_interrupt && before.is_some_and(|before| now.duration_since(before) <= EXIT_CHORD) && guard!(TuiExitChord)
    }

    /// Passes a key to listeners, when it is for the editor or for a component of theirs.
    fn listen(&mut self, input: &TerminalInput) -> Option<UiTask> {
        if !self.questions.is_empty() && guard!(TuiQuestionKeys) {
            return None;
        }
        let listeners: Vec<ComponentId> = match self.focus().map(|at| &self.layers[at]) {
            None => self.listeners.clone(),
            Some(layer) => {
                let owner = match layer {
                    Layer::Custom(custom) => &custom.id.0,
                    Layer::Dialog(dialog) => &dialog.extension,
                    Layer::Picker(_) | Layer::Entry(_) => return None,
                };
                self.listeners.iter().filter(|listener| listener.0 == *owner).cloned().collect()
            }
        };
        if listeners.is_empty() {
            return None;
        }
        let data = match input {
            TerminalInput::Key(data) => data.clone(),
            TerminalInput::Paste(text) => marked(text),
        };
        self.listening = Some(input.clone());
        Some(UiTask::Listen { data, listeners })
    }

    /// Handles the result of the listeners, then the keys that waited for it.
    pub(super) fn heard(&mut self, left: Option<&str>, now: Instant) -> Vec<UiTask> {
        let Some(input) = self.listening.take() else { return Vec::new() };
        let mut work = match (&input, left) {
            (_, None) => Vec::new(),
            (TerminalInput::Key(data), Some(left)) if data == left => self.take(&input, now),
            (TerminalInput::Paste(text), Some(left)) if *left == marked(text) => self.take(&input, now),
            (_, Some(left)) => self.take_changed(left, now),
        };
        work.extend(self.catch_up(now));
        work
    }

    /// Handles waiting keys, until one is passed to listeners again.
    pub(super) fn catch_up(&mut self, now: Instant) -> Vec<UiTask> {
        let mut work = Vec::new();
        while self.listening.is_none() && !self.applying {
            let Some(next) = self.unheard.pop_front() else { break };
            match self.listen(&next) {
                Some(listen) => work.push(listen),
                None => work.extend(self.take(&next, now)),
            }
        }
        work
    }

    /// Handles keys that a listener produced.
    fn take_changed(&mut self, data: &str, now: Instant) -> Vec<UiTask> {
        let is_up = guard!(TuiChangedSize);
        let mut splitter = input::Splitter::default();
        let most = if is_up { LONGEST_CHANGED } else { usize::MAX };
        let mut inputs = splitter.push(clipped(data, most).as_bytes());
        inputs.extend(splitter.end());
        let (mut work, mut cost) = (Vec::new(), 0);
        for (count, input) in inputs.into_iter().enumerate() {
            cost += self.editor.text().len();
            if is_up && (count >= MAX_CHANGED_KEYS || (count > 0 && cost > MAX_CHANGED_WORK)) {
                self.say(Style::Warning, "an extension expanded one key to too much input; the rest was dropped");
                break;
            }
            let name = match &input {
                TerminalInput::Key(data) => input::name(data),
                TerminalInput::Paste(_) => None,
            };
            let says = matches!(name.as_deref(), Some("enter" | "alt+enter" | "ctrl+d"));
            if says && self.focus().is_none() && guard!(TuiChangedKeys) {
                self.say(Style::Warning, "a key changed by an extension does not send your prompt");
                continue;
            }
            work.extend(self.take(&input, now));
        }
        work
    }

    fn take(&mut self, input: &TerminalInput, now: Instant) -> Vec<UiTask> {
        match input {
            TerminalInput::Key(data) => match input::name(data) {
                Some(name) => self.key(&name, data, now),
                // A key without a known name is passed on, since a component may know it.
                None => self.to_component(data).into_iter().collect(),
            },
            TerminalInput::Paste(text) => self.paste(text),
        }
    }

    fn paste(&mut self, text: &str) -> Vec<UiTask> {
        // A paste does not answer a prompt.
        if !self.questions.is_empty() {
            return Vec::new();
        }
        if text.len() + 4 > LONGEST_PASTE {
            self.say(Style::Warning, "the paste was truncated; for longer text, name a file with @");
        }
        match self.focus().map(|at| &mut self.layers[at]) {
            Some(Layer::Dialog(dialog)) => dialog.paste(text),
            Some(Layer::Picker(picker)) => picker.paste(text),
            Some(Layer::Entry(entry)) => entry.paste(text),
            Some(Layer::Custom(custom)) => return vec![UiTask::Key(custom.id.clone(), marked(text))],
            None => match &self.own_editor {
                Some(id) => return vec![UiTask::Key(id.clone(), marked(text))],
                None => {
                    self.popup = None;
                    self.editor.paste_marked(text);
                }
            },
        }
        Vec::new()
    }

    fn key(&mut self, name: &str, data: &str, now: Instant) -> Vec<UiTask> {
        if let Some(asked) = self.questions.front_mut() {
            if let Some(answer) = asked.key(name, now)
                && let Some(asked) = self.questions.pop_front()
            {
                // The caller may have stopped waiting.
                let _ = asked.answer.send(answer);
            }
            return Vec::new();
        }
        if name == "ctrl+z" {
            return vec![UiTask::Suspend];
        }
        match self.focus().map(|at| &mut self.layers[at]) {
            Some(Layer::Dialog(dialog)) => {
                if name == "ctrl+o" {
                    return self.act("ctrl+o", now);
                }
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
            Some(Layer::Picker(picker)) => {
                let Some(end) = picker.key(name, data) else { return Vec::new() };
                let (choice, order) = (picker.choice, picker.order);
                self.layers.retain(|layer| !matches!(layer, Layer::Picker(picker) if picker.order == order));
                vec![end.map_or(UiTask::Unpicked, |value| UiTask::Picked(choice, value))]
            }
            Some(Layer::Entry(entry)) => {
                let Some(end) = entry.key(name, data) else { return Vec::new() };
                let provider = std::mem::take(&mut entry.provider);
                self.layers.retain(|layer| !matches!(layer, Layer::Entry(_)));
                end.map(|key| UiTask::Entered { provider, key }).into_iter().collect()
            }
            Some(Layer::Custom(_)) => self.to_component(data).into_iter().collect(),
            None => self.editor_key(name, data, now),
        }
    }

    fn editor_key(&mut self, name: &str, data: &str, now: Instant) -> Vec<UiTask> {
        if self.shortcuts.contains(name) {
            return vec![UiTask::Shortcut(name.to_owned())];
        }
        match name {
            "pageup" => self.scroll += (self.size.1 / 2).max(1),
            "pagedown" => self.scroll = self.scroll.saturating_sub((self.size.1 / 2).max(1)),
            _ => {
                if let Some(id) = &self.own_editor {
                    return vec![UiTask::Key(id.clone(), data.to_owned())];
                }
                return self.own_key(name, data, now);
            }
        }
        Vec::new()
    }

    /// Handles a key for the built-in editor.
    fn own_key(&mut self, name: &str, data: &str, now: Instant) -> Vec<UiTask> {
        if self.editor.text().is_empty() {
            self.inserted = None;
        }
        if let Some(work) = self.popup_key(name) {
            return work;
        }
        match name {
            "ctrl+d" if !self.editor.text().is_empty() => drop(self.editor.key("delete", data)),
            name if ACTIONS.iter().any(|(_, key)| *key == name) => return self.act(name, now),
            "enter" if self.editor.breaks_line() => {}
            "enter" | "alt+enter" => {
                let Some(by) = self.submits(now) else { return Vec::new() };
                let text = self.editor.take();
                return self.submit(text, name == "alt+enter", by);
            }
            "tab" => return self.complete(true),
            "up" | "down" => self.up_or_down(name, data),
            name => {
                let before = self.editor.text().len();
                if self.editor.key(name, data) {
                    if self.editor.text().len() != before {
                        (self.back, self.draft) = (0, None);
                    }
                    return self.complete(false);
                }
            }
        }
        Vec::new()
    }

    /// Submits a text, from the built-in editor or from an extension's; `by` is its author when it is not the user's.
    pub(super) fn submit(&mut self, text: String, later: bool, by: Option<ExtensionId>) -> Vec<UiTask> {
        self.popup = None;
        self.back = 0;
        self.scroll = 0;
        let text = text.trim().to_owned();
        if text.is_empty() {
            return Vec::new();
        }
        self.draft = None;
        self.remember(text.clone());
        vec![UiTask::Say { text, later, by }]
    }

    /// Adds a prompt to the history.
    pub(super) fn remember(&mut self, text: String) {
        // The editor would truncate a longer one.
        if self.history.last() == Some(&text) || text.len() > LONGEST {
            return;
        }
        self.history.push(text);
        let mut bytes: usize = self.history.iter().map(String::len).sum();
        while self.history.len() > MAX_HISTORY || bytes > MAX_HISTORY_BYTES {
            bytes -= self.history.remove(0).len();
        }
    }

    /// Handles the key of a built-in action.
    pub(super) fn act(&mut self, key: &str, now: Instant) -> Vec<UiTask> {
        let is_empty = self.editor.text().is_empty();
        let is_busy = self.is_busy();
        match key {
            "escape" if is_busy => return vec![UiTask::Abort],
            "escape" if is_empty => {
                if self.escaped.take().is_some_and(|before| now.duration_since(before) <= DOUBLE_ESCAPE) {
                    return self.escapes_to.map(UiTask::Pick).into_iter().collect();
                }
                self.escaped = Some(now);
            }
            "ctrl+c" if is_empty && is_busy => return vec![UiTask::Abort],
            "ctrl+c" => return self.set_editor_text(""),
            "ctrl+d" if is_empty => {
                self.leave();
                return vec![UiTask::Exit];
            }
            "ctrl+o" => {
                self.expanded = !self.expanded;
                return vec![UiTask::Expanded(self.expanded)];
            }
            "ctrl+t" => {
                let hides = self.transcript.toggle_thinking();
                self.say(Style::Info, if hides { "thinking is hidden" } else { "thinking is shown" });
            }
            "ctrl+l" => return vec![UiTask::Pick(ListKind::Model)],
            "ctrl+p" => return vec![UiTask::CycleModel { back: false }],
            "ctrl+shift+p" => return vec![UiTask::CycleModel { back: true }],
            "shift+tab" => return vec![UiTask::CycleThinking],
            "ctrl+x" => return vec![UiTask::Copy],
            "ctrl+g" => return vec![UiTask::EditOutside],
            "alt+up" => return vec![UiTask::Unqueue],
            "ctrl+v" => self.say(Style::Info, "pasting images is not supported; name a file with @"),
            _ => {}
        }
        Vec::new()
    }

    /// Replaces the text of the current editor.
    pub(super) fn set_editor_text(&mut self, text: &str) -> Vec<UiTask> {
        self.popup = None;
        self.editor.set(text);
        self.own_editor.iter().map(|id| UiTask::EditorText(id.clone(), text.to_owned())).collect()
    }

    /// Moves to the line above or below; beyond the first and last one, through the history, or within the line.
    fn up_or_down(&mut self, name: &str, data: &str) {
        let (is_up, browses) = (name == "up", self.back > 0);
        if self.editor.key(name, data) {
            return;
        }
        match is_up {
            true if browses || self.editor.at() == 0 => self.recall(true),
            false if browses => self.recall(false),
            true => drop(self.editor.key("home", "")),
            false => drop(self.editor.key("end", "")),
        }
    }

    fn recall(&mut self, is_back: bool) {
        let back = if is_back { (self.back + 1).min(self.history.len()) } else { self.back.saturating_sub(1) };
        if back == self.back {
            return;
        }
        if self.back == 0 {
            self.draft = Some(self.editor.clone());
        }
        self.back = back;
        match back {
            0 => self.editor = self.draft.take().unwrap_or_default(),
            back => {
                let text = self.history[self.history.len() - back].clone();
                self.editor.put(&text, if is_back { 0 } else { text.len() });
            }
        }
    }

    fn to_component(&self, data: &str) -> Option<UiTask> {
        if !self.questions.is_empty() {
            return None;
        }
        let id = match self.focus() {
            None => self.own_editor.clone(),
            Some(_) => self.focused_component(),
        };
        id.map(|id| UiTask::Key(id, data.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_output_and_history_are_bounded() {
        let begun = Instant::now();
        let mut view = View::new((80, 24));
        view.editor.set(&"x".repeat(LONGEST));
        view.take_changed(&"\u{1b}[A\u{19}".repeat(1 << 20), begun);
        view.take_changed(&"a".repeat(16 << 20), begun);
        // One pass over the text for each key would take hours.
        assert!(begun.elapsed() < Duration::from_secs(600), "{:?}", begun.elapsed());
        view.editor.set("");
        view.take_changed(&"a".repeat(1_000), begun);
        assert_eq!(view.editor.text().len(), 1_000, "an honest listener types as much as it likes");
        for number in 0..100 {
            view.remember(format!("{number}{}", "x".repeat(LONGEST - 10)));
        }
        assert!(view.history.iter().map(String::len).sum::<usize>() <= MAX_HISTORY_BYTES);
        assert!(view.history.last().is_some_and(|last| last.starts_with("99")));
    }
}
