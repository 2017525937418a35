//! Built-in lists: models, thinking levels, sessions, entries of the tree, settings.

use super::clip::{LONGEST_LINE, clipped};
use super::commands::UserCommands;
use super::layers::Layer;
use super::picker::{ListKind, MAX_ITEMS, Picker, PickerItem};
use super::{show_session, surroundings};
use pijs_agent::NavigateOptions;
use pijs_llm::choose::ChosenModel;
use pijs_llm::message::Message;
use pijs_llm::models::has_client;
use pijs_llm::provider::Model;
use pijs_runtime::export;
use pijs_session_store::{Body, Entry, EntryId};
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum number of characters shown of an entry.
const LONGEST_LABEL: usize = 200;

fn item(value: &str, label: impl Into<String>, detail: impl Into<String>) -> PickerItem {
    PickerItem { value: value.to_owned(), label: label.into(), detail: detail.into() }
}

/// Formats the name of a model as on the command line; a recorded model is named by its file.
pub(super) fn model_name(provider: &str, id: &str) -> String {
    if provider == "script" { format!("script:{id}") } else { format!("{provider}/{id}") }
}

impl UserCommands {
    /// Shows a list.
    pub(super) fn pick(&self, choice: ListKind) {
        self.show_list(choice, None);
    }

    /// Shows a list with an item selected.
    fn show_list(&self, choice: ListKind, chosen: Option<&str>) {
        let control = self.session.agent.control();
        let (title, items, current) = match choice {
            ListKind::Model => {
                let current = control.model().map(|model| model_name(&model.provider, &model.id));
                ("Which model?", self.models(), current)
            }
            ListKind::Thinking => {
                let levels = self.session.agent.thinking_levels();
                let items = levels.into_iter().map(|level| item(level, level, "")).collect();
                ("Which thinking level?", items, Some(control.thinking()))
            }
            ListKind::Session => ("Which session?", self.sessions(), None),
            ListKind::Fork => {
                let items = self.prompts();
                let last = items.last().map(|item| item.value.clone());
                ("From which prompt?", items, last)
            }
            ListKind::Tree => {
                let items = self.tree();
                let leaf = control.with_session(|session| session.leaf().map(|leaf| leaf.0.clone()));
                ("Go to which entry?", items, leaf)
            }
            ListKind::Theme => ("Which theme?", self.themes(), None),
            ListKind::Setting => ("Settings of this session", self.settings(), None),
            ListKind::Scope => ("Which models should ctrl+p cycle through?", self.scoped(), None),
            ListKind::Login => ("Log in with which provider?", self.accounts(), None),
            ListKind::Logout => ("Log out of which provider?", self.stored_accounts(), None),
        };
        if items.is_empty() {
            return self.inform("there is nothing to choose from yet");
        }
        let picker = Picker::new(choice, title, items, chosen.or(current.as_deref()));
        self.screen.change(|view| view.push(Layer::Picker(picker)));
    }

    /// Applies the choice from a list.
    pub(super) async fn picked(&self, choice: ListKind, value: &str) {
        match choice {
            ListKind::Model => self.choose_model(value).await,
            ListKind::Thinking => {
                if !self.session.agent.thinking_levels().contains(&value) {
                    let levels = self.session.agent.thinking_levels().join(", ");
                    return self.fail(&format!("this model has no thinking level {value}; it has: {levels}"));
                }
                match self.session.agent.control().set_thinking(value) {
                    Ok(()) => self.inform(&format!("thinking: {value}")),
                    Err(error) => self.fail(&error.to_string()),
                }
            }
            ListKind::Session => self.open_session(Path::new(value)).await,
            ListKind::Fork => self.fork(value, false).await,
            ListKind::Tree => self.go_to(value).await,
            ListKind::Theme => self.port.choose_theme(value),
            ListKind::Setting => self.change_setting(value),
            ListKind::Scope => self.change_scope(value),
            ListKind::Login => self.login(value).await,
            ListKind::Logout => self.logout(value).await,
        }
    }

