//! Dialogs of extensions: `select`, `confirm`, `input` and `editor`.

use super::clip::{self, LONGEST_LINE, clipped, weight};
use super::rule::rule;
use super::text_field::TextField;
use pijs_protocol::ExtensionId;
use pijs_runtime::option_text;
use pijs_terminal::layout::{clamp, wrap};
use serde_json::Value;
use std::time::Instant;
use tokio::sync::oneshot;

/// A dialog of an extension.
#[derive(Debug)]
pub(super) struct ExtensionDialog {
    pub(super) number: u64,
    /// Extension that opened the dialog.
    pub(super) extension: ExtensionId,
    /// Stacking order; the highest is on top.
    pub(super) order: u64,
    title: String,
    body: DialogBody,
    /// Approximate memory in bytes.
    pub(super) bytes: usize,
    /// Time at which the dialog is cancelled automatically, for the countdown; `None` without a timeout.
    pub(super) deadline: Option<Instant>,
    pub(super) done: Option<oneshot::Sender<Option<Value>>>,
}

#[derive(Debug)]
enum DialogBody {
    /// Options with their values, and the index of the selected one. A confirmation has two options.
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
        // Each option is stored twice: as a value and as displayed.
        let bytes = 2 * params.values().map(weight).sum::<usize>();
        Self { number, extension, order: 0, title, body, bytes, deadline: None, done: None }
    }

    /// Handles a key. `Some` ends the dialog: with an answer, or cancelled if the inner value is `None`.
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
