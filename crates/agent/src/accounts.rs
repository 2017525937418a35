//! Accounts with providers that extensions bring: a log-in that the extension knows (`oauth` of its configuration), or a
//! key that a person gives.
//!
//! A name that is known without extensions is no account of theirs: what is stored for it is the person's own, and is
//! never handed to one.

use crate::agent::Agent;
use pijs_llm::auth::Auth;
use pijs_llm::models::Offer;
use serde_json::{Value, json};

/// What an extension is handed of a log-in that ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Freshness {
    /// As it is stored.
    AsItIs,
    /// Renewed first.
    Renewed,
}

/// A provider of an extension, for the list of those one can log in with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub provider: String,
    /// What people call it.
    pub name: String,
    /// Whether the extension logs in; otherwise it takes a key.
    pub logs_in: bool,
    /// Whether something is stored.
    pub is_stored: bool,
}

impl Agent {
    /// Providers of extensions that something can be stored for.
    pub fn accounts(&self) -> Vec<Account> {
        let models = self.model.offered.borrow();
        let Some(known) = models.known() else { return Vec::new() };
        let account = |offer: &Offer| Account {
            provider: offer.name.clone(),
            name: offer.display_name().to_owned(),
            logs_in: offer.logs_in(),
            is_stored: known.auth().stored_through(&offer.extension, &offer.name).is_some(),
        };
        models.accounts().map(account).collect()
    }

    /// Has an extension log in with its provider, and stores what comes of it. It asks by dialogs of the session.
    ///
    /// # Errors
    ///
    /// What the extension threw, or why nothing could be stored.
    pub async fn log_in(&self, provider: &str) -> Result<(), String> {
        let offer = self.account(provider)?;
        let given = self.extensions.account(provider, json!({"op": "log_in"})).await?;
        self.auth()?.store_login(&offer.extension, provider, given).await?;
        self.account_changed(&offer).await
    }

    /// Stores a key for a provider of an extension.
    ///
    /// # Errors
    ///
    /// Why it could not be stored.
    pub async fn store_key_of(&self, provider: &str, key: &str) -> Result<(), String> {
        let offer = self.account(provider)?;
        self.auth()?.store_key_through(&offer.extension, provider, key).await?;
        self.account_changed(&offer).await
    }

    /// Takes out what is stored of any provider; whether there was something.
    ///
    /// # Errors
    ///
    /// Why `auth.json` cannot be changed.
    pub async fn log_out(&self, provider: &str) -> Result<bool, String> {
        let was_there = self.auth()?.forget(provider).await?;
        if let Ok(offer) = self.account(provider) {
            self.account_changed(&offer).await?;
        }
        Ok(was_there)
    }

    /// Tells the extensions that bring providers what is stored for these. What goes wrong is reported as theirs.
    pub(crate) async fn tell_accounts(&self) {
        let offers: Vec<Offer> = {
            let models = self.model.offered.borrow();
            models.accounts().filter(|offer| models.is_stored(offer)).cloned().collect()
        };
        for offer in &offers {
            if let Err(message) = self.tell_account(offer, Freshness::AsItIs).await {
                self.extensions.report(&offer.path, "register_provider", &message);
            }
        }
        if !offers.is_empty() {
            self.take_offers();
        }
    }

    /// Hands an extension what is stored for its provider.
    ///
    /// # Errors
    ///
    /// Why it could not be renewed or handed over.
    pub(crate) async fn tell_account(&self, offer: &Offer, freshness: Freshness) -> Result<(), String> {
        let Ok(auth) = self.auth() else { return Ok(()) };
        if let Freshness::Renewed = freshness {
            let ask = async |login: Value| {
                self.extensions.account(&offer.name, json!({"op": "renew", "stored": login})).await
            };
            auth.renew_through(&offer.extension, &offer.name, ask).await?;
        }
        let stored = auth.credential_through(&offer.extension, &offer.name).await;
        self.extensions.account(&offer.name, json!({"op": "stored", "stored": stored})).await.map(|_| ())
    }

    async fn account_changed(&self, offer: &Offer) -> Result<(), String> {
        let told = self.tell_account(offer, Freshness::AsItIs).await;
        self.take_offers();
        told
    }

    fn account(&self, provider: &str) -> Result<Offer, String> {
        let models = self.model.offered.borrow();
        let found = models.accounts().find(|offer| offer.name == provider).cloned();
        found.ok_or_else(|| format!("no extension brings a provider {provider} that one can log in with"))
    }

    fn auth(&self) -> Result<std::sync::Arc<Auth>, String> {
        let models = self.model.offered.borrow();
        models.known().map(|known| known.shared_auth()).ok_or_else(|| "there is no auth.json".to_owned())
    }
}
