//! The interface of `patterns.rs` in a build without the feature `ast`.

use super::{AstHit, AstLanguage, AstLimit, AstPatternProblem, AstScan};

/// The message for every pattern.
const DISABLED: &str =
    "built without the feature `ast`: the pattern never matches; use `condition` with a regular expression";

/// Patterns of ast-grep, none of which can match in this build.
#[derive(Debug, Default)]
pub struct AstPatterns {
    /// Their number.
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

    /// Returns the reason for which a pattern does not match in this build.
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

    #[test]
    fn reports_every_pattern_and_finds_nothing() {
        let (patterns, problems) = AstPatterns::compile(&["f($A)".to_owned()]);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].to_string().contains("built without the feature `ast`"));
        assert_eq!(patterns.find(AstLanguage::Rust, "f(1)", DEFAULT_BUDGET), Ok(None));
        assert!(patterns.problem(0, AstLanguage::Go).is_some());
    }
}
