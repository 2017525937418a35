//! Compiles the rules of a session: one automaton for all rules that read the same parts of a stream.

use super::fallback::GiveUp;
use super::lane::{LaneRules, Owner};
use super::report::RuleReport;
use crate::ast::AstPatterns;
use crate::rule::{ContextMode, InterruptMode, Region, Repeat, Rule, ScopeToken, StreamKind, Window};
use crate::scope::CompiledScope;
use crate::settings::RuleSettings;
use pijs_matcher::{Limits, Pattern, PatternSet, Precision};
use std::sync::Arc;

/// The rules of a session.
#[derive(Debug, Default)]
pub(crate) struct CompiledRules {
    pub(crate) rules: Vec<CompiledRule>,
    pub(crate) text: StreamRules,
    pub(crate) thinking: StreamRules,
    pub(crate) tool: StreamRules,
    pub(crate) ast: AstPatterns,
    /// Rule and AST condition of each pattern, by the pattern's number.
    pub(crate) ast_owners: Vec<(usize, usize)>,
}

/// A rule, with the settings that it does not override.
#[derive(Debug)]
pub(crate) struct CompiledRule {
    pub(crate) rule: Rule,
    pub(crate) scope: CompiledScope,
    pub(crate) interrupt_mode: InterruptMode,
    pub(crate) context_mode: ContextMode,
    pub(crate) repeat: Repeat,
    pub(crate) max_retries_per_turn: u32,
}

/// The rules that read a stream.
#[derive(Debug, Default)]
pub(crate) struct StreamRules {
    pub(crate) lanes: Vec<Arc<LaneRules>>,
    /// Rules with AST conditions.
    pub(crate) ast: Vec<usize>,
}

impl StreamRules {
    /// Returns whether no rule reads the stream.
    pub(crate) fn is_unread(&self) -> bool {
        self.lanes.is_empty() && self.ast.is_empty()
    }
}

impl CompiledRules {
    /// Compiles rules. If `is_traced`, each stream is read for all rules, so that a match out of scope is reported as such.
    pub(crate) fn new(
        rules: Vec<Rule>,
        settings: &RuleSettings,
        is_traced: bool,
        reports: &mut Vec<RuleReport>,
    ) -> Self {
        let compiled = |rule: Rule| CompiledRule {
            scope: CompiledScope::new(&rule),
            interrupt_mode: rule.interrupt_mode.unwrap_or(settings.interrupt_mode),
            context_mode: rule.context_mode.unwrap_or(settings.context_mode),
            repeat: rule.repeat.unwrap_or_else(|| settings.repeat()),
            max_retries_per_turn: rule.max_retries_per_turn.unwrap_or(settings.max_retries_per_turn),
            rule,
        };
        let rules: Vec<CompiledRule> = rules.into_iter().map(compiled).collect();
        let patterns = parse(&rules, reports);
        let mut built = Vec::new();
        let mut stream = |kind| stream_rules(kind, &rules, &patterns, is_traced, &mut built, reports);
        let (text, thinking, tool) = (stream(StreamKind::Text), stream(StreamKind::Thinking), stream(StreamKind::Tool));
        let conditions = |(number, rule): (usize, &CompiledRule)| {
            rule.rule
                .ast_conditions
                .iter()
                .enumerate()
                .map(move |(index, source)| ((number, index), source.clone()))
                .collect::<Vec<_>>()
        };
        let (ast_owners, sources): (Vec<_>, Vec<_>) = rules.iter().enumerate().flat_map(conditions).unzip();
        let (ast, problems) = AstPatterns::compile(&sources);
        for problem in problems.into_iter().filter(|problem| !problem.is_doubt) {
            let (rule, index) = ast_owners[problem.index];
            reports.push(RuleReport::ast(&rules[rule].rule, index, problem.message).mistake());
        }
        Self { rules, text, thinking, tool, ast, ast_owners }
    }
}

/// A condition that is to be matched.
struct ParsedCondition {
    rule: usize,
    condition: usize,
    /// The parsed expression; `None` when the automaton does not support it.
    pattern: Option<Pattern>,
}

fn parse(rules: &[CompiledRule], reports: &mut Vec<RuleReport>) -> Vec<ParsedCondition> {
    use pijs_matcher::PatternErrorKind::TooLarge;
    let mut parsed = Vec::new();
    for (rule, compiled) in rules.iter().enumerate() {
        for (condition, source) in compiled.rule.conditions.iter().enumerate() {
            match Pattern::parse(&source.source, &source.flags) {
                Ok(pattern) => parsed.push(ParsedCondition { rule, condition, pattern: Some(pattern) }),
                Err(error) if error.kind() == TooLarge => {
                    parsed.push(ParsedCondition { rule, condition, pattern: None })
                }
                Err(error) => reports.push(RuleReport::regex(&compiled.rule, condition, error.to_string()).mistake()),
            }
        }
    }
    parsed
}

