//! `models.json`: the user's models and providers, which extend the catalogue.
//!
//! The format is pi's, with comments and trailing commas. A provider may redirect models (`baseUrl`, `headers`, `compat`), add or
//! replace them (`models`), and override members of others (`modelOverrides`). An invalid provider is ignored, and an invalid
//! file is ignored as a whole. [`ModelsJson::errors`] reports both.

use crate::provider::Model;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Default context window of a model, in tokens.
const CONTEXT_WINDOW: u64 = 128_000;
const MAX_TOKENS: u64 = 16_384;
/// Members of `compat` that are merged recursively.
const NESTED_COMPAT: [&str; 4] =
    ["openRouterRouting", "vercelGatewayRouting", "chatTemplateKwargs", "chatTemplateArgs"];

const SCHEMA: &str = include_str!("../catalogue/models-config.schema.json");

/// A provider of the file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderConfig {
    /// Display name.
    pub name: Option<String>,
    /// Base URL of all models of the provider.
    pub base_url: Option<String>,
    /// A key, a variable (`$NAME`) or a command (`!command`).
    pub api_key: Option<String>,
    /// Wire format.
    pub api: Option<String>,
    /// Additional headers, in the syntax of keys.
    pub headers: BTreeMap<String, String>,
    /// Whether the key is also sent in `Authorization`.
    pub auth_header: Option<bool>,
    oauth: Option<String>,
    compat: Option<Map<String, Value>>,
    models: Vec<Map<String, Value>>,
    model_overrides: BTreeMap<String, Map<String, Value>>,
}

/// The parsed file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelsJson {
    providers: Vec<(String, ProviderConfig)>,
    errors: Vec<String>,
}

impl ModelsJson {
    /// Parses the file's text; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Self {
        let failed = |message: String| Self { errors: vec![format!("{message} (file: {path})")], ..Self::default() };
        let text = strip_comments(text.strip_prefix('\u{feff}').unwrap_or(text));
        let value: Value = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(error) => return failed(format!("models.json is not JSON: {error}")),
        };
        let schema = serde_json::from_str(SCHEMA).expect("the schema is JSON");
        let validator = jsonschema::validator_for(&schema).expect("the schema is a valid JSON schema");
        let wrong: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| {
                format!("{}: {error}", error.instance_path().to_string().trim_start_matches('/').replace('/', "."))
            })
            .collect();
        if !wrong.is_empty() {
            return failed(format!("models.json is invalid: {}", wrong.join("; ")));
        }
        let providers = value.get("providers").and_then(Value::as_object).into_iter().flatten();
        let mut read = Self::default();
        for (id, config) in providers {
            let config: ProviderConfig = match serde_json::from_value(config.clone()) {
                Ok(config) => config,
                Err(error) => return failed(format!("models.json: providers.{id}: {error}")),
            };
            match config.problem(id) {
                Some(problem) => read.errors.push(format!("Provider {id}: {problem}")),
                None => read.providers.push((id.clone(), config)),
            }
        }
        read
    }

    /// Returns the errors, one line each.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    /// Returns the providers in file order.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.providers.iter().map(|(id, _)| id.as_str())
    }

    /// Returns the configuration of a provider.
    pub fn provider(&self, id: &str) -> Option<&ProviderConfig> {
        self.providers.iter().find(|(known, _)| known == id).map(|(_, config)| config)
    }

    /// Applies the file to the models of a provider.
    ///
    /// # Errors
    ///
    /// Fails with pi's message when a model lacks an address or a wire format.
    pub fn apply(&self, id: &str, base: Vec<Model>) -> Result<Vec<Model>, String> {
        let Some(config) = self.provider(id) else { return Ok(base) };
        let mut models: Vec<Model> = base.into_iter().map(|model| config.moved(model)).collect();
        for given in &config.models {
            let model = config.completed(id, given, &models)?;
            match models.iter_mut().find(|known| known.id == model.id) {
                Some(known) => *known = model,
                None => models.push(model),
            }
        }
        Ok(models)
    }

    /// Returns the headers of one model, which are sent in addition to the headers of its provider.
    pub fn model_headers(&self, model: &Model) -> BTreeMap<String, String> {
        let Some(config) = self.provider(&model.provider) else { return BTreeMap::new() };
        let own = config.models.iter().find(|given| given.get("id").and_then(Value::as_str) == Some(&model.id));
        let changed = config.model_overrides.get(&model.id);
        let given = changed.into_iter().chain(own).filter_map(|given| given.get("headers")?.as_object());
        given.flatten().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
    }

    /// Applies `modelOverrides` to a model. They take precedence over all other sources.
    pub fn overridden(&self, model: Model) -> Model {
        let given = self.provider(&model.provider).and_then(|config| config.model_overrides.get(&model.id));
        let Some(given) = given else { return model };
        let mut model = model;
        for (key, value) in given {
            let merged = match (key.as_str(), model.facts.get(key)) {
                ("headers", _) => continue,
                ("compat", known) => compat(known, value),
                ("cost" | "thinkingLevelMap" | "promptCache" | "samplingParams", Some(known)) => merged(known, value),
                ("inputLimits", Some(known)) => deeply(known, value),
                _ => value.clone(),
            };
            model.facts.insert(key.clone(), merged);
        }
        model
    }
}

