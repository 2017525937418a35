//! The models of a session: which there are, which can be used, and how one is opened.
//!
//! [`Models`] knows three kinds: providers that came ready ([`Models::add`], the one of `--model` and
//! those of an embedder), and those that extensions register ([`Offer`]), by configuration or with a
//! stream function of their own. A model of an extension is opened when it is chosen; its key is asked
//! of the extension then and never kept.

use crate::ambient::Ambient;
use crate::provider::anthropic::Anthropic;
use crate::provider::http::Access;
use crate::provider::openai::OpenAi;
use crate::provider::{ErrorKind, Model, Provider, ProviderError, ProviderOptions};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A provider that an extension registered.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// Provider name.
    pub name: String,
    /// The extension's file, for messages.
    pub path: String,
    /// pi's `ProviderConfig`, functions as `{"$handle": n}`.
    pub config: Value,
    /// Whether it has a stream function of its own.
    pub streams: bool,
    /// Whether a key, or what stands for one, was given.
    pub configured: bool,
}

/// What the extension says when its key is needed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Credentials {
    /// The key.
    pub key: Option<String>,
    /// Further headers.
    pub headers: BTreeMap<String, String>,
}

/// How a chosen model is spoken to.
pub(crate) enum Opening {
    /// It is ready.
    Ready(Arc<dyn Provider>),
    /// Over HTTP, with the extension's credentials.
    Http(Offer, Model),
    /// By the extension's stream function.
    Stream(Model),
}

/// The models of a session.
#[derive(Default)]
pub struct Models {
    ready: Vec<Arc<dyn Provider>>,
    offers: Vec<Offer>,
}

impl Models {
    /// Adds a provider with its one model. The first of a name counts.
    pub fn add(&mut self, provider: Arc<dyn Provider>) {
        if !self.ready.iter().any(|known| known.model().is(provider.model())) {
            self.ready.push(provider);
        }
    }

    /// Takes over what extensions offer now. Answers what is wrong with single offers: path and message.
    pub fn set_offers(&mut self, offers: Vec<Offer>) -> Vec<(String, String)> {
        let mut wrong = Vec::new();
        self.offers.clear();
        for offer in offers {
            match check(&offer) {
                Ok(()) => self.merge(offer),
                Err(message) => wrong.push((offer.path.clone(), message)),
            }
        }
        wrong
    }

    /// A name that is registered again keeps what the new configuration does not say.
    fn merge(&mut self, offer: Offer) {
        let Some(known) = self.offers.iter_mut().find(|known| known.name == offer.name) else {
            self.offers.push(offer);
            return;
        };
        let mut config = known.config.as_object().cloned().unwrap_or_default();
        config.extend(offer.config.as_object().cloned().unwrap_or_default());
        let (streams, configured) = (known.streams || offer.streams, known.configured || offer.configured);
        *known = Offer { config: Value::Object(config), streams, configured, ..offer };
    }

    /// Every model, those that came ready first. A provider that lists models replaces all of its name.
    pub fn all(&self) -> Vec<Model> {
        let replaced = |model: &Model| {
            self.offers.iter().any(|offer| offer.name == model.provider && offer.config.get("models").is_some())
        };
        let ready = self.ready.iter().map(|provider| provider.model());
        let mut all: Vec<Model> = ready.filter(|model| !replaced(model)).map(|model| self.overridden(model)).collect();
        all.extend(self.offers.iter().flat_map(models_of));
        all
    }

    /// Whether a provider can be used: it has a key, or needs none.
    pub fn is_configured(&self, provider: &str) -> bool {
        match self.offers.iter().find(|offer| offer.name == provider) {
            Some(offer) if offer.configured => true,
            _ => self.ready.iter().any(|ready| ready.model().provider == provider),
        }
    }

    /// A model by name.
    pub fn find(&self, provider: &str, id: &str) -> Option<Model> {
        self.all().into_iter().find(|model| model.provider == provider && model.id == id)
    }

