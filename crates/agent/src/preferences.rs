//! User settings of a session: model, thinking level, queue modes, automatic compaction and retry.

use crate::agent::Agent;
use crate::outcome::ControlError;
use crate::settings::Settings;
use pijs_inputs::InputEvent;
use pijs_llm::choose::ChosenModel;
use pijs_llm::message::{Message, StopReason};
use pijs_llm::provider::Model;
use pijs_session_store::context;
use pijs_session_store::{Session, refs};
use serde_json::Value;
use std::path::PathBuf;

impl Agent {
    /// Returns the available models: those whose provider has a key or needs none.
    pub fn available_models(&self) -> Vec<Model> {
        self.model.offered.borrow().available()
    }

    /// Returns theme files of the user, the project, packages and extensions; the first file with a name has precedence.
    pub fn themes(&self) -> Vec<PathBuf> {
        let found = self.prompt.resources.borrow().themes.clone();
        // Resources are not read before the session starts.
        if found.is_empty() { self.prompt.places.themes() } else { found }
    }

    /// Returns the kind and path of each resource.
    pub fn resource_files(&self) -> Vec<(&'static str, String)> {
        let resources = self.prompt.resources.borrow();
        let context = resources.context_files.iter().map(|file| ("context", file.path.clone()));
        let skills = resources.skills.iter().map(|skill| ("skill", skill.file_path.clone()));
        let prompts = resources
            .prompts
            .iter()
            .map(|prompt| ("prompt", prompt.source_info["path"].as_str().unwrap_or(&prompt.name).to_owned()));
        let themes = resources.themes.iter().map(|theme| ("theme", theme.display().to_string()));
        context.chain(skills).chain(prompts).chain(themes).collect()
    }

    /// Selects the next available model; `None` when there is no other.
    ///
    /// # Errors
    ///
    /// Fails as [`Agent::set_model`] does.
    pub async fn cycle_model(&self) -> Result<Option<Model>, String> {
        self.cycle(|at, count| (at.unwrap_or(0) + 1) % count).await
    }

    /// Selects the previous available model; `None` when there is no other.
    ///
    /// # Errors
    ///
    /// Fails as [`Agent::set_model`] does.
    pub async fn cycle_model_back(&self) -> Result<Option<Model>, String> {
        self.cycle(|at, count| (at.unwrap_or(0) + count - 1) % count).await
    }

    async fn cycle(&self, next: impl Fn(Option<usize>, usize) -> usize) -> Result<Option<Model>, String> {
        let scope = self.model.scope.borrow().clone();
        let scope: Vec<ChosenModel> = {
            let models = self.model.offered.borrow();
            scope.into_iter().filter(|chosen| models.is_available(&chosen.model)).collect()
        };
        let level = |model: &Model| scope.iter().find(|chosen| chosen.model.is(model))?.thinking.clone();
        let available = match scope.is_empty() {
            true => self.available_models(),
            false => scope.iter().map(|chosen| chosen.model.clone()).collect(),
        };
        if available.len() < 2 {
            return Ok(None);
        }
        let current = self.control.model();
        let at = available.iter().position(|model| current.as_ref().is_some_and(|current| current.is(model)));
        let next = available[next(at, available.len())].clone();
        self.cycle_to(&next).await?;
        if let Some(level) = level(&next) {
            self.control.set_thinking(&level).map_err(|error| error.to_string())?;
        }
        Ok(Some(next))
    }

    /// Selects a model that [`Agent::cycle_model`] chose. The thinking level of its scope is set separately.
    ///
    /// # Errors
    ///
    /// Fails as [`Agent::set_model`] does.
    pub async fn cycle_to(&self, next: &Model) -> Result<(), String> {
        self.control.observe_act("cycle_model", || next.to_value());
        self.attend(self.change_model(next, "cycle", false)).await
    }

    /// Returns the thinking levels of the model.
    pub fn thinking_levels(&self) -> Vec<&'static str> {
        self.control.model().map_or_else(|| vec!["off"], |model| model.thinking_levels())
    }

    /// Selects the next thinking level; `None` for a model without thinking.
    ///
    /// # Errors
    ///
    /// Fails when the session cannot be written.
    pub fn cycle_thinking(&self) -> Result<Option<&'static str>, String> {
        if !self.control.model().is_some_and(|model| model.reasoning()) {
            return Ok(None);
        }
        let levels = self.thinking_levels();
        let now = self.control.thinking();
        let at = levels.iter().position(|level| *level == now);
        let next = levels[at.map_or(0, |at| at + 1) % levels.len()];
        self.control.set_thinking(next).map_err(|error| error.to_string())?;
        Ok(Some(next))
    }

    /// Returns the settings of compaction, retries and queues.
    pub fn settings(&self) -> Settings {
        self.settings.borrow().clone()
    }

    /// Returns the conversation for the model: the messages kept by the latest compaction and all later ones.
    ///
    /// # Errors
    ///
    /// Fails when entries of the session cannot be read.
    pub fn messages(&self) -> Result<Vec<Message>, ControlError> {
        let seen = self.control.with_session(Session::seen)?;
        Ok(context::messages(&refs(&seen)))
    }

    /// Returns the text of the last reply on this branch.
    ///
    /// # Errors
    ///
    /// Fails as [`Agent::messages`] does.
    pub fn last_reply(&self) -> Result<Option<String>, ControlError> {
        let messages = self.messages()?;
        let last = messages.iter().rev().find_map(|message| match message {
            // A reply aborted before its first delta is empty.
            Message::Assistant(reply) if reply.stop_reason == StopReason::Aborted && reply.content.is_empty() => None,
            Message::Assistant(reply) => Some(reply),
            _ => None,
        });
        Ok(last.map(|reply| reply.text().trim().to_owned()).filter(|text| !text.is_empty()))
    }

    /// Ends the run instead of waiting for the next retry.
    pub fn abort_retry(&self) {
        self.control.observe_act("abort_retry", || Value::Null);
        self.control.advance(InputEvent::AbortRetry);
    }
}
