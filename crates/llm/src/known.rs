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
use std::sync::{Arc, OnceLock};

/// The catalogue, the user's file and the keys. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Known {
    config: Arc<ModelsJson>,
    auth: Arc<Auth>,
    /// `--base-url`: a provider, and where its models are reached in place of any other address.
    moved: Arc<OnceLock<(String, String)>>,
}

impl Known {
    /// The catalogue under this file, with these keys.
    pub fn new(config: ModelsJson, auth: Arc<Auth>) -> Self {
        Self { config: Arc::new(config), auth, moved: Arc::default() }
    }

    /// Reaches all models of a provider at this address from now on, whatever the catalogue, the user's file or an
    /// extension says. The user moves one provider in a run.
    pub fn move_provider(&self, provider: &str, address: &str) {
        let _ = self.moved.set((provider.to_owned(), address.to_owned()));
    }

    /// A model with the address at which the user has it reached.
    pub fn reached(&self, model: Model) -> Model {
        match self.moved_to(&model.provider) {
            Some(address) => model.with("baseUrl", address),
            None => model,
        }
    }

    /// Whether the user has a provider reached elsewhere.
    pub fn is_moved(&self, provider: &str) -> bool {
        self.moved_to(provider).is_some()
    }

    fn moved_to(&self, provider: &str) -> Option<&str> {
        self.moved.get().filter(|(moved, _)| moved == provider).map(|(_, address)| address.as_str())
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
    pub fn shared_auth(&self) -> Arc<Auth> {
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
        let models = match self.config.provider(provider) {
            // The file was checked when it was read: a provider that cannot be completed is not in it.
            Some(_) => self.config.apply(provider, base).unwrap_or_default(),
            None => base,
        };
        models.into_iter().map(|model| self.overridden(model)).collect()
    }

    /// One model.
    pub fn find(&self, provider: &str, id: &str) -> Option<Model> {
        if self.config.provider(provider).is_none() {
            return catalogue::find(provider, id).map(|model| self.reached(model));
        }
        self.models(provider).into_iter().find(|model| model.id == id)
    }

    /// A model of somebody else's with what the file and the user say of it.
    pub fn overridden(&self, model: Model) -> Model {
        self.reached(self.config.overridden(model))
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
        let mut found = self.auth.credentials(&model.provider, config, &self.config.model_headers(model)).await?;
        if let Some(credentials) = found.as_mut().filter(|_| self.is_moved(&model.provider)) {
            credentials.base_url = None;
        }
        Ok(found)
    }
}