    /// How to speak to a model.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] when nobody offers it, [`ErrorKind::Auth`] when its provider has no key.
    pub(crate) fn opening(&self, model: &Model) -> Result<Opening, ProviderError> {
        let offer = self.offers.iter().find(|offer| offer.name == model.provider);
        if let Some(offer) = offer {
            let listed = models_of(offer).into_iter().find(|known| known.is(model));
            let moved = offer.config.get("baseUrl").is_some() || offer.config.get("headers").is_some();
            if let Some(model) = listed.or_else(|| self.find(&model.provider, &model.id).filter(|_| moved)) {
                if !offer.configured {
                    return Err(no_key(&model));
                }
                let own_api = offer.config.get("api").and_then(Value::as_str);
                let streams = offer.streams && own_api.is_none_or(|api| api == model.api);
                return Ok(if streams { Opening::Stream(model) } else { Opening::Http(offer.clone(), model) });
            }
        }
        let ready = self.ready.iter().find(|provider| provider.model().is(model));
        ready.map(|provider| Opening::Ready(Arc::clone(provider))).ok_or_else(|| {
            ProviderError::new(ErrorKind::NotFound, format!("there is no model {}/{}", model.provider, model.id))
        })
    }

    /// What extensions see of it all.
    pub(crate) fn state(&self) -> Value {
        let all = self.all();
        let available: Vec<Value> = all
            .iter()
            .filter(|model| self.is_configured(&model.provider))
            .map(|model| json!([model.provider, model.id]))
            .collect();
        let mut providers = Map::new();
        for model in &all {
            let offer = self.offers.iter().find(|offer| offer.name == model.provider);
            let shown =
                offer.and_then(|offer| offer.config.get("name")).cloned().unwrap_or_else(|| json!(model.provider));
            providers.entry(model.provider.clone()).or_insert_with(|| {
                json!({"displayName": shown, "configured": self.is_configured(&model.provider), "registered": offer.is_some()})
            });
        }
        let all: Vec<Value> = all.iter().map(Model::to_value).collect();
        json!({"all": all, "available": available, "providers": providers})
    }

    /// A ready model with the address and headers that an offer without models of its own gives it.
    fn overridden(&self, model: &Model) -> Model {
        let mut model = model.clone();
        if let Some(offer) = self.offers.iter().find(|offer| offer.name == model.provider) {
            for key in ["baseUrl", "headers"] {
                if let Some(value) = offer.config.get(key) {
                    model.facts.insert(key.to_owned(), value.clone());
                }
            }
        }
        model
    }
}

/// Opens a model over HTTP with what an extension gave.
///
/// # Errors
///
/// When its wire format is none of ours, or a header cannot be sent.
pub(crate) fn open_http(
    offer: &Offer,
    model: Model,
    credentials: Credentials,
    options: &ProviderOptions,
    ambient: &Ambient,
) -> Result<Arc<dyn Provider>, ProviderError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &credentials.headers {
        let bad = || {
            let message = format!("the header {name:?} of provider {} cannot be sent", offer.name);
            ProviderError::new(ErrorKind::Rejected, message)
        };
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        // What an extension puts into a header may be a secret of the user's.
        value.set_sensitive(true);
        headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?, value);
    }
    let access = Access { key: credentials.key, headers };
    let api = model.api.clone();
    Ok(match api.as_str() {
        "openai-completions" => Arc::new(OpenAi::over(model, access, &options.http, ambient)?),
        "anthropic-messages" => Arc::new(Anthropic::over(model, access, &options.http, ambient)?),
        other => {
            let message = format!("provider {}: there is no client for the API {other:?}", offer.name);
            return Err(ProviderError::new(ErrorKind::NotFound, message).with_help(
                "use openai-completions or anthropic-messages, or give the provider a streamSimple function",
            ));
        }
    })
}

pub(crate) fn no_key(model: &Model) -> ProviderError {
    ProviderError::new(ErrorKind::Auth, format!("No API key for {}/{}", model.provider, model.id))
}

