//! Decides the use of each rule of a session: it reads streams, is part of the prompt, is only listed, or is inactive, with the
//! reason.
//!
//! | condition, checked in this order | use |
//! |---|---|
//! | a rule of the same name has a higher origin, or the same origin and comes earlier | [`Reason::Shadowed`] |
//! | the settings turn rules off, or the built-in ones, or this one | [`Reason::RulesOff`], [`Reason::BuiltInOff`], [`Reason::DisabledBySettings`] |
//! | `agents` do not name the agent | [`Reason::OtherAgents`] |
//! | it has a condition that can fire on some stream | [`Bucket::Stream`] |
//! | `alwaysApply` | [`Bucket::Always`], with the reason why it reads no stream |
//! | a description | [`Bucket::Rulebook`], with the reason why it reads no stream |
//! | none of these | [`Bucket::Inactive`] |

use crate::ast::AstPatterns;
use crate::diagnostic::printable;
use crate::rule::{Origin, Region, Rule, ScopeToken};
use crate::scope::{CompiledScope, PathGlob};
use crate::settings::RuleSettings;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Agent name of a session that no other agent started.
pub const MAIN_AGENT: &str = "main";

/// The use of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bucket {
    /// The rule reads streams.
    Stream,
    /// The text of the rule is part of the system prompt.
    Always,
    /// The description is listed, and the model may read the text.
    Rulebook,
    /// The session does not use the rule.
    Inactive,
}

impl fmt::Display for Bucket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Stream => "stream",
            Self::Always => "always",
            Self::Rulebook => "rulebook",
            Self::Inactive => "inactive",
        })
    }
}

/// The reason why a rule reads no stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "reason")]
pub enum Reason {
    /// The setting `ttsr.enabled` is false.
    RulesOff,
    /// The setting `ttsr.builtinRules` is false.
    BuiltInOff,
    /// The setting `ttsr.disabledRules` names the rule.
    DisabledBySettings,
    /// Another rule of the same name takes precedence.
    Shadowed {
        /// The origin of the other rule.
        by: Origin,
        /// The file of the winning rule.
        path: Option<PathBuf>,
    },
    /// `agents` do not name this agent.
    OtherAgents {
        /// The agent of the session.
        agent: String,
        /// The agents of the rule.
        agents: Vec<String>,
    },
    /// The rule has no condition.
    NoCondition,
    /// None of its conditions is a valid regular expression or pattern of ast-grep.
    NoValidCondition,
    /// No token of its scope is valid.
    UnreachableScope,
    /// The rule has globs, but its scope has no tool, so there is never a path.
    GlobsWithoutTool,
    /// None of its globs is valid.
    NoValidGlob,
    /// The rule reads prose only, but its scope has tools only, whose arguments are code.
    ProseOfTools,
    /// A model would judge the rule's question after the reply.
    Judged,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::RulesOff => "rules are off (setting `ttsr.enabled`)",
            Self::BuiltInOff => "built-in rules are off (setting `ttsr.builtinRules`)",
            Self::DisabledBySettings => "turned off by the setting `ttsr.disabledRules`",
            Self::Shadowed { by, path } => {
                let origin = match by {
                    Origin::BuiltIn => "built-in",
                    Origin::User => "user",
                    Origin::Project => "project",
                };
                write!(formatter, "overridden by a {origin} rule of the same name")?;
                let path = path.as_ref().map(|path| printable(&path.display().to_string()));
                return path.map_or(Ok(()), |path| write!(formatter, " ({path})"));
            }
            Self::OtherAgents { agent, agents } => {
                let (agent, agents) = (printable(agent), printable(&agents.join(", ")));
                return write!(formatter, "it is for agents {agents}; this one is {agent}");
            }
            Self::NoCondition => "it has no condition",
            Self::NoValidCondition => "none of its conditions can be read",
            Self::UnreachableScope => "no token of its scope can be read",
            Self::GlobsWithoutTool => "its globs require a path, which text and thinking do not have",
            Self::NoValidGlob => "none of its globs can be read",
            Self::ProseOfTools => "it reads prose only, and the arguments of its tools are code",
            Self::Judged => "its `question` needs a model as a judge, which is not supported",
        })
    }
}

/// The use of a rule, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    /// The use of the rule.
    pub bucket: Bucket,
    /// Reason why the rule reads no stream; `None` if it reads one.
    #[serde(flatten)]
    pub reason: Option<Reason>,
}

