//! Models that exist without extensions, that is, the catalogue with the changes of `models.json`; and their credentials.
//!
//! The models of a provider are built on access. An agent without [`KnownModels`] has none of these models.

use crate::auth::{Auth, Status};
use crate::catalogue;
use crate::models::Credentials;
use crate::models_json::ModelsJson;
use crate::provider::Model;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The catalogue, `models.json` and the credentials. Cheap to clone.
#[derive(Debug, Clone)]
pub struct KnownModels {
    config: Arc<ModelsJson>,
    auth: Arc<Auth>,
    /// Provider and address of `--base-url`, which overrides all other addresses.
    moved: Arc<OnceLock<(String, String)>>,
}

impl KnownModels {
    /// Combines the catalogue with this file and these credentials.
    pub fn new(config: ModelsJson, auth: Arc<Auth>) -> Self {
        Self { config: Arc::new(config), auth, moved: Arc::default() }
    }

    /// Redirects all models of a provider to an address, which overrides the catalogue, `models.json` and extensions. Only the
    /// first call has an effect.
    pub fn move_provider(&self, provider: &str, address: &str) {
        let _ = self.moved.set((provider.to_owned(), address.to_owned()));
    }

    /// Returns a model with the address set by [`KnownModels::move_provider`].
    pub fn reached(&self, model: Model) -> Model {
        match self.moved_to(&model.provider) {
            Some(address) => model.with("baseUrl", address),
            None => model,
        }
    }

    /// Returns whether the user redirected a provider.
    pub fn is_moved(&self, provider: &str) -> bool {
        self.moved_to(provider).is_some()
    }

    fn moved_to(&self, provider: &str) -> Option<&str> {
        self.moved.get().filter(|(moved, _)| moved == provider).map(|(_, address)| address.as_str())
    }

    /// Returns the errors of `models.json`, one line each.
    pub fn errors(&self) -> &[String] {
        self.config.errors()
    }

    /// Returns the credentials.
    pub fn auth(&self) -> &Auth {
        &self.auth
    }

    /// Returns a shared handle to the credentials.
    pub fn shared_auth(&self) -> Arc<Auth> {
        Arc::clone(&self.auth)
    }

    /// Returns the names of all providers: first those of the catalogue in order, then those of `models.json`.
    pub fn providers(&self) -> Vec<String> {
        let mut all: Vec<String> = catalogue::providers().map(|provider| provider.id.clone()).collect();
        for own in self.config.providers() {
            if !all.iter().any(|known| known == own) {
                all.push(own.to_owned());
            }
        }
        all
    }

    /// Returns whether a provider exists.
    pub fn has(&self, provider: &str) -> bool {
        self.config.provider(provider).is_some() || catalogue::provider(provider).is_some()
    }

    /// Returns the models of a provider.
    pub fn models(&self, provider: &str) -> Vec<Model> {
        let base = catalogue::models(provider);
        let models = match self.config.provider(provider) {
            // Parsing the file has rejected providers that `apply` fails for.
            Some(_) => self.config.apply(provider, base).unwrap_or_default(),
            None => base,
        };
        models.into_iter().map(|model| self.overridden(model)).collect()
    }

    /// Returns a model.
    pub fn find(&self, provider: &str, id: &str) -> Option<Model> {
        if self.config.provider(provider).is_none() {
            return catalogue::find(provider, id).map(|model| self.reached(model));
        }
        self.models(provider).into_iter().find(|model| model.id == id)
    }

    /// Applies `models.json` and the user's address to a model of an extension.
    pub fn overridden(&self, model: Model) -> Model {
        self.reached(self.config.overridden(model))
    }

    /// Returns the display name of a provider.
    pub fn display_name(&self, provider: &str) -> String {
        let own = self.config.provider(provider).and_then(|config| config.name.clone());
        let name = own.or_else(|| catalogue::provider(provider).map(|known| known.name.clone()));
        name.unwrap_or_else(|| provider.to_owned())
    }

    /// Returns the source of a provider's credentials.
    pub fn status(&self, provider: &str) -> Option<Status> {
        self.auth.status(provider, self.config.provider(provider))
    }

    /// Returns the sources of credentials of all providers that have any.
    pub fn statuses(&self) -> BTreeMap<String, Status> {
        let stored = self.auth.stored();
        let providers = self.providers();
        let status = |id: String| Some((self.auth.status_of(&id, self.config.provider(&id), stored.get(&id))?, id));
        providers.into_iter().filter_map(status).map(|(status, id)| (id, status)).collect()
    }

    /// Resolves the credentials for requests to a model; returns `None` if there are none.
    ///
    /// # Errors
    ///
    /// Fails when a configured key cannot be resolved.
    pub async fn credentials(&self, model: &Model) -> Result<Option<Credentials>, String> {
        let config = self.config.provider(&model.provider);
        let mut found = self.auth.credentials(&model.provider, config, &self.config.model_headers(model)).await?;
        if let Some(credentials) = found.as_mut().filter(|_| self.is_moved(&model.provider)) {
            credentials.base_url = None;
        }
        Ok(found)
    }
}