/// The models that an offer lists, as pi completes them.
fn models_of(offer: &Offer) -> Vec<Model> {
    let listed = offer.config.get("models").and_then(Value::as_array);
    let complete = |listed: &Value| {
        let mut value = listed.as_object()?.clone();
        value.insert("provider".to_owned(), json!(offer.name));
        for key in ["api", "baseUrl"] {
            if let (None, Some(default)) = (value.get(key), offer.config.get(key)) {
                value.insert(key.to_owned(), default.clone());
            }
        }
        Model::from_value(&Value::Object(value))
    };
    listed.into_iter().flatten().filter_map(complete).collect()
}

/// pi's complaints about a configuration, in its words.
fn check(offer: &Offer) -> Result<(), String> {
    let name = &offer.name;
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if offer.streams && !text(&offer.config, "api") {
        return Err(format!("Provider {name}: \"api\" is required when registering streamSimple."));
    }
    let models = offer.config.get("models").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if models.is_empty() {
        return Ok(());
    }
    if !text(&offer.config, "baseUrl") {
        return Err(format!("Provider {name}: \"baseUrl\" is required when defining models."));
    }
    if !text(&offer.config, "apiKey") && offer.config.get("oauth").is_none() {
        return Err(format!("Provider {name}: \"apiKey\" or \"oauth\" is required when defining models."));
    }
    for model in models {
        if !text(model, "api") && !text(&offer.config, "api") {
            let id = model.get("id").and_then(Value::as_str).unwrap_or_default();
            return Err(format!("Provider {name}, model {id}: no \"api\" specified. Set at provider or model level."));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::script::Script;

    fn offer(name: &str, config: Value) -> Offer {
        let configured = config.get("apiKey").is_some();
        Offer { name: name.into(), path: "x.ts".into(), config, streams: false, configured }
    }

    fn models(offers: Vec<Offer>) -> (Models, Vec<(String, String)>) {
        let mut models = Models::default();
        models.add(Arc::new(Script::parse("s", "", Ambient::system()).unwrap()));
        let wrong = models.set_offers(offers);
        (models, wrong)
    }

    #[test]
    fn a_configuration_that_lacks_something_is_refused_in_pis_words() {
        for (config, words) in [
            (json!({"models": [{"id": "m"}]}), "\"baseUrl\" is required when defining models."),
            (json!({"models": [{"id": "m"}], "baseUrl": "u"}), "\"apiKey\" or \"oauth\" is required"),
            (json!({"models": [{"id": "m"}], "baseUrl": "u", "apiKey": "k"}), "no \"api\" specified"),
        ] {
            let (models, wrong) = models(vec![offer("p", config)]);
            assert!(wrong[0].1.contains(words), "{wrong:?}");
            assert!(models.find("p", "m").is_none());
        }
    }

    #[test]
    fn models_take_what_their_provider_says() {
        let config = json!({"baseUrl": "http://x", "apiKey": "k", "api": "openai-completions", "models": [
            {"id": "a"}, {"id": "b", "api": "anthropic-messages", "baseUrl": "http://y"}, {"id": "c", "api": "other"}]});
        let (models, wrong) = models(vec![offer("p", config)]);
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!(models.find("p", "a").unwrap().base_url(), Some("http://x"));
        assert_eq!(models.find("p", "b").unwrap().base_url(), Some("http://y"));
        assert!(!models.find("p", "b").unwrap().system_anywhere);
        assert_eq!(models.state()["available"].as_array().unwrap().len(), 4);
        let open = |id: &str| match models.opening(&models.find("p", id).unwrap()).unwrap() {
            Opening::Http(offer, model) => {
                open_http(&offer, model, Credentials::default(), &ProviderOptions::default(), &Ambient::system())
            }
            _ => unreachable!("it has no stream function"),
        };
        assert!(open("a").is_ok());
        assert!(open("c").err().unwrap().to_string().contains("there is no client for the API \"other\""));
    }

    #[test]
    fn a_second_registration_keeps_what_it_does_not_say() {
        let first = json!({"baseUrl": "http://x", "apiKey": "k", "api": "openai-completions", "models": [{"id": "a"}]});
        let (models, _) = models(vec![offer("p", first), offer("p", json!({"baseUrl": "http://z"}))]);
        assert_eq!(models.find("p", "a").unwrap().base_url(), Some("http://z"));
        assert!(models.is_configured("p"));
    }
}
