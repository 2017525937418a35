//! Updates the model lists of extensions' providers.
//!
//! A provider's configuration may contain the function `refreshModels`. It is called without the network when a session begins,
//! on request of an extension, and with the network in an interactive session.

use crate::agent::Agent;
use futures_util::future::join_all;
use pijs_protocol::Handle;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Returns the handle of a provider's `refreshModels`.
pub(crate) fn refresh_handle(config: &Value) -> Option<Handle> {
    serde_json::from_value(config.get("refreshModels")?.get("$handle")?.clone()).ok()
}

/// A request to update model lists.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModelListUpdate {
    /// Names of the providers; `None` for all.
    pub(crate) providers: Option<Vec<String>>,
    /// Whether servers may be queried; `None` for the session's default.
    pub(crate) network: Option<bool>,
    /// Whether lists that were updated recently are updated as well.
    pub(crate) force: bool,
}

impl ModelListUpdate {
    /// Parses the request of an extension: `look` is `true` or a list of provider names. Returns `None` if `look` is absent.
    pub(crate) fn asked(params: &serde_json::Map<String, Value>) -> Option<Self> {
        let flag = |name: &str| params.get(name).and_then(Value::as_bool);
        let providers = match params.get("look")? {
            Value::Array(names) => Some(names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()),
            Value::Bool(true) => None,
            _ => return None,
        };
        Some(Self { providers, network: flag("allowNetwork"), force: flag("force").unwrap_or(false) })
    }
}

impl Agent {
    /// Updates the model lists of extensions' providers with the network, if it is allowed.
    pub async fn look_up_models(&self) {
        if self.model.network {
            let look = ModelListUpdate { network: Some(true), ..ModelListUpdate::default() };
            for (provider, message) in self.update_model_lists(look).await {
                tracing::warn!(provider, "{message}");
            }
        }
    }

    /// Updates model lists concurrently and applies the result. Returns the errors by provider.
    pub(crate) async fn update_model_lists(&self, look: ModelListUpdate) -> BTreeMap<String, String> {
        let wanted = |name: &String| look.providers.as_ref().is_none_or(|names| names.contains(name));
        let offers = self.extensions.offers().into_iter().filter(|offer| refresh_handle(&offer.config).is_some());
        let names: Vec<_> = offers.map(|offer| offer.name).filter(wanted).collect();
        if names.is_empty() {
            return BTreeMap::new();
        }
        let network = look.network.unwrap_or(self.model.network);
        let how = json!({"allowNetwork": network, "force": look.force.then_some(true)});
        let done = join_all(names.iter().map(|name| self.extensions.look_up_models(name, how.clone()))).await;
        self.take_offers();
        names.into_iter().zip(done).filter_map(|(name, done)| Some((name, done.err()?))).collect()
    }
}
