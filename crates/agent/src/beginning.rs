//! What a session begins with: its model and thinking level.
//!
//! A session that goes on has both of its own; the agent was made with others. Which count is decided here, once for
//! each session that is opened.

use crate::agent::{Agent, AgentError};
use crate::control::ControlError;
use pijs_llm::choose::Chosen;
use pijs_llm::provider::{Model, Unopened};
use pijs_protocol::guard;
use pijs_session_store::Body;
use serde_json::{Value, json};
use std::sync::Arc;

/// What new sessions begin with.
#[derive(Debug, Clone)]
pub(crate) struct Beginning {
    model: Model,
    thinking: String,
    /// Whether the level counts before that of a session that goes on.
    insists: bool,
}

impl Agent {
    /// Says which model and thinking level new sessions begin with, and whether one that goes on keeps its own
    /// model. Before [`Agent::start`].
    pub fn begin_with(&self, model: Model, thinking: &str, session_first: bool) {
        *self.initial.borrow_mut() = Some(Beginning { model, thinking: thinking.to_owned(), insists: false });
        self.keeps_model.set(session_first);
    }

    /// Says that the thinking level counts before that of a session that goes on. After [`Agent::begin_with`].
    pub fn insist_on_thinking(&self) {
        if let Some(initial) = &mut *self.initial.borrow_mut() {
            initial.insists = true;
        }
    }

    /// Says that the model counts before that of every session that is opened later: a person named it.
    pub fn insist_on_model(&self) {
        self.insists_on_model.set(true);
    }

    /// Says which thinking level new sessions begin with.
    pub fn set_initial_thinking(&self, level: &str) {
        self.begin_with(self.provider().model().clone(), level, self.keeps_model.get());
    }

    /// Says which models [`Agent::cycle_model`] goes through; none: all that can be used.
    pub fn set_scope(&self, scope: Vec<Chosen>) {
        let shown = |chosen: &Chosen| {
            let mut value = json!({"model": chosen.model.to_value()});
            if let Some(level) = &chosen.thinking {
                value["thinkingLevel"] = json!(level);
            }
            value
        };
        self.control.publish("scopedModels", scope.iter().map(shown).collect::<Value>());
        *self.scope.borrow_mut() = scope;
    }

    /// Which models [`Agent::cycle_model`] goes through; none: all that can be used.
    pub fn scope(&self) -> Vec<Chosen> {
        self.scope.borrow().clone()
    }

    /// A log-in may end while a session goes on: before a request its model is opened again with what holds now.
    pub(crate) async fn renew_login(&self) {
        let model = self.provider().model().clone();
        if !self.models.borrow().has_login(&model.provider) {
            return;
        }
        let provider = match self.open_model(&model).await {
            Ok(provider) => provider,
            Err(error) => Arc::new(Unopened::because(model, error)),
        };
        self.put_provider(provider);
    }

    /// Model and thinking level as the session left them, or those the agent was made with. A new session
    /// gets entries for both, an older one for what it lacks.
    pub(crate) async fn restore_model(&self) -> Result<(), AgentError> {
        let own = self.provider().model().clone();
        let first = || Beginning { model: own, thinking: "off".to_owned(), insists: false };
        let initial = self.initial.borrow_mut().get_or_insert_with(first).clone();
        let left = self.control.with_session(|session| session.left_with()).map_err(ControlError::from)?;
        let insists = self.insists_on_model.get();
        let kept = left.model.as_ref().filter(|_| self.keeps_model.get() && !insists);
        let kept = kept.and_then(|(provider, id)| self.models.borrow().find(provider, id));
        let wanted = kept.unwrap_or(initial.model);
        let provider = match self.open_model(&wanted).await {
            Ok(provider) => provider,
            // Nothing else was chosen: whoever asks it hears why.
            Err(error) if self.provider().model().is(&wanted) => Arc::new(Unopened::because(wanted.clone(), error)),
            Err(_) => self.provider(),
        };
        let model = self.models.borrow().find(&wanted.provider, &wanted.id).unwrap_or_else(|| provider.model().clone());
        self.put_provider(provider);
        self.control.take_model(model.clone());
        // Nobody has agreed to it because the session is opened again.
        let is_left = left.last_model.as_ref() == Some(&(model.provider.clone(), model.id.clone()));
        if is_left && left.is_imposed && !insists && guard::is_up("door.left") {
            self.models.borrow_mut().chose(true);
        }
        let level = left.thinking.filter(|_| !initial.insists).unwrap_or(initial.thinking);
        let level = self.control.restore_thinking(&level);
        // A model that was named is nothing that a session which goes on was changed to.
        let is_told = insists && self.messages().is_ok_and(|messages| !messages.is_empty());
        if !model.is_unknown() && !is_told && left.last_model != Some((model.provider.clone(), model.id.clone())) {
            self.control.append(Body::ModelChange { provider: model.provider, model_id: model.id })?;
        }
        if left.last_thinking.as_ref() != Some(&level) && (left.last_thinking.is_none() || initial.insists) {
            self.control.append(Body::ThinkingLevelChange { thinking_level: level })?;
        }
        Ok(())
    }
}
