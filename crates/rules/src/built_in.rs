//! Built-in rules: a small set that most projects would write themselves.
//!
//! They are off by default, and need three switches: the caller adds [`files`] to a session only on the user's request,
//! `ttsr.enabled` enables rules, and `ttsr.builtinRules` (on by default) keeps them. A rule of the user or the project with the
//! same name replaces one of them, and `ttsr.disabledRules` disables a single one.
//!
//! Rules that prevent damage (`credentials`, `delete-root`, ...) stop the reply; style rules only remind.

use crate::file::{self, Format, ParsedFile};
use crate::rule::Origin;
use std::path::PathBuf;

macro_rules! sources {
    ($($name:literal),* $(,)?) => { &[$(($name, include_str!(concat!("built_in/", $name, ".md")))),*] };
}

/// Name and text of each rule, sorted by name.
const SOURCES: &[(&str, &str)] = sources![
    "credentials",
    "delete-root",
    "dynamic-code",
    "elided-code",
    "force-push",
    "pipe-to-shell",
    "rust-unwrap",
    "skipped-hooks",
    "skipped-tests",
    "tls-verification",
    "unfinished-code",
];

/// Parses the built-in rules. Their paths are `built-in/NAME.md`, which is not a file.
pub fn files() -> Vec<ParsedFile> {
    let parse = |&(name, text): &(&str, &str)| {
        file::parse(&PathBuf::from(format!("built-in/{name}.md")), text, Format::BuiltIn, Origin::BuiltIn)
    };
    SOURCES.iter().map(parse).collect()
}

/// Returns the text of a built-in rule's file; `None` for an unknown name.
pub fn source(name: &str) -> Option<&'static str> {
    SOURCES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint;
    use crate::rule::Rule;
    use crate::settings::RuleSettings;
    use regress::Regex;
    use std::collections::BTreeMap;

    #[derive(serde::Deserialize)]
    struct Examples {
        hits: Vec<String>,
        misses: Vec<String>,
    }

    #[test]
    fn built_in_rules_have_no_findings() {
        let files = files();
        let findings = lint::lint(&files, &RuleSettings::default());
        // Without the feature, a rule with an AST condition has a finding.
        let has_none = findings.is_empty() || cfg!(not(feature = "ast"));
        assert!(has_none, "{}", findings.iter().map(|found| found.render() + "\n").collect::<String>());
        assert!(files.iter().all(|file| file.rules.len() == 1 && file.rules[0].description.is_some()));
        assert!(SOURCES.is_sorted());
    }

    #[test]
    fn built_in_rules_hit_what_they_should_and_nothing_near_it() {
        let examples = include_str!("../../../fixtures/rules/built-in.json");
        let examples: BTreeMap<String, Examples> = serde_json::from_str(examples).expect("JSON");
        let files = files();
        for rule in files.iter().flat_map(|file| &file.rules).filter(|rule| !rule.conditions.is_empty()) {
            let name = rule.name.as_str();
            let Some(Examples { hits, misses }) = examples.get(name) else { panic!("{name} has no examples") };
            for hit in hits {
                assert!(is_hit(rule, hit), "{name} misses {hit:?}");
            }
            for miss in misses {
                assert!(!is_hit(rule, miss), "{name} hits {miss:?}");
            }
        }
    }

    fn is_hit(rule: &Rule, text: &str) -> bool {
        rule.conditions.iter().any(|condition| {
            let pattern = Regex::with_flags(&condition.source, condition.flags.as_str()).expect("a pattern");
            pattern.find(text).is_some()
        })
    }
}
