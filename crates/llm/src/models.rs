//! The models of a session: which exist, which are available, and how to open one.
//!
//! [`Models`] combines four sources: ready providers ([`Models::add`]: scripts, and providers of an embedder), providers
//! registered by extensions ([`RegisteredProvider`]) with a configuration or with a stream function, and the providers of the
//! catalogue and of `models.json` ([`KnownModels`]). A chosen model is opened by the agent; its key is resolved at that point, by
//! the extension or by [`KnownModels`], and not stored.

use crate::auth::Status;
use crate::auth::file::StoredCredential;
use crate::known_models::KnownModels;
use crate::models_json::defaults_for;
use crate::provider::anthropic::{self, Anthropic};
use crate::provider::google::{self, Google};
use crate::provider::http::Access;
use crate::provider::openai::{self, OpenAi};
use crate::provider::responses::Responses;
use crate::provider::{ErrorKind, Model, Provider, ProviderError, ProviderOptions};
use pijs_environment::Ambient;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A provider registered by an extension.
#[derive(Debug, Clone, PartialEq)]
pub struct RegisteredProvider {
    /// Provider name.
    pub name: String,
    /// Path of the extension's file, for messages.
    pub path: String,
    /// Id of the extension.
    pub extension: String,
    /// pi's `ProviderConfig`, with functions as `{"$handle": n}`.
    pub config: Value,
    /// Whether the extension has its own stream function.
    pub streams: bool,
    /// Whether the configuration has a key or a substitute for one.
    pub configured: bool,
}

impl RegisteredProvider {
    /// Returns the display name.
    pub fn display_name(&self) -> &str {
        let own = ["/name", "/oauth/name"].iter().find_map(|place| self.config.pointer(place)?.as_str());
        own.unwrap_or(&self.name)
    }

    /// Returns whether the extension implements a login.
    pub fn logs_in(&self) -> bool {
        self.config.pointer("/oauth/login").is_some()
    }
}

impl std::fmt::Debug for Credentials {
    /// Omits secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

/// Credentials for a request.
#[derive(Clone, Default, PartialEq)]
pub struct Credentials {
    /// API key.
    pub key: Option<String>,
    /// Additional headers.
    pub headers: BTreeMap<String, String>,
    /// Address for which the key is valid, if it differs from the model's address.
    pub base_url: Option<String>,
}

/// Ways to open a chosen model.
pub enum ModelBackend {
    /// An open provider.
    Ready(Arc<dyn Provider>),
    /// The extension's configuration: over HTTP, with the credentials of the extension.
    Http(RegisteredProvider, Model),
    /// A known model: over HTTP, with the credentials of the session.
    Known(Model),
    /// The stream function of the extension.
    Stream(RegisteredProvider, Model),
}

/// The models of a session.
#[derive(Default)]
pub struct Models {
    ready: Vec<Arc<dyn Provider>>,
    offers: Vec<RegisteredProvider>,
    known: Option<KnownModels>,
    /// Whether an extension chose the current model.
    is_chosen_by_extension: bool,
    /// Extensions that registered a provider since the user last chose a model, including removed extensions, by provider.
    offered: BTreeMap<String, String>,
}

impl Models {
    /// Adds a provider with its single model. The first provider with a name wins.
    pub fn add(&mut self, provider: Arc<dyn Provider>) {
        if !self.ready.iter().any(|known| known.model().is(provider.model())) {
            self.ready.push(provider);
        }
    }

    /// Sets the models that exist without extensions.
    pub fn set_known(&mut self, known: KnownModels) {
        self.known = Some(known);
    }

    /// Returns the models that exist without extensions.
    pub fn known(&self) -> Option<&KnownModels> {
        self.known.as_ref()
    }

    /// Replaces the providers of extensions. Returns the errors of single providers as pairs of path and message.
    pub fn set_offers(&mut self, offers: Vec<RegisteredProvider>) -> Vec<(String, String)> {
        let mut wrong = Vec::new();
        self.offers.clear();
        self.offered.extend(offers.iter().map(|offer| (offer.name.clone(), offer.extension.clone())));
        for offer in offers {
            match check(&offer, &self.base(&offer.name)) {
                Ok(()) => self.merge(offer),
                Err(message) => wrong.push((offer.path.clone(), message)),
            }
        }
        wrong
    }

