//! Resolves model names from the command line, from settings and from pattern lists.
//!
//! The rules are pi's. A name is matched as `PROVIDER/ID`, as an id, and as a substring of an id or display name; undated ids
//! have precedence over dated ones, and later ones over earlier. A thinking level may follow after a colon. Since ids may contain
//! colons, the whole name is tried first.

use crate::catalogue;
use crate::provider::{Model, THINKING_LEVELS};
use globset::GlobBuilder;
use pijs_protocol::globs;

/// A resolved model.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenModel {
    /// The model.
    pub model: Model,
    /// Thinking level after the colon.
    pub thinking: Option<String>,
    /// Warning for the user.
    pub warning: Option<String>,
}

impl ChosenModel {
    fn plain(model: &Model) -> Self {
        Self { model: model.clone(), thinking: None, warning: None }
    }
}

/// Values of `--provider`, `--model` and `--thinking`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelArguments<'a> {
    /// `--provider`.
    pub provider: Option<&'a str>,
    /// `--model`.
    pub model: &'a str,
    /// `--thinking`.
    pub thinking: Option<&'a str>,
}

/// Providers that serve models that they make themselves.
const MAKERS: [&str; 3] = ["anthropic", "google", "openai"];

/// Resolves the model of the command line among all models.
///
/// A known provider accepts unknown ids, since the catalogue may be outdated. A substring resolves to a model that `can_ask`
/// accepts, or else to a model that its maker serves in a wire format that `speaks` accepts, so that only a key is missing. pi
/// takes the newest of all matches.
///
/// # Errors
///
/// Fails with pi's message when no model or several match.
pub fn named(
    wanted: ModelArguments<'_>,
    all: &[Model],
    has_key: &dyn Fn(&str) -> bool,
    can_ask: &dyn Fn(&Model) -> bool,
    speaks: &dyn Fn(&Model) -> bool,
) -> Result<ChosenModel, String> {
    let part = |pattern: &str, models: &[Model]| {
        let chosen = matched(pattern, models, false)?;
        let name = chosen.thinking.as_ref().and_then(|_| Some(pattern.rsplit_once(':')?.0)).unwrap_or(pattern);
        let is_whole = same(&chosen.model.id, name) || same(&full(&chosen.model), name);
        if is_whole || can_ask(&chosen.model) {
            return Some(chosen);
        }
        let among = |may: &dyn Fn(&Model) -> bool| {
            let usable: Vec<Model> = models.iter().filter(|model| may(model)).cloned().collect();
            matched(pattern, &usable, false)
        };
        let has_key = has_key(&chosen.model.provider);
        among(can_ask)
            .or_else(|| {
                if has_key { None } else { among(&|model| speaks(model) && MAKERS.contains(&model.provider.as_str())) }
            })
            .or(Some(chosen))
    };
    let known = |name: &str| all.iter().map(|model| model.provider.as_str()).find(|known| same(known, name));
    let mut provider = None;
    if let Some(name) = wanted.provider {
        provider = Some(known(name).ok_or_else(|| {
            format!("Unknown provider {name:?}. Use --list-models to see available providers/models.")
        })?);
    }
    let (mut pattern, mut inferred) = (wanted.model, false);
    match (provider, wanted.model.split_once('/')) {
        (None, Some((before, after))) => {
            if let Some(name) = known(before) {
                (provider, pattern, inferred) = (Some(name), after, true);
            }
        }
        (Some(name), Some((before, after))) if same(name, before) => pattern = after,
        _ => {}
    }
    let Some(provider) = provider else {
        return match exact(wanted.model, all, has_key)? {
            Some(model) => Ok(ChosenModel::plain(model)),
            None => part(wanted.model, all).ok_or_else(|| not_found(wanted.model)),
        };
    };
    let own: Vec<Model> = all.iter().filter(|model| model.provider == provider).cloned().collect();
    if let Some(chosen) = part(pattern, &own) {
        // An id may begin with the name of another provider; a usable model with this id has precedence.
        let raw: Vec<&Model> =
            all.iter().filter(|model| same(&model.id, wanted.model) && !model.is(&chosen.model)).collect();
        if inferred && !raw.is_empty() && !has_key(provider) {
            let usable: Vec<&&Model> = raw.iter().filter(|model| has_key(&model.provider)).collect();
            if let [model] = usable[..] {
                return Ok(ChosenModel::plain(model));
            }
        }
        return Ok(chosen);
    }
    if inferred {
        let whole = all.iter().find(|model| same(&model.id, wanted.model));
        if let Some(chosen) = whole.map(ChosenModel::plain).or_else(|| part(wanted.model, all)) {
            return Ok(chosen);
        }
    }
    unlisted(provider, pattern, wanted.thinking, &own).ok_or_else(|| not_found(&format!("{provider}/{pattern}")))
}

