//! Chooses the model and thinking level of a session when it is opened.
//!
//! A resumed session has its own model and level, and the agent was created with others.

use crate::agent::{Agent, AgentError};
use crate::control::{AgentControl, ControlError};
use crate::model_quota::{ModelQuota, ModelQuotaLimits};
use pijs_llm::choose::ChosenModel;
use pijs_llm::models::Models;
use pijs_llm::provider::{Model, Provider, UnopenedModel};
use pijs_protocol::guard;
use pijs_session_store::Body;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Model and thinking level of new sessions.
#[derive(Debug, Clone, Default)]
pub struct InitialModel {
    /// Model of new sessions; `None` for that of the agent's provider.
    pub model: Option<Model>,
    /// Thinking level of new sessions; `None` for `off`.
    pub thinking: Option<String>,
    /// Whether a resumed session keeps its own model.
    pub keeps_that_of_session: bool,
    /// Whether the model overrides that of all sessions opened later, because the user named it.
    pub insists: bool,
    /// Whether the thinking level overrides that of a resumed session.
    pub insists_on_thinking: bool,
    /// Models for [`Agent::cycle_model`]; empty for all available ones.
    pub scope: Vec<ChosenModel>,
    /// Whether providers of extensions may use the network to list their models.
    pub network: bool,
}

/// State of models: the current provider, the available models, and the initial choice.
pub(crate) struct ModelChoice {
    /// The current provider.
    pub(crate) provider: RefCell<Arc<dyn Provider>>,
    pub(crate) offered: RefCell<Models>,
    /// Invalid registrations that were reported: path of the extension, and message.
    pub(crate) wrong_offers: RefCell<Vec<(String, String)>>,
    /// Model and thinking level for `newSession`.
    initial: RefCell<InitialChoice>,
    pub(crate) scope: RefCell<Vec<ChosenModel>>,
    pub(crate) keeps_that_of_session: Cell<bool>,
    insists: bool,
    pub(crate) network: bool,
    /// Quotas of model requests by extensions.
    pub(crate) quota: ModelQuota,
}

impl ModelChoice {
    pub(crate) fn new(
        first: InitialModel,
        asks: ModelQuotaLimits,
        provider: Arc<dyn Provider>,
        control: &AgentControl,
    ) -> Self {
        let mut offered = Models::default();
        if provider.is_open() {
            offered.add(Arc::clone(&provider));
        }
        if let Some(known) = control.known() {
            offered.set_known(known);
        }
        let initial = InitialChoice {
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
            quota: ModelQuota::new(asks),
        }
    }
}

/// Publishes the models of [`Agent::cycle_model`] to extensions.
fn publish_scope(control: &AgentControl, scope: &[ChosenModel]) {
    let shown = |chosen: &ChosenModel| {
        let mut value = json!({"model": chosen.model.to_value()});
        if let Some(level) = &chosen.thinking {
            value["thinkingLevel"] = json!(level);
        }
        value
    };
    control.publish("scopedModels", scope.iter().map(shown).collect::<Value>());
}

/// Model and thinking level of new sessions.
#[derive(Debug, Clone)]
struct InitialChoice {
    model: Model,
    thinking: String,
    /// Whether the level overrides that of a resumed session.
    insists: bool,
}

impl Agent {
    /// Sets the thinking level of new sessions.
    pub fn set_initial_thinking(&self, level: &str) {
        level.clone_into(&mut self.model.initial.borrow_mut().thinking);
    }

    /// Sets the models for [`Agent::cycle_model`]; empty for all available ones.
    pub fn set_scope(&self, scope: Vec<ChosenModel>) {
        publish_scope(&self.control, &scope);
        *self.model.scope.borrow_mut() = scope;
    }

    /// Returns the models for [`Agent::cycle_model`]; empty for all available ones.
    pub fn scope(&self) -> Vec<ChosenModel> {
        self.model.scope.borrow().clone()
    }

    /// Opens the model again before a request when it uses a login, since its token may expire during the session.
    pub(crate) async fn renew_login(&self) {
        let model = self.provider().model().clone();
        if !self.model.offered.borrow().has_login(&model.provider) {
            return;
        }
        let provider = match self.open_model(&model).await {
            Ok(provider) => provider,
            Err(error) => Arc::new(UnopenedModel::because(model, error)),
        };
        self.put_provider(provider);
    }

    /// Restores the model and thinking level of the session, or sets the agent's. A new session gets entries for both, an older
    /// one for those it lacks.
    pub(crate) async fn restore_model(&self) -> Result<(), AgentError> {
        let initial = self.model.initial.borrow().clone();
        let left = self.control.with_session(|session| session.branch_state()).map_err(ControlError::from)?;
        let insists = self.model.insists;
        let kept = left.model.as_ref().filter(|_| self.model.keeps_that_of_session.get() && !insists);
        let kept = kept.and_then(|(provider, id)| self.model.offered.borrow().find(provider, id));
        let wanted = kept.unwrap_or(initial.model);
        let provider = match self.open_model(&wanted).await {
            Ok(provider) => provider,
            // No other model was chosen, so requests fail with this error.
            Err(error) if self.provider().model().is(&wanted) => {
                Arc::new(UnopenedModel::because(wanted.clone(), error))
            }
            Err(_) => self.provider(),
        };
        let model =
            self.model.offered.borrow().find(&wanted.provider, &wanted.id).unwrap_or_else(|| provider.model().clone());
        self.put_provider(provider);
        self.control.take_model(model.clone());
        // Resuming a session does not make an extension's choice the user's.
        let is_left = left.last_model.as_ref() == Some(&(model.provider.clone(), model.id.clone()));
        if is_left && left.is_set_by_extension && !insists && guard!(SessionImposedModel) {
            self.model.offered.borrow_mut().chose(true);
        }
        let level = left.thinking.filter(|_| !initial.insists).unwrap_or(initial.thinking);
        let level = self.control.restore_thinking(&level);
        // A model named on the command line is not recorded as a change of a resumed session.
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
