//! Completion: requests suggestions during typing, shows them below the editor, and inserts the chosen one.
//!
//! Providers form a stack: built-in commands and files at the bottom, providers of extensions above. Suggestions are shown only
//! for the text that they were requested for.

use super::clip::{LONGEST_LINE, clipped, weight};
use super::completion_request::{CompletionRequest, byte_of};
use super::task::UiTask;
use super::text_field::TextField;
use super::view::{ComponentId, EditorState, MAX_KEPT, used_up};
use pijs_protocol::{ExtensionId, HostcallError, guard};
use pijs_terminal::layout::{clamp, width};
use serde_json::Value;
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// Maximum number of suggestions shown at a time.
const SHOWN: usize = 5;
/// Maximum number of suggestions kept.
const MOST: usize = 200;
/// Maximum size of the kept suggestions in bytes.
const LARGEST: usize = 4 << 20;
/// Maximum number of concurrent completion requests of an extension.
const MAX_SUGGESTIONS: usize = 256;

/// A completion provider of an extension.
#[derive(Debug, Clone)]
pub(super) struct CompletionProvider {
    pub(super) id: ComponentId,
    /// Characters that trigger a request to the provider.
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
    /// Returns whether the suggestions complete the command name at the start of the text.
    fn is_of_command(&self) -> bool {
        is_command_prefix(&self.prefix) && self.request.line == 0 && self.request.head() == self.prefix
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

/// A caller that waits for suggestions.
#[derive(Debug)]
pub(super) struct PendingSuggestion {
    pub(super) by: ExtensionId,
    pub(super) answer: oneshot::Sender<Value>,
}

/// Providers, the open list, and requests in flight.
#[derive(Debug, Default)]
pub(super) struct CompletionState {
    /// Open list of suggestions.
    pub(super) popup: Option<Popup>,
    /// Completion providers, newest last.
    pub(super) providers: Vec<CompletionProvider>,
    /// Whether a provider is inserting a suggestion, so that keys wait.
    pub(super) is_applying: bool,
    /// Callers that wait for suggestions.
    pub(super) pending: BTreeMap<u64, PendingSuggestion>,
}

impl CompletionState {
    /// Adds a completion provider, or updates the triggers of an existing one.
    pub(super) fn add_provider(&mut self, provider: CompletionProvider) -> Result<(), HostcallError> {
        if let Some(known) = self.providers.iter_mut().find(|known| known.id == provider.id) {
            known.triggers = provider.triggers;
            return Ok(());
        }
        let own = self.providers.iter().filter(|known| known.id.0 == provider.id.0).count();
        if own >= MAX_KEPT && guard!(TuiComponents) {
            return Err(used_up("autocomplete_providers", MAX_KEPT));
        }
        self.providers.push(provider);
        Ok(())
    }

    /// Adds a caller that waits for suggestions.
    pub(super) fn add_pending(&mut self, number: u64, pending: PendingSuggestion) -> Result<(), HostcallError> {
        let asked = self.pending.values().filter(|asked| asked.by == pending.by).count();
        if asked >= MAX_SUGGESTIONS && guard!(TuiComponents) {
            return Err(used_up("suggestions", MAX_SUGGESTIONS));
        }
        self.pending.insert(number, pending);
        Ok(())
    }

    /// Removes the providers of extensions that are gone.
    pub(super) fn forget(&mut self, is_gone: impl Fn(&ExtensionId) -> bool) {
        self.providers.retain(|provider| !is_gone(&provider.id.0));
    }

    /// Requests suggestions if the user asks for them (`force`), or at positions with completable text.
    pub(super) fn complete(&mut self, field: &TextField, force: bool) -> Vec<UiTask> {
        // Called for each key, so the text is copied only when a request is made.
        let head = &field.text()[..field.at()];
        let line = head.rsplit('\n').next().unwrap_or_default();
        let token = line.rsplit([' ', '\t']).next().unwrap_or_default();
        let starts = |mark: &str| token.starts_with(mark);
        let is_command = line.len() == head.len() && head.starts_with('/');
        let triggers = || self.providers.iter().flat_map(|provider| &provider.triggers).any(|mark| starts(mark));
        // An open list is updated during typing, and closed when nothing matches.
        if force || is_command || starts("@") || triggers() {
            return vec![UiTask::Complete(request_of(field, force))];
        }
        self.popup = None;
        Vec::new()
    }

    /// Shows suggestions. If Tab requested them and there is only one, it is inserted at once.
    pub(super) fn take_suggestions(
        &mut self,
        request: CompletionRequest,
        answer: &Value,
        field: &mut TextField,
    ) -> Vec<UiTask> {
        if !is_about(field, &request) {
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
        if is_single { self.accept(field) } else { Vec::new() }
    }

    /// Handles a key for the list; `None` if the key is for the editor.
    pub(super) fn popup_key(&mut self, name: &str, field: &mut TextField) -> Option<Vec<UiTask>> {
        let popup = self.popup.as_mut()?;
        let count = popup.items.len();
        match name {
            "up" => popup.at = (popup.at + count - 1) % count,
            "down" => popup.at = (popup.at + 1) % count,
            "escape" => self.popup = None,
            "tab" => return Some(self.accept(field)),
            "enter" => {
                let request = popup.request.clone();
                if !is_about(field, &request) {
                    self.popup = None;
                    return None;
                }
                let is_command = self.popup.as_ref().is_some_and(Popup::is_of_command);
                let before = field.text().trim_end().to_owned();
                let work = self.accept(field);
                // A command name without arguments is submitted at once, as is a complete text.
                let is_whole = field.text().trim_end() == before;
                return if work.is_empty() && (is_command || is_whole) { None } else { Some(work) };
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    /// Inserts the chosen item.
    fn accept(&mut self, field: &mut TextField) -> Vec<UiTask> {
        let Some(popup) = self.popup.take() else { return Vec::new() };
        let is_command = popup.is_of_command();
        let Popup { request, prefix, items, at } = popup;
        if !is_about(field, &request) {
            return Vec::new();
        }
        let item = items[at].clone();
        if let Some(provider) = self.providers.last()
            && !is_command
        {
            self.is_applying = true;
            return vec![UiTask::Apply { provider: provider.id.clone(), request, item, prefix }];
        }
        insert(field, &request, &item, &prefix);
        Vec::new()
    }

    /// Applies the text and cursor that a provider returned.
    pub(super) fn applied(&self, request: &CompletionRequest, answer: &Value, editor: &mut EditorState) {
        let lines: Vec<&str> = answer["lines"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let number = |key: &str| answer[key].as_u64().and_then(|number| usize::try_from(number).ok());
        let place = number("cursorLine").zip(number("cursorCol")).filter(|(line, _)| *line < lines.len());
        if let Some((line, col)) = place
            && is_about(&editor.field, request)
        {
            let before: usize = lines[..line].iter().map(|line| line.len() + 1).sum();
            let was = editor.field.whole();
            editor.field.put(&lines.join("\n"), before + byte_of(lines[line], col));
            // Keys wait for the insertion, so that typed-ahead keys do not submit a command that the user did not type.
            if let Some(by) = self.providers.last().map(|provider| provider.id.0.clone()) {
                editor.note_changed(&by, &was);
            }
        }
    }
}

fn request_of(field: &TextField, force: bool) -> CompletionRequest {
    CompletionRequest::new(field.text(), field.at(), force)
}

fn is_about(field: &TextField, request: &CompletionRequest) -> bool {
    request_of(field, request.force) == *request
}

/// Returns whether suggestions for a prefix may be names of commands; `/etc/ho` begins a path.
fn is_command_prefix(prefix: &str) -> bool {
    prefix.strip_prefix('/').is_some_and(|name| !name.contains('/'))
}

/// Replaces the prefix before the cursor by an item, like pi.
pub(super) fn insert(field: &mut TextField, request: &CompletionRequest, item: &Value, prefix: &str) {
    if !is_about(field, request) {
        return;
    }
    let (value, label) = (item["value"].as_str().unwrap_or_default(), item["label"].as_str().unwrap_or_default());
    let head = request.head().strip_suffix(prefix).unwrap_or_default();
    let is_command = is_command_prefix(prefix) && head.trim().is_empty();
    let put = match () {
        // A name, which may be submitted at once; a provider could add arguments.
        () if is_command => {
            let name = value.strip_prefix('/').unwrap_or(value).split_whitespace().next().unwrap_or_default();
            format!("/{name} ")
        }
        () if prefix.starts_with('@') && !label.ends_with('/') => format!("{value} "),
        () => value.to_owned(),
    };
    let line = &request.lines[request.line];
    let tail = &line[request.head().len()..];
    let mut lines = request.lines.clone();
    let col = (head.len() + put.len(), lines[..request.line].iter().map(|line| line.len() + 1).sum::<usize>());
    lines[request.line] = format!("{head}{put}{tail}");
    field.put(&lines.join("\n"), col.0 + col.1);
}

/// Returns the index of the exact match, or otherwise of the first item that starts with the prefix.
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

    fn editor(text: &str) -> (CompletionState, EditorState) {
        let mut editor = EditorState::default();
        editor.field.set(text);
        (CompletionState::default(), editor)
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
            let (mut state, EditorState { mut field, .. }) = editor(text);
            let request = request_of(&field, true);
            assert_eq!(state.take_suggestions(request, &answer(prefix, &[value]), &mut field), []);
            assert_eq!(field.text(), expected, "{text}");
        }
    }

    #[test]
    fn a_command_inserted_by_a_provider_is_not_submitted_at_once() {
        let extension = pijs_protocol::ExtensionId::new("x");
        let changed = |text: &str, to: &str| {
            let (mut state, mut editor) = editor(text);
            state.providers.push(CompletionProvider { id: (extension.clone(), 1), triggers: Vec::new() });
            let answer = json!({"lines": [to], "cursorLine": 0, "cursorCol": to.len()});
            state.applied(&CompletionRequest::new(text, text.len(), false), &answer, &mut editor);
            assert_eq!(editor.field.text(), to);
            editor
        };
        let now = std::time::Instant::now();
        for (text, to, by) in [
            ("ls", "!evil", Some(&extension)),
            ("!ls", "!evil", Some(&extension)),
            ("!ls", "!evil; ls", Some(&extension)),
            ("!ls", "!ls src;evil", Some(&extension)),
            ("!ls ", "!ls src\nevil", Some(&extension)),
            ("!ls s | wc", "!ls src | wc", None),
            ("!ls", "!lsof ", None),
            ("/export a", "/export /etc", Some(&extension)),
        ] {
            let mut editor = changed(text, to);
            assert_eq!(editor.take_author(now), Err(extension.clone()), "nobody could read it");
            editor.inserted.as_mut().unwrap().since = Some(now);
            assert_eq!(editor.take_author(now + super::super::permission_prompt::DEAD_TIME), Ok(by.cloned()));
        }
        assert_eq!(changed("see @a", "see @abc ").take_author(now), Ok(None));
    }

    #[test]
    fn a_provider_completes_no_path_as_the_name_of_a_command() {
        for (text, value, expected) in [("/etc/ho", "!evil", None), ("/he", "help !evil", Some("/help "))] {
            let (mut state, EditorState { mut field, .. }) = editor(text);
            state.providers.push(CompletionProvider { id: (ExtensionId::new("x"), 1), triggers: Vec::new() });
            let request = request_of(&field, false);
            state.take_suggestions(request, &answer(text, &[value]), &mut field);
            let work = state.popup_key("enter", &mut field);
            match expected {
                Some(expected) => assert_eq!((work, field.text()), (None, expected)),
                None => assert!(matches!(work.as_deref(), Some([UiTask::Apply { .. }])), "{work:?}"),
            }
        }
    }

    #[test]
    fn suggestions_for_another_text_are_ignored() {
        let (mut state, EditorState { mut field, .. }) = editor("/he");
        let request = request_of(&field, false);
        field.insert("l");
        state.take_suggestions(request, &answer("/he", &["help", "hello"]), &mut field);
        assert!(state.popup.is_none());
        let request = request_of(&field, false);
        state.take_suggestions(request, &answer("never typed", &["help"]), &mut field);
        assert!(state.popup.is_none());
    }

    #[test]
    fn suggestions_are_bounded() {
        let (mut state, EditorState { mut field, .. }) = editor("/he");
        let large = "x".repeat(1 << 20);
        let items: Vec<Value> = (0..100).map(|_| json!({"value": "hello", "label": large, "more": large})).collect();
        state.take_suggestions(request_of(&field, false), &json!({"items": items, "prefix": "/he"}), &mut field);
        let popup = state.popup.as_ref().expect("some");
        assert!(!popup.items.is_empty() && popup.items.iter().map(weight).sum::<usize>() <= LARGEST);
        assert!(popup.lines(80).iter().map(String::len).sum::<usize>() < 10_000);
    }

    #[test]
    fn keys_select_a_suggestion() {
        let (mut state, EditorState { mut field, .. }) = editor("/he");
        let request = request_of(&field, false);
        state.take_suggestions(request, &answer("/he", &["hello", "help"]), &mut field);
        assert_eq!(state.popup_key("down", &mut field), Some(Vec::new()));
        assert_eq!(state.popup_key("x", &mut field), None);
        assert_eq!(state.popup_key("tab", &mut field), Some(Vec::new()));
        assert_eq!(field.text(), "/help ");
    }
}