/// Returns the model with this id; if several providers have it, the one whose provider has a key.
fn exact<'a>(name: &str, all: &'a [Model], has_key: &dyn Fn(&str) -> bool) -> Result<Option<&'a Model>, String> {
    let found: Vec<&Model> = all.iter().filter(|model| same(&model.id, name) || same(&full(model), name)).collect();
    if let [] | [_] = found[..] {
        return Ok(found.first().copied());
    }
    let usable: Vec<&&Model> = found.iter().filter(|model| has_key(&model.provider)).collect();
    if let [model] = usable[..] {
        return Ok(Some(model));
    }
    let mut names: Vec<String> = found.iter().map(|model| full(model)).collect();
    names.sort_by_key(|name| collated(name));
    let hint = match usable.is_empty() {
        true => "No matching provider is authenticated.",
        false => "More than one matching provider is authenticated.",
    };
    Err(format!(
        "Model {name:?} is ambiguous across providers: {}. {hint} Use --provider or provider/model.",
        names.join(", ")
    ))
}

/// Returns a model with an id that the catalogue lacks, based on the provider's default model.
fn unlisted(provider: &str, pattern: &str, thinking: Option<&str>, own: &[Model]) -> Option<ChosenModel> {
    let (id, level) = match pattern.rsplit_once(':') {
        Some((id, level)) if thinking.is_none() && is_level(level) => (id, Some(level)),
        _ => (pattern, None),
    };
    let default = catalogue::provider(provider).map(|known| known.default.as_str());
    let like = own.iter().find(|model| Some(model.id.as_str()) == default).or_else(|| own.first())?;
    let mut model = Model { id: id.to_owned(), ..like.clone() }.with("name", id);
    if thinking.or(level).is_some_and(|level| level != "off") {
        model = model.with("reasoning", true);
    }
    let warning = format!("Model {id:?} not found for provider {provider:?}. Using custom model id.");
    Some(ChosenModel { model, thinking: level.map(str::to_owned), warning: Some(warning) })
}

/// Resolves patterns to models, in order and without duplicates. Returns the models, and warnings for patterns without a match.
pub fn scope(patterns: &[String], available: &[Model]) -> (Vec<ChosenModel>, Vec<String>) {
    let (mut chosen, mut warnings): (Vec<ChosenModel>, Vec<String>) = (Vec::new(), Vec::new());
    for pattern in patterns {
        let found = if pattern.contains(['*', '?', '[']) {
            globbed(pattern, available)
        } else {
            matched(pattern, available, true).into_iter().collect()
        };
        if found.is_empty() {
            warnings.push(format!("No models match pattern {pattern:?}"));
        }
        for one in found {
            warnings.extend(one.warning.clone());
            if !chosen.iter().any(|known| known.model.is(&one.model)) {
                chosen.push(one);
            }
        }
    }
    (chosen, warnings)
}