    /// Adds a provider. A repeated name keeps the members that the new configuration lacks.
    fn merge(&mut self, offer: RegisteredProvider) {
        let Some(known) = self.offers.iter_mut().find(|known| known.name == offer.name) else {
            self.offers.push(offer);
            return;
        };
        let mut config = known.config.as_object().cloned().unwrap_or_default();
        config.extend(offer.config.as_object().cloned().unwrap_or_default());
        let (streams, configured) = (known.streams || offer.streams, known.configured || offer.configured);
        *known = RegisteredProvider { config: Value::Object(config), streams, configured, ..offer };
    }

    /// Records whether an extension chose the current model.
    pub fn chose(&mut self, by_extension: bool) {
        self.is_chosen_by_extension = by_extension;
        if !by_extension {
            self.offered = self.offers.iter().map(|offer| (offer.name.clone(), offer.extension.clone())).collect();
        }
    }

    /// Returns the extension to which a provider's replies are attributed if the user did not choose the model: the extension
    /// chose the model itself, or took the name of an existing provider.
    pub fn unchosen_extension(&self, provider: &str) -> Option<&str> {
        let extension = self.offered.get(provider)?;
        let is_taken = || !self.base(provider).is_empty() || self.ready_of(provider).next().is_some();
        (self.is_chosen_by_extension || is_taken()).then_some(extension.as_str())
    }

    /// Returns the registered providers for which the user can store credentials: those that exist only through their extension.
    pub fn accounts(&self) -> impl Iterator<Item = &RegisteredProvider> {
        let is_known = |name: &str| self.known.as_ref().is_none_or(|known| known.has(name));
        self.offers.iter().filter(move |offer| !is_known(&offer.name) && self.ready_of(&offer.name).next().is_none())
    }

    /// Returns whether credentials are stored for a registered provider.
    pub fn is_stored(&self, offer: &RegisteredProvider) -> bool {
        self.stored(offer).is_some()
    }

    /// Returns whether a provider uses a login, which may expire.
    pub fn has_login(&self, provider: &str) -> bool {
        let of_offer = self.offer(provider).and_then(|offer| self.stored(offer));
        let known = || self.known.as_ref().and_then(|known| known.status(provider));
        of_offer.map(|stored| Status::of_stored(&stored)).or_else(known).is_some_and(|status| status.oauth)
    }

    fn stored(&self, offer: &RegisteredProvider) -> Option<StoredCredential> {
        let known = self.known.as_ref().filter(|known| !known.has(&offer.name))?;
        known.auth().stored_for_extension(&offer.extension, &offer.name)
    }

    /// Returns whether a registered provider has a key or a substitute for one.
    fn is_usable(&self, offer: &RegisteredProvider) -> bool {
        offer.configured || self.is_stored(offer)
    }

    fn offer(&self, provider: &str) -> Option<&RegisteredProvider> {
        self.offers.iter().find(|offer| offer.name == provider)
    }

    /// Returns the models of a provider without extensions.
    fn base(&self, provider: &str) -> Vec<Model> {
        self.known.as_ref().map(|known| known.models(provider)).unwrap_or_default()
    }

    fn ready_of(&self, provider: &str) -> impl Iterator<Item = &Model> {
        self.ready.iter().map(|ready| ready.model()).filter(move |model| model.provider == provider)
    }

    /// Returns the names of all providers in pi's order: known ones, ready ones, then those of extensions.
    pub fn providers(&self) -> Vec<String> {
        let ready = self.ready.iter().map(|provider| provider.model().provider.clone());
        let known = self.known.iter().flat_map(KnownModels::providers);
        let offered = self.offers.iter().filter(|offer| offer.config.get("models").is_some());
        let mut all: Vec<String> = Vec::new();
        for provider in known.chain(ready).chain(offered.map(|offer| offer.name.clone())) {
            if !all.contains(&provider) {
                all.push(provider);
            }
        }
        all
    }

    /// Returns the models of a provider. An extension that lists models replaces all models with its name.
    pub fn of(&self, provider: &str) -> Vec<Model> {
        let offer = self.offer(provider);
        let base = self.base(provider);
        if let Some(offer) = offer.filter(|offer| offer.config.get("models").is_some()) {
            let listed = models_of(offer, &base);
            return match &self.known {
                Some(known) => listed.into_iter().map(|model| known.overridden(model)).collect(),
                None => listed,
            };
        }
        let mut all: Vec<Model> = self.ready_of(provider).map(|model| overridden(offer, model)).collect();
        let known = base.iter().filter(|model| self.ready_of(provider).all(|ready| !ready.is(model)));
        all.extend(known.map(|model| overridden(offer, model)));
        match &self.known {
            Some(known) => all.into_iter().map(|model| known.reached(model)).collect(),
            None => all,
        }
    }

