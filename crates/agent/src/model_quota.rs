//! Quotas of model requests by extensions: their own requests, and the turns of the conversation that they trigger.
//!
//! The user pays for such requests and does not see them. Each extension therefore has a limit of concurrent requests, and of
//! tokens per run of the program, across all sessions and restarts of its realm.

use pijs_llm::message::Usage;
use pijs_protocol::{ExtensionId, HostcallError, guard};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Minimum number of tokens charged for a request, so that many small requests use up the quota as well.
const MIN_TOKENS: u64 = 500;

/// Estimated bytes per token, for a provider that does not report the usage.
const BYTES_PER_TOKEN: u64 = 4;

/// Divisor for tokens read from a provider's cache: they cost about a tenth of other input.
const CACHE_DISCOUNT: u64 = 10;

/// Limits of one extension's model requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelQuotaLimits {
    /// Maximum number of concurrent requests.
    pub at_once: u64,
    /// Maximum number of tokens in one run of the program: input and output, and a tenth of cached input.
    pub tokens: u64,
}

impl Default for ModelQuotaLimits {
    fn default() -> Self {
        // Enough for a day's work of several concurrent agents.
        Self { at_once: 64, tokens: 50_000_000 }
    }
}

/// Model requests of all extensions so far.
#[derive(Debug)]
pub(crate) struct ModelQuota {
    limits: ModelQuotaLimits,
    by_extension: RefCell<BTreeMap<ExtensionId, ModelSpending>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct ModelSpending {
    at_once: u64,
    tokens: u64,
}

impl ModelQuota {
    pub(crate) fn new(limits: ModelQuotaLimits) -> Self {
        Self { limits, by_extension: RefCell::default() }
    }

    /// Begins a request of a given size in bytes. The request counts as in flight until the result is dropped.
    ///
    /// # Errors
    ///
    /// `denied`, quota `model_requests` or `model_tokens`: the extension has reached a limit.
    pub(crate) fn begin(&self, extension: &ExtensionId, bytes: usize) -> Result<RequestCharge<'_>, HostcallError> {
        let ModelQuotaLimits { at_once, tokens } = self.limits;
        let mut all = self.by_extension.borrow_mut();
        let spent = all.entry(extension.clone()).or_default();
        if spent.at_once >= at_once && guard!(QuotaModelRequests) {
            let message =
                format!("{at_once} model requests of this extension are in flight; wait until one of them ends");
            return Err(used_up(message, "model_requests", at_once).retryable());
        }
        if spent.tokens >= tokens && guard!(QuotaModelTokens) {
            let message = format!(
                "this extension has used {tokens} model tokens; raise `extensions.policy.max_model_tokens` in the settings to allow more"
            );
            return Err(used_up(message, "model_tokens", tokens));
        }
        let reserved = MIN_TOKENS.max(u64::try_from(bytes).unwrap_or(u64::MAX) / BYTES_PER_TOKEN);
        spent.at_once += 1;
        spent.tokens = spent.tokens.saturating_add(reserved);
        Ok(RequestCharge { quota: self, extension: extension.clone(), reserved })
    }
}

fn used_up(message: String, quota: &str, limit: u64) -> HostcallError {
    HostcallError::denied("quota", message).with("quota", quota).with("limit", limit)
}

/// A request in flight.
pub(crate) struct RequestCharge<'a> {
    quota: &'a ModelQuota,
    extension: ExtensionId,
    reserved: u64,
}

impl RequestCharge<'_> {
    /// Ends a request and charges the reported usage. If the usage is empty, the estimate stays charged.
    pub(crate) fn end(self, usage: &Usage) {
        let had = Usage { cache_read: usage.cache_read / CACHE_DISCOUNT, ..*usage }.all();
        if had > 0
            && let Some(spent) = self.quota.by_extension.borrow_mut().get_mut(&self.extension)
        {
            spent.tokens = spent.tokens.saturating_sub(self.reserved).saturating_add(had.max(MIN_TOKENS));
        }
    }
}

impl Drop for RequestCharge<'_> {
    fn drop(&mut self) {
        if let Some(spent) = self.quota.by_extension.borrow_mut().get_mut(&self.extension) {
            spent.at_once -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_extension_has_a_concurrency_and_a_token_limit() {
        let quotas = ModelQuota::new(ModelQuotaLimits { at_once: 2, tokens: 4_000 });
        let (one, other) = (ExtensionId::new("one"), ExtensionId::new("other"));
        let quota = |result: Result<RequestCharge<'_>, HostcallError>| result.err().unwrap().details["quota"].clone();
        let (first, second) = (quotas.begin(&one, 0).unwrap(), quotas.begin(&one, 4_000).unwrap());
        assert_eq!(quota(quotas.begin(&one, 0)), "model_requests");
        assert!(quotas.begin(&other, 0).is_ok());
        // One request reports its usage, the other one does not.
        first.end(&Usage { input: 1_000, output: 900, cache_read: 5_000, ..Usage::default() });
        second.end(&Usage::default());
        assert_eq!(quotas.by_extension.borrow()[&one].tokens, 2_400 + 1_000);
        quotas.begin(&one, 2_400).unwrap().end(&Usage::default());
        assert_eq!(quota(quotas.begin(&one, 0)), "model_tokens");
        assert!(quotas.begin(&other, 0).is_ok());
    }
}
