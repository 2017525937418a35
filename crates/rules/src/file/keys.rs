//! The keys of front matter, and what a key or a word that is not among them probably means.

use crate::diagnostic::similar;

/// The keys of front matter, in camel case.
pub const KEYS: &[&str] = &[
    "enabled",
    "description",
    "condition",
    "astCondition",
    "question",
    "scope",
    "globs",
    "agents",
    "alwaysApply",
    "interruptMode",
    "contextMode",
    "where",
    "settle",
    "repeat",
    "repeatGap",
    "cooldown",
    "maxFirings",
    "maxRetriesPerTurn",
    "trigger",
    "flags",
];

/// Keys of older files.
const LEGACY_KEYS: &[&str] = &["ttsr_trigger", "ttsrTrigger", "repeatMode"];

/// Returns whether a key has an effect. `trigger` has one in files of pi-ttsr only.
pub(super) fn is_known(key: &str, is_ttsr: bool) -> bool {
    (KEYS.contains(&key) || LEGACY_KEYS.contains(&key)) && (is_ttsr || key != "trigger")
}

/// Returns the key that an unknown one probably means.
pub(super) fn meant(key: &str) -> Option<&'static str> {
    match key {
        // Both are the names of other members.
        "trigger" | "name" => None,
        "applyTo" | "paths" => Some("globs"),
        "pattern" | "patterns" | "regex" | "match" | "conditions" => Some("condition"),
        "mode" => Some("interruptMode"),
        _ => similar(key, KEYS.iter().copied()),
    }
}

/// Returns the hint for an unknown key that means no other.
pub(super) fn without_effect(key: &str) -> &'static str {
    match key {
        "trigger" => "write `condition`; `trigger` is for files without a `condition`",
        "name" => "the name of a rule is that of its file",
        _ => "it has no effect; remove it",
    }
}

/// Returns the boolean that a word means to people.
pub(super) fn meant_flag(word: &str) -> Option<bool> {
    match word.trim().to_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}