    /// Returns all models.
    pub fn all(&self) -> Vec<Model> {
        self.providers().iter().flat_map(|provider| self.of(provider)).collect()
    }

    /// Returns whether a provider is usable: it has a key or needs none.
    pub fn is_configured(&self, provider: &str) -> bool {
        self.offer(provider).is_some_and(|offer| self.is_usable(offer))
            || self.ready_of(provider).next().is_some()
            || self.known.as_ref().is_some_and(|known| known.status(provider).is_some())
    }

    /// Returns whether there is a client for a model's API, here or in the extension that registers its provider.
    pub fn speaks(&self, model: &Model) -> bool {
        APIS.contains(&model.api.as_str()) || self.offer(&model.provider).is_some_and(|offer| offer.streams)
    }

    /// Returns whether a model is usable.
    pub fn is_available(&self, model: &Model) -> bool {
        self.offer(&model.provider).is_some_and(|offer| self.is_usable(offer))
            || self.ready_of(&model.provider).any(|ready| ready.is(model))
            || self.known.as_ref().is_some_and(|known| known.status(&model.provider).is_some())
    }

    /// Returns the usable models.
    pub fn available(&self) -> Vec<Model> {
        let providers = self.providers().into_iter().filter(|provider| self.is_configured(provider));
        providers.flat_map(|provider| self.of(&provider)).filter(|model| self.is_available(model)).collect()
    }

    /// Returns a model by name.
    pub fn find(&self, provider: &str, id: &str) -> Option<Model> {
        let only_known = self.offer(provider).is_none() && self.ready_of(provider).next().is_none();
        match &self.known {
            Some(known) if only_known => known.find(provider, id),
            _ => self.of(provider).into_iter().find(|model| model.id == id),
        }
    }

    /// Returns how to open a model.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] when no source has it, [`ErrorKind::Auth`] when its provider has no key.
    pub fn opening(&self, model: &Model) -> Result<ModelBackend, ProviderError> {
        let found = self.find(&model.provider, &model.id);
        if let (Some(offer), Some(model)) = (self.offer(&model.provider), &found) {
            let model = model.clone();
            let lists = offer.config.get("models").is_some();
            let moved = offer.config.get("baseUrl").is_some() || offer.config.get("headers").is_some();
            let own_api = offer.config.get("api").and_then(Value::as_str);
            let is_usable = self.is_usable(offer);
            if offer.streams && is_usable && own_api.is_none_or(|api| api == model.api) {
                return Ok(ModelBackend::Stream(offer.clone(), model));
            }
            if is_usable && (lists || moved) {
                return Ok(ModelBackend::Http(offer.clone(), model));
            }
            if lists || moved {
                return self.by_known_key(model);
            }
        }
        if let Some(ready) = self.ready.iter().find(|provider| provider.model().is(model)) {
            return Ok(ModelBackend::Ready(Arc::clone(ready)));
        }
        match found {
            Some(model) => self.by_known_key(model),
            // The provider may know a model that the catalogue lacks.
            None if model.base_url().is_some() => self.by_known_key(model.clone()),
            None => {
                let message = format!("there is no model {}/{}", model.provider, model.id);
                Err(ProviderError::new(ErrorKind::NotFound, message))
            }
        }
    }

    /// Opens a model with the user's key. The key is only sent to the address that the catalogue or the user configures, never to
    /// an address or with headers that an extension chose.
    fn by_known_key(&self, model: Model) -> Result<ModelBackend, ProviderError> {
        let Some(known) = self.known.as_ref().filter(|known| known.status(&model.provider).is_some()) else {
            return Err(no_key(&model));
        };
        let place = |model: &Model| (model.base_url().map(str::to_owned), model.facts.get("headers").cloned());
        if known.models(&model.provider).iter().any(|at_home| place(at_home) == place(&model)) {
            return Ok(ModelBackend::Known(model));
        }
        let help = "a provider with another address needs its own key: set `apiKey` in registerProvider";
        Err(no_key(&model).with_help(help))
    }

