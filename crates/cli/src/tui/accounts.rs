//! `/login` and `/logout`: keys of providers, in the `auth.json` that pi reads as well.
//!
//! Only keys: a log-in in a browser is made with the real pi, whose `auth.json` counts here.

use super::commands::Commands;
use super::entry::Entry;
use super::layers::Layer;
use super::picker::{Choice, Item};
use pijs_agent::known::Known;

impl Commands {
    fn known(&self) -> Option<Known> {
        self.session.agent.control().known()
    }

    /// The providers a key can be stored for.
    pub(super) fn accounts(&self) -> Vec<Item> {
        let Some(known) = self.known() else { return Vec::new() };
        let item = |provider: String| {
            let status = known.status(&provider);
            let detail = status.map_or("", |status| if status.source == "stored" { "stored" } else { "has a key" });
            Item { label: known.display_name(&provider), detail: format!("{provider} {detail}"), value: provider }
        };
        known.providers().into_iter().map(item).collect()
    }

    /// The providers of which something is stored.
    pub(super) fn stored_accounts(&self) -> Vec<Item> {
        let Some(known) = self.known() else { return Vec::new() };
        let item =
            |provider: String| Item { label: known.display_name(&provider), detail: provider.clone(), value: provider };
        known.auth().stored_providers().into_iter().map(item).collect()
    }

    /// `/login`, with or without a provider.
    pub(super) fn login(&self, provider: &str) {
        if provider.is_empty() {
            return self.pick(Choice::Login);
        }
        let Some(known) = self.known().filter(|known| known.has(provider)) else {
            return self.fail(&format!("there is no provider {provider}; choose one with: /login"));
        };
        let entry = Entry::new(provider, format!("API key of {}", known.display_name(provider)));
        self.screen.change(|view| view.push(Layer::Entry(entry)));
    }

    /// Stores the key that was typed. A session without a model takes one of its provider.
    pub(super) async fn store_key(&self, provider: &str, key: &str) {
        let Some(known) = self.known() else { return };
        if let Err(error) = known.auth().store_key(provider, key).await {
            return self.fail(&format!("the key was not stored: {error}"));
        }
        self.inform(&format!("the key of {} is in auth.json", known.display_name(provider)));
        let agent = &self.session.agent;
        if agent.control().model().is_some_and(|model| model.is_unknown()) {
            let models = agent.available_models();
            let of_provider: Vec<_> = models.into_iter().filter(|model| model.provider == provider).collect();
            if let Some(model) = pijs_agent::choose::any(&of_provider) {
                self.choose_model(&format!("{}/{}", model.provider, model.id)).await;
            }
        }
    }

    /// `/logout`: what is stored of a provider goes.
    pub(super) async fn logout(&self, provider: &str) {
        let Some(known) = self.known() else { return };
        match known.auth().forget(provider).await {
            Ok(true) => self.inform(&format!("{} is no more in auth.json", known.display_name(provider))),
            Ok(false) => self.fail(&format!("nothing of {provider} is stored")),
            Err(error) => self.fail(&format!("auth.json cannot be changed: {error}")),
        }
    }
}
