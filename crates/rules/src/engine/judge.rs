//! Judges matches: decides which are in scope, which of their rules fire, and whether the reply is interrupted.

use super::RuleEngine;
use super::call_matches::CallMatch;
use super::firing::{Action, FiredRule, Firing, MatchSite, PatternIndex};
use super::gate::Caps;
use super::history::{History, Site};
use super::lane::MatchKind;
use super::report::RuleReport;
use super::streams::CodeBlock;
use super::trace::{Outcome, TraceEntry};
use super::value_lanes::CallText;
use super::waiting::{CallScope, PathVerdict};
use crate::ast::{AstLanguage, DEFAULT_BUDGET};
use crate::rule::{ContextMode, StreamKind};
use crate::scope::Match as ScopeMatch;
use std::sync::Arc;

/// A match that is in scope.
struct Candidate {
    rule: usize,
    site: MatchSite,
}

/// The stream on which candidates were found.
#[derive(Clone, Copy)]
struct Source<'a> {
    stream: StreamKind,
    tool: Option<&'a str>,
    call: Option<&'a str>,
    now_ms: u64,
}

impl RuleEngine {
    /// Judges matches in text or thinking.
    #[cold]
    pub(super) fn judge_message(&mut self, stream: StreamKind, now_ms: u64) -> Option<Firing> {
        let rules = Arc::clone(&self.active.current);
        let source = Source { stream, tool: None, call: None, now_ms };
        let mut candidates = Vec::new();
        let mut read = std::mem::take(self.reply.message(stream));
        for found in read.matches.drain(..) {
            if let MatchKind::GaveUp(why) = found.kind {
                self.reports.add(RuleReport::gave_up(&rules.rules[found.rule].rule, found.condition, why));
                continue;
            }
            if self.active.fired[found.rule] && !self.trace.is_on() {
                continue;
            }
            let site = Site::new(&read.history, found.offset).matched(PatternIndex::Regex(found.condition), None);
            let is_in_scope =
                rules.rules[found.rule].scope.matches::<&str>(stream, None, &[], &self.options.cwd) == ScopeMatch::Yes;
            if !is_in_scope {
                self.note(source, found.rule, &site, Outcome::OutOfScope);
            } else if found.kind == MatchKind::Unsettled {
                self.note(source, found.rule, &site, Outcome::Unsettled);
            } else {
                candidates.push(Candidate { rule: found.rule, site });
            }
        }
        for block in std::mem::take(&mut read.blocks) {
            self.judge_block(stream, &block, &read.history, &mut candidates);
        }
        read.history.trim();
        *self.reply.message(stream) = read;
        self.decide(source, candidates)
    }

    /// Matches AST conditions against a code block.
    fn judge_block(
        &mut self,
        stream: StreamKind,
        block: &CodeBlock,
        history: &History,
        candidates: &mut Vec<Candidate>,
    ) {
        let Some(language) = AstLanguage::from_info_string(&block.info) else { return };
        let rules = Arc::clone(&self.active.current);
        let is_wanted = |rule: usize| {
            !self.active.fired[rule]
                && rules.rules[rule].scope.matches::<&str>(stream, None, &[], &self.options.cwd) == ScopeMatch::Yes
        };
        let start = history.position(block.offset);
        let wanted = rules.ast_owners.iter().map(|&(rule, _)| is_wanted(rule)).collect();
        let found = self.search_ast(language, &block.text, wanted);
        candidates.extend(found.into_iter().map(|(rule, condition, site)| {
            let mut site = site.matched(PatternIndex::Ast(condition), None);
            site.offset += start.offset;
            site.line += start.line - 1;
            Candidate { rule, site }
        }));
    }

    /// Matches AST conditions against a text of a call.
    fn judge_text(&mut self, at: usize, text: &CallText, candidates: &mut Vec<Candidate>) {
        let rules = Arc::clone(&self.active.current);
        let call = &self.reply.calls[at];
        let paths = call.paths(&text.owner);
        let Some(language) = paths.iter().find_map(|path| AstLanguage::from_path(path)) else { return };
        let tool = call.tool.clone();
        let is_wanted = |rule: usize| {
            let scope = &rules.rules[rule].scope;
            !self.active.fired[rule]
                && scope.matches(StreamKind::Tool, Some(&tool), &paths, &self.options.cwd) == ScopeMatch::Yes
        };
        let wanted = rules.ast_owners.iter().map(|&(rule, _)| is_wanted(rule)).collect();
        let found = self.search_ast(language, &text.text, wanted);
        candidates.extend(found.into_iter().map(|(rule, condition, site)| Candidate {
            rule,
            site: site.matched(PatternIndex::Ast(condition), paths.first().cloned()),
        }));
    }

    /// Searches a text for the wanted AST conditions. Returns rule, condition and position of each hit.
    fn search_ast(&mut self, language: AstLanguage, text: &str, wanted: Vec<bool>) -> Vec<(usize, usize, Site)> {
        let rules = Arc::clone(&self.active.current);
        if !wanted.contains(&true) {
            return Vec::new();
        }
        let scan = rules.ast.find_each(language, text, DEFAULT_BUDGET, |pattern| wanted[pattern]);
        if let Some(limit) = scan.limit {
            for (pattern, &(rule, condition)) in rules.ast_owners.iter().enumerate() {
                if wanted[pattern] && !scan.hits.iter().any(|hit| hit.pattern == pattern) {
                    self.reports.add(RuleReport::ast(&rules.rules[rule].rule, condition, limit.to_string()));
                }
            }
        }
        let mut history = History::default();
        history.push(text);
        let found = scan.hits.into_iter().map(|hit| {
            let (rule, condition) = rules.ast_owners[hit.pattern];
            (rule, condition, Site::new(&history, hit.range.start))
        });
        found.collect()
    }