    /// Returns all available models, with a mark for those in the cycling scope.
    fn scoped(&self) -> Vec<PickerItem> {
        let scope = self.session.agent.scope();
        let item = |model: &Model| {
            let name = model_name(&model.provider, &model.id);
            let is_on = scope.iter().any(|chosen| chosen.model.is(model));
            item(&name, name.clone(), if is_on { "on" } else { "off" })
        };
        self.session.agent.available_models().iter().map(item).collect()
    }

    /// Adds a model to the scope or removes it. An empty scope means all models.
    fn change_scope(&self, name: &str) {
        let agent = &self.session.agent;
        let mut scope = agent.scope();
        let before = scope.len();
        scope.retain(|chosen| model_name(&chosen.model.provider, &chosen.model.id) != name);
        if scope.len() == before {
            let models = agent.available_models().into_iter();
            let chosen = models.filter(|model| model_name(&model.provider, &model.id) == name);
            scope.extend(chosen.map(|model| ChosenModel { model, thinking: None, warning: None }));
        }
        agent.set_scope(scope);
        self.show_list(ListKind::Scope, Some(name));
    }

    fn models(&self) -> Vec<PickerItem> {
        let models = self.session.agent.available_models();
        let name = |model: &Model| model_name(&model.provider, &model.id);
        models.iter().map(|model| item(&name(model), name(model), "")).collect()
    }

    /// Selects a model by name, or by a unique substring.
    pub(super) async fn choose_model(&self, words: &str) {
        let models = self.session.agent.available_models();
        let name = |at: usize| model_name(&models[at].provider, &models[at].id);
        let exact = (0..models.len()).find(|at| name(*at) == words || models[*at].id == words);
        let holding: Vec<usize> = (0..models.len()).filter(|at| name(*at).contains(words)).collect();
        let at = match (exact, holding.as_slice()) {
            (Some(at), _) => at,
            (None, [at]) => *at,
            (None, []) => {
                return self.fail(&self.unusable(words));
            }
            (None, _) => {
                let items = holding.iter().map(|at| item(&name(*at), name(*at), "")).collect();
                let picker = Picker::new(ListKind::Model, "Which of these?", items, None);
                return self.screen.change(|view| view.push(Layer::Picker(picker)));
            }
        };
        match self.session.agent.set_model(&models[at]).await {
            Ok(()) => self.inform(&format!("model: {}", name(at))),
            Err(error) => self.fail(&error),
        }
        self.publish();
    }

    /// Returns the reason why a name does not refer to an available model.
    fn unusable(&self, words: &str) -> String {
        let known = self.known();
        let named = words.split_once('/').and_then(|(provider, id)| known?.find(provider, id));
        match named {
            Some(model) if has_client(std::slice::from_ref(&model)) => {
                let places = pijs_runtime::models::places_of_key(Some(&model));
                format!("no key for {words}: store one with /login {} ({places})", model.provider)
            }
            _ => match self.without_key(words) {
                Some(provider) => {
                    format!("a model called {words} needs a key: store one with /login, for example /login {provider}")
                }
                None => format!("no available model is called {words}; choose one with: /model"),
            },
        }
    }

    /// Returns the first provider with a client and with a model of this name, or otherwise with a model whose name contains it.
    fn without_key(&self, words: &str) -> Option<String> {
        let known = self.known()?;
        let is_meant = |model: &Model| model.id.contains(words) && has_client(std::slice::from_ref(model));
        known.providers().into_iter().find(|provider| known.models(provider).iter().any(is_meant))
    }

    pub(super) async fn cycle_model(&self, back: bool) {
        let agent = &self.session.agent;
        let result = if back { agent.cycle_model_back().await } else { agent.cycle_model().await };
        match result {
            Ok(Some(model)) => self.inform(&format!("model: {}", model_name(&model.provider, &model.id))),
            Ok(None) => self.inform("only one model is available"),
            Err(error) => self.fail(&error),
        }
        self.publish();
    }

    pub(super) fn cycle_thinking(&self) {
        match self.session.agent.cycle_thinking() {
            Ok(Some(level)) => self.inform(&format!("thinking: {level}")),
            Ok(None) => self.inform("this model has no thinking levels"),
            Err(error) => self.fail(&error),
        }
    }

