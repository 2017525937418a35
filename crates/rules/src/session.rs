//! The native rules of a session, and the source that reports changes of their files.

use crate::{Rule, RuleEngine, RuleReport};

/// Prefix of the source of an injection by native rules; the names of the rules follow, separated by commas.
pub const PREFIX: &str = "rule:";

/// Type of the session entry written when the rules of a reminder fire.
pub const FIRED_TYPE: &str = "pijs.rule_fired";

/// A source of rules that rereads changed files and reports errors in them.
pub trait RuleSource {
    /// Returns all rules if a file was changed, created or removed since the last call.
    fn changed(&mut self) -> Option<ChangedRules>;
}

/// Rules after a change of their files.
#[derive(Debug, Clone, Default)]
pub struct ChangedRules {
    /// All rules.
    pub rules: Vec<Rule>,
    /// Section of the system prompt with rules that do not read the stream. Applies from the next prompt of the user.
    pub prompt_section: Option<String>,
    /// New errors in the files, each with file and line.
    pub warnings: Vec<String>,
}

/// The native rules of a session.
pub struct SessionRules {
    /// The engine that checks replies.
    pub engine: RuleEngine,
    source: Option<Box<dyn RuleSource>>,
    /// Section of the system prompt.
    pub prompt_section: Option<String>,
}

impl SessionRules {
    /// Creates the rules of a session. `source` is queried for changes at each turn.
    pub fn new(engine: RuleEngine, source: Option<Box<dyn RuleSource>>) -> Self {
        Self { engine, source, prompt_section: None }
    }

    /// Adds a section to the end of the system prompt, after the text appended by the user.
    #[must_use]
    pub fn with_prompt_section(self, prompt_section: Option<String>) -> Self {
        Self { prompt_section, ..self }
    }

    /// Wraps the source: the new source gets the current one and replaces it.
    #[must_use]
    pub fn with_source(mut self, replace: impl FnOnce(Option<Box<dyn RuleSource>>) -> Box<dyn RuleSource>) -> Self {
        self.source = Some(replace(self.source.take()));
        self
    }

    /// Returns the section of the system prompt.
    pub fn prompt_section(&self) -> Option<&str> {
        self.prompt_section.as_deref()
    }

    /// Returns the engine.
    pub fn engine(&self) -> &RuleEngine {
        &self.engine
    }

    /// Applies changed rules, and returns the errors in the rule files.
    pub fn take_changed(&mut self) -> Vec<String> {
        let changed = self.source.as_mut().and_then(|source| source.changed());
        let warnings = changed.map(|ChangedRules { rules, prompt_section, warnings }| {
            self.engine.replace_rules(rules);
            self.prompt_section = prompt_section;
            warnings
        });
        warnings.unwrap_or_default()
    }

    /// Returns reports of conditions that do not run. Errors in files were already reported by the source.
    pub fn take_reports(&mut self) -> Vec<RuleReport> {
        let mut reports = self.engine.take_reports();
        reports.retain(|report| self.source.is_none() || !report.is_mistake);
        reports
    }
}
