//! What takes the keys from the editor: dialogs, components of extensions, pi's lists, and above all of them pi's own
//! questions.

use super::entry::Entry;
use super::field::Field;
use super::floating::Custom;
use super::picker::Picker;
use super::shown::{self, LONGEST_LINE, clipped, weight};
use pijs_hostcall::{Answer, Question};
use pijs_protocol::{ExtensionId, guard};
use pijs_runtime::choices::{Choice, choices, keys};
use pijs_runtime::option_text;
use pijs_terminal::layout::{clamp, wrap};
use serde_json::Value;
use std::cell::Cell;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A component of an extension, by the handle it has in its realm.
pub(super) type ComponentId = (ExtensionId, u32);

/// What has, or shares, the place of the editor.
#[derive(Debug)]
pub(super) enum Layer {
    Dialog(Dialog),
    Custom(Custom),
    /// A list of pi's own.
    Picker(Picker),
    /// A line that pi asks for.
    Entry(Entry),
}

/// A dialog of an extension.
#[derive(Debug)]
pub(super) struct Dialog {
    pub(super) number: u64,
    /// Whose.
    pub(super) extension: ExtensionId,
    /// The higher, the nearer to the person.
    pub(super) order: u64,
    title: String,
    body: Body,
    /// What it takes of the host's memory, about.
    pub(super) bytes: usize,
    /// When it is cancelled by itself, for the countdown.
    pub(super) deadline: Option<Instant>,
    pub(super) done: Option<oneshot::Sender<Option<Value>>>,
}

#[derive(Debug)]
enum Body {
    /// Options, what each stands for, and the chosen one. A confirmation is one of two.
    Choice {
        options: Vec<String>,
        values: Vec<Value>,
        at: usize,
        confirms: bool,
    },
    Text {
        field: Field,
        hint: String,
        is_long: bool,
    },
}