    /// Returns the state for extensions. It contains all models of registered and ready providers; for other providers it
    /// contains only the name, and a realm fetches their models on demand.
    pub fn state(&self) -> Value {
        let statuses = self.known.as_ref().map(KnownModels::statuses).unwrap_or_default();
        let (mut all, mut asked, mut providers) = (Vec::new(), Vec::new(), Map::new());
        for provider in self.providers() {
            let offer = self.offer(&provider);
            let shown = offer.and_then(|offer| offer.config.get("name")?.as_str()).map(str::to_owned);
            let shown = shown.or_else(|| Some(self.known.as_ref()?.display_name(&provider)));
            let stored = offer.and_then(|offer| Some(Status::of_stored(&self.stored(offer)?)));
            let status = stored.as_ref().or_else(|| statuses.get(&provider));
            let has_ready = self.ready_of(&provider).next().is_some();
            let configured = offer.is_some_and(|offer| offer.configured) || has_ready || status.is_some();
            let mut state = json!({
                "displayName": shown.unwrap_or_else(|| provider.clone()),
                "configured": configured, "registered": offer.is_some(),
            });
            if let Some(status) = status {
                state["status"] = status.to_value();
                state["oauth"] = json!(status.oauth);
            }
            providers.insert(provider.clone(), state);
            if offer.is_some() || has_ready {
                all.extend(self.of(&provider).iter().map(as_shown));
            } else {
                asked.push(provider);
            }
        }
        let mut state = json!({"all": all, "asked": asked, "providers": providers});
        if let Some(known) = self.known.as_ref().filter(|known| !known.errors().is_empty()) {
            state["error"] = json!(known.errors().join("\n\n"));
        }
        state
    }
}

/// Applies the address and headers of a registered provider that lists no models.
fn overridden(offer: Option<&RegisteredProvider>, model: &Model) -> Model {
    let mut model = model.clone();
    for key in ["baseUrl", "headers"] {
        if let Some(value) = offer.and_then(|offer| offer.config.get(key)) {
            model.facts.insert(key.to_owned(), value.clone());
        }
    }
    model
}

/// APIs with a client in [`open_http`].
pub const APIS: &[&str] = &["openai-completions", "openai-responses", "anthropic-messages", "google-generative-ai"];

/// Returns whether there is a client for one of these models.
pub fn has_client(models: &[Model]) -> bool {
    models.iter().any(|model| APIS.contains(&model.api.as_str()))
}

/// Opens a model over HTTP.
///
/// # Errors
///
/// Fails when there is no client for the wire format, or when a header is invalid.
pub fn open_http(
    model: Model,
    credentials: Credentials,
    options: &ProviderOptions,
    ambient: &Ambient,
) -> Result<Arc<dyn Provider>, ProviderError> {
    let mut headers = HeaderMap::new();
    let mut put = |name: &str, value: &str, is_secret: bool| {
        let bad = || {
            let message = format!("the header {name:?} of provider {} is invalid", model.provider);
            ProviderError::new(ErrorKind::Rejected, message)
        };
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(is_secret);
        headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?, value);
        Ok(())
    };
    let of_model = model.facts.get("headers").and_then(Value::as_object).into_iter().flatten();
    for (name, value) in of_model.filter_map(|(name, value)| Some((name, value.as_str()?))) {
        // Headers of an extension are resolved elsewhere; here the value may be the name of a secret.
        if !credentials.headers.keys().any(|known| known.eq_ignore_ascii_case(name)) {
            put(name, value, false)?;
        }
    }
    // Configured headers may contain secrets of the user.
    for (name, value) in &credentials.headers {
        put(name, value, true)?;
    }
    let model = match credentials.base_url {
        Some(url) => model.with("baseUrl", url),
        None => model,
    };
    let access = Access { key: credentials.key, headers };
    let api = model.api.clone();
    Ok(match api.as_str() {
        "openai-completions" => Arc::new(OpenAi::over(model, access, &options.http, ambient)?),
        "openai-responses" => Arc::new(Responses::over(model, access, &options.http, ambient)?),
        "anthropic-messages" => Arc::new(Anthropic::over(model, access, &options.http, ambient)?),
        "google-generative-ai" => Arc::new(Google::over(model, access, &options.http, ambient)?),
        other => {
            let message = format!("{}/{}: there is no client for the API {other:?}", model.provider, model.id);
            return Err(ProviderError::new(ErrorKind::NotFound, message).with_help(
                "use a model of openai-completions, openai-responses, anthropic-messages or google-generative-ai, or give the provider a streamSimple function",
            ));
        }
    })
}

