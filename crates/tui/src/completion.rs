//! Completion: requests suggestions during typing, shows them below the editor, and inserts the chosen one.
//!
//! Providers form a stack: built-in commands and files at the bottom, providers of extensions above. Suggestions are shown only
//! for the text that they were requested for.

use super::clip::{LONGEST_LINE, clipped, weight};
use super::completion_request::{CompletionRequest, byte_of};
use super::layers::ComponentId;
use super::task::UiTask;
use super::view::View;
use pijs_terminal::layout::{clamp, width};
use serde_json::Value;

/// Suggestions shown at a time, and kept.
const SHOWN: usize = 5;
const MOST: usize = 200;
/// Bytes of kept suggestions.
const LARGEST: usize = 4 << 20;

/// A completion provider of an extension.
#[derive(Debug, Clone)]
pub(super) struct CompletionProvider {
    pub(super) id: ComponentId,
    /// Characters that trigger a request to it.
    pub(super) triggers: Vec<String>,
}

/// A list of suggestions for the end of a text.
#[derive(Debug)]
pub(super) struct Popup {
    request: CompletionRequest,
    prefix: String,
    items: Vec<Value>,
    at: usize,
}

impl Popup {
    /// Returns whether the command name at the start of the text is being completed.
    fn is_of_command(&self) -> bool {
        self.prefix.starts_with('/') && self.request.line == 0 && self.request.head() == self.prefix
    }

    /// Returns the lines below the editor.
    pub(super) fn lines(&self, columns: usize) -> Vec<String> {
        let from = self.at.saturating_sub(SHOWN / 2).min(self.items.len().saturating_sub(SHOWN));
        let line = |(index, item): (usize, &Value)| {
            let text = |key: &str| {
                let text = clipped(item[key].as_str().unwrap_or_default(), LONGEST_LINE);
                pijs_terminal::line(&pijs_terminal::plain(text))
            };
            let label = clamp(&text("label"), columns.saturating_sub(2).min(40));
            let left = columns.saturating_sub(width(&label) + 5);
            let detail = if left > 3 { clamp(&text("description"), left) } else { String::new() };
            let mark = if index == self.at { "\u{1b}[36m> " } else { "  " };
            format!("{mark}{label}\u{1b}[0m  \u{1b}[2m{detail}\u{1b}[0m")
        };
        let mut lines: Vec<String> = self.items.iter().enumerate().skip(from).take(SHOWN).map(line).collect();
        if self.items.len() > SHOWN {
            lines.push(format!("\u{1b}[2m  {} of {}\u{1b}[0m", self.at + 1, self.items.len()));
        }
        lines
    }
}

impl View {
    /// Requests suggestions when the user asks for them, and at positions with completable text.
    pub(super) fn complete(&mut self, force: bool) -> Vec<UiTask> {
        // Called for each key, so the text is copied only when a request is made.
        let head = &self.editor.text()[..self.editor.at()];
        let line = head.rsplit('\n').next().unwrap_or_default();
        let token = line.rsplit([' ', '\t']).next().unwrap_or_default();
        let starts = |mark: &str| token.starts_with(mark);
        let is_command = line.len() == head.len() && head.starts_with('/');
        let triggers = || self.providers.iter().flat_map(|provider| &provider.triggers).any(|mark| starts(mark));
        // An open list is updated during typing, and closed when nothing matches.
        if force || is_command || starts("@") || triggers() {
            return vec![UiTask::Complete(self.request(force))];
        }
        self.popup = None;
        Vec::new()
    }

    fn request(&self, force: bool) -> CompletionRequest {
        CompletionRequest::new(self.editor.text(), self.editor.at(), force)
    }

    fn is_about(&self, request: &CompletionRequest) -> bool {
        let now = self.request(request.force);
        now == *request
    }