    /// Returns the sessions of this folder, most recently changed first.
    fn sessions(&self) -> Vec<PickerItem> {
        let current = self.session.agent.control().session_file();
        match current.as_ref().and_then(|file| file.parent()) {
            Some(folder) => sessions(folder, current.as_deref()),
            None => Vec::new(),
        }
    }

    /// Returns the prompts of the user on this branch.
    fn prompts(&self) -> Vec<PickerItem> {
        self.session.agent.control().with_session(|session| {
            // Entries are read from the file, so only the newest of a very long session are listed.
            let newest = session.along_branch().rev().take(MAX_ITEMS).filter_map(Result::ok);
            let said = newest.filter_map(|entry| match &entry.body {
                Body::Message { message: Message::User(user) } => {
                    Some(item(&entry.id.0, short(&user.content.text()), ""))
                }
                _ => None,
            });
            let mut said: Vec<PickerItem> = said.collect();
            said.reverse();
            said
        })
    }

    /// Returns the entries of the tree, indented by branch depth.
    fn tree(&self) -> Vec<PickerItem> {
        self.session.agent.control().with_session(|session| {
            let labels = session.labels();
            let mut children: BTreeMap<EntryId, usize> = BTreeMap::new();
            for parent in session.ids().filter_map(|(_, parent)| parent) {
                *children.entry(parent).or_default() += 1;
            }
            // A parent precedes its entries in the file.
            let mut depths: BTreeMap<EntryId, usize> = BTreeMap::new();
            for (id, parent) in session.ids() {
                let above = parent.as_ref().map_or(0, |parent| depths.get(parent).copied().unwrap_or(0));
                let forks = parent.is_some_and(|parent| children.get(&parent).copied().unwrap_or(0) > 1);
                depths.insert(id, above + usize::from(forks));
            }
            let mut items = Vec::new();
            // Entries are read from the file, so only the newest of a very long session are listed.
            for entry in session.entries_from(session.len().saturating_sub(MAX_ITEMS)).filter_map(Result::ok) {
                let depth = depths.get(&entry.id).copied().unwrap_or(0);
                let Some(text) = place(&entry) else { continue };
                let label = labels.get(&entry.id).map(|label| format!("[{label}] ")).unwrap_or_default();
                let indent = "  ".repeat(depth.min(20));
                items.push(item(&entry.id.0, format!("{indent}{label}{}", short(&text)), ""));
            }
            items
        })
    }

