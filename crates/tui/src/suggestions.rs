//! Provides completion suggestions: built-in commands, their arguments and files, and those of extensions.

use super::clip::{LONGEST_LINE, clipped};
use super::commands::{OWN, UserCommands};
use super::completion::insert;
use super::completion_request::CompletionRequest;
use super::view::ComponentId;
use pijs_host::{CallbackOutcome, RegistrationOwner};
use pijs_protocol::{EntryIndex, Handle, guard};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Timeout of a completion provider.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a provider that inserts a suggestion. After it, the suggestion is inserted like in pi.
const APPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of files that are searched.
const MAX_FILES: usize = 20_000;
/// Maximum number of files that are suggested.
const MAX_OFFERED: usize = 50;

/// The receiver of suggestions. Folders outside of the project are listed only for the user: otherwise an extension could list
/// them by writing such a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SuggestionCaller {
    Person,
    Extension,
}

impl UserCommands {
    /// Requests suggestions for the text of the editor, and shows them.
    pub(super) async fn complete(&self, request: CompletionRequest) {
        let answer = self.suggestions(&request, None, SuggestionCaller::Person).await;
        let work = self.screen.change(|view| view.take_suggestions(request, &answer));
        work.into_iter().for_each(|work| self.screen.ask(work));
    }

    /// Answers a provider that requests suggestions from the providers below it.
    pub(super) async fn suggest(&self, number: u64, request: CompletionRequest, below: Option<ComponentId>) {
        let answer = self.suggestions(&request, below.as_ref(), SuggestionCaller::Extension).await;
        if let Some(waiting) = self.screen.change(|view| view.completion.pending.remove(&number)) {
            // The caller may have been cancelled.
            let _ = waiting.answer.send(answer);
        }
    }

    /// Lets a provider insert the chosen suggestion.
    pub(super) async fn apply(&self, provider: ComponentId, request: CompletionRequest, item: Value, prefix: String) {
        let asked = self.ask(&provider, request.to_apply(&item, &prefix));
        // Keys wait for the insertion.
        let answer = tokio::time::timeout(APPLY_TIMEOUT, asked).await.ok().flatten();
        let work = self.screen.change(|view| {
            match &answer {
                Some(answer) if answer["lines"].is_array() => {
                    view.completion.applied(&request, answer, &mut view.editor)
                }
                _ => insert(&mut view.editor.field, &request, &item, &prefix),
            }
            view.completion.is_applying = false;
            view.catch_up(Instant::now())
        });
        work.into_iter().for_each(|work| self.screen.ask(work));
    }

    /// Returns `{items, prefix}` or `null` from all providers, or from those below one.
    async fn suggestions(
        &self,
        request: &CompletionRequest,
        below: Option<&ComponentId>,
        asker: SuggestionCaller,
    ) -> Value {
        let providers = self.screen.read(|view| view.completion.providers.clone());
        let top = match below {
            None => providers.len(),
            Some(below) => providers.iter().position(|provider| provider.id == *below).unwrap_or(0),
        };
        match top.checked_sub(1).and_then(|at| providers.get(at)) {
            // A provider without suggestions of its own requests those of the next one below.
            Some(provider) => self.ask(&provider.id, request.to_suggest()).await.unwrap_or_default(),
            None => self.own_suggestions(request, asker).await,
        }
    }

    async fn ask(&self, (extension, handle): &ComponentId, request: Value) -> Option<Value> {
        let asked = self.session.host.call_back(extension, EntryIndex(0), Handle(*handle), vec![request]);
        match tokio::time::timeout(PROVIDER_TIMEOUT, asked).await {
            Ok(CallbackOutcome::Returned(answer)) => answer,
            Ok(CallbackOutcome::Threw(error)) => {
                self.fail(&format!("{extension}: completion failed: {}", error.message));
                None
            }
            _ => None,
        }
    }

    async fn own_suggestions(&self, request: &CompletionRequest, asker: SuggestionCaller) -> Value {
        let head = request.head();
        if request.line == 0
            && let Some(line) = head.strip_prefix('/')
        {
            match line.split_once(' ') {
                None => return self.command_names(line, head),
                Some((name, prefix)) => return self.arguments(name, prefix).await,
            }
        }
        let token = head.rsplit([' ', '\t', '"', '\'']).next().unwrap_or_default();
        match token.strip_prefix('@') {
            Some(words) => {
                let (cwd, words, token) = (self.session.cwd.clone(), words.to_owned(), token.to_owned());
                on_blocking_thread(asker, move || files(&cwd, &words, &token)).await
            }
            None if request.force => {
                let (cwd, token) = (self.session.cwd.clone(), token.to_owned());
                on_blocking_thread(asker, move || path(&cwd, &token, asker)).await
            }
            None => Value::Null,
        }
    }

