//! [`Model`]: the model of a request, with the members of pi's `Model`.
//!
//! The agent reads few of these members; extensions see all of them as `ctx.model`. The thinking levels are those of pi-ai:
//! `off`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`. A model without reasoning only has `off`; `thinkingLevelMap` may
//! remove levels or add the last two.

use crate::message::{Cost, Usage};
use pijs_protocol::guard;
use serde_json::{Map, Value, json};

/// All thinking levels, weakest first.
pub const THINKING_LEVELS: [&str; 7] = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

/// A model and its properties.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Provider: `openai`, `anthropic`, `script`, or one registered by an extension.
    pub provider: String,
    /// Model id, or the script's file name.
    pub id: String,
    /// Wire format in pi's vocabulary.
    pub api: String,
    /// Whether a system message may occur within a conversation.
    pub system_anywhere: bool,
    /// All other members of pi's `Model`: `name`, `baseUrl`, `reasoning`, `contextWindow`, ...
    pub facts: Map<String, Value>,
}

impl Model {
    /// Creates a model without further properties.
    pub fn new(provider: impl Into<String>, id: impl Into<String>, api: impl Into<String>) -> Self {
        let (provider, id, api) = (provider.into(), id.into(), api.into());
        Self { provider, id, api, system_anywhere: true, facts: Map::new() }
    }

    /// Returns the placeholder that means that no model is chosen, as in pi.
    pub fn unknown() -> Self {
        Self::new("unknown", "unknown", "unknown").with("input", json!([]))
    }

    /// Returns whether this is [`Model::unknown`].
    pub fn is_unknown(&self) -> bool {
        self.provider == "unknown" && self.api == "unknown"
    }

    /// Adds a member.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(key.to_owned(), value.into());
        self
    }

    /// Parses pi's format; returns `None` without `id` and `provider`.
    pub fn from_value(value: &Value) -> Option<Self> {
        let mut facts = value.as_object()?.clone();
        let mut text = |key: &str| facts.remove(key).and_then(|value| value.as_str().map(str::to_owned));
        let (provider, id, api) = (text("provider")?, text("id")?, text("api").unwrap_or_default());
        // Only the Messages API rejects system messages within a conversation.
        let system_anywhere = api != "anthropic-messages";
        Some(Self { provider, id, api, system_anywhere, facts })
    }

    /// Returns pi's format, with all required members.
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        let fact = |key: &str, default: Value| self.facts.get(key).cloned().unwrap_or(default);
        out.insert("id".to_owned(), json!(self.id));
        out.insert("name".to_owned(), fact("name", json!(self.id)));
        out.insert("api".to_owned(), json!(self.api));
        out.insert("provider".to_owned(), json!(self.provider));
        for (key, default) in [
            ("baseUrl", json!("")),
            ("reasoning", json!(false)),
            ("input", json!(["text"])),
            ("cost", json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0})),
            ("contextWindow", json!(0)),
            ("maxTokens", json!(0)),
        ] {
            out.insert(key.to_owned(), fact(key, default));
        }
        for (key, value) in &self.facts {
            out.entry(key.clone()).or_insert_with(|| value.clone());
        }
        if let Some(place) = self.base_url().and_then(without_password) {
            out.insert("baseUrl".to_owned(), json!(place));
        }
        Value::Object(out)
    }

    /// Returns whether both are the same model, regardless of their properties.
    pub fn is(&self, other: &Self) -> bool {
        self.provider == other.provider && self.id == other.id
    }

    /// Returns the base URL.
    pub fn base_url(&self) -> Option<&str> {
        self.facts.get("baseUrl").and_then(Value::as_str).filter(|url| !url.is_empty())
    }

    /// Returns the base URL, or `usual` if there is none, without a trailing slash.
    pub(super) fn address<'a>(&'a self, usual: &'a str) -> &'a str {
        self.base_url().unwrap_or(usual).trim_end_matches('/')
    }

    /// Returns whether the model can reason.
    pub fn reasoning(&self) -> bool {
        self.facts.get("reasoning").and_then(Value::as_bool).unwrap_or(false)
    }

    /// Returns whether the model is known not to accept images.
    pub fn is_blind(&self) -> bool {
        let takes = self.facts.get("input").and_then(Value::as_array);
        takes.is_some_and(|takes| !takes.contains(&Value::from("image")))
    }

    /// Returns the context window in tokens, if known.
    pub fn context_window(&self) -> Option<u64> {
        self.facts.get("contextWindow").and_then(Value::as_u64).filter(|tokens| *tokens > 0)
    }

    /// Returns the token limit of a reply, if known.
    pub fn max_tokens(&self) -> Option<u64> {
        self.facts.get("maxTokens").and_then(Value::as_u64).filter(|tokens| *tokens > 0)
    }

    /// Returns a compatibility setting of the server.
    pub fn compat(&self, key: &str) -> Option<&Value> {
        self.facts.get("compat")?.get(key)
    }

    /// Returns a boolean compatibility setting of the server.
    pub fn compat_flag(&self, key: &str) -> Option<bool> {
        self.compat(key).and_then(Value::as_bool)
    }

    /// Returns whether thinking can be turned off.
    pub fn can_disable_thinking(&self) -> bool {
        self.facts.get("thinkingLevelMap").and_then(|map| map.get("off")).is_none_or(|off| !off.is_null())
    }

    /// Returns the server's name of a thinking level, if `thinkingLevelMap` has one.
    pub fn mapped_level(&self, level: &str) -> Option<&str> {
        self.facts.get("thinkingLevelMap")?.get(level)?.as_str()
    }

    /// Returns additional request members from the configuration. They override generated members.
    pub fn sampling(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.facts.get("samplingParams").and_then(Value::as_object).into_iter().flatten()
    }

    /// Returns the cost of these tokens. If there are several price tiers, the tier for a request of this size applies.
    pub fn price(&self, usage: &Usage) -> Cost {
        let prices = self.facts.get("cost");
        let read = usage.all_read();
        let above = |tier: &Value| tier.get("inputTokensAbove").and_then(Value::as_u64).filter(|above| read > *above);
        let tiers = prices.and_then(|prices| prices.get("tiers")?.as_array()).into_iter().flatten();
        let tier = tiers.filter_map(|tier| Some((above(tier)?, tier))).max_by_key(|(above, _)| *above);
        let prices = tier.map(|(_, tier)| tier).or(prices);
        let price = |key: &str| prices.and_then(|prices| prices.get(key)?.as_f64()).unwrap_or(0.0);
        let of = |key: &str, tokens: u64| price(key) / 1_000_000.0 * tokens as f64;
        let (input, output) = (of("input", usage.input), of("output", usage.output));
        let cache_read = of("cacheRead", usage.cache_read);
        // A cache entry for one hour costs twice the input price.
        let long = usage.cache_write_1h.unwrap_or(0);
        let short = usage.cache_write.saturating_sub(long);
        let cache_write = (price("cacheWrite") * short as f64 + price("input") * 2.0 * long as f64) / 1_000_000.0;
        Cost { input, output, cache_read, cache_write, total: input + output + cache_read + cache_write }
    }

    /// Returns the supported thinking levels.
    pub fn thinking_levels(&self) -> Vec<&'static str> {
        if !self.reasoning() {
            return vec!["off"];
        }
        let map = self.facts.get("thinkingLevelMap");
        let mapped = |level: &str| map.and_then(|map| map.get(level));
        THINKING_LEVELS
            .into_iter()
            .filter(|level| match mapped(level) {
                Some(Value::Null) => false,
                None => !matches!(*level, "xhigh" | "max"),
                Some(_) => true,
            })
            .collect()
    }

    /// Returns the server's name of a thinking level, or the level itself.
    pub fn thinking_value<'a>(&'a self, level: &'a str) -> &'a str {
        let mapped = self.facts.get("thinkingLevelMap").and_then(|map| map.get(level));
        mapped.and_then(Value::as_str).unwrap_or(level)
    }

    /// Returns the nearest supported level: upwards first, then downwards.
    pub fn clamp_thinking(&self, level: &str) -> &'static str {
        let levels = self.thinking_levels();
        let Some(asked) = THINKING_LEVELS.iter().position(|known| *known == level) else {
            return levels.first().copied().unwrap_or("off");
        };
        let has = |known: &&&str| levels.contains(*known);
        let up = THINKING_LEVELS[asked..].iter().find(has);
        up.or_else(|| THINKING_LEVELS[..asked].iter().rev().find(has)).copied().unwrap_or("off")
    }
}

