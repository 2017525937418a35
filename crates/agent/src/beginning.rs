//! What a session begins with: its model and thinking level.
//!
//! A session that goes on has both of its own; the agent was made with others. Which count is decided here, once for
//! each session that is opened.

use crate::agent::{Agent, AgentError};
use crate::asked::{AskLimits, Asked};
use crate::control::{AgentControl, ControlError};
use pijs_llm::choose::Chosen;
use pijs_llm::models::Models;
use pijs_llm::provider::{Model, Provider, Unopened};
use pijs_protocol::guard;
use pijs_session_store::Body;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The model that sessions begin with.
#[derive(Debug, Clone, Default)]
pub struct FirstModel {
    /// Model of new sessions; `None`: that of the provider which the agent is made with.
    pub model: Option<Model>,
    /// Thinking level of new sessions; `None`: `off`.
    pub thinking: Option<String>,
    /// A session that goes on keeps its own model.
    pub keeps_that_of_session: bool,
    /// The model counts before that of every session that is opened later: a person named it.
    pub insists: bool,
    /// The thinking level counts before that of a session that goes on.
    pub insists_on_thinking: bool,
    /// Models that [`Agent::cycle_model`] goes through; none: all that can be used.
    pub scope: Vec<Chosen>,
    /// Whether providers of extensions look up their models with the network.
    pub network: bool,
}

/// Holds the model that answers, the models on offer, and the one that a session begins with.
pub(crate) struct ModelChoice {
    /// Answers now.
    pub(crate) provider: RefCell<Arc<dyn Provider>>,
    pub(crate) offered: RefCell<Models>,
    /// Offers of models that were reported as wrong: the extension's path, and what is wrong.
    pub(crate) wrong_offers: RefCell<Vec<(String, String)>>,
    /// Model and level that `newSession` begins with again.
    initial: RefCell<Beginning>,
    pub(crate) scope: RefCell<Vec<Chosen>>,
    pub(crate) keeps_that_of_session: Cell<bool>,
    insists: bool,
    pub(crate) network: bool,
    /// Counts the questions that extensions ask models by themselves.
    pub(crate) asked: Asked,
}

impl ModelChoice {
    pub(crate) fn new(first: FirstModel, asks: AskLimits, provider: Arc<dyn Provider>, control: &AgentControl) -> Self {
        let mut offered = Models::default();
        if provider.is_open() {
            offered.add(Arc::clone(&provider));
        }
        if let Some(known) = control.known() {
            offered.set_known(known);
        }
        let initial = Beginning {
            model: first.model.unwrap_or_else(|| provider.model().clone()),
            thinking: first.thinking.unwrap_or_else(|| "off".to_owned()),
            insists: first.insists_on_thinking,
        };
        publish_scope(control, &first.scope);
        Self {
            provider: RefCell::new(provider),
            offered: RefCell::new(offered),
            wrong_offers: RefCell::default(),
            initial: RefCell::new(initial),
            scope: RefCell::new(first.scope),
            keeps_that_of_session: Cell::new(first.keeps_that_of_session),
            insists: first.insists,
            network: first.network,
            asked: Asked::new(asks),
        }
    }
}

/// Tells extensions which models are in reach of [`Agent::cycle_model`].
fn publish_scope(control: &AgentControl, scope: &[Chosen]) {
    let shown = |chosen: &Chosen| {
        let mut value = json!({"model": chosen.model.to_value()});
        if let Some(level) = &chosen.thinking {
            value["thinkingLevel"] = json!(level);
        }
        value
    };
    control.publish("scopedModels", scope.iter().map(shown).collect::<Value>());
}

/// What new sessions begin with.
#[derive(Debug, Clone)]
struct Beginning {
    model: Model,
    thinking: String,
    /// Whether the level counts before that of a session that goes on.
    insists: bool,
}

impl Agent {
    /// Says which thinking level new sessions begin with.
    pub fn set_initial_thinking(&self, level: &str) {
        level.clone_into(&mut self.model.initial.borrow_mut().thinking);
    }

    /// Says which models [`Agent::cycle_model`] goes through; none: all that can be used.
    pub fn set_scope(&self, scope: Vec<Chosen>) {
        publish_scope(&self.control, &scope);
        *self.model.scope.borrow_mut() = scope;
    }

    /// Which models [`Agent::cycle_model`] goes through; none: all that can be used.
    pub fn scope(&self) -> Vec<Chosen> {
        self.model.scope.borrow().clone()
    }

    /// A log-in may end while a session goes on: before a request its model is opened again with what holds now.
    pub(crate) async fn renew_login(&self) {
        let model = self.provider().model().clone();
        if !self.model.offered.borrow().has_login(&model.provider) {
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
        let initial = self.model.initial.borrow().clone();
        let left = self.control.with_session(|session| session.left_with()).map_err(ControlError::from)?;
        let insists = self.model.insists;
        let kept = left.model.as_ref().filter(|_| self.model.keeps_that_of_session.get() && !insists);
        let kept = kept.and_then(|(provider, id)| self.model.offered.borrow().find(provider, id));
        let wanted = kept.unwrap_or(initial.model);
        let provider = match self.open_model(&wanted).await {
            Ok(provider) => provider,
            // Nothing else was chosen: whoever asks it hears why.
            Err(error) if self.provider().model().is(&wanted) => Arc::new(Unopened::because(wanted.clone(), error)),
            Err(_) => self.provider(),
        };
        let model =
            self.model.offered.borrow().find(&wanted.provider, &wanted.id).unwrap_or_else(|| provider.model().clone());
        self.put_provider(provider);
        self.control.take_model(model.clone());
        // Nobody has agreed to it because the session is opened again.
        let is_left = left.last_model.as_ref() == Some(&(model.provider.clone(), model.id.clone()));
        if is_left && left.is_imposed && !insists && guard!(SessionImposedModel) {
            self.model.offered.borrow_mut().chose(true);
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
