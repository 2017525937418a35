//! The interface of `patterns.rs` in a build without the feature `ast`.

use super::{AstHit, AstLanguage, AstLimit, AstPatternProblem, AstScan};

/// The message for every pattern.
const DISABLED: &str =
    "never matches: pi was built without the feature `ast`; write a `condition` with a regular expression instead";

/// Patterns of ast-grep, none of which can match in this build.
#[derive(Debug, Default)]
pub struct AstPatterns {
    /// Number of patterns.
    count: usize,
}

impl AstPatterns {
    /// Reports each pattern as unusable.
    pub fn compile(patterns: &[String]) -> (Self, Vec<AstPatternProblem>) {
        let problems = patterns.iter().enumerate().map(|(index, pattern)| AstPatternProblem {
            index,
            pattern: pattern.clone(),
            message: DISABLED.to_owned(),
            unusable: true,
            is_doubt: false,
        });
        (Self { count: patterns.len() }, problems.collect())
    }

    /// Returns the number of patterns.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the reason why a pattern does not match in this build.
    pub fn problem(&self, index: usize, _language: AstLanguage) -> Option<&str> {
        (index < self.count).then_some(DISABLED)
    }

    /// Finds nothing.
    pub fn find(&self, _language: AstLanguage, _text: &str, _budget: u64) -> Result<Option<AstHit>, AstLimit> {
        Ok(None)
    }

    /// Finds nothing.
    pub fn find_each(
        &self,
        _language: AstLanguage,
        _text: &str,
        _budget: u64,
        _wanted: impl Fn(usize) -> bool,
    ) -> AstScan {
        AstScan::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::DEFAULT_BUDGET;
    use crate::file::{Format, parse};
    use crate::lint::lint;
    use crate::{MatchContext, Origin, RuleEngine, RuleSettings};
    use std::path::Path;

    #[test]
    fn reports_every_pattern_and_finds_nothing() {
        let (patterns, problems) = AstPatterns::compile(&["f($A)".to_owned()]);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].to_string().contains("without the feature `ast`"));
        assert_eq!(patterns.find(AstLanguage::Rust, "f(1)", DEFAULT_BUDGET), Ok(None));
        assert!(patterns.problem(0, AstLanguage::Go).is_some());
    }

    #[test]
    fn a_rule_gets_a_hint_and_its_other_conditions_work() {
        let text = "---\ncondition: TODO\nastCondition:\n  - console.debug($$$A)\n---\nNo.\n";
        let file = parse(Path::new("a.md"), text, Format::Pi, Origin::Project);
        let found = lint(std::slice::from_ref(&file), &RuleSettings::default());
        let rendered: Vec<String> = found.iter().map(crate::Diagnostic::render).collect();
        let expected = "error: astCondition 1 never matches: pi was built without the feature `ast`\n --> a.md:4:5\n  |\n\
                        4 |   - console.debug($$$A)\n  |     ^^^^^^^^^^^^^^^^^^^\n  \
                        = help: write a `condition` with a regular expression instead";
        assert_eq!(rendered, [expected]);

        let settings = RuleSettings { enabled: true, ..RuleSettings::default() };
        let mut engine = RuleEngine::new(file.rules, settings, crate::EngineOptions::default());
        let reports = engine.take_reports();
        assert_eq!(reports.len(), 1);
        assert_eq!(reports[0].to_string(), format!("rule a, condition `console.debug($$$A)`: {DISABLED}"));
        let block = "```ts\nconsole.debug(1)\n```\n";
        assert_eq!(engine.check_delta(block, &MatchContext::text(0)), None);
        assert!(engine.check_delta("TODO", &MatchContext::text(0)).is_some());
    }
}