/// Returns the base URL of a model.
pub fn address_of(model: &Model) -> &str {
    model.base_url().unwrap_or(match model.api.as_str() {
        "anthropic-messages" => anthropic::BASE_URL,
        "google-generative-ai" => google::BASE_URL,
        _ => openai::BASE_URL,
    })
}

/// Returns the error for a model that needs a key but has none.
pub fn no_key(model: &Model) -> ProviderError {
    ProviderError::new(ErrorKind::Auth, format!("No API key for provider: {}", model.provider))
}

/// Returns the models that a provider lists, completed from its known models as pi does.
fn models_of(offer: &RegisteredProvider, base: &[Model]) -> Vec<Model> {
    let listed = offer.config.get("models").and_then(Value::as_array);
    let complete = |listed: &Value| {
        let mut value = listed.as_object()?.clone();
        value.insert("provider".to_owned(), json!(offer.name));
        let id = listed.get("id").and_then(Value::as_str).unwrap_or_default();
        let api = value.get("api").or_else(|| offer.config.get("api")).and_then(Value::as_str);
        let like = defaults_for(base, id, api);
        let known = |key: &str| match key {
            "api" => like.map(|like| json!(like.api)),
            _ => like.and_then(|like| like.base_url()).map(|url| json!(url)),
        };
        for key in ["api", "baseUrl"] {
            let default = offer.config.get(key).cloned().or_else(|| known(key));
            if let (None, Some(default)) = (value.get(key), default) {
                value.insert(key.to_owned(), default);
            }
        }
        Model::from_value(&Value::Object(value))
    };
    listed.into_iter().flatten().filter_map(complete).collect()
}

/// Returns a model in the form for extensions, without headers, which are added to each request.
fn as_shown(model: &Model) -> Value {
    let mut value = model.to_value();
    if let Some(members) = value.as_object_mut() {
        members.shift_remove("headers");
    }
    value
}

