//! `/login` and `/logout`: API keys in the `auth.json` shared with pi, and logins that extensions implement for their providers.
//!
//! Browser logins of pi's own providers require the real pi, whose `auth.json` is read here.

use super::commands::UserCommands;
use super::layers::Layer;
use super::picker::{ListKind, PickerItem};
use super::secret_input::SecretInput;
use super::selections::model_name;
use pijs_agent::Account;
use pijs_llm::known_models::KnownModels;
use pijs_llm::models::has_client;
use std::collections::BTreeSet;

impl UserCommands {
    pub(super) fn known(&self) -> Option<KnownModels> {
        self.session.agent.control().known()
    }

    /// Returns the providers for which a key can be stored, those that extensions registered first.
    pub(super) fn accounts(&self) -> Vec<PickerItem> {
        let Some(known) = self.known() else { return Vec::new() };
        let of_extension = |account: Account| {
            let how = if account.logs_in { "log in" } else { "" };
            let detail = if account.is_stored { "stored" } else { how };
            PickerItem {
                label: account.name,
                detail: format!("{} {detail}", account.provider),
                value: account.provider,
            }
        };
        let item = |provider: String| {
            let status = known.status(&provider);
            let detail = status.map_or("", |status| if status.source == "stored" { "stored" } else { "has a key" });
            PickerItem { label: known.display_name(&provider), detail: format!("{provider} {detail}"), value: provider }
        };
        let own = self.session.agent.accounts().into_iter().map(of_extension);
        // Omits providers for which this program has no client.
        let own_of_pi = known.providers().into_iter().filter(|provider| has_client(&known.models(provider)));
        own.chain(own_of_pi.map(item)).collect()
    }

    /// Returns the providers with stored credentials.
    pub(super) fn stored_accounts(&self) -> Vec<PickerItem> {
        let Some(known) = self.known() else { return Vec::new() };
        let item = |provider: String| PickerItem {
            label: self.name_of(&known, &provider),
            detail: provider.clone(),
            value: provider,
        };
        known.auth().stored_providers().into_iter().map(item).collect()
    }

    /// Returns the display name of a provider.
    fn name_of(&self, known: &KnownModels, provider: &str) -> String {
        self.account(provider).map_or_else(|| known.display_name(provider), |account| account.name)
    }

    /// Handles `/login`, with or without a provider.
    pub(super) async fn login(&self, provider: &str) {
        if provider.is_empty() {
            return self.pick(ListKind::Login);
        }
        let name = match self.account(provider) {
            Some(account) if account.logs_in => return self.log_in(account).await,
            Some(account) => account.name,
            None => match self.known().filter(|known| known.has(provider)) {
                Some(known) if !has_client(&known.models(provider)) => {
                    let apis: BTreeSet<String> = known.models(provider).into_iter().map(|model| model.api).collect();
                    let apis: Vec<String> = apis.into_iter().collect();
                    let name = known.display_name(provider);
                    return self.fail(&format!(
                        "there is no client for the API of {name} ({}), so a key would not be used; install an extension \
                         that provides one, or choose another provider with: /login",
                        apis.join(", ")
                    ));
                }
                Some(known) => known.display_name(provider),
                None => return self.fail(&format!("there is no provider {provider}; choose one with: /login")),
            },
        };
        let entry = SecretInput::new(provider, format!("API key of {name}"));
        self.screen.change(|view| view.push(Layer::Entry(entry)));
    }

    fn account(&self, provider: &str) -> Option<Account> {
        self.session.agent.accounts().into_iter().find(|account| account.provider == provider)
    }

    /// Runs the login that an extension implements.
    async fn log_in(&self, account: Account) {
        match self.session.agent.log_in(&account.provider).await {
            Ok(()) => {
                self.inform(&format!("logged in with {}", account.name));
                self.take_first_model(&account.provider).await;
            }
            Err(message) => self.fail(&format!("the login with {} failed: {message}", account.name)),
        }
    }

    /// Stores the key that the user typed.
    pub(super) async fn store_key(&self, provider: &str, key: &str) {
        let Some(known) = self.known() else { return };
        let account = self.account(provider);
        let stored = match &account {
            Some(_) => self.session.agent.store_key_of(provider, key).await,
            None => known.auth().store_key(provider, key).await,
        };
        if let Err(error) = stored {
            return self.fail(&format!("the key was not stored: {error}"));
        }
        self.inform(&format!("the key of {} was stored in auth.json", self.name_of(&known, provider)));
        self.take_first_model(provider).await;
    }

    /// Selects a model of this provider if the session has none.
    async fn take_first_model(&self, provider: &str) {
        let agent = &self.session.agent;
        if agent.control().model().is_some_and(|model| model.is_unknown()) {
            let models = agent.available_models();
            let of_provider: Vec<_> = models.into_iter().filter(|model| model.provider == provider).collect();
            if let Some(model) = pijs_llm::choose::any(&of_provider) {
                self.choose_model(&model_name(&model.provider, &model.id)).await;
            }
        }
    }

    /// Handles `/logout`: removes the stored credentials of a provider.
    pub(super) async fn logout(&self, provider: &str) {
        let Some(known) = self.known() else { return };
        let name = self.name_of(&known, provider);
        match self.session.agent.log_out(provider).await {
            Ok(true) => self.inform(&format!("{name} was removed from auth.json")),
            Ok(false) => self.fail(&format!("no credentials of {provider} are stored")),
            Err(error) => self.fail(&format!("auth.json cannot be changed: {error}")),
        }
    }
}
