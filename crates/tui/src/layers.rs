//! Layers that take the keys from the editor: dialogs, components of extensions, built-in lists, and on top of all permission
//! prompts.

use super::clip::{self, LONGEST_LINE, clipped, weight};
use super::floating::CustomComponent;
use super::picker::Picker;
use super::secret_input::SecretInput;
use super::text_field::TextField;
use pijs_hostcall::{Answer, Question};
use pijs_protocol::{ExtensionId, guard};
use pijs_runtime::choices::{Choice, choices, keys};
use pijs_runtime::option_text;
use pijs_terminal::layout::{clamp, wrap};
use serde_json::Value;
use std::cell::Cell;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Id of a component: extension, and handle in its realm.
pub(super) type ComponentId = (ExtensionId, u32);

/// A layer in place of the editor or above it.
#[derive(Debug)]
pub(super) enum Layer {
    Dialog(ExtensionDialog),
    Custom(CustomComponent),
    /// A built-in list.
    Picker(Picker),
    /// A built-in input line.
    Entry(SecretInput),
}

/// A dialog of an extension.
#[derive(Debug)]
pub(super) struct ExtensionDialog {
    pub(super) number: u64,
    /// The extension that opened it.
    pub(super) extension: ExtensionId,
    /// Stacking order; the highest is on top.
    pub(super) order: u64,
    title: String,
    body: DialogBody,
    /// Approximate memory in bytes.
    pub(super) bytes: usize,
    /// Time at which it is cancelled automatically, for the countdown.
    pub(super) deadline: Option<Instant>,
    pub(super) done: Option<oneshot::Sender<Option<Value>>>,
}

#[derive(Debug)]
enum DialogBody {
    /// Options with their values, and the selected one. A confirmation has two.
    Choice {
        options: Vec<String>,
        values: Vec<Value>,
        at: usize,
        confirms: bool,
    },
    Text {
        field: TextField,
        hint: String,
        is_long: bool,
    },
}

impl ExtensionDialog {
    /// Creates a `select`, `confirm`, `input` or `editor` from its parameters.
    pub(super) fn new(
        number: u64,
        extension: ExtensionId,
        kind: &str,
        params: &serde_json::Map<String, Value>,
    ) -> Self {
        let text = |key: &str| match params.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        let brief = |key: &str, most: usize| clipped(&text(key), most).to_owned();
        let mut title = brief("title", clip::MESSAGE);
        let body = match kind {
            "select" => {
                let values = params.get("options").and_then(Value::as_array).cloned().unwrap_or_default();
                DialogBody::Choice { options: values.iter().map(option_text).collect(), values, at: 0, confirms: false }
            }
            "confirm" => {
                title = format!("{title}\n{}", brief("message", clip::MESSAGE));
                let options = vec!["Yes".to_owned(), "No".to_owned()];
                DialogBody::Choice { options, values: vec![true.into(), false.into()], at: 0, confirms: true }
            }
            "editor" => {
                DialogBody::Text { field: TextField::new(&text("prefill")), hint: String::new(), is_long: true }
            }
            _ => DialogBody::Text {
                field: TextField::default(),
                hint: brief("placeholder", LONGEST_LINE),
                is_long: false,
            },
        };
        // Options are stored twice, as values and as shown.
        let bytes = 2 * params.values().map(weight).sum::<usize>();
        Self { number, extension, order: 0, title, body, bytes, deadline: None, done: None }
    }

    /// Handles a key. `Some` ends the dialog, with an answer or cancelled.
    pub(super) fn key(&mut self, name: &str, data: &str) -> Option<Option<Value>> {
        if matches!(name, "escape" | "ctrl+c") {
            return Some(if self.confirms() { Some(false.into()) } else { None });
        }
        match &mut self.body {
            DialogBody::Choice { values, at, .. } => {
                let count = values.len();
                match name {
                    "up" | "k" => *at = at.saturating_sub(1),
                    "down" | "j" => *at = (*at + 1).min(count.saturating_sub(1)),
                    "enter" | "ctrl+j" => return values.get(*at).cloned().map(Some),
                    _ => {}
                }
            }
            DialogBody::Text { field, is_long, .. } => match name {
                "enter" if *is_long && field.breaks_line() => {}
                "enter" => return Some(Some(field.take().into())),
                "ctrl+j" if !*is_long => return Some(Some(field.take().into())),
                "shift+enter" | "up" | "down" if !*is_long => {}
                name => drop(field.key(name, data)),
            },
        }
        None
    }

