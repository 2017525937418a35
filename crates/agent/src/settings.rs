//! What a person may set about compaction, retries and queues; pi's names and defaults.

use pijs_llm::provider::ProviderOptions;

/// Settings of a session.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// When and how the conversation is summarised.
    pub compaction: CompactionSettings,
    /// What happens after a failure of the model.
    pub retry: RetrySettings,
    /// Whether all steering messages are taken at once.
    pub steer_all: bool,
    /// Whether all follow-up messages are taken at once.
    pub follow_up_all: bool,
    /// Limits for providers that extensions register.
    pub provider: ProviderOptions,
}

/// When and how the conversation is summarised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionSettings {
    /// Without being asked.
    pub enabled: bool,
    /// Tokens of the context window kept free for the reply.
    pub reserve_tokens: u64,
    /// Tokens of the newest messages that are not summarised.
    pub keep_recent_tokens: u64,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self { enabled: true, reserve_tokens: 16_384, keep_recent_tokens: 20_000 }
    }
}

/// What happens after a failure of the model that may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetrySettings {
    /// Whether the model is asked again.
    pub enabled: bool,
    /// How often in a row.
    pub max_retries: u32,
    /// The first wait; it doubles.
    pub base_delay_ms: u64,
    /// The longest wait, but for one that the provider asks for.
    pub max_delay_ms: u64,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self { enabled: true, max_retries: 3, base_delay_ms: 2000, max_delay_ms: 60_000 }
    }
}