impl Activity {
    fn inactive(reason: Reason) -> Self {
        Self { bucket: Bucket::Inactive, reason: Some(reason) }
    }
}

/// Returns the use of each rule, in the order of `rules`. Of two rules with the same name and origin, the earlier one takes
/// precedence.
///
/// `agent` is the name of the session's agent; `None` ignores the agents of rules, for a list of all rules.
pub fn activities(rules: &[Rule], settings: &RuleSettings, agent: Option<&str>) -> Vec<Activity> {
    let mut winners: BTreeMap<&str, &Rule> = BTreeMap::new();
    for rule in rules {
        let winner = winners.entry(rule.name.as_str()).or_insert(rule);
        if rule.origin > winner.origin {
            *winner = rule;
        }
    }
    let activity = |rule: &Rule| match winners.get(rule.name.as_str()) {
        Some(winner) if !std::ptr::eq(*winner, rule) => {
            Activity::inactive(Reason::Shadowed { by: winner.origin, path: winner.path.clone() })
        }
        _ => activity(rule, settings, agent),
    };
    rules.iter().map(activity).collect()
}

/// Returns the use of a rule whose name is unique.
pub fn activity(rule: &Rule, settings: &RuleSettings, agent: Option<&str>) -> Activity {
    if !settings.enabled {
        return Activity::inactive(Reason::RulesOff);
    }
    if rule.origin == Origin::BuiltIn && !settings.builtin_rules {
        return Activity::inactive(Reason::BuiltInOff);
    }
    if settings.disabled_rules.iter().any(|name| name.trim() == rule.name.as_str()) {
        return Activity::inactive(Reason::DisabledBySettings);
    }
    if let Some(agent) = agent.filter(|agent| !is_for(rule, agent)) {
        let (agent, agents) = (agent.to_owned(), rule.agents.clone());
        return Activity::inactive(Reason::OtherAgents { agent, agents });
    }
    let Some(reason) = not_a_stream_rule(rule) else { return Activity { bucket: Bucket::Stream, reason: None } };
    let bucket = if reason == Reason::Judged {
        Bucket::Inactive
    } else if rule.always_apply {
        Bucket::Always
    } else if rule.description.is_some() {
        Bucket::Rulebook
    } else {
        Bucket::Inactive
    };
    Activity { bucket, reason: Some(reason) }
}

fn is_for(rule: &Rule, agent: &str) -> bool {
    let agent = agent.trim().to_lowercase();
    let is_match =
        |pattern: &String| *pattern == agent || PathGlob::new(pattern).is_ok_and(|glob| glob.is_match(&agent));
    rule.agents.is_empty() || rule.agents.iter().any(is_match)
}