    /// Shows suggestions. A single one that was requested with Tab is inserted at once.
    pub(super) fn take_suggestions(&mut self, request: CompletionRequest, answer: &Value) -> Vec<UiTask> {
        if !self.is_about(&request) || self.focus().is_some() {
            return Vec::new();
        }
        let mut bytes = 0;
        let items: Vec<Value> = answer["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|item| item["value"].is_string())
            .take(MOST)
            .take_while(|item| {
                bytes += weight(item);
                bytes <= LARGEST
            })
            .cloned()
            .collect();
        let prefix = answer["prefix"].as_str().unwrap_or_default().to_owned();
        self.popup = None;
        // A prefix that is not in the text cannot be replaced.
        if items.is_empty() || !request.head().ends_with(&prefix) {
            return Vec::new();
        }
        let is_single = request.force && items.len() == 1;
        let at = best(&items, &prefix);
        self.popup = Some(Popup { request, prefix, items, at });
        if is_single { self.accept() } else { Vec::new() }
    }

    /// Handles a key for the list; `None` when it is for the editor.
    pub(super) fn popup_key(&mut self, name: &str) -> Option<Vec<UiTask>> {
        let popup = self.popup.as_mut()?;
        let count = popup.items.len();
        match name {
            "up" => popup.at = (popup.at + count - 1) % count,
            "down" => popup.at = (popup.at + 1) % count,
            "escape" => self.popup = None,
            "tab" => return Some(self.accept()),
            "enter" => {
                let request = popup.request.clone();
                if !self.is_about(&request) {
                    self.popup = None;
                    return None;
                }
                let is_command = self.popup.as_ref().is_some_and(Popup::is_of_command);
                let before = self.editor.text().trim_end().to_owned();
                let work = self.accept();
                // The name of a command without arguments is submitted at once, and so is complete text.
                let is_whole = self.editor.text().trim_end() == before;
                return if work.is_empty() && (is_command || is_whole) { None } else { Some(work) };
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    /// Inserts the chosen item.
    fn accept(&mut self) -> Vec<UiTask> {
        let Some(popup) = self.popup.take() else { return Vec::new() };
        let is_command = popup.is_of_command();
        let Popup { request, prefix, items, at } = popup;
        if !self.is_about(&request) {
            return Vec::new();
        }
        let item = items[at].clone();
        if let Some(provider) = self.providers.last()
            && !is_command
        {
            self.applying = true;
            return vec![UiTask::Apply { provider: provider.id.clone(), request, item, prefix }];
        }
        self.apply(&request, &item, &prefix);
        Vec::new()
    }

    /// Replaces the prefix before the cursor by an item, as pi does.
    pub(super) fn apply(&mut self, request: &CompletionRequest, item: &Value, prefix: &str) {
        if !self.is_about(request) {
            return;
        }
        let (value, label) = (item["value"].as_str().unwrap_or_default(), item["label"].as_str().unwrap_or_default());
        let head = request.head().strip_suffix(prefix).unwrap_or_default();
        let is_command = prefix.starts_with('/') && head.trim().is_empty() && !prefix[1..].contains('/');
        let put = match () {
            () if is_command => format!("/{} ", value.strip_prefix('/').unwrap_or(value)),
            () if prefix.starts_with('@') && !label.ends_with('/') => format!("{value} "),
            () => value.to_owned(),
        };
        let line = &request.lines[request.line];
        let tail = &line[request.head().len()..];
        let mut lines = request.lines.clone();
        let col = (head.len() + put.len(), lines[..request.line].iter().map(|line| line.len() + 1).sum::<usize>());
        lines[request.line] = format!("{head}{put}{tail}");
        self.editor.put(&lines.join("\n"), col.0 + col.1);
    }

    /// Applies the text and cursor that a provider returned.
    pub(super) fn applied(&mut self, request: &CompletionRequest, answer: &Value) {
        let lines: Vec<&str> = answer["lines"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let number = |key: &str| answer[key].as_u64().and_then(|number| usize::try_from(number).ok());
        let place = number("cursorLine").zip(number("cursorCol")).filter(|(line, _)| *line < lines.len());
        if let Some((line, col)) = place
            && self.is_about(request)
        {
            let before: usize = lines[..line].iter().map(|line| line.len() + 1).sum();
            let begins = |text: &str| text.trim_start().chars().next().filter(|first| matches!(first, '!' | '/'));
            let was = begins(self.editor.text());
            self.editor.put(&lines.join("\n"), before + byte_of(lines[line], col));
            // Keys wait for the insertion, so typed-ahead keys do not submit a command that the user did not type.
            let is = begins(self.editor.text());
            if let Some(by) = self.providers.last().map(|provider| provider.id.0.clone()) {
                match is {
                    _ if was != is => self.note_inserted(&by),
                    Some('!') => self.note_continued(&by),
                    _ => {}
                }
            }
        }
    }
}

/// Returns the index of the exact match, or else of the first item with the prefix.
fn best(items: &[Value], prefix: &str) -> usize {
    let typed = prefix.trim_start_matches(['/', '@']);
    let value = |item: &Value| item["value"].as_str().unwrap_or_default().trim_start_matches(['/', '@']).to_owned();
    let exact = items.iter().position(|item| value(item) == typed);
    exact.or_else(|| items.iter().position(|item| value(item).starts_with(typed))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn view(text: &str) -> View {
        let mut view = View::new((80, 24));
        view.editor.set(text);
        view
    }

    fn answer(prefix: &str, values: &[&str]) -> Value {
        let items: Vec<Value> = values.iter().map(|value| json!({"value": value, "label": value})).collect();
        json!({"items": items, "prefix": prefix})
    }

    #[test]
    fn a_chosen_suggestion_replaces_the_prefix() {
        for (text, prefix, value, expected) in [
            ("/he", "/he", "help", "/help "),
            ("see @sr", "@sr", "@src/main.rs", "see @src/main.rs "),
            ("see @sr", "@sr", "@src/", "see @src/"),
            ("ls ./a", "./a", "./abc", "ls ./abc"),
            ("/model fo", "fo", "foo/bar", "/model foo/bar"),
            ("日 #4", "#4", "#42", "日 #42"),
        ] {
            let mut view = view(text);
            let request = view.request(true);
            assert_eq!(view.take_suggestions(request, &answer(prefix, &[value])), []);
            assert_eq!(view.editor.text(), expected, "{text}");
        }
    }

    #[test]
    fn a_command_inserted_by_a_provider_is_not_submitted_at_once() {
        let extension = pijs_protocol::ExtensionId::new("x");
        let changed = |text: &str, to: &str| {
            let mut view = view(text);
            view.providers.push(CompletionProvider { id: (extension.clone(), 1), triggers: Vec::new() });
            let answer = json!({"lines": [to], "cursorLine": 0, "cursorCol": to.len()});
            view.applied(&CompletionRequest::new(text, text.len(), false), &answer);
            assert_eq!(view.editor.text(), to);
            view
        };
        let now = std::time::Instant::now();
        for (text, to, by) in [("ls", "!evil", Some(&extension)), ("!ls", "!evil", None)] {
            let mut view = changed(text, to);
            assert_eq!(view.submits(now), None, "nobody could read it");
            view.inserted.as_mut().unwrap().since = Some(now);
            assert_eq!(view.submits(now + super::super::permission_prompt::DEAD_TIME), Some(by.cloned()));
        }
        assert_eq!(changed("see @a", "see @abc ").submits(now), Some(None));
    }

    #[test]
    fn suggestions_for_another_text_are_ignored() {
        let mut view = view("/he");
        let request = view.request(false);
        view.editor.insert("l");
        view.take_suggestions(request, &answer("/he", &["help", "hello"]));
        assert!(view.popup.is_none());
        let request = view.request(false);
        view.take_suggestions(request, &answer("never typed", &["help"]));
        assert!(view.popup.is_none());
    }

    #[test]
    fn suggestions_are_bounded() {
        let mut view = view("/he");
        let large = "x".repeat(1 << 20);
        let items: Vec<Value> = (0..100).map(|_| json!({"value": "hello", "label": large, "more": large})).collect();
        view.take_suggestions(view.request(false), &json!({"items": items, "prefix": "/he"}));
        let popup = view.popup.as_ref().expect("some");
        assert!(!popup.items.is_empty() && popup.items.iter().map(weight).sum::<usize>() <= LARGEST);
        assert!(popup.lines(80).iter().map(String::len).sum::<usize>() < 10_000);
    }

    #[test]
    fn keys_select_a_suggestion() {
        let mut view = view("/he");
        let request = view.request(false);
        view.take_suggestions(request, &answer("/he", &["hello", "help"]));
        assert_eq!(view.popup_key("down"), Some(Vec::new()));
        assert_eq!(view.popup_key("x"), None);
        assert_eq!(view.popup_key("tab"), Some(Vec::new()));
        assert_eq!(view.editor.text(), "/help ");
    }
}
