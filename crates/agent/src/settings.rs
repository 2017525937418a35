//! Settings of compaction, retries and queues, with pi's names and defaults.

use pijs_llm::provider::ProviderOptions;
use serde::{Deserialize, Serialize};

/// Settings of a session. Its JSON form omits the limits of providers, which the agent loop does not use.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Settings {
    /// Settings of compaction.
    pub compaction: CompactionSettings,
    /// Settings of retries after a failure of the model.
    pub retry: RetrySettings,
    /// Whether a request takes all queued steering messages; otherwise it takes one.
    pub steer_all: bool,
    /// Whether a run takes all queued follow-up messages; otherwise it takes one.
    pub follow_up_all: bool,
    /// Limits for providers that extensions register.
    #[serde(skip)]
    pub provider: ProviderOptions,
}

/// Settings of compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionSettings {
    /// Whether compaction is automatic.
    pub enabled: bool,
    /// Tokens of the context window kept free for the reply.
    pub reserve_tokens: u64,
    /// Number of tokens of the newest messages that are kept and not summarised.
    pub keep_recent_tokens: u64,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self { enabled: true, reserve_tokens: 16_384, keep_recent_tokens: 20_000 }
    }
}

/// Settings of retries after a transient failure of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetrySettings {
    /// Whether requests are retried.
    pub enabled: bool,
    /// Maximum number of consecutive retries.
    pub max_retries: u32,
    /// Delay before the first retry in milliseconds; it doubles with each retry.
    pub base_delay_ms: u64,
    /// Maximum delay in milliseconds, unless the provider requests a longer one.
    pub max_delay_ms: u64,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self { enabled: true, max_retries: 3, base_delay_ms: 2000, max_delay_ms: 60_000 }
    }
}