    /// Handles a paste.
    pub(super) fn paste(&mut self, text: &str) {
        if let DialogBody::Text { field, is_long, .. } = &mut self.body {
            match *is_long {
                true => field.paste_marked(text),
                false => field.paste(&text.replace(['\r', '\n'], "").replace('\t', "    ")),
            }
        }
    }

    fn confirms(&self) -> bool {
        matches!(self.body, DialogBody::Choice { confirms: true, .. })
    }

    /// Returns at most `rows` lines with the selected option or the cursor.
    pub(super) fn lines(&self, columns: usize, rows: usize, now: Instant) -> Vec<String> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(now).as_secs_f64().ceil());
        let left = left.map(|seconds| format!(" ({seconds}s)")).unwrap_or_default();
        let who = clamp(&pijs_terminal::line(self.extension.as_str()), 60);
        let mut lines = vec![rule(&format!("{who} asks{left}"), columns)];
        let title = wrap(self.title.trim_end(), columns);
        let room = rows.saturating_sub(5).max(1);
        let cut = title.len() > room;
        lines.extend(title.into_iter().take(room).map(|line| format!("\u{1b}[1m{line}\u{1b}[0m")));
        if cut {
            lines.push("...".to_owned());
        }
        let room = rows.saturating_sub(lines.len() + 2).max(1);
        let hint = match &self.body {
            DialogBody::Choice { options, at, .. } => {
                let from = at.saturating_sub(room / 2).min(options.len().saturating_sub(room));
                for (index, option) in options.iter().enumerate().skip(from).take(room) {
                    let shown = clamp(&pijs_terminal::line(clipped(option, LONGEST_LINE)), columns.saturating_sub(2));
                    let line =
                        if index == *at { format!("\u{1b}[36m> {shown}\u{1b}[0m") } else { format!("  {shown}") };
                    lines.push(line);
                }
                "up/down to move, enter to select, escape to cancel"
            }
            DialogBody::Text { field, hint, is_long } => {
                if field.text().is_empty() && !hint.is_empty() {
                    let hint = clamp(&pijs_terminal::line(hint), columns.saturating_sub(1));
                    lines.push(format!("\u{1b}[7m \u{1b}[27m\u{1b}[2m{hint}\u{1b}[0m"));
                } else {
                    lines.extend(field.shown(columns, room));
                }
                if *is_long {
                    "enter to submit, ctrl+j for a new line, escape to cancel"
                } else {
                    "enter to submit, escape to cancel"
                }
            }
        };
        lines.push(format!("\u{1b}[2m{}\u{1b}[0m", clamp(hint, columns)));
        lines.push(rule("", columns));
        lines
    }
}

/// Shortens lines to at most `room`: the first ones, the number of omitted ones, and the last one.
fn both_ends(mut lines: Vec<String>, room: usize) -> Vec<String> {
    if lines.len() <= room {
        return lines;
    }
    let last = (room > 2).then(|| lines.pop()).flatten();
    let kept = room.saturating_sub(1 + usize::from(last.is_some()));
    let missing = lines.len() - kept;
    lines.truncate(kept);
    lines.push(format!("[{missing} more lines]"));
    lines.extend(last);
    lines
}

/// Returns a horizontal line with a title.
pub(super) fn rule(words: &str, columns: usize) -> String {
    let words =
        if words.is_empty() { String::new() } else { format!("── {} ", clamp(words, columns.saturating_sub(8))) };
    let rest = columns.saturating_sub(pijs_terminal::layout::width(&words));
    format!("\u{1b}[2m{words}{}\u{1b}[0m", "─".repeat(rest))
}

/// Keys that arrive earlier were typed before the prompt could be read.
pub(super) const DEAD_TIME: Duration = Duration::from_millis(300);
/// Pause after which a key answers a prompt that appeared while the user was typing.
const TYPING_PAUSE: Duration = Duration::from_secs(1);
/// A permission prompt.
#[derive(Debug)]
pub(super) struct PermissionPrompt {
    question: Question,
    /// Whether the prompt is fully visible, which allowing for longer than once requires.
    is_whole: Cell<bool>,
    /// Whether a key was typed that is not an answer.
    is_lost: Cell<bool>,
    /// Time since which the prompt is visible and no key was typed.
    pub(super) since: Option<Instant>,
    /// Required pause before a key counts as an answer.
    pause: Duration,
    pub(super) answer: oneshot::Sender<Answer>,
}