fn stream_rules(
    stream: StreamKind,
    rules: &[CompiledRule],
    patterns: &[ParsedCondition],
    is_traced: bool,
    built: &mut Vec<Arc<LaneRules>>,
    reports: &mut Vec<RuleReport>,
) -> StreamRules {
    // Tool arguments are code.
    let region_of = |rule: &Rule| if stream == StreamKind::Tool { Region::Any } else { rule.region };
    let reads = |rule: &CompiledRule| {
        let is_in_scope = is_traced || reads_stream(&rule.rule.scope, stream);
        is_in_scope && !(stream == StreamKind::Tool && rule.rule.region == Region::Prose)
    };
    let mut lanes = Vec::new();
    for region in [Region::Any, Region::Code, Region::Prose] {
        for window in [Window::Accumulated, Window::Line, Window::Chunk] {
            let is_mine = |parsed: &&ParsedCondition| {
                let rule = &rules[parsed.rule];
                region_of(&rule.rule) == region && rule.rule.window == window && reads(rule)
            };
            let mine: Vec<&ParsedCondition> = patterns.iter().filter(is_mine).collect();
            if !mine.is_empty() {
                lanes.push(lane(region, window, &mine, rules, built, reports));
            }
        }
    }
    let ast = rules.iter().enumerate().filter(|(_, rule)| !rule.rule.ast_conditions.is_empty() && reads(rule));
    StreamRules { lanes, ast: ast.map(|(number, _)| number).collect() }
}

/// Builds a lane, or reuses one: streams that are read for the same rules share an automaton.
fn lane(
    region: Region,
    window: Window,
    patterns: &[&ParsedCondition],
    rules: &[CompiledRule],
    built: &mut Vec<Arc<LaneRules>>,
    reports: &mut Vec<RuleReport>,
) -> Arc<LaneRules> {
    let owner = |parsed: &&ParsedCondition| Owner {
        rule: parsed.rule,
        condition: parsed.condition,
        settle: rules[parsed.rule].rule.settle,
    };
    // Unsupported patterns come last, so that the numbers of the others equal their numbers in the set.
    let (taken, others): (Vec<&ParsedCondition>, Vec<&ParsedCondition>) =
        patterns.iter().partition(|parsed| parsed.pattern.is_some());
    let owners: Vec<Owner> = taken.iter().chain(&others).map(owner).collect();
    if let Some(lane) =
        built.iter().find(|lane| lane.region == region && lane.window == window && lane.owners == owners)
    {
        return Arc::clone(lane);
    }
    let sources: Vec<Pattern> = taken.iter().filter_map(|parsed| parsed.pattern.clone()).collect();
    let set = PatternSet::new(&sources, Limits::default());
    let mut searched: Vec<usize> =
        (0..sources.len()).filter(|&number| sources[number].precision() == Precision::Coarse).collect();
    let mut unfiltered: Vec<usize> = set.given_up().into_iter().map(pijs_matcher::PatternId::index).collect();
    unfiltered.extend(taken.len()..owners.len());
    searched.retain(|number| !unfiltered.contains(number));
    for &number in &unfiltered {
        let owner = &owners[number];
        reports.push(RuleReport::gave_up(&rules[owner.rule].rule, owner.condition, GiveUp::NoAutomaton));
    }
    let looks_past_end = searched.iter().map(|&number| sources[number].looks_past_end()).collect();
    let lane = LaneRules { region, window, owners, set, coarse: searched, looks_past_end, unfiltered };
    let lane = Arc::new(lane);
    built.push(Arc::clone(&lane));
    lane
}

/// Returns whether a scope covers a stream. An empty scope covers text and every tool.
fn reads_stream(scope: &[ScopeToken], stream: StreamKind) -> bool {
    if scope.is_empty() {
        return stream != StreamKind::Thinking;
    }
    scope.iter().any(|token| match token {
        ScopeToken::Text => stream == StreamKind::Text,
        ScopeToken::Thinking => stream == StreamKind::Thinking,
        ScopeToken::Tool { .. } => stream == StreamKind::Tool,
        ScopeToken::Unreadable { .. } => false,
    })
}