/// Validates a configuration with pi's messages.
fn check(offer: &RegisteredProvider, base: &[Model]) -> Result<(), String> {
    let name = &offer.name;
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if offer.streams && !text(&offer.config, "api") {
        return Err(format!("Provider {name}: \"api\" is required when registering streamSimple."));
    }
    let models = offer.config.get("models").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (model, completed) in models.iter().zip(models_of(offer, base)) {
        let id = model.get("id").and_then(Value::as_str).unwrap_or_default();
        if completed.api.is_empty() {
            return Err(format!("Provider {name}, model {id}: no \"api\" specified. Set at provider or model level."));
        }
        if completed.base_url().is_none() {
            return Err(format!("Provider {name}: \"baseUrl\" is required when defining custom models."));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::script::Script;

    fn offer(name: &str, config: Value) -> RegisteredProvider {
        let configured = config.get("apiKey").is_some();
        RegisteredProvider {
            name: name.into(),
            path: "x.ts".into(),
            extension: "x".into(),
            config,
            streams: false,
            configured,
        }
    }

    fn models(offers: Vec<RegisteredProvider>) -> (Models, Vec<(String, String)>) {
        let mut models = Models::default();
        models.add(Arc::new(Script::parse("s", "", Ambient::system()).unwrap()));
        let wrong = models.set_offers(offers);
        (models, wrong)
    }

    #[test]
    fn a_configuration_that_lacks_something_is_refused_in_pis_words() {
        for (config, words) in [
            (json!({"models": [{"id": "m"}], "api": "a"}), "\"baseUrl\" is required when defining custom models."),
            (json!({"models": [{"id": "m"}], "baseUrl": "u", "apiKey": "k"}), "no \"api\" specified"),
        ] {
            let (models, wrong) = models(vec![offer("p", config)]);
            assert!(wrong[0].1.contains(words), "{wrong:?}");
            assert!(models.find("p", "m").is_none());
        }
    }

    #[test]
    fn models_inherit_from_their_provider() {
        let config = json!({"baseUrl": "http://x", "apiKey": "k", "api": "openai-completions", "models": [
            {"id": "a"}, {"id": "b", "api": "anthropic-messages", "baseUrl": "http://y"}, {"id": "c", "api": "other"}]});
        let (models, wrong) = models(vec![offer("p", config)]);
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!(models.find("p", "a").unwrap().base_url(), Some("http://x"));
        assert_eq!(models.find("p", "b").unwrap().base_url(), Some("http://y"));
        assert!(!models.find("p", "b").unwrap().system_anywhere);
        assert_eq!(models.available().len(), 4);
        let open = |id: &str| match models.opening(&models.find("p", id).unwrap()).unwrap() {
            ModelBackend::Http(_, model) => {
                open_http(model, Credentials::default(), &ProviderOptions::default(), &Ambient::system())
            }
            _ => unreachable!("it has no stream function"),
        };
        assert!(open("a").is_ok());
        assert!(open("c").err().unwrap().to_string().contains("p/c: there is no client for the API \"other\""));
    }

    #[test]
    fn a_second_registration_keeps_missing_members() {
        let first = json!({"baseUrl": "http://x", "apiKey": "k", "api": "openai-completions", "models": [{"id": "a"}]});
        let (models, _) = models(vec![offer("p", first), offer("p", json!({"baseUrl": "http://z"}))]);
        assert_eq!(models.find("p", "a").unwrap().base_url(), Some("http://z"));
        assert!(models.is_configured("p"));
    }

    fn known(config: Value) -> KnownModels {
        use crate::auth::{Auth, NoKeyEnvironment};
        let auth = Auth::new(Arc::new(NoKeyEnvironment), Ambient::system(), Default::default());
        KnownModels::new(crate::models_json::ModelsJson::parse(&config.to_string(), "models.json"), Arc::new(auth))
    }

    #[test]
    fn realms_receive_provider_names_of_the_catalogue() {
        let (mut models, _) = models(Vec::new());
        assert!(models.find("openai", "gpt-5.5").is_none(), "an agent knows what it was given");
        models.set_known(known(json!({"providers": {"mine": {"baseUrl": "http://x", "api": "openai-completions",
            "models": [{"id": "m"}]}}})));
        models.set_offers(vec![offer("groq", json!({"baseUrl": "http://proxy", "apiKey": "k"}))]);
        assert_eq!(models.find("openai", "gpt-5.5").unwrap().api, "openai-responses");
        assert_eq!(models.find("groq", "openai/gpt-oss-120b").unwrap().base_url(), Some("http://proxy"));
        let state = models.state();
        let names: BTreeMap<&str, ()> =
            state["all"].as_array().unwrap().iter().map(|model| (model["provider"].as_str().unwrap(), ())).collect();
        assert_eq!(names.into_keys().collect::<Vec<_>>(), ["groq", "script"]);
        let asked = state["asked"].as_array().unwrap();
        assert!(asked.contains(&json!("openai")) && asked.contains(&json!("mine")) && !asked.contains(&json!("groq")));
        assert_eq!(
            state["providers"]["openai"],
            json!({"displayName": "OpenAI", "configured": false, "registered": false})
        );
        assert!(state.to_string().len() < 20_000, "every realm gets it");
    }

    #[test]
    fn replies_of_an_unchosen_provider_are_attributed() {
        let own = json!({"baseUrl": "http://x", "apiKey": "k", "api": "openai-completions", "models": [{"id": "m"}]});
        let (mut models, _) = models(vec![offer("own", own), offer("script", json!({"baseUrl": "http://z"}))]);
        assert_eq!(models.unchosen_extension("own"), None, "the user chose it");
        assert_eq!(models.unchosen_extension("script"), Some("x"), "the user chose the earlier provider");
        models.chose(true);
        models.set_offers(Vec::new());
        assert_eq!(models.unchosen_extension("own"), Some("x"), "also when it is gone");
        assert_eq!(models.unchosen_extension("other"), None);
        models.chose(false);
        assert_eq!(models.unchosen_extension("script"), None);
    }

    #[test]
    fn a_known_model_needs_a_key() {
        let (mut models, _) = models(Vec::new());
        models.set_known(known(json!({"providers": {}})));
        let model = models.find("openai", "gpt-5.5").unwrap();
        assert_eq!(models.opening(&model).err().unwrap().to_string(), "No API key for provider: openai");
        models.known().unwrap().auth().give("openai", "k");
        assert!(matches!(models.opening(&model), Ok(ModelBackend::Known(_))));
        assert!(models.is_available(&model) && models.available().len() > 10);
    }
}