    /// Returns the commands whose names contain the typed text: built-in ones and those of extensions, prompts and skills.
    fn command_names(&self, typed: &str, prefix: &str) -> Value {
        let published = self.session.host.state().get("commands").unwrap_or_default();
        let text =
            |command: &Value, key: &str| clipped(command[key].as_str().unwrap_or_default(), LONGEST_LINE).to_owned();
        let theirs = published.as_array().into_iter().flatten();
        let theirs = theirs.map(|command| (text(command, "name"), text(command, "description")));
        let own = OWN.iter().map(|(name, what)| ((*name).to_owned(), (*what).to_owned()));
        let items = fitting(own.chain(theirs), typed).into_iter();
        let items = items.map(|(name, what)| json!({"value": name, "label": name, "description": what}));
        found(items.collect(), prefix)
    }

    async fn arguments(&self, name: &str, prefix: &str) -> Value {
        if name == "model" {
            let models = self.session.agent.available_models();
            let names = models.iter().map(|model| format!("{}/{}", model.provider, model.id));
            let items = names.filter(|name| name.contains(prefix)).map(|name| json!({"value": name, "label": name}));
            return found(items.collect(), prefix);
        }
        let command = self.session.host.commands().into_iter().find(|command| command.invocation == name);
        let Some((owner, handle)) = command.and_then(|found| Some((found.owner, found.spec.completions?))) else {
            return Value::Null;
        };
        let RegistrationOwner { extension, entry, .. } = &owner;
        let asked = self.session.host.call_back(extension, *entry, handle, vec![prefix.into()]);
        match tokio::time::timeout(PROVIDER_TIMEOUT, asked).await {
            Ok(CallbackOutcome::Returned(Some(Value::Array(items)))) => found(items, prefix),
            Ok(CallbackOutcome::Threw(error)) => {
                self.fail(&format!("{extension}: completion failed: {}", error.message));
                Value::Null
            }
            _ => Value::Null,
        }
    }
}

/// Lists folders on a blocking thread. At most two requests of extensions, which may be endless, run at a time.
async fn on_blocking_thread(asker: SuggestionCaller, look: impl FnOnce() -> Value + Send + 'static) -> Value {
    static OF_EXTENSIONS: Semaphore = Semaphore::const_new(2);
    let _turn = match asker {
        SuggestionCaller::Person => None,
        SuggestionCaller::Extension => OF_EXTENSIONS.acquire().await.ok(),
    };
    tokio::task::spawn_blocking(look).await.unwrap_or_default()
}

/// Returns the commands that contain the typed text, prefix matches first and without duplicates.
fn fitting(all: impl Iterator<Item = (String, String)>, typed: &str) -> Vec<(String, String)> {
    let mut seen = BTreeSet::new();
    let fits = all.filter(|(name, _)| name.contains(typed)).filter(|(name, _)| seen.insert(name.clone()));
    let (mut begin, hold): (Vec<_>, Vec<_>) = fits.partition(|(name, _)| name.starts_with(typed));
    begin.extend(hold);
    begin
}

fn found(items: Vec<Value>, prefix: &str) -> Value {
    if items.is_empty() { Value::Null } else { json!({"items": items, "prefix": prefix}) }
}

/// Returns the files of the project that match the text after `@`, the shortest path first. Skips files that git ignores.
fn files(cwd: &Path, words: &str, token: &str) -> Value {
    let words = words.to_lowercase();
    let mut all: Vec<(usize, String)> = ignore::WalkBuilder::new(cwd)
        .require_git(false)
        .build()
        .filter_map(Result::ok)
        .take(MAX_FILES)
        .filter_map(|entry| {
            let is_folder = entry.file_type()?.is_dir();
            let path = entry.path().strip_prefix(cwd).ok()?.to_str()?;
            let shown = if is_folder { format!("{path}/") } else { path.to_owned() };
            let lower = shown.to_lowercase();
            let name = Path::new(&lower).file_name()?.to_str()?.to_owned();
            // A match in the file name ranks before a match in a folder's name.
            let rank = match () {
                () if name.starts_with(&words) => 0,
                () if name.contains(&words) => 1,
                () if lower.contains(&words) => 2,
                () if is_subsequence(&lower, &words) => 3,
                () => return None,
            };
            Some((rank, shown))
        })
        .collect();
    all.sort_by(|a, b| (a.0, a.1.len(), &a.1).cmp(&(b.0, b.1.len(), &b.1)));
    let item = |(_, path): (usize, String)| {
        // A path with blanks is quoted.
        let value = if path.contains(' ') { format!("@\"{path}\"") } else { format!("@{path}") };
        let label = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let label = if path.ends_with('/') { format!("{label}/") } else { label.to_owned() };
        json!({"value": value, "label": label, "description": path})
    };
    found(all.into_iter().take(MAX_OFFERED).map(item).collect(), token)
}