impl Dialog {
    /// `select`, `confirm`, `input` or `editor` with its parameters.
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
        let mut title = brief("title", shown::MESSAGE);
        let body = match kind {
            "select" => {
                let values = params.get("options").and_then(Value::as_array).cloned().unwrap_or_default();
                Body::Choice { options: values.iter().map(option_text).collect(), values, at: 0, confirms: false }
            }
            "confirm" => {
                title = format!("{title}\n{}", brief("message", shown::MESSAGE));
                let options = vec!["Yes".to_owned(), "No".to_owned()];
                Body::Choice { options, values: vec![true.into(), false.into()], at: 0, confirms: true }
            }
            "editor" => Body::Text { field: Field::new(&text("prefill")), hint: String::new(), is_long: true },
            _ => Body::Text { field: Field::default(), hint: brief("placeholder", LONGEST_LINE), is_long: false },
        };
        // Options are kept as they are given back and as they are shown.
        let bytes = 2 * params.values().map(weight).sum::<usize>();
        Self { number, extension, order: 0, title, body, bytes, deadline: None, done: None }
    }

    /// Takes a key. `Some` ends the dialog, with an answer or without.
    pub(super) fn key(&mut self, name: &str, data: &str) -> Option<Option<Value>> {
        if matches!(name, "escape" | "ctrl+c") {
            return Some(if self.confirms() { Some(false.into()) } else { None });
        }
        match &mut self.body {
            Body::Choice { values, at, .. } => {
                let count = values.len();
                match name {
                    "up" | "k" => *at = at.saturating_sub(1),
                    "down" | "j" => *at = (*at + 1).min(count.saturating_sub(1)),
                    "enter" | "ctrl+j" => return values.get(*at).cloned().map(Some),
                    _ => {}
                }
            }
            Body::Text { field, is_long, .. } => match name {
                "enter" if *is_long && field.breaks_line() => {}
                "enter" => return Some(Some(field.take().into())),
                "ctrl+j" if !*is_long => return Some(Some(field.take().into())),
                "shift+enter" | "up" | "down" if !*is_long => {}
                name => drop(field.key(name, data)),
            },
        }
        None
    }

    /// Takes a paste.
    pub(super) fn paste(&mut self, text: &str) {
        if let Body::Text { field, is_long, .. } = &mut self.body {
            match *is_long {
                true => field.paste_marked(text),
                false => field.paste(&text.replace(['\r', '\n'], "").replace('\t', "    ")),
            }
        }
    }

    fn confirms(&self) -> bool {
        matches!(self.body, Body::Choice { confirms: true, .. })
    }

    /// At most `rows` lines, of which the chosen option or the cursor is one.
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
            Body::Choice { options, at, .. } => {
                let from = at.saturating_sub(room / 2).min(options.len().saturating_sub(room));
                for (index, option) in options.iter().enumerate().skip(from).take(room) {
                    let shown = clamp(&pijs_terminal::line(clipped(option, LONGEST_LINE)), columns.saturating_sub(2));
                    let line =
                        if index == *at { format!("\u{1b}[36m> {shown}\u{1b}[0m") } else { format!("  {shown}") };
                    lines.push(line);
                }
                "up/down to choose, enter to take, escape to cancel"
            }
            Body::Text { field, hint, is_long } => {
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

/// At most `room` lines: of more than that the first ones and the last one, and how many are missing between.
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

/// A line across the screen, with words in it.
pub(super) fn rule(words: &str, columns: usize) -> String {
    let words =
        if words.is_empty() { String::new() } else { format!("── {} ", clamp(words, columns.saturating_sub(8))) };
    let rest = columns.saturating_sub(pijs_terminal::layout::width(&words));
    format!("\u{1b}[2m{words}{}\u{1b}[0m", "─".repeat(rest))
}

/// Keys that come sooner were typed before the question could be read.
pub(super) const DEAD_TIME: Duration = Duration::from_millis(300);
/// The pause after which a key answers a question that came while the person was typing.
const TYPING_PAUSE: Duration = Duration::from_secs(1);
/// A question of pi's own, which grants power.
#[derive(Debug)]
pub(super) struct Asked {
    question: Question,
    /// Whether all of it is on the screen. Only what was seen can be agreed to as a whole.
    is_whole: Cell<bool>,
    /// A key was typed that is no answer.
    is_lost: Cell<bool>,
    /// Since when it can be read, and nothing was typed.
    pub(super) since: Option<Instant>,
    /// The pause without keys before one of them is an answer.
    pause: Duration,
    pub(super) answer: oneshot::Sender<Answer>,
}

impl Asked {
    pub(super) fn new(question: Question, answer: oneshot::Sender<Answer>) -> Self {
        Self { question, is_whole: Cell::new(false), is_lost: Cell::new(false), since: None, pause: DEAD_TIME, answer }
    }

    pub(super) fn extension(&self) -> &ExtensionId {
        &self.question.extension
    }

    /// Returns the answer that a key is. A key of a text that goes on is none, whatever it is; a pause has to come first.
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

    /// The frame: inverse, over the whole width, at most `rows` high. Text of the extension stands only inside.
    pub(super) fn lines(&self, columns: usize, rows: usize) -> Vec<String> {
        let Question { what, subject, warnings, package, .. } = &self.question;
        let inner = columns.saturating_sub(6);
        let notes = warnings.iter().flat_map(|warning| wrap(&format!("note: {warning}"), inner));
        let all = package.iter().flat_map(|line| wrap(&format!("- {line}"), inner));
        let heading = (!package.is_empty()).then(|| "all that it asks for:".to_owned());
        let notes: Vec<String> = notes.chain(heading).chain(all).collect();
        let room = rows.saturating_sub(7).max(1);
        // The extension chooses how long its words are. What pi says of them is not what has to give way.
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

    /// A question that came while the person was typing, and the answers of keys at times after it.
    fn answers(keys: &[(&str, u64)]) -> Vec<Option<Answer>> {
        let question = Question::about(ExtensionId::new("x"), Evidence::default().expected_loss());
        let (mut asked, start) = (Asked::new(question, oneshot::channel().0), Instant::now());
        asked.since = Some(start);
        keys.iter().map(|(key, at_ms)| asked.key(key, start + Duration::from_millis(*at_ms))).collect()
    }

    #[test]
    fn keys_of_a_text_that_goes_on_are_no_answers() {
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
