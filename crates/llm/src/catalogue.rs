//! pi's catalogue of models, as data: `catalogue/models.jsonl`, which says where it is from.
//!
//! Each provider is a line that begins with its name, and the lines after it are its models. The lines of providers
//! are read when one is first asked for; a model's line when the model is.

use crate::provider::Model;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// Generated; see `catalogue/capture.mjs`.
const TEXT: &str = include_str!("../catalogue/models.jsonl");

/// How the line of a provider begins; that of a model begins with its id.
const PROVIDER: &str = "{\"provider\":\"";

/// What is known of a provider beside its models.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Provider {
    /// Name in settings and on the command line.
    #[serde(rename = "provider")]
    pub id: String,
    /// Name for people.
    pub name: String,
    /// The model that pi takes when none is chosen.
    pub default: String,
    /// Variables that hold a key, first one first.
    pub env: Vec<String>,
    /// What a log-in with it is called, when there is one.
    pub oauth: Option<String>,
    /// Wire format of most of its models.
    api: String,
    /// Address of most of its models.
    #[serde(rename = "baseUrl")]
    base_url: String,
}

impl Provider {
    /// A model's line, completed.
    fn model(&self, line: &str) -> Model {
        let mut facts: Map<String, Value> = serde_json::from_str(line).expect("a generated line is an object");
        let mut text = |key: &str, usual: &str| match facts.shift_remove(key) {
            Some(Value::String(own)) => own,
            _ => usual.to_owned(),
        };
        let (id, api) = (text("id", ""), text("api", &self.api));
        let base_url = text("baseUrl", &self.base_url);
        facts.insert("baseUrl".to_owned(), Value::String(base_url));
        let system_anywhere = api != "anthropic-messages";
        Model { provider: self.id.clone(), id, api, system_anywhere, facts }
    }
}

/// A provider and the lines of its models.
struct Section {
    provider: Provider,
    lines: &'static str,
}

static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
    let begins = TEXT.match_indices(PROVIDER).map(|(at, _)| at).filter(|at| TEXT[..*at].ends_with('\n'));
    let begins: Vec<usize> = begins.chain([TEXT.len()]).collect();
    let section = |ends: &[usize]| {
        let (line, lines) = TEXT[ends[0]..ends[1]].split_once('\n').expect("a line ends");
        Section { provider: serde_json::from_str(line).expect("a generated line is a provider"), lines }
    };
    begins.windows(2).map(section).collect()
});

/// All providers, in pi's order.
pub fn providers() -> impl Iterator<Item = &'static Provider> {
    SECTIONS.iter().map(|section| &section.provider)
}

/// A provider by name.
pub fn provider(id: &str) -> Option<&'static Provider> {
    providers().find(|provider| provider.id == id)
}

/// The models of a provider, in pi's order.
pub fn models(provider: &str) -> Vec<Model> {
    let section = section(provider);
    section.into_iter().flat_map(|section| section.lines.lines().map(|line| section.provider.model(line))).collect()
}

/// One model.
pub fn find(provider: &str, id: &str) -> Option<Model> {
    let section = section(provider)?;
    // The id is written as JSON writes it.
    let begins = format!("{{\"id\":{},", Value::String(id.to_owned()));
    section.lines.lines().find(|line| line.starts_with(&begins)).map(|line| section.provider.model(line))
}

fn section(id: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.provider.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A new pin without a new catalogue would be noticed by nobody else.
    #[test]
    fn it_is_of_the_packages_that_are_pinned() {
        let lock: Value = serde_json::from_str(include_str!("../../../fixtures/supply/lock.json")).unwrap();
        let head: Value = serde_json::from_str(TEXT.lines().next().unwrap()).unwrap();
        let sources = head["sources"].as_array().unwrap();
        assert_eq!(sources.len(), 2);
        for source in sources {
            let name = source["package"].as_str().unwrap();
            let mut units = lock["units"].as_object().unwrap().values();
            let pin = units.find_map(|unit| unit["packages"].get(name)).unwrap();
            assert_eq!((&source["version"], &source["integrity"]), (&pin["version"], &pin["integrity"]), "{name}");
        }
    }

    #[test]
    fn every_line_is_a_provider_or_one_of_its_models() {
        let mut seen = BTreeSet::new();
        let mut lines = 1;
        for known in providers() {
            let listed = models(&known.id);
            lines += 1 + listed.len();
            assert!(find(&known.id, &known.default).is_some(), "{} has its default", known.id);
            for model in listed {
                assert!(!model.api.is_empty() && model.context_window().is_some(), "{}/{}", model.provider, model.id);
                assert_eq!(find(&known.id, &model.id).as_ref(), Some(&model));
                assert!(seen.insert((model.provider, model.id)));
            }
        }
        assert_eq!(lines, TEXT.lines().count());
        assert!(provider("nobody").is_none() && find("openai", "nothing").is_none());
    }

    /// What the real package answers to `getModel("anthropic", "claude-opus-4-8")`.
    #[test]
    fn a_model_is_what_pi_says() {
        let expected = include_str!("../../../fixtures/catalogue/claude-opus-4-8.json");
        let model = find("anthropic", "claude-opus-4-8").unwrap().to_value();
        assert_eq!(serde_json::to_string(&model).unwrap(), expected.trim());
    }
}