    async fn fork(&self, entry: &str, at: bool) {
        match self.session.agent.fork(entry, at).await {
            Ok(forked) if forked.cancelled => self.inform("an extension cancelled it"),
            Ok(forked) => {
                show_session(&self.session, &self.screen);
                self.put_into_editor(&forked.selected_text.unwrap_or_default());
                self.inform("this is a new session; the previous one is in /resume");
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }

    pub(super) async fn clone_session(&self) {
        let leaf = self.session.agent.control().with_session(|session| session.leaf().map(|leaf| leaf.0.clone()));
        match leaf {
            Some(leaf) => self.fork(&leaf, true).await,
            None => self.fail("there is nothing to copy yet"),
        }
    }

    async fn go_to(&self, entry: &str) {
        let options =
            NavigateOptions { summarize: false, custom_instructions: None, replace_instructions: None, label: None };
        match self.session.agent.navigate_tree(entry, options).await {
            Ok(moved) if moved.cancelled => self.inform("an extension cancelled it"),
            Ok(moved) => {
                show_session(&self.session, &self.screen);
                self.put_into_editor(&moved.editor_text.unwrap_or_default());
            }
            Err(error) => self.fail(&error),
        }
    }

    fn themes(&self) -> Vec<PickerItem> {
        let files = self.session.host.state().get("themes").unwrap_or_default();
        let own = ["dark", "light"].map(|name| item(name, name, "pi's own"));
        let theirs = files
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|file| Some(item(file["name"].as_str()?, file["name"].as_str()?, file["path"].as_str()?)));
        own.into_iter().chain(theirs).collect()
    }

    fn settings(&self) -> Vec<PickerItem> {
        let settings = self.session.agent.settings();
        let on = |is_on: bool| if is_on { "on" } else { "off" };
        let all = |all: bool| if all { "all at once" } else { "one at a time" };
        vec![
            item("compaction", "compact automatically", on(settings.compaction.enabled)),
            item("retry", "retry after a failure of the model", on(settings.retry.enabled)),
            item("steering", "steering messages", all(settings.steer_all)),
            item("follow-up", "follow-up messages", all(settings.follow_up_all)),
        ]
    }

    fn change_setting(&self, name: &str) {
        let mut settings = self.session.agent.settings();
        let changed = match name {
            "compaction" => &mut settings.compaction.enabled,
            "retry" => &mut settings.retry.enabled,
            "steering" => &mut settings.steer_all,
            _ => &mut settings.follow_up_all,
        };
        *changed = !*changed;
        self.session.agent.set_settings(settings);
        self.show_list(ListKind::Setting, Some(name));
    }

    async fn open_session(&self, file: &Path) {
        match self.session.agent.switch_session(file).await {
            Ok(true) => self.inform("an extension cancelled it"),
            Ok(false) => show_session(&self.session, &self.screen),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// Copies a session file into the session folder and opens it.
    pub(super) async fn import(&self, name: &str) {
        if name.is_empty() {
            return self.fail("name a file: /import FILE.jsonl");
        }
        let file = self.session.cwd.join(name);
        let folder = self.session.agent.control().session_file().and_then(|file| Some(file.parent()?.to_owned()));
        let Some(folder) = folder else {
            return self.fail("this session is kept in memory; start without --no-session to import one");
        };
        match surroundings::import(&file, &folder) {
            Ok(copy) => self.open_session(&copy).await,
            Err(error) => self.fail(&format!("cannot import {}: {error}", file.display())),
        }
    }

    /// Exports the session to a file.
    pub(super) fn export(&self, name: &str) {
        let control = self.session.agent.control();
        let name = match name {
            // Ids come from session files of any origin; a slash could lead to another folder.
            "" => control.with_session(|session| format!("pi-session-{}.html", session.header().id.replace('/', "-"))),
            name => name.to_owned(),
        };
        let file = self.environment.path(&name);
        let text = match control.with_session(|session| export::in_form_of(session, &file)) {
            Ok(Some(text)) => text,
            Ok(None) => {
                return self.fail(&format!("name a format: /export FILE, where FILE ends in {}", export::FORMS));
            }
            Err(error) => return self.fail(&error.to_string()),
        };
        // An existing file is not overwritten.
        let written =
            std::fs::File::create_new(&file).and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
        match written {
            Ok(()) => self.inform(&format!("exported to {}", file.display())),
            Err(error) => self.fail(&format!("cannot write {}: {error}", file.display())),
        }
    }
}

/// Returns the sessions of a folder except the current one.
pub(super) fn sessions(folder: &Path, current: Option<&Path>) -> Vec<PickerItem> {
    let found = surroundings::sessions(folder).into_iter().filter(|found| Some(found.file.as_path()) != current);
    found.map(|found| item(&found.file.display().to_string(), found.title, found.date)).collect()
}

/// Formats an entry for the tree; `None` for an entry without content to return to.
fn place(entry: &Entry) -> Option<String> {
    Some(match &entry.body {
        Body::Message { message: Message::User(user) } => format!("> {}", user.content.text()),
        Body::Message { message: Message::Assistant(reply) } => {
            let text = reply.text();
            let tools: Vec<&str> = reply.tool_calls().map(|call| call.name.as_str()).collect();
            if text.trim().is_empty() { format!("({})", tools.join(", ")) } else { text }
        }
        Body::Message { message: Message::BashExecution(run) } => format!("$ {}", run.command),
        Body::CustomMessage { custom_type, .. } => format!("[{custom_type}]"),
        Body::Compaction { .. } => "[compaction]".to_owned(),
        Body::BranchSummary { .. } => "[summary of a branch]".to_owned(),
        _ => return None,
    })
}

/// Returns the beginning of a text as one line.
fn short(text: &str) -> String {
    pijs_terminal::line(clipped(text.trim(), LONGEST_LINE)).chars().take(LONGEST_LABEL).collect()
}
