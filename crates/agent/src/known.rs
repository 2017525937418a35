//! Models that are known without any extension: those of the catalogue, as `models.json` changes them, and who has
//! the keys of their providers.
//!
//! A provider's models are made when somebody asks for them. An agent knows none unless it was given a [`Known`].

use crate::auth::{Auth, Status};
use crate::catalogue;
use crate::models::Credentials;
use crate::models_json::ModelsJson;
use crate::provider::Model;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The catalogue, the user's file and the keys. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Known {
    config: Arc<ModelsJson>,
    auth: Arc<Auth>,
}

impl Known {
    /// The catalogue under this file, with these keys.
    pub fn new(config: ModelsJson, auth: Arc<Auth>) -> Self {
        Self { config: Arc::new(config), auth }
    }

    /// What is wrong with the file, a line each.
    pub fn errors(&self) -> &[String] {
        self.config.errors()
    }

    /// The keys.
    pub fn auth(&self) -> &Auth {
        &self.auth
    }

    /// The same, to be kept.
    pub(crate) fn shared_auth(&self) -> Arc<Auth> {
        Arc::clone(&self.auth)
    }

    /// Names of all providers: the catalogue's in its order, then those of the file.
    pub fn providers(&self) -> Vec<String> {
        let mut all: Vec<String> = catalogue::providers().map(|provider| provider.id.clone()).collect();
        for own in self.config.providers() {
            if !all.iter().any(|known| known == own) {
                all.push(own.to_owned());
            }
        }
        all
    }

    /// Whether there is such a provider.
    pub fn has(&self, provider: &str) -> bool {
        self.config.provider(provider).is_some() || catalogue::provider(provider).is_some()
    }

    /// The models of a provider.
    pub fn models(&self, provider: &str) -> Vec<Model> {
        let base = catalogue::models(provider);
        if self.config.provider(provider).is_none() {
            return base;
        }
        // The file was checked when it was read: a provider that cannot be completed is not in it.
        let models = self.config.apply(provider, base).unwrap_or_default();
        models.into_iter().map(|model| self.config.overridden(model)).collect()
    }

    /// One model.
    pub fn find(&self, provider: &str, id: &str) -> Option<Model> {
        if self.config.provider(provider).is_none() {
            return catalogue::find(provider, id);
        }
        self.models(provider).into_iter().find(|model| model.id == id)
    }

    /// A model of somebody else's with what the file says of it.
    pub fn overridden(&self, model: Model) -> Model {
        self.config.overridden(model)
    }

    /// A provider's name for people.
    pub fn display_name(&self, provider: &str) -> String {
        let own = self.config.provider(provider).and_then(|config| config.name.clone());
        let name = own.or_else(|| catalogue::provider(provider).map(|known| known.name.clone()));
        name.unwrap_or_else(|| provider.to_owned())
    }

    /// Who has the key of a provider.
    pub fn status(&self, provider: &str) -> Option<Status> {
        self.auth.status(provider, self.config.provider(provider))
    }

    /// The same for all providers that have one.
    pub fn statuses(&self) -> BTreeMap<String, Status> {
        let stored = self.auth.stored();
        let providers = self.providers();
        let status = |id: String| Some((self.auth.status_of(&id, self.config.provider(&id), stored.get(&id))?, id));
        providers.into_iter().filter_map(status).map(|(status, id)| (id, status)).collect()
    }

    /// What a request to a model carries. `None`: there is no key.
    ///
    /// # Errors
    ///
    /// When a key that is named cannot be had.
    pub async fn credentials(&self, model: &Model) -> Result<Option<Credentials>, String> {
        let config = self.config.provider(&model.provider);
        self.auth.credentials(&model.provider, config, &self.config.model_headers(model)).await
    }
}
