//! Dispatches keys.
//!
//! | handler, in this order | effect |
//! |---|---|
//! | Ctrl-C twice | ends the session, whichever component has the focus |
//! | permission prompt | answers it; no extension receives the key |
//! | listeners of extensions | may consume or change a key for the editor or for a component of their own |
//! | focused layer | a dialog, a list, a component |
//! | editor | the built-in editor, or one of an extension |
//!
//! A key that a listener changed is attributed to the extension: it does not submit text as the user.

use super::clip::clipped;
use super::input::{self, LONGEST_PASTE, TerminalInput, marked};
use super::layers::Layer;
use super::picker::ListKind;
use super::task::UiTask;
use super::transcript::Style;
use super::view::View;
use pijs_protocol::{ExtensionId, guard};
use std::time::Instant;

/// Maximum number of bytes with which a listener may replace one key.
const LONGEST_CHANGED: usize = LONGEST_PASTE + 64;
/// Maximum number of keys with which a listener may replace one key.
const MAX_CHANGED_KEYS: usize = 4_096;
/// Maximum number of bytes of editor text that these keys may process.
const MAX_CHANGED_WORK: usize = 64 << 20;

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

/// Returns whether a key submits the text, or does more than edit the text and change what is shown: a model that it selects is
/// the user's choice.
fn acts_for_user(key: &str) -> bool {
    let is_harmless = matches!(key, "ctrl+c" | "ctrl+o" | "ctrl+t" | "escape");
    let is_action = ACTIONS.iter().any(|(_, of_action)| *of_action == key);
    matches!(key, "enter" | "alt+enter" | "ctrl+z") || (is_action && !is_harmless)
}

impl View {
    /// Handles an input event.
    pub(super) fn typed(&mut self, input: &TerminalInput, now: Instant) -> Vec<UiTask> {
        let lets_go = matches!(input, TerminalInput::Key(data) if input::is_release(data));
        if !lets_go && self.keys.is_exit_chord(input, now) {
            self.leave();
            return vec![UiTask::Exit];
        }
        if (self.listeners.are_busy() || self.completion.is_applying) && !self.asks() {
            self.listeners.hold(input);
            return Vec::new();
        }
        match self.listen(input) {
            Some(work) => vec![work],
            None => self.take(input, now),
        }
    }

    /// Returns whether a permission prompt takes all keys. Keys that were typed before it appeared do not answer it.
    fn asks(&self) -> bool {
        !self.layers.prompts.is_empty() && guard!(TuiQuestionKeys)
    }

    /// Passes a key to listeners if it is for the editor or for a component of their extension.
    fn listen(&mut self, input: &TerminalInput) -> Option<UiTask> {
        if self.asks() {
            return None;
        }
        let owner = match self.layers.focused() {
            None => None,
            // Keys for a built-in layer are hidden from listeners.
            Some(layer) => Some(layer.extension()?.clone()),
        };
        self.listeners.begin(input, owner.as_ref())
    }