fn globbed(pattern: &str, available: &[Model]) -> Vec<ChosenModel> {
    let (pattern, thinking) = match pattern.rsplit_once(':') {
        Some((pattern, level)) if is_level(level) => (pattern, Some(level.to_owned())),
        _ => (pattern, None),
    };
    if !globs::fits(pattern) {
        return Vec::new();
    }
    let glob = GlobBuilder::new(pattern).case_insensitive(true).literal_separator(true).build();
    let Ok(glob) = glob.map(|glob| glob.compile_matcher()) else { return Vec::new() };
    let matches = |model: &&Model| glob.is_match(full(model)) || glob.is_match(&model.id);
    let with_level = |model: &Model| ChosenModel { thinking: thinking.clone(), ..ChosenModel::plain(model) };
    available.iter().filter(matches).map(with_level).collect()
}

/// Returns pi's default model: the first available default of a provider, or the first available model.
pub fn any(available: &[Model]) -> Option<&Model> {
    let default = |provider: &catalogue::CatalogueProvider| {
        available.iter().find(|model| model.provider == provider.id && model.id == provider.default)
    };
    catalogue::providers().find_map(default).or_else(|| available.first())
}

/// Resolves a pattern with an optional thinking level. With `lenient`, an invalid level is dropped with a warning.
fn matched(pattern: &str, models: &[Model], lenient: bool) -> Option<ChosenModel> {
    if let Some(model) = one(pattern, models) {
        return Some(ChosenModel::plain(model));
    }
    let (before, level) = pattern.rsplit_once(':')?;
    if !is_level(level) && !lenient {
        return None;
    }
    let inner = matched(before, models, lenient)?;
    if is_level(level) {
        let thinking = inner.warning.is_none().then(|| level.to_owned());
        return Some(ChosenModel { thinking, ..inner });
    }
    let warning = format!("Invalid thinking level {level:?} in pattern {pattern:?}. Using default instead.");
    Some(ChosenModel { thinking: None, warning: Some(warning), ..inner })
}

/// Resolves a pattern by full name, by id, or as a substring of a name or id.
fn one<'a>(pattern: &str, models: &'a [Model]) -> Option<&'a Model> {
    let name = pattern.trim();
    if !name.is_empty() {
        let full_names: Vec<&Model> = models.iter().filter(|model| same(&full(model), name)).collect();
        match full_names[..] {
            [model] => return Some(model),
            [] => {}
            _ => return None,
        }
        let ids: Vec<&Model> = models.iter().filter(|model| same(&model.id, name)).collect();
        if let [model] = ids[..] {
            return Some(model);
        }
    }
    let part = pattern.to_lowercase();
    let has = |model: &&Model| {
        let shown = model.facts.get("name").and_then(serde_json::Value::as_str).unwrap_or_default();
        model.id.to_lowercase().contains(&part) || shown.to_lowercase().contains(&part)
    };
    let found: Vec<&Model> = models.iter().filter(has).collect();
    let latest = |dated: bool| {
        let of_kind = found.iter().copied().filter(move |model| is_dated(&model.id) == dated);
        // If ids are equal, the first provider's model is taken.
        of_kind.rev().max_by_key(|model| collated(&model.id))
    };
    latest(false).or_else(|| latest(true))
}