impl PermissionPrompt {
    pub(super) fn new(question: Question, answer: oneshot::Sender<Answer>) -> Self {
        Self { question, is_whole: Cell::new(false), is_lost: Cell::new(false), since: None, pause: DEAD_TIME, answer }
    }

    pub(super) fn extension(&self) -> &ExtensionId {
        &self.question.extension
    }

    /// Returns the answer of a key. During continuous typing no key is an answer; a pause has to precede it.
    pub(super) fn key(&mut self, name: &str, now: Instant) -> Option<Answer> {
        let read = self.since.is_some_and(|since| now.duration_since(since) >= self.pause);
        if !read && guard!(PromptDeadTime) {
            if self.since.is_some() {
                (self.since, self.pause) = (Some(now), TYPING_PAUSE);
            }
            return None;
        }
        if matches!(name, "enter" | "escape" | "ctrl+c") {
            return Some(Answer::Deny);
        }
        let offered = choices(&self.question, self.is_whole.get());
        let chosen = offered.iter().find(|choice| choice.key == name).map(|choice| choice.answer);
        self.is_lost.set(chosen.is_none());
        if chosen.is_none() {
            self.since = Some(now);
        }
        chosen
    }

    /// Returns the inverse frame of full width, at most `rows` high. Text of the extension is confined to its inside.
    pub(super) fn lines(&self, columns: usize, rows: usize) -> Vec<String> {
        let Question { what, subject, warnings, package, .. } = &self.question;
        let inner = columns.saturating_sub(6);
        let notes = warnings.iter().flat_map(|warning| wrap(&format!("note: {warning}"), inner));
        let all = package.iter().flat_map(|line| wrap(&format!("- {line}"), inner));
        let heading = (!package.is_empty()).then(|| "all that it asks for:".to_owned());
        let notes: Vec<String> = notes.chain(heading).chain(all).collect();
        let room = rows.saturating_sub(7).max(1);
        // The extension chooses the length of its text, which must not displace the warnings.
        self.is_whole.set(wrap(subject, inner).len() + notes.len() <= room);
        let inside = if guard!(PromptNotes) {
            let room_for_subject = room.saturating_sub(notes.len()).max(room / 2).max(1);
            let mut inside = both_ends(wrap(subject, inner), room_for_subject);
            inside.extend(notes);
            both_ends(inside, room)
        } else {
            both_ends(wrap(subject, inner).into_iter().chain(notes).collect(), room)
        };
        let question = format!("pi asks: {} wants to {what}", self.question.who());
        let offered = choices(&self.question, self.is_whole.get());
        let labels: Vec<String> = offered.iter().map(Choice::label).collect();
        let mut answers = wrap(&labels.join("  "), columns.saturating_sub(4));
        if self.is_lost.get() {
            answers.push(keys(&offered));
        }
        let framed = |text: &str| {
            let text = clamp(&pijs_terminal::plain(text), columns.saturating_sub(4));
            format!("\u{1b}[7m{}\u{1b}[0m", pijs_terminal::layout::fit(&format!("▌ {text}"), columns))
        };
        let mut lines: Vec<String> =
            wrap(&question, columns.saturating_sub(4)).iter().map(|line| framed(line)).collect();
        lines.truncate(3);
        lines.extend(inside.iter().map(|line| framed(&format!("  {line}"))));
        lines.extend(answers.iter().map(|line| framed(line)));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_hostcall::Evidence;

    /// Opens a prompt during typing, and returns the answers of keys at given times.
    fn answers(keys: &[(&str, u64)]) -> Vec<Option<Answer>> {
        let question = Question::about(ExtensionId::new("x"), Evidence::default().expected_loss());
        let (mut asked, start) = (PermissionPrompt::new(question, oneshot::channel().0), Instant::now());
        asked.since = Some(start);
        keys.iter().map(|(key, at_ms)| asked.key(key, start + Duration::from_millis(*at_ms))).collect()
    }

    #[test]
    fn keys_of_continuous_typing_do_not_answer_a_prompt() {
        assert_eq!(answers(&[("y", 300)]), [Some(Answer::AllowOnce)]);
        assert_eq!(answers(&[("t", 150), ("y", 350), ("y", 600), ("w", 1500)]), [None; 4]);
        assert_eq!(answers(&[("t", 150), ("y", 1150)]), [None, Some(Answer::AllowOnce)], "after a pause");
        assert_eq!(
            answers(&[("t", 400), ("y", 600), ("y", 1700)]),
            [None, None, Some(Answer::AllowOnce)],
            "after a lost key"
        );
    }
}
