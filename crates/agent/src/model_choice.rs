//! The models of a session: the current provider, the available models, and the initial choice.

use crate::control::AgentControl;
use crate::model_quota::{ModelQuota, ModelQuotaLimits};
use crate::options::InitialModel;
use pijs_llm::choose::ChosenModel;
use pijs_llm::models::Models;
use pijs_llm::provider::{Model, Provider};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// State of models: the current provider, the available models, and the initial choice.
pub(crate) struct ModelChoice {
    /// The current provider.
    pub(crate) provider: RefCell<Arc<dyn Provider>>,
    pub(crate) offered: RefCell<Models>,
    /// Invalid registrations that were already reported, each with the path of the extension and the message.
    pub(crate) wrong_offers: RefCell<Vec<(String, String)>>,
    /// Model and thinking level for `newSession`.
    pub(crate) initial: RefCell<InitialChoice>,
    pub(crate) scope: RefCell<Vec<ChosenModel>>,
    pub(crate) keeps_that_of_session: Cell<bool>,
    pub(crate) insists: bool,
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

/// Publishes the models of [`Agent::cycle_model`](crate::Agent::cycle_model) to extensions.
pub(crate) fn publish_scope(control: &AgentControl, scope: &[ChosenModel]) {
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
pub(crate) struct InitialChoice {
    pub(crate) model: Model,
    pub(crate) thinking: String,
    /// Whether the level overrides the level stored in a resumed session.
    pub(crate) insists: bool,
}