/// Returns whether an id ends with a date, such as `-20250929`.
fn is_dated(id: &str) -> bool {
    id.rsplit_once('-').is_some_and(|(_, day)| day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns a sort key with the order of JavaScript's `localeCompare`: punctuation, digits, letters; upper case only breaks ties.
pub fn collated(name: &str) -> (Vec<u32>, Vec<bool>) {
    const MARKS: &str = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";
    let rank = |character: char| match MARKS.find(character) {
        Some(at) => at as u32,
        None => 128 + u32::from(character.to_ascii_lowercase()),
    };
    (name.chars().map(rank).collect(), name.chars().map(|character| character.is_ascii_uppercase()).collect())
}

fn is_level(text: &str) -> bool {
    THINKING_LEVELS.contains(&text)
}

fn full(model: &Model) -> String {
    format!("{}/{}", model.provider, model.id)
}

fn same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

fn not_found(name: &str) -> String {
    format!("Model {name:?} not found. Use --list-models to see available models.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::APIS;
    use serde::Deserialize;
    use serde_json::Value;
    use std::collections::BTreeMap;

    /// Output of pi's own resolver; see `fixtures/catalogue/capture.mjs`.
    #[derive(Deserialize)]
    struct Case {
        provider: Option<String>,
        model: String,
        thinking: Option<String>,
        keys: Vec<String>,
        answer: BTreeMap<String, Value>,
    }

    #[derive(Deserialize)]
    struct Scope {
        patterns: Vec<String>,
        chosen: Vec<String>,
        warnings: Vec<String>,
    }

    #[derive(Deserialize)]
    struct Cases {
        pi: String,
        named: Vec<Case>,
        scopes: Vec<Scope>,
    }

    fn all() -> Vec<Model> {
        catalogue::providers().flat_map(|provider| catalogue::models(&provider.id)).collect()
    }

    fn cases() -> Cases {
        let cases: Cases = serde_json::from_str(include_str!("../../../fixtures/catalogue/choices.json")).unwrap();
        assert_eq!(cases.pi, "0.87.1");
        cases
    }

    #[test]
    fn names_resolve_as_in_pi() {
        let all = all();
        for case in cases().named {
            let wanted = ModelArguments {
                provider: case.provider.as_deref(),
                model: &case.model,
                thinking: case.thinking.as_deref(),
            };
            let has_key = |provider: &str| case.keys.iter().any(|known| known == provider);
            let mut answer = BTreeMap::new();
            let can_ask = |model: &Model| has_key(&model.provider) && APIS.contains(&model.api.as_str());
            match named(wanted, &all, &has_key, &can_ask, &|_| false) {
                Ok(chosen) => {
                    answer.insert("model".to_owned(), Value::from(full(&chosen.model)));
                    answer.insert("reasoning".to_owned(), Value::from(chosen.model.reasoning()));
                    answer.extend(chosen.thinking.map(|level| ("thinking".to_owned(), Value::from(level))));
                    answer.extend(chosen.warning.map(|said| ("warning".to_owned(), Value::from(said))));
                }
                Err(said) => drop(answer.insert("error".to_owned(), Value::from(said))),
            }
            assert_eq!(answer, case.answer, "{wanted:?}");
        }
    }

    #[test]
    fn a_substring_resolves_to_an_available_model() {
        let all = all();
        for (part, keys, expected) in [
            ("opus", &["anthropic", "amazon-bedrock"][..], "anthropic/"),
            ("opus", &["openrouter"], "openrouter/"),
            ("opus:high", &["anthropic"], "anthropic/"),
            ("sonnet", &["amazon-bedrock"], "amazon-bedrock/"),
            ("haiku", &[], "anthropic/"),
        ] {
            let has_key = |provider: &str| keys.contains(&provider);
            let can_ask = |model: &Model| has_key(&model.provider) && APIS.contains(&model.api.as_str());
            let wanted = ModelArguments { model: part, ..ModelArguments::default() };
            let chosen = named(wanted, &all, &has_key, &can_ask, &|model| APIS.contains(&model.api.as_str())).unwrap();
            assert!(full(&chosen.model).starts_with(expected), "{part} {keys:?}: {}", full(&chosen.model));
            assert_eq!(chosen.thinking.is_some(), part.contains(':'));
        }
    }

    #[test]
    fn patterns_resolve_as_in_pi() {
        let all = all();
        for case in cases().scopes {
            let (chosen, warnings) = scope(&case.patterns, &all);
            let shown = |chosen: &ChosenModel| match &chosen.thinking {
                Some(level) => format!("{}:{level}", full(&chosen.model)),
                None => full(&chosen.model),
            };
            assert_eq!(chosen.iter().map(shown).collect::<Vec<_>>(), case.chosen, "{:?}", case.patterns);
            assert_eq!(warnings, case.warnings, "{:?}", case.patterns);
        }
    }
}