    /// Judges matches in the arguments of a call.
    #[cold]
    pub(super) fn judge_call(&mut self, at: usize, is_end: bool, now_ms: u64) -> Option<Firing> {
        let rules = Arc::clone(&self.active.current);
        let (tool, id) = (self.reply.calls[at].tool.clone(), self.reply.calls[at].id.clone());
        let source = Source { stream: StreamKind::Tool, tool: Some(&tool), call: Some(&id), now_ms };
        let mut candidates = Vec::new();
        let (fired, is_traced) = (&self.active.fired, self.trace.is_on());
        let is_over = |rule: usize| fired[rule] && !is_traced;
        let mut scope =
            CallScope { rules: &rules, tool: &tool, cwd: &self.options.cwd, is_over: &is_over, judgements: 0 };
        let judged = self.reply.calls[at].judge(&mut scope);
        let judgements = scope.judgements;
        self.judgements += judgements;
        for (CallMatch { found, site, .. }, verdict) in judged {
            let pattern = PatternIndex::Regex(found.condition);
            match (verdict, found.kind) {
                (_, MatchKind::GaveUp(why)) => {
                    self.reports.add(RuleReport::gave_up(&rules.rules[found.rule].rule, found.condition, why));
                }
                (PathVerdict::OutOfScope | PathVerdict::NoMatch, _) => {
                    self.note(source, found.rule, &site.matched(pattern, None), Outcome::OutOfScope);
                }
                (PathVerdict::InScope(path), MatchKind::Unsettled) => {
                    self.note(source, found.rule, &site.matched(pattern, path), Outcome::Unsettled);
                }
                (PathVerdict::InScope(path), MatchKind::Sure) => {
                    candidates.push(Candidate { rule: found.rule, site: site.matched(pattern, path) });
                }
            }
        }
        if is_end {
            let waiting = if is_traced { self.reply.calls[at].take_waiting() } else { Vec::new() };
            for CallMatch { found, site, owner } in waiting {
                let paths = self.reply.calls[at].paths(&owner);
                let outcome = if paths.is_empty() { Outcome::PathUnknown } else { Outcome::PathMismatch { paths } };
                self.note(source, found.rule, &site.matched(PatternIndex::Regex(found.condition), None), outcome);
            }
        }
        if is_end {
            for text in self.reply.calls[at].take_texts() {
                self.judge_text(at, &text, &mut candidates);
            }
        }
        self.decide(source, candidates)
    }

    /// Decides which of the matching rules fire, and whether the reply is interrupted.
    fn decide(&mut self, source: Source<'_>, mut candidates: Vec<Candidate>) -> Option<Firing> {
        let rules = Arc::clone(&self.active.current);
        candidates.sort_by_key(|candidate| candidate.rule);
        candidates.dedup_by_key(|candidate| candidate.rule);
        candidates.retain(|candidate| {
            let compiled = &rules.rules[candidate.rule];
            if self.active.fired[candidate.rule] {
                self.note(source, candidate.rule, &candidate.site, Outcome::AlreadyFired);
                return false;
            }
            let slot = self.active.slots[candidate.rule];
            match self.gate.blocked(slot, compiled.repeat, compiled.rule.max_firings, source.now_ms) {
                Some(blocked) => {
                    self.note(source, candidate.rule, &candidate.site, Outcome::Repeat(blocked));
                    false
                }
                None => true,
            }
        });
        if candidates.is_empty() {
            return None;
        }
        let mut context_mode = None;
        let fired = candidates.into_iter().map(|Candidate { rule, site }| {
            let compiled = &rules.rules[rule];
            let slot = self.active.slots[rule];
            let asks = compiled.interrupt_mode.interrupts(source.stream);
            let caps = Caps {
                rule_per_turn: compiled.max_retries_per_turn,
                per_turn: self.settings.max_retries_per_turn,
                per_session: self.settings.max_retries_per_session,
                is_exhausted: self.is_exhausted,
            };
            let degraded = if asks { self.gate.degraded(slot, caps, self.ledgers.session.interrupts) } else { None };
            let interrupts = asks && degraded.is_none();
            if interrupts {
                // One rule that discards the partial reply is enough, because its text must not be seen again.
                let mode = compiled.context_mode;
                context_mode = context_mode.filter(|&other| other == ContextMode::Discard).or(Some(mode));
            }
            self.active.fired[rule] = true;
            self.gate.fire(slot, interrupts, source.now_ms);
            self.note(source, rule, &site, Outcome::Fired { interrupts, degraded });
            FiredRule {
                name: compiled.rule.name.clone(),
                content: compiled.rule.content.clone(),
                description: compiled.rule.description.clone(),
                interrupts,
                degraded,
                site,
            }
        });
        let fired: Vec<FiredRule> = fired.collect();
        let action = context_mode.map_or(Action::Remind, |context_mode| Action::Interrupt { context_mode });
        let firing = Firing {
            action,
            stream: source.stream,
            tool: source.tool.map(str::to_owned),
            call: source.call.map(str::to_owned),
            rules: fired,
        };
        if firing.interrupts() {
            self.gate.interrupt();
        }
        self.ledgers.record(&firing);
        Some(firing)
    }

    fn note(&mut self, source: Source<'_>, rule: usize, site: &MatchSite, outcome: Outcome) {
        let (turn, rules) = (self.gate.turn(), &self.active.current);
        self.trace.record(|| TraceEntry {
            turn,
            rule: rules.rules[rule].rule.name.clone(),
            stream: source.stream,
            tool: source.tool.map(str::to_owned),
            site: site.clone(),
            outcome,
        });
    }
}
