//! Determines the compatibility settings of chat completions servers by their name and address; `compat` of the model overrides
//! them.

use crate::provider::Model;
use serde_json::Value;

/// Requested retention of the prompt cache; see `PI_CACHE_RETENTION`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Retention {
    /// No cache marks are sent.
    None,
    /// The cache lasts some minutes.
    #[default]
    Short,
    /// The cache lasts an hour or a day, if the server offers it.
    Long,
}

/// Features of a model's server.
#[derive(Debug)]
pub(super) struct Compat<'a> {
    model: &'a Model,
    base: &'a str,
}

impl<'a> Compat<'a> {
    pub(super) fn of(model: &'a Model) -> Self {
        Self { model, base: model.base_url().unwrap_or(super::BASE_URL) }
    }

    fn is(&self, providers: &[&str], addresses: &[&str]) -> bool {
        providers.contains(&self.model.provider.as_str()) || addresses.iter().any(|part| self.base.contains(part))
    }

    fn is_zai(&self) -> bool {
        self.is(&["zai", "zai-coding-cn"], &["api.z.ai", "open.bigmodel.cn"])
    }

    fn is_together(&self) -> bool {
        self.is(&["together"], &["api.together.ai", "api.together.xyz"])
    }

    fn is_moonshot(&self) -> bool {
        self.is(&["moonshotai", "moonshotai-cn"], &["api.moonshot."])
    }

    fn is_openrouter(&self) -> bool {
        self.is(&["openrouter"], &["openrouter.ai"])
    }

    fn is_gateway(&self) -> bool {
        self.is(&["cloudflare-ai-gateway"], &["gateway.ai.cloudflare.com"])
    }

    fn is_workers(&self) -> bool {
        self.is(&["cloudflare-workers-ai"], &["api.cloudflare.com"])
    }

    fn is_nvidia(&self) -> bool {
        self.is(&["nvidia"], &["integrate.api.nvidia.com"])
    }

    fn is_ling(&self) -> bool {
        self.is(&["ant-ling"], &["api.ant-ling.com"])
    }

    fn is_deepseek(&self) -> bool {
        self.is(&["deepseek"], &["deepseek.com"])
    }

    fn is_grok(&self) -> bool {
        self.is(&["xai"], &["api.x.ai"])
    }

    /// Returns whether the server rejects OpenAI's own features.
    fn is_plain(&self) -> bool {
        self.is(&["cerebras", "opencode"], &["cerebras.ai", "chutes.ai", "opencode.ai"])
            || self.is_nvidia()
            || self.is_grok()
            || self.is_together()
            || self.is_deepseek()
            || self.is_zai()
            || self.is_moonshot()
            || self.is_workers()
            || self.is_gateway()
            || self.is_ling()
    }

    fn flag(&self, key: &str, otherwise: bool) -> bool {
        self.model.compat_flag(key).unwrap_or(otherwise)
    }

    fn named(&self, key: &str) -> Option<&'a str> {
        self.model.compat(key).and_then(Value::as_str)
    }

    /// Returns a flag whose default is `false` for all servers.
    pub(super) fn has(&self, key: &str) -> bool {
        self.flag(key, false)
    }

    pub(super) fn takes_store(&self) -> bool {
        self.flag("supportsStore", !self.is_plain())
    }

    /// Returns the role of system messages: `developer` for reasoning models of servers that know it.
    pub(super) fn system_role(&self) -> &'static str {
        let behind = self.model.id.starts_with("anthropic/") || self.model.id.starts_with("openai/");
        let takes = if self.is_openrouter() { behind } else { !self.is_plain() };
        if self.model.reasoning() && self.flag("supportsDeveloperRole", takes) { "developer" } else { "system" }
    }

    pub(super) fn takes_effort(&self) -> bool {
        let refuses = self.is_grok()
            || self.is_zai()
            || self.is_moonshot()
            || self.is_together()
            || self.is_gateway()
            || self.is_nvidia()
            || self.is_ling();
        self.flag("supportsReasoningEffort", !refuses)
    }

    pub(super) fn tells_usage(&self) -> bool {
        self.flag("supportsUsageInStreaming", true)
    }

    pub(super) fn tells_why_it_ended(&self) -> bool {
        self.flag("supportsFinishReason", true)
    }

    pub(super) fn tokens_member(&self) -> &'a str {
        let old = self.is(&[], &["chutes.ai"])
            || self.is_deepseek()
            || self.is_moonshot()
            || self.is_gateway()
            || self.is_together()
            || self.is_nvidia()
            || self.is_ling()
            || self.is_zai();
        self.named("maxTokensField").unwrap_or(if old { "max_tokens" } else { "max_completion_tokens" })
    }

    pub(super) fn wants_reasoning_back(&self) -> bool {
        self.flag("requiresReasoningContentOnAssistantMessages", self.is_deepseek())
    }

    pub(super) fn thinking_format(&self) -> &'a str {
        self.named("thinkingFormat").unwrap_or(match () {
            () if self.is_deepseek() => "deepseek",
            () if self.is_zai() => "zai",
            () if self.is_together() => "together",
            () if self.is_ling() => "ant-ling",
            () if self.is_openrouter() => "openrouter",
            () => "openai",
        })
    }

    /// Returns whether the server accepts Anthropic's cache marks.
    pub(super) fn marks_cache(&self) -> bool {
        match self.named("cacheControlFormat") {
            Some(format) => format == "anthropic",
            None => self.model.provider == "openrouter" && self.model.id.starts_with("anthropic/"),
        }
    }

    pub(super) fn keeps_long(&self) -> bool {
        let not = self.is_together() || self.is_workers() || self.is_gateway() || self.is_nvidia() || self.is_ling();
        self.flag("supportsLongCacheRetention", !not)
    }

    /// Returns whether the server accepts a cache key.
    pub(super) fn is_openai(&self) -> bool {
        self.base.contains("api.openai.com")
    }

    /// Returns the member that limits thinking tokens.
    pub(super) fn budget_member(&self) -> Option<&'a str> {
        self.named("thinkingTokenBudgetField")
            .or_else(|| self.has("supportsThinkingTokenBudget").then_some("thinking_token_budget"))
    }
}