/// Returns an address without its user and password, which are secrets of the user: extensions see models.
fn without_password(address: &str) -> Option<String> {
    let mut url = reqwest::Url::parse(address).ok()?;
    if (url.username().is_empty() && url.password().is_none()) || !guard!(ProviderAddress) {
        return None;
    }
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    Some(url.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_clamped_upwards_first() {
        let plain = Model::new("p", "m", "a");
        assert_eq!(plain.clamp_thinking("high"), "off");
        let thinks = plain.clone().with("reasoning", true);
        assert_eq!(thinks.thinking_levels(), ["off", "minimal", "low", "medium", "high"]);
        assert_eq!(thinks.clamp_thinking("max"), "high");
        let coarse = thinks.with("thinkingLevelMap", json!({"off": null, "minimal": null, "low": null, "xhigh": "x"}));
        assert_eq!(coarse.clamp_thinking("off"), "medium");
        assert_eq!(coarse.clamp_thinking("max"), "xhigh");
        assert_eq!(coarse.clamp_thinking("nonsense"), "medium");
    }

    #[test]
    fn the_largest_reached_price_tier_applies() {
        let model = Model::new("p", "m", "a").with(
            "cost",
            json!({"input": 1, "output": 2, "cacheRead": 0.5, "cacheWrite": 4,
            "tiers": [{"inputTokensAbove": 1000, "input": 10, "output": 20, "cacheRead": 5, "cacheWrite": 40}]}),
        );
        let usage = |input| Usage { input, output: 100, cache_read: 200, ..Usage::default() };
        let millionths = |input| (model.price(&usage(input)).total * 1e6).round();
        assert_eq!((millionths(800), millionths(801)), (800.0 + 200.0 + 100.0, 8010.0 + 2000.0 + 1000.0));
        assert_eq!(Model::new("p", "m", "a").price(&usage(1)), Cost::default());
    }

    #[test]
    fn pis_shape_survives_a_round_trip() {
        let value = json!({"id": "m", "name": "M", "api": "openai-completions", "provider": "p", "baseUrl": "http://x/v1",
            "reasoning": true, "input": ["text"], "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0},
            "contextWindow": 10, "maxTokens": 5, "headers": {"a": "b"}});
        assert_eq!(Model::from_value(&value).unwrap().to_value(), value);
        assert_eq!(Model::from_value(&json!({"id": "m"})), None);
    }
}