impl ProviderConfig {
    fn problem(&self, id: &str) -> Option<String> {
        if self.oauth.is_some() && self.base_url.is_none() {
            return Some("\"baseUrl\" is required when \"oauth\" is set.".to_owned());
        }
        let says_something = !self.models.is_empty()
            || !self.model_overrides.is_empty()
            || !self.headers.is_empty()
            || [self.base_url.is_some(), self.compat.is_some(), self.api_key.is_some(), self.auth_header.is_some()]
                .contains(&true);
        if !says_something {
            return Some(
                "must specify \"baseUrl\", \"headers\", \"compat\", \"modelOverrides\", or \"models\".".to_owned(),
            );
        }
        let base = crate::catalogue::models(id);
        self.models.iter().find_map(|given| self.completed(id, given, &base).err())
    }

    fn moved(&self, mut model: Model) -> Model {
        if let Some(url) = self.base_url.as_ref().filter(|_| self.oauth.is_none()) {
            model.facts.insert("baseUrl".to_owned(), json!(url));
        }
        if let Some(given) = &self.compat {
            let merged = compat(model.facts.get("compat"), &Value::Object(given.clone()));
            model.facts.insert("compat".to_owned(), merged);
        }
        model
    }

    /// Completes a model of the file, using a similar model for missing members.
    fn completed(&self, provider: &str, given: &Map<String, Value>, like: &[Model]) -> Result<Model, String> {
        let text = |key: &str| given.get(key).and_then(Value::as_str).map(str::to_owned);
        let id = text("id").unwrap_or_default();
        let api = text("api").or_else(|| self.api.clone());
        let defaults = defaults_for(like, &id, api.as_deref());
        let api = api.or_else(|| Some(defaults?.api.clone()));
        let base_url = text("baseUrl").or_else(|| self.base_url.clone());
        let base_url = base_url.or_else(|| Some(defaults?.base_url()?.to_owned()));
        let api = api.ok_or_else(|| format!("model {id}: no \"api\" specified. Set at provider or model level."))?;
        let base_url = base_url.ok_or("\"baseUrl\" is required when defining custom models.")?;
        for key in ["contextWindow", "maxTokens"] {
            if given.get(key).and_then(Value::as_f64).is_some_and(|count| count <= 0.0) {
                return Err(format!("model {id}: invalid {key}"));
            }
        }
        let mut value = given.clone();
        value.remove("headers");
        for (key, default) in [
            ("provider", json!(provider)),
            ("name", json!(id)),
            ("reasoning", json!(false)),
            ("input", json!(["text"])),
            ("cost", json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0})),
            ("contextWindow", json!(CONTEXT_WINDOW)),
            ("maxTokens", json!(MAX_TOKENS)),
        ] {
            value.entry(key).or_insert(default);
        }
        value.insert("api".to_owned(), json!(api));
        value.insert("baseUrl".to_owned(), json!(base_url));
        if let Some(usual) = &self.compat {
            let own = given.get("compat").cloned().unwrap_or_else(|| json!({}));
            value.insert("compat".to_owned(), compat(Some(&Value::Object(usual.clone())), &own));
        }
        Model::from_value(&Value::Object(value)).ok_or_else(|| format!("model {id}: it has no id"))
    }
}

/// Returns the model that supplies missing members: one with the same id, else one with the same API, else any.
pub fn defaults_for<'a>(models: &'a [Model], id: &str, api: Option<&str>) -> Option<&'a Model> {
    let with = |wanted: &str| models.iter().find(|model| model.api == wanted);
    models
        .iter()
        .find(|model| model.id == id)
        .or_else(|| with(api?))
        .or_else(|| with("openai-completions"))
        .or_else(|| models.first())
}

fn compat(base: Option<&Value>, given: &Value) -> Value {
    let Some(base) = base else { return given.clone() };
    let mut all = merged(base, given);
    for key in NESTED_COMPAT {
        if let (Some(base), Some(given)) = (base.get(key), given.get(key)) {
            all[key] = merged(base, given);
        }
    }
    all
}

/// Merges the members of two objects; members of the second take precedence.
fn merged(base: &Value, given: &Value) -> Value {
    match (base, given) {
        (Value::Object(base), Value::Object(given)) => {
            let mut all = base.clone();
            all.extend(given.clone());
            Value::Object(all)
        }
        _ => given.clone(),
    }
}

/// Merges two objects recursively.
fn deeply(base: &Value, given: &Value) -> Value {
    let (Value::Object(base), Value::Object(given)) = (base, given) else { return given.clone() };
    let mut all = base.clone();
    for (key, value) in given {
        let value = base.get(key).map_or_else(|| value.clone(), |known| deeply(known, value));
        all.insert(key.clone(), value);
    }
    Value::Object(all)
}