    /// Handles the result of the listeners, then the keys that waited for them.
    pub(super) fn heard(&mut self, left: Option<&str>, now: Instant) -> Vec<UiTask> {
        let Some(input) = self.listeners.end() else { return Vec::new() };
        let mut work = match (&input, left) {
            (_, None) => Vec::new(),
            _ if self.asks() => Vec::new(),
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
        while !self.listeners.are_busy() && !self.completion.is_applying {
            let Some(next) = self.listeners.next_held() else { break };
            if self.asks() {
                continue;
            }
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
        let (mut work, mut cost, was) = (Vec::new(), 0, self.editor.field.whole());
        for (count, input) in inputs.into_iter().enumerate() {
            cost += self.editor.field.text().len();
            if is_up && (count >= MAX_CHANGED_KEYS || (count > 0 && cost > MAX_CHANGED_WORK)) {
                self.say(Style::Warning, "an extension expanded one key to too much input; the rest was dropped");
                break;
            }
            let name = match &input {
                TerminalInput::Key(data) => input::name(data),
                TerminalInput::Paste(_) => None,
            };
            let acts = name.as_deref().is_some_and(|name| acts_for_user(name) || self.keys.is_shortcut(name));
            if acts && self.layers.focused().is_none() && guard!(TuiChangedKeys) {
                self.say(Style::Warning, "a key changed by an extension does not send your prompt or act for you");
                continue;
            }
            work.extend(self.take(&input, now));
        }
        self.editor.note_changed(&self.listeners.author(), &was);
        work
    }

    fn take(&mut self, input: &TerminalInput, now: Instant) -> Vec<UiTask> {
        match input {
            TerminalInput::Key(data) => match input::name(data) {
                Some(name) => self.key(&name, data, now),
                // A key without a known name is passed on, because a component may know it.
                None => self.to_component(data).into_iter().collect(),
            },
            TerminalInput::Paste(text) => self.paste(text),
        }
    }

    fn paste(&mut self, text: &str) -> Vec<UiTask> {
        // A paste does not answer a prompt.
        if !self.layers.prompts.is_empty() {
            return Vec::new();
        }
        if text.len() + 4 > LONGEST_PASTE {
            self.say(Style::Warning, "the paste was truncated; for longer text, name a file with @");
        }
        match self.layers.focused_mut() {
            Some(Layer::Dialog(dialog)) => dialog.paste(text),
            Some(Layer::Picker(picker)) => picker.paste(text),
            Some(Layer::Entry(entry)) => entry.paste(text),
            Some(Layer::Custom(custom)) => return vec![UiTask::Key(custom.id.clone(), marked(text))],
            None => match self.editor.replacement_id() {
                Some(id) => return vec![UiTask::Key(id.clone(), marked(text))],
                None => {
                    self.completion.popup = None;
                    self.editor.field.paste_marked(text);
                }
            },
        }
        Vec::new()
    }

    fn key(&mut self, name: &str, data: &str, now: Instant) -> Vec<UiTask> {
        if let Some(asked) = self.layers.prompts.front_mut() {
            if let Some(answer) = asked.key(name, now)
                && let Some(asked) = self.layers.prompts.pop_front()
            {
                // The caller may have stopped waiting.
                let _ = asked.answer.send(answer);
            }
            return Vec::new();
        }
        if name == "ctrl+z" {
            return vec![UiTask::Suspend];
        }
        match self.layers.focused_mut() {
            Some(Layer::Dialog(dialog)) => {
                if name == "ctrl+o" {
                    return self.act("ctrl+o", now);
                }
                if let Some(answer) = dialog.key(name, data) {
                    let number = dialog.number;
                    let done = dialog.done.take();
                    self.layers.close_dialog(number);
                    if let Some(done) = done {
                        let _ = done.send(answer);
                    }
                }
                Vec::new()
            }
            Some(Layer::Picker(picker)) => {
                let Some(end) = picker.key(name, data) else { return Vec::new() };
                let (choice, order) = (picker.choice, picker.order);
                self.layers.close_list(order);
                vec![end.map_or(UiTask::Unpicked, |value| UiTask::Picked(choice, value))]
            }
            Some(Layer::Entry(entry)) => {
                let Some(end) = entry.key(name, data) else { return Vec::new() };
                let provider = std::mem::take(&mut entry.provider);
                self.layers.close_entry();
                end.map(|key| UiTask::Entered { provider, key }).into_iter().collect()
            }
            Some(Layer::Custom(_)) => self.to_component(data).into_iter().collect(),
            None => self.editor_key(name, data, now),
        }
    }

    fn editor_key(&mut self, name: &str, data: &str, now: Instant) -> Vec<UiTask> {
        if self.keys.is_shortcut(name) {
            return vec![UiTask::Shortcut(name.to_owned())];
        }
        match name {
            "pageup" => self.conversation.scroll_back((self.size.1 / 2).max(1)),
            "pagedown" => self.conversation.scroll_forward((self.size.1 / 2).max(1)),
            _ => {
                if let Some(id) = self.editor.replacement_id() {
                    return vec![UiTask::Key(id.clone(), data.to_owned())];
                }
                return self.own_key(name, data, now);
            }
        }
        Vec::new()
    }

    /// Handles a key for the built-in editor.
    fn own_key(&mut self, name: &str, data: &str, now: Instant) -> Vec<UiTask> {
        if self.editor.field.text().is_empty() {
            self.editor.inserted = None;
        }
        if let Some(work) = self.completion.popup_key(name, &mut self.editor.field) {
            return work;
        }
        match name {
            "ctrl+d" if !self.editor.field.text().is_empty() => drop(self.editor.field.key("delete", data)),
            name if ACTIONS.iter().any(|(_, key)| *key == name) => return self.act(name, now),
            "enter" if self.editor.field.breaks_line() => {}
            "enter" | "alt+enter" => {
                let Some(by) = self.submits(now) else { return Vec::new() };
                let text = self.editor.field.take();
                return self.submit(text, name == "alt+enter", by);
            }
            "tab" => return self.completion.complete(&self.editor.field, true),
            "up" | "down" => self.editor.up_or_down(name, data),
            name => {
                let before = self.editor.field.text().len();
                if self.editor.field.key(name, data) {
                    if matches!(name, "ctrl+y" | "alt+y" | "ctrl+-") {
                        self.editor.note_brought_back();
                    }
                    if self.editor.field.text().len() != before {
                        self.editor.history.reset();
                    }
                    return self.completion.complete(&self.editor.field, false);
                }
            }
        }
        Vec::new()
    }

    /// Submits a text, from the built-in editor or from an extension's; `by` is the author of the text, `None` for the user.
    pub(super) fn submit(&mut self, text: String, later: bool, by: Option<ExtensionId>) -> Vec<UiTask> {
        self.completion.popup = None;
        self.editor.history.reset();
        self.conversation.scroll = 0;
        let text = text.trim().to_owned();
        if text.is_empty() {
            return Vec::new();
        }
        self.editor.history.remember(text.clone(), by.clone());
        vec![UiTask::Say { text, later, by }]
    }

    /// Handles the key of a built-in action.
    pub(super) fn act(&mut self, key: &str, now: Instant) -> Vec<UiTask> {
        let is_empty = self.editor.field.text().is_empty();
        let is_busy = self.run.is_busy();
        match key {
            "escape" if is_busy => return vec![UiTask::Abort],
            "escape" if is_empty && self.keys.is_double_escape(now) => {
                return self.keys.escapes_to.map(UiTask::Pick).into_iter().collect();
            }
            "ctrl+c" if is_empty && is_busy => return vec![UiTask::Abort],
            "ctrl+c" => return self.set_editor_text(""),
            "ctrl+d" if is_empty => {
                self.leave();
                return vec![UiTask::Exit];
            }
            "ctrl+o" => {
                self.conversation.expanded = !self.conversation.expanded;
                return vec![UiTask::Expanded(self.conversation.expanded)];
            }
            "ctrl+t" => {
                let hides = self.conversation.transcript.toggle_thinking();
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

    fn to_component(&self, data: &str) -> Option<UiTask> {
        if !self.layers.prompts.is_empty() {
            return None;
        }
        let id = match self.layers.focused() {
            None => self.editor.replacement_id().cloned(),
            Some(_) => self.layers.focused_component(),
        };
        id.map(|id| UiTask::Key(id, data.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::permission_prompt::PermissionPrompt;
    use super::super::text_field::LONGEST;
    use super::*;
    use pijs_hostcall::{Answer, Evidence, Question};
    use std::time::Duration;
    use tokio::sync::oneshot;

    fn key(text: &str) -> TerminalInput {
        TerminalInput::Key(text.to_owned())
    }

    /// Opens a question while a listener handles a key and another one waits for it. Returns the receiver of the answer.
    fn asked_while_a_listener_is_busy(start: Instant) -> (View, oneshot::Receiver<Answer>) {
        let mut view = View::new((80, 24));
        view.listeners.add((ExtensionId::new("x"), 1));
        assert!(matches!(view.typed(&key("h"), start).as_slice(), [UiTask::Listen { .. }]));
        assert_eq!(view.typed(&key("y"), start), [], "held while the listener is busy");
        let question = Question::about(ExtensionId::new("x"), Evidence::default().expected_loss());
        let (answer, answered) = oneshot::channel();
        let mut asked = PermissionPrompt::new(question, answer);
        asked.since = Some(start);
        asked.lines(80, 24);
        view.layers.prompts.push_back(asked);
        (view, answered)
    }

    #[test]
    fn keys_that_were_typed_before_a_question_do_not_answer_it() {
        let (start, pause) = (Instant::now(), Duration::from_secs(5));
        let (mut view, mut answered) = asked_while_a_listener_is_busy(start);
        view.heard(Some("y"), start + pause);
        assert!(answered.try_recv().is_err(), "neither the changed nor the held key");
        view.typed(&key("y"), start + pause);
        assert_eq!(answered.try_recv(), Ok(Answer::AllowOnce));
        let (mut view, mut answered) = asked_while_a_listener_is_busy(start);
        view.typed(&key("n"), start + pause);
        assert_eq!(answered.try_recv(), Ok(Answer::Deny), "a question does not wait for the listener");
    }

    #[test]
    fn a_command_that_a_key_brings_back_is_the_extensions() {
        for keys in [
            &["\u{15}", "\u{19}"][..],
            &["\u{15}", "a", "\u{1f}", "\u{1f}"],
            &["\u{15}", "a", "\u{15}", "\u{19}", "\u{1b}y"],
        ] {
            let mut view = View::new((80, 24));
            view.insert_of(&ExtensionId::new("x"), "!touch ran", false).expect("it fits");
            for key in keys {
                view.typed(&TerminalInput::Key((*key).to_owned()), Instant::now());
            }
            assert_eq!(view.editor.field.text(), "!touch ran", "{keys:?}");
            assert!(view.editor.inserted.as_ref().is_some_and(|put| put.is_whole), "{keys:?}");
        }
    }

    #[test]
    fn changed_keys_do_not_act_for_the_user() {
        for keys in [
            "\r",
            "\u{1b}\r",
            "\u{4}",
            "\u{10}",
            "\u{c}",
            "\u{18}",
            "\u{7}",
            "\u{1b}[Z",
            "\u{1b}[1;3A",
            "\u{1a}",
            "\u{1b}[17~",
        ] {
            let mut view = View::new((80, 24));
            view.listeners.add((ExtensionId::new("x"), 1));
            view.keys.set_shortcuts(["f6".to_owned()].into(), Vec::new());
            assert_eq!(view.take_changed(keys, Instant::now()), [], "{keys:?}");
        }
    }

    #[test]
    fn a_command_of_changed_keys_is_the_extensions() {
        let extension = ExtensionId::new("x");
        for (was, keys, is_extensions) in [
            ("", "!touch ran", true),
            ("!ls", ";touch ran", true),
            ("!ls", "of", false),
            ("hello", " world", false),
            ("", "\u{1b}[200~!touch ran\u{1b}[201~", true),
        ] {
            let mut view = View::new((80, 24));
            view.listeners.add((extension.clone(), 1));
            view.editor.field.set(was);
            view.take_changed(keys, Instant::now());
            assert_eq!(view.editor.inserted.as_ref().is_some_and(|put| put.is_whole), is_extensions, "{was} {keys}");
        }
    }

    #[test]
    fn listener_output_is_bounded() {
        let begun = Instant::now();
        let mut view = View::new((80, 24));
        view.editor.field.set(&"x".repeat(LONGEST));
        view.take_changed(&"\u{1b}[A\u{19}".repeat(1 << 20), begun);
        view.take_changed(&"a".repeat(16 << 20), begun);
        // One pass over the text for each key would take hours.
        assert!(begun.elapsed() < Duration::from_secs(600), "{:?}", begun.elapsed());
        view.editor.field.set("");
        view.take_changed(&"a".repeat(1_000), begun);
        assert_eq!(view.editor.field.text().len(), 1_000, "an honest listener types as much as it likes");
    }
}