/// Returns whether all characters occur in the text in this order.
fn is_subsequence(text: &str, characters: &str) -> bool {
    let mut rest = text.chars();
    characters.chars().all(|wanted| rest.any(|c| c == wanted))
}

/// Lists the folder of an incomplete path.
fn path(cwd: &Path, token: &str, asker: SuggestionCaller) -> Value {
    let (folder, begun) =
        token.rsplit_once('/').map_or(("", token), |(folder, begun)| (&token[..=folder.len()], begun));
    let place: PathBuf = match folder.strip_prefix("~/") {
        Some(_) => return Value::Null,
        None => cwd.join(folder),
    };
    let is_inside = |place: &Path| match (std::fs::canonicalize(cwd), std::fs::canonicalize(place)) {
        (Ok(cwd), Ok(place)) => place.starts_with(cwd),
        _ => false,
    };
    if asker == SuggestionCaller::Extension && !is_inside(&place) && guard!(TuiSuggestPath) {
        return Value::Null;
    }
    let mut names: Vec<String> = std::fs::read_dir(place)
        .into_iter()
        .flatten()
        .take(MAX_FILES)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            // Hidden files are listed only after the user has typed a dot.
            let fits = name.starts_with(begun) && (!name.starts_with('.') || begun.starts_with('.'));
            let mark = if entry.file_type().is_ok_and(|kind| kind.is_dir()) { "/" } else { "" };
            fits.then(|| format!("{name}{mark}"))
        })
        .collect();
    names.sort();
    let item = |name: String| json!({"value": format!("{folder}{name}"), "label": name});
    found(names.into_iter().take(MAX_OFFERED).map(item).collect(), token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(answer: &Value) -> Vec<&str> {
        answer["items"].as_array().into_iter().flatten().filter_map(|item| item["value"].as_str()).collect()
    }

    #[test]
    fn commands_are_matched_in_one_pass_without_duplicates() {
        let begun = Instant::now();
        let many = (0..200_000).map(|number| (format!("command{}", number / 2), String::new()));
        let found = fitting(many, "d5");
        assert_eq!((found.len(), found[0].0.as_str()), (11_111, "command5"));
        // Comparing all pairs would take minutes.
        assert!(begun.elapsed() < Duration::from_secs(90), "{:?}", begun.elapsed());
        let some = ["help", "ohel", "help", "hello"].map(|name| (name.to_owned(), String::new()));
        let names: Vec<String> = fitting(some.into_iter(), "hel").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["help", "hello", "ohel"]);
    }

    #[test]
    fn file_name_matches_rank_before_folder_matches() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in ["main.rs", "src/main.rs", "src/other.rs", "main/x.rs", "a b/main.txt", "gone/main.rs"] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            std::fs::write(path, "").expect("a file");
        }
        std::fs::write(folder.path().join(".gitignore"), "gone/").expect("a file");
        let found = files(folder.path(), "main", "@main");
        assert_eq!(
            values(&found),
            ["@main/", "@main.rs", "@src/main.rs", "@\"a b/main.txt\"", "@main/x.rs"],
            "{found}"
        );
        assert_eq!(values(&files(folder.path(), "so", "@so")), ["@src/other.rs"]);
        assert_eq!(files(folder.path(), "zzz", "@zzz"), Value::Null);
        let theirs = |token: &str| path(folder.path(), token, SuggestionCaller::Extension);
        assert_eq!(values(&theirs("src/o")), ["src/other.rs"]);
        assert_eq!(values(&theirs("m")), ["main.rs", "main/"]);
        assert_eq!(theirs("nowhere/x"), Value::Null);
        assert_eq!(theirs("/"), Value::Null);
        assert_eq!(theirs("src/../../"), Value::Null);
        assert_ne!(path(folder.path(), "/", SuggestionCaller::Person), Value::Null);
    }
}
