//! Accounts with providers that extensions register: a login that the extension implements (`oauth` of its configuration), or an
//! API key.
//!
//! A provider name that exists without extensions is excluded: credentials stored for it are the user's own and are never passed
//! to an extension.

use crate::agent::Agent;
use pijs_llm::auth::Auth;
use pijs_llm::models::RegisteredProvider;
use serde_json::{Value, json};

/// Whether a login that expires is renewed before it is passed to the extension.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Freshness {
    /// Pass the login as stored.
    AsItIs,
    /// Renew the login first.
    Renewed,
}

/// A provider that an extension registered, as shown in the login list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Provider name.
    pub provider: String,
    /// Display name.
    pub name: String,
    /// Whether the extension implements a login; otherwise it takes an API key.
    pub logs_in: bool,
    /// Whether credentials are stored.
    pub is_stored: bool,
}

impl Agent {
    /// Returns the providers of extensions for which credentials can be stored.
    pub fn accounts(&self) -> Vec<Account> {
        let models = self.model.offered.borrow();
        let Some(known) = models.known() else { return Vec::new() };
        let account = |offer: &RegisteredProvider| Account {
            provider: offer.name.clone(),
            name: offer.display_name().to_owned(),
            logs_in: offer.logs_in(),
            is_stored: known.auth().stored_for_extension(&offer.extension, &offer.name).is_some(),
        };
        models.accounts().map(account).collect()
    }

    /// Runs the login of an extension's provider and stores the result. The extension may show dialogs during the login.
    ///
    /// # Errors
    ///
    /// Fails with the extension's exception, or when the credentials cannot be stored.
    pub async fn log_in(&self, provider: &str) -> Result<(), String> {
        let offer = self.account(provider)?;
        let given = self.extensions.account(provider, json!({"op": "log_in"})).await?;
        self.auth()?.store_login(&offer.extension, provider, given).await?;
        self.account_changed(&offer).await
    }

    /// Stores an API key for a provider of an extension.
    ///
    /// # Errors
    ///
    /// Fails when the key cannot be stored.
    pub async fn store_key_of(&self, provider: &str, key: &str) -> Result<(), String> {
        let offer = self.account(provider)?;
        self.auth()?.store_key_for_extension(&offer.extension, provider, key).await?;
        self.account_changed(&offer).await
    }

    /// Removes the stored credentials of any provider; returns whether there were any.
    ///
    /// # Errors
    ///
    /// Fails when `auth.json` cannot be written.
    pub async fn log_out(&self, provider: &str) -> Result<bool, String> {
        let was_there = self.auth()?.forget(provider).await?;
        if let Ok(offer) = self.account(provider) {
            self.account_changed(&offer).await?;
        }
        Ok(was_there)
    }

    /// Passes stored credentials to the extensions that registered their providers, and reports a failure as theirs.
    pub(crate) async fn pass_stored_accounts(&self) {
        let offers: Vec<RegisteredProvider> = {
            let models = self.model.offered.borrow();
            models.accounts().filter(|offer| models.is_stored(offer)).cloned().collect()
        };
        for offer in &offers {
            if let Err(message) = self.pass_account(offer, Freshness::AsItIs).await {
                self.extensions.report(&offer.path, "register_provider", &message);
            }
        }
        if !offers.is_empty() {
            self.take_offers();
        }
    }

    /// Passes stored credentials to the extension that registered the provider, after renewing an expiring login if `freshness`
    /// says so.
    ///
    /// # Errors
    ///
    /// Fails when the credentials cannot be renewed or passed on.
    pub(crate) async fn pass_account(&self, offer: &RegisteredProvider, freshness: Freshness) -> Result<(), String> {
        let Ok(auth) = self.auth() else { return Ok(()) };
        if let Freshness::Renewed = freshness {
            let ask = async |login: Value| {
                self.extensions.account(&offer.name, json!({"op": "renew", "stored": login})).await
            };
            auth.renew_for_extension(&offer.extension, &offer.name, ask).await?;
        }
        let stored = auth.credential_for_extension(&offer.extension, &offer.name).await;
        self.extensions.account(&offer.name, json!({"op": "stored", "stored": stored})).await.map(|_| ())
    }

    async fn account_changed(&self, offer: &RegisteredProvider) -> Result<(), String> {
        let told = self.pass_account(offer, Freshness::AsItIs).await;
        self.take_offers();
        told
    }

    fn account(&self, provider: &str) -> Result<RegisteredProvider, String> {
        let models = self.model.offered.borrow();
        let found = models.accounts().find(|offer| offer.name == provider).cloned();
        found.ok_or_else(|| format!("no extension provides a login for {provider}"))
    }

    fn auth(&self) -> Result<std::sync::Arc<Auth>, String> {
        let models = self.model.offered.borrow();
        models.known().map(|known| known.shared_auth()).ok_or_else(|| "there is no auth.json".to_owned())
    }
}
