//! What extensions may cost: the models that they ask by themselves, and the turns that they have the conversation's model answer.
//!
//! Nobody sees such a request, and its user pays. So each extension has so many at once, and so many tokens in a run of
//! `pi`, however many sessions that run has and however often its realm begins anew.

use pijs_llm::message::Usage;
use pijs_protocol::{ExtensionId, HostcallError, guard};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What a request counts at least: many small ones cost, too.
const LEAST: u64 = 500;

/// Bytes of a request for each token, where the provider does not say how many there were.
const BYTES_OF_A_TOKEN: u64 = 4;

/// What is read from a provider's cache costs about this part of what is read anew.
const CACHED: u64 = 10;

/// Limits of what one extension asks models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskLimits {
    /// Requests at once.
    pub at_once: u64,
    /// Tokens in one run of `pi`: read and written, a tenth of what came from a cache.
    pub tokens: u64,
}

impl Default for AskLimits {
    fn default() -> Self {
        // A day's work of several agents side by side.
        Self { at_once: 64, tokens: 50_000_000 }
    }
}

/// What extensions have asked so far.
#[derive(Debug)]
pub(crate) struct Asked {
    limits: AskLimits,
    by_extension: RefCell<BTreeMap<ExtensionId, Spent>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Spent {
    at_once: u64,
    tokens: u64,
}

impl Asked {
    pub(crate) fn new(limits: AskLimits) -> Self {
        Self { limits, by_extension: RefCell::default() }
    }

    /// Begins a request of so many bytes; it counts as under way until what this gives is dropped.
    ///
    /// # Errors
    ///
    /// `denied`, quota `model_requests` or `model_tokens`: the extension has asked enough.
    pub(crate) fn begin(&self, extension: &ExtensionId, bytes: usize) -> Result<Asking<'_>, HostcallError> {
        let AskLimits { at_once, tokens } = self.limits;
        let mut all = self.by_extension.borrow_mut();
        let spent = all.entry(extension.clone()).or_default();
        if spent.at_once >= at_once && guard!(QuotaModelRequests) {
            let message = format!(
                "{at_once} requests of this extension to models are under way; the next may follow one of them"
            );
            return Err(used_up(message, "model_requests", at_once).retryable());
        }
        if spent.tokens >= tokens && guard!(QuotaModelTokens) {
            let message = format!(
                "this extension has had {tokens} tokens of models; `extensions.policy.max_model_tokens` in the settings allows more"
            );
            return Err(used_up(message, "model_tokens", tokens));
        }
        let reserved = LEAST.max(u64::try_from(bytes).unwrap_or(u64::MAX) / BYTES_OF_A_TOKEN);
        spent.at_once += 1;
        spent.tokens = spent.tokens.saturating_add(reserved);
        Ok(Asking { asked: self, extension: extension.clone(), reserved })
    }
}

fn used_up(message: String, quota: &str, limit: u64) -> HostcallError {
    HostcallError::denied("quota", message).with("quota", quota).with("limit", limit)
}

/// A request under way.
pub(crate) struct Asking<'a> {
    asked: &'a Asked,
    extension: ExtensionId,
    reserved: u64,
}

impl Asking<'_> {
    /// It is over, and this is what the provider says of it; where that is nothing, what was reserved stays.
    pub(crate) fn end(self, usage: &Usage) {
        let had = Usage { cache_read: usage.cache_read / CACHED, ..*usage }.all();
        if had > 0
            && let Some(spent) = self.asked.by_extension.borrow_mut().get_mut(&self.extension)
        {
            spent.tokens = spent.tokens.saturating_sub(self.reserved).saturating_add(had.max(LEAST));
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(spent) = self.asked.by_extension.borrow_mut().get_mut(&self.extension) {
            spent.at_once -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_extension_has_so_many_at_once_and_so_much_in_all() {
        let asked = Asked::new(AskLimits { at_once: 2, tokens: 4_000 });
        let (one, other) = (ExtensionId::new("one"), ExtensionId::new("other"));
        let quota = |result: Result<Asking<'_>, HostcallError>| result.err().unwrap().details["quota"].clone();
        let (first, second) = (asked.begin(&one, 0).unwrap(), asked.begin(&one, 4_000).unwrap());
        assert_eq!(quota(asked.begin(&one, 0)), "model_requests");
        assert!(asked.begin(&other, 0).is_ok());
        // One tells what it had, the other nothing.
        first.end(&Usage { input: 1_000, output: 900, cache_read: 5_000, ..Usage::default() });
        second.end(&Usage::default());
        assert_eq!(asked.by_extension.borrow()[&one].tokens, 2_400 + 1_000);
        asked.begin(&one, 2_400).unwrap().end(&Usage::default());
        assert_eq!(quota(asked.begin(&one, 0)), "model_tokens");
        assert!(asked.begin(&other, 0).is_ok());
    }
}
