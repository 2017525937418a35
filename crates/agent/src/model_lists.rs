//! Lists of models that providers of extensions look up.
//!
//! A configuration names a function for it (`refreshModels`). It is called when a session begins, without the network; by
//! whoever asks; and once more with the network where somebody sits at the session.

use crate::agent::Agent;
use futures_util::future::join_all;
use pijs_protocol::Handle;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The function of a provider's configuration that looks up its models.
pub(crate) fn looks_up(config: &Value) -> Option<Handle> {
    serde_json::from_value(config.get("refreshModels")?.get("$handle")?.clone()).ok()
}

/// Whose models are looked up, and how.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    /// All when there is no list.
    pub(crate) providers: Option<Vec<String>>,
    /// Whether servers are asked; as the session does when nothing is said.
    pub(crate) network: Option<bool>,
    /// Whether also lists that are new are looked up.
    pub(crate) force: bool,
}

impl Look {
    /// What an extension asks for: `look` is true or a list of names; nothing is looked up without it.
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
    /// Has the providers of extensions look up their models with the network, if that is allowed.
    pub async fn look_up_models(&self) {
        if self.model.network {
            let look = Look { network: Some(true), ..Look::default() };
            for (provider, message) in self.look(look).await {
                tracing::warn!(provider, "{message}");
            }
        }
    }

    /// Has providers look up their models, side by side, and takes over what they offer then. Answers what went wrong.
    pub(crate) async fn look(&self, look: Look) -> BTreeMap<String, String> {
        let wanted = |name: &String| look.providers.as_ref().is_none_or(|names| names.contains(name));
        let offers = self.extensions.offers().into_iter().filter(|offer| looks_up(&offer.config).is_some());
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