/// Returns the reason why a rule cannot fire on any stream, regardless of the settings.
pub(crate) fn not_a_stream_rule(rule: &Rule) -> Option<Reason> {
    let is_dead = || {
        let scope = CompiledScope::new(rule);
        let has_tools_only = !rule.scope.is_empty()
            && !rule.scope.iter().any(|token| matches!(token, ScopeToken::Text | ScopeToken::Thinking));
        if !scope.is_reachable() {
            Some(Reason::UnreachableScope)
        } else if !rule.globs.is_empty() && !rule.globs.iter().any(|glob| PathGlob::new(glob).is_ok()) {
            Some(Reason::NoValidGlob)
        } else if !scope.can_fire() {
            Some(Reason::GlobsWithoutTool)
        } else if rule.region == Region::Prose && (has_tools_only || !rule.globs.is_empty()) {
            Some(Reason::ProseOfTools)
        } else {
            None
        }
    };
    if rule.question.is_some() {
        return Some(Reason::Judged);
    }
    if rule.conditions.is_empty() && rule.ast_conditions.is_empty() {
        return Some(Reason::NoCondition);
    }
    let has_pattern = || {
        let (patterns, problems) = AstPatterns::compile(&rule.ast_conditions);
        problems.iter().filter(|problem| problem.unusable).count() < patterns.len()
    };
    if rule.conditions.iter().all(|condition| condition.check().is_err()) && !has_pattern() {
        return Some(Reason::NoValidCondition);
    }
    is_dead()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Condition;

    fn rule(name: &str, origin: Origin, change: impl FnOnce(&mut Rule)) -> Rule {
        let mut rule = Rule::new(name, origin, "text");
        rule.conditions.push(Condition { source: "x".to_owned(), flags: String::new() });
        change(&mut rule);
        rule
    }

    fn on() -> RuleSettings {
        RuleSettings { enabled: true, ..RuleSettings::default() }
    }

    fn bad() -> Vec<Condition> {
        vec![Condition { source: "(".to_owned(), flags: String::new() }]
    }

    #[test]
    fn each_inactive_rule_has_its_reason() {
        let project = |change: fn(&mut Rule)| rule("r", Origin::Project, change);
        let agents: fn(&mut Rule) = |rule| rule.agents = vec!["scout".to_owned(), "review-*".to_owned()];
        let tool = |name: &str| ScopeToken::Tool { name: Some(name.to_owned()), glob: None };
        let of = |rule: &Rule, agent: Option<&str>| activity(rule, &on(), agent);
        let reason = |rule: &Rule| of(rule, Some(MAIN_AGENT)).reason;

        assert_eq!(reason(&project(|_| {})), None);
        assert!(matches!(reason(&project(agents)), Some(Reason::OtherAgents { .. })));
        for agent in [Some("Scout"), Some("review-x"), None] {
            assert_eq!(of(&project(agents), agent).bucket, Bucket::Stream, "{agent:?}");
        }
        assert_eq!(reason(&project(|rule| rule.conditions.clear())), Some(Reason::NoCondition));
        assert_eq!(reason(&project(|rule| rule.conditions = bad())), Some(Reason::NoValidCondition));
        let ast = |rule: &mut Rule| (rule.conditions, rule.ast_conditions) = (bad(), vec!["$$$".to_owned()]);
        assert_eq!(reason(&rule("r", Origin::User, ast)), Some(Reason::NoValidCondition));
        assert_eq!(reason(&project(|rule| rule.question = Some("?".to_owned()))), Some(Reason::Judged));
        assert_eq!(reason(&project(|rule| rule.globs = vec!["{".to_owned()])), Some(Reason::NoValidGlob));
        let scope = [ScopeToken::Unreadable { token: "(".to_owned() }].to_vec();
        assert_eq!(reason(&rule("r", Origin::User, |rule| rule.scope = scope)), Some(Reason::UnreachableScope));
        let globs = |rule: &mut Rule| (rule.globs, rule.scope) = (vec!["*.ts".to_owned()], vec![ScopeToken::Text]);
        assert_eq!(reason(&rule("r", Origin::User, globs)), Some(Reason::GlobsWithoutTool));
        let prose = |rule: &mut Rule| (rule.region, rule.scope) = (Region::Prose, vec![tool("bash")]);
        assert_eq!(reason(&rule("r", Origin::User, prose)), Some(Reason::ProseOfTools));

        let always = of(&project(|rule| (rule.conditions, rule.always_apply) = (bad(), true)), None);
        assert_eq!(always, Activity { bucket: Bucket::Always, reason: Some(Reason::NoValidCondition) });
        let book = of(&project(|rule| (rule.conditions, rule.description) = (bad(), Some("d".to_owned()))), None);
        assert_eq!(book, Activity { bucket: Bucket::Rulebook, reason: Some(Reason::NoValidCondition) });

        let one = rule("r", Origin::BuiltIn, |_| {});
        let reason = |settings: RuleSettings| activity(&one, &settings, None).reason;
        assert_eq!(reason(RuleSettings::default()), Some(Reason::RulesOff));
        assert_eq!(reason(RuleSettings { builtin_rules: false, ..on() }), Some(Reason::BuiltInOff));
        let disabled = RuleSettings { disabled_rules: vec![" r ".to_owned()], ..on() };
        assert_eq!(reason(disabled), Some(Reason::DisabledBySettings));
    }

    #[test]
    fn the_higher_origin_or_the_earlier_rule_takes_the_name() {
        let at = |origin, path: &str| rule("same", origin, |rule| rule.path = Some(path.into()));
        let rules = [
            at(Origin::User, "u"),
            at(Origin::Project, "p1"),
            at(Origin::Project, "p2"),
            at(Origin::BuiltIn, "b"),
            rule("other", Origin::BuiltIn, |_| {}),
        ];
        let reasons: Vec<Option<String>> = activities(&rules, &on(), None)
            .into_iter()
            .map(|activity| activity.reason.map(|reason| reason.to_string()))
            .collect();
        let shadowed = Some("overridden by a project rule of the same name (p1)".to_owned());
        assert_eq!(reasons, [shadowed.clone(), None, shadowed.clone(), shadowed, None]);
    }
}
