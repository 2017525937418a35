//! Detects errors that mean that a request exceeds the context window.
//!
//! Each server has its own message, and no server sends an error code. Rate-limit errors are excluded, since they may mention
//! tokens as well.

use regex::RegexSet;
use std::sync::LazyLock;

static TOO_LONG: LazyLock<RegexSet> = LazyLock::new(|| {
    set(&[
        r"prompt (is )?too long",
        "request_too_large",
        "input is too long for requested model",
        "exceeds the context window",
        r"exceeds (the )?(model'?s )?maximum context length( of [\d,]+ tokens?|\s*\([\d,]+\))",
        "input token count.*exceeds the maximum",
        r"maximum prompt length is \d+",
        "reduce the length of the messages",
        r"maximum context length is \d+ tokens",
        r"exceeds (the )?maximum allowed input length of [\d,]+ tokens?",
        r"input \(\d+ tokens\) is longer than the model'?s context length \(\d+ tokens\)",
        r"exceeds the limit of \d+",
        "exceeds the available context size",
        "greater than the context length",
        "context window exceeds limit",
        "exceeded model token limit",
        r"too large for model with \d+ maximum context length",
        r"prompt has [\d,]+ tokens?, but the configured context size is [\d,]+ tokens?",
        "model_context_window_exceeded",
        "exceeded (max )?context length",
        "range of input length should be",
        "context[_ ]length[_ ]exceeded",
        "too many tokens",
        "token limit exceeded",
    ])
});
static RATE_LIMIT: LazyLock<RegexSet> =
    LazyLock::new(|| set(&["^(throttling error|service unavailable):", "rate limit", "too many requests"]));
/// Cerebras reports an overflow with an empty body.
static EMPTY_BODY: LazyLock<RegexSet> = LazyLock::new(|| set(&[r"^4(00|13)\s*(status code)?\s*\(no body\)"]));

fn set(patterns: &[&str]) -> RegexSet {
    let insensitive = patterns.iter().map(|pattern| format!("(?i){pattern}"));
    RegexSet::new(insensitive).expect("constant patterns")
}

/// Returns whether `message`, the error of a reply, reports a context overflow.
pub fn is_context_overflow(provider: &str, message: &str) -> bool {
    let said = TOO_LONG.is_match(message) || (provider == "cerebras" && EMPTY_BODY.is_match(message));
    said && !RATE_LIMIT.is_match(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_errors_differ_from_rate_limit_errors() {
        for said in [
            "400 {\"error\":{\"message\":\"prompt is too long: 213462 tokens > 200000 maximum\"}}",
            "Your input exceeds the context window of this model",
            "Requested token count exceeds the model's maximum context length of 131072 tokens",
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
            "prompt too long; exceeded max context length by 4 tokens",
        ] {
            assert!(is_context_overflow("p", said), "{said}");
        }
        for said in ["Rate limit: too many tokens, please wait", "400 status code (no body)", "maximum output is 5"] {
            assert!(!is_context_overflow("p", said), "{said}");
        }
        assert!(is_context_overflow("cerebras", "400 status code (no body)"));
    }
}