/// Removes `//` comments and trailing commas.
fn strip_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut in_string = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' if in_string => {
                out.push(character);
                out.extend(characters.next());
                continue;
            }
            '"' => in_string = !in_string,
            '/' if !in_string && characters.peek() == Some(&'/') => {
                while characters.next_if(|next| *next != '\n').is_some() {}
                continue;
            }
            ']' | '}' if !in_string => {
                let kept = out.trim_end();
                if kept.ends_with(',') {
                    out.truncate(kept.len() - 1);
                }
            }
            _ => {}
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    fn read(value: &Value) -> ModelsJson {
        ModelsJson::parse(&value.to_string(), "/a/models.json")
    }

    #[test]
    fn comments_and_trailing_commas_are_removed_outside_of_strings() {
        let text = "{ // a\n \"providers\": {\"p\": {\"baseUrl\": \"http://x//y,]\", \"headers\": {\"a\": \"\\\"//,}\",},},},}";
        let config = ModelsJson::parse(text, "f");
        assert_eq!(config.errors(), [] as [&str; 0]);
        let provider = config.provider("p").unwrap();
        assert_eq!(provider.base_url.as_deref(), Some("http://x//y,]"));
        assert_eq!(provider.headers["a"], "\"//,}");
    }

    #[test]
    fn an_invalid_file_is_reported_with_its_position() {
        for (text, words) in [
            ("{", "is not JSON"),
            ("{\"providers\": {\"p\": {\"models\": [{\"name\": \"x\"}]}}}", "providers.p.models.0"),
            ("{\"providers\": {\"p\": {\"apiKey\": 7}}}", "providers.p.apiKey"),
            ("{}", "providers"),
        ] {
            let config = ModelsJson::parse(text, "/a/models.json");
            let said = config.errors().join("\n");
            assert!(said.contains(words) && said.contains("/a/models.json"), "{said}");
            assert_eq!(config.providers().count(), 0);
        }
    }

    #[test]
    fn one_wrong_provider_leaves_the_others() {
        let config = read(&json!({"providers": {
            "a": {}, "b": {"models": [{"id": "m"}]}, "c": {"api": "openai-completions", "models": [{"id": "m"}]},
            "d": {"baseUrl": "http://d", "api": "openai-completions", "models": [{"id": "m", "contextWindow": 0}]},
            "e": {"baseUrl": "http://e", "api": "openai-completions", "models": [{"id": "m"}]}}}));
        assert_eq!(config.providers().collect::<Vec<_>>(), ["e"]);
        let said = config.errors();
        assert_eq!(said.len(), 4, "{said:?}");
        assert!(said[0].contains("must specify"));
        assert!(said[1].contains("no \"api\" specified"));
        assert!(said[2].contains("\"baseUrl\" is required"));
        assert!(said[3].contains("invalid contextWindow"));
    }

    #[test]
    fn a_model_of_the_file_is_completed_as_pi_completes_it() {
        let config = read(&json!({"providers": {"ollama": {"baseUrl": "http://localhost:11434/v1",
            "api": "openai-completions", "apiKey": "ollama", "compat": {"supportsStore": false},
            "models": [{"id": "qwen:7b", "headers": {"x-a": "1"}}]}}}));
        let model = config.apply("ollama", Vec::new()).unwrap().remove(0);
        let expected = json!({"id": "qwen:7b", "name": "qwen:7b", "api": "openai-completions", "provider": "ollama",
            "baseUrl": "http://localhost:11434/v1", "reasoning": false, "input": ["text"],
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}, "contextWindow": 128000,
            "maxTokens": 16384, "compat": {"supportsStore": false}});
        assert_eq!(model.to_value(), expected);
        assert_eq!(config.model_headers(&model), BTreeMap::from([("x-a".to_owned(), "1".to_owned())]));
    }

    #[test]
    fn a_provider_of_the_catalogue_is_moved_extended_and_changed() {
        let config = read(&json!({"providers": {"groq": {"baseUrl": "http://proxy/v1", "models": [{"id": "mine"}],
            "modelOverrides": {"openai/gpt-oss-120b": {"name": "Big", "cost": {"input": 9}, "headers": {"x": "y"}}}}}}));
        assert_eq!(config.errors(), [] as [&str; 0]);
        let base = catalogue::models("groq");
        let models = config.apply("groq", base.clone()).unwrap();
        assert_eq!(models.len(), base.len() + 1);
        assert!(models.iter().all(|model| model.base_url() == Some("http://proxy/v1")));
        assert_eq!(
            models.last().map(|model| (model.id.as_str(), model.api.as_str())),
            Some(("mine", "openai-completions"))
        );
        let changed = config.overridden(models.into_iter().find(|model| model.id == "openai/gpt-oss-120b").unwrap());
        assert_eq!(changed.facts["name"], "Big");
        assert_eq!(changed.facts["cost"]["input"], 9);
        assert!(changed.facts["cost"]["output"].as_f64().unwrap() > 0.0);
        assert_eq!(config.model_headers(&changed)["x"], "y");
    }
}
