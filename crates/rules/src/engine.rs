//! The rules engine of a session: reads the deltas of a reply and answers which rules they break.
//!
//! ```text
//! delta ─▶ streams ─┬─ fences ──────▶ lane ─▶ match ─▶ scope, path ─▶ gate ─▶ Firing
//!          calls ───┴─ arguments ───▶ (automaton, settle, fallback)   (repeat, caps)
//! ```
//!
//! | module | idea |
//! |---|---|
//! | `engine/compiled.rs` | one automaton for all rules that read the same parts of a stream |
//! | `engine/lane.rs` | the text of such parts, its automaton's state carried from delta to delta |
//! | `engine/settle.rs` | waits until the text behind a match is known |
//! | `engine/fallback.rs` | the budget of patterns that need backtracking |
//! | `engine/streams.rs`, `engine/fences.rs` | text and thinking, and their code blocks |
//! | `engine/calls.rs`, `engine/arguments.rs`, `engine/new_lines.rs` | the decoded arguments of tool calls |
//! | `engine/waiting.rs` | matches in arguments that wait for a path |
//! | `engine/gate.rs`, `engine/ledger.rs` | repetition, caps, records; what it cost |
//! | `engine/trace.rs` | what became of each match, for `pi rules explain` |
//!
//! A session calls [`RuleEngine::begin_turn`], then for each attempt at a reply [`RuleEngine::reset_buffers`],
//! [`RuleEngine::check_delta`] for each delta, [`RuleEngine::end_of_call`] and [`RuleEngine::end_of_message`], and at last
//! [`RuleEngine::end_turn`]. A delta costs what its own characters cost, however long the reply is.

mod arguments;
mod calls;
mod compiled;
mod fallback;
mod fences;
mod firing;
mod gate;
mod history;
mod lane;
mod ledger;
mod new_lines;
mod report;
mod settle;
mod streams;
#[cfg(test)]
mod tests;
mod trace;
mod waiting;

pub use fallback::GiveUp;
pub use firing::{Action, Degraded, FiredRule, Firing, MAX_EXCERPT, MatchSite, PatternIndex};
pub use gate::{Blocked, InjectedRecord};
pub use ledger::{RetryLedger, RuleCounts};
pub use report::RuleReport;
pub use trace::{Outcome, TraceEntry};

use crate::activity::{Bucket, activities};
use crate::ast::{AstLanguage, DEFAULT_BUDGET};
use crate::rule::{ContextMode, Rule, RuleName, StreamKind};
use crate::scope::Match as ScopeMatch;
use crate::settings::RuleSettings;
use calls::{CallMatch, CallStream, CallText};
use compiled::CompiledRules;
use fallback::Backtracking;
use gate::{Caps, Gate};
use history::History;
use lane::MatchKind;
use std::sync::Arc;
use streams::{CodeBlock, MessageStream};
use trace::Trace;
use waiting::{CallScope, PathVerdict};

/// Most calls whose arguments stream concurrently.
const MAX_CALLS: usize = 64;
/// Most calls whose buffers are kept for later ones.
const MAX_SPARE: usize = 2;
/// Most reports of a session.
const MAX_REPORTS: usize = 256;

/// Options of a session's engine. The default is the agent `main` in the directory `/`, without a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineOptions {
    /// The name of the agent, for rules with `agents`.
    pub agent: String,
    /// The working directory, to which relative paths and globs belong.
    pub cwd: String,
    /// Entries of the trace that are kept; with 0 there is none. Each stream of an engine with a trace is read for all rules.
    pub trace: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { agent: "main".to_owned(), cwd: "/".to_owned(), trace: 0 }
    }
}

/// The position of a delta in the reply.
#[derive(Debug, Clone, Copy)]
pub struct MatchContext<'a> {
    /// The stream.
    pub stream: StreamKind,
    /// The name of the tool, on [`StreamKind::Tool`].
    pub tool_name: Option<&'a str>,
    /// The id of the tool call, on [`StreamKind::Tool`].
    pub call_id: Option<&'a str>,
    /// Paths that the caller knows the call to be about. Paths in the arguments need not be listed.
    pub paths: &'a [&'a str],
    /// The time, in milliseconds of a clock that continues across processes.
    pub now_ms: u64,
}

impl<'a> MatchContext<'a> {
    /// Creates the context of assistant prose.
    pub fn text(now_ms: u64) -> Self {
        Self { stream: StreamKind::Text, tool_name: None, call_id: None, paths: &[], now_ms }
    }

    /// Creates the context of model reasoning.
    pub fn thinking(now_ms: u64) -> Self {
        Self { stream: StreamKind::Thinking, ..Self::text(now_ms) }
    }

    /// Creates the context of a tool call's arguments.
    pub fn tool(name: &'a str, call_id: &'a str, now_ms: u64) -> Self {
        Self { stream: StreamKind::Tool, tool_name: Some(name), call_id: Some(call_id), ..Self::text(now_ms) }
    }
}

/// Counters of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineStats {
    /// Rules that run.
    pub rules: usize,
    /// Bytes of the deltas that were checked, without those of streams that no rule reads.
    pub bytes: u64,
    /// Bytes that automata read of them, decoded, by all lanes of rules.
    pub scanned_bytes: u64,
    /// Bytes that patterns which need backtracking were tested on.
    pub searched_bytes: u64,
    /// Tests of such patterns.
    pub searches: u64,
    /// Matches in tool arguments that were visited, and paths that were tested against them.
    pub judgements: u64,
}

/// The rules of a session, and the text that they have read.
///
/// ```
/// use pijs_rules::{Condition, MatchContext, Origin, Rule, RuleEngine, RuleSettings};
///
/// let mut rule = Rule::new("no-todo", Origin::Project, "Finish the work.");
/// rule.conditions.push(Condition { source: r"\bTODO\b".to_owned(), flags: String::new() });
/// let settings = RuleSettings { enabled: true, ..RuleSettings::default() };
/// let mut engine = RuleEngine::new(vec![rule], settings, Default::default());
///
/// assert!(engine.check_delta("still a TO", &MatchContext::text(0)).is_none());
/// let firing = engine.check_delta("DO", &MatchContext::text(0)).expect("the rule fires");
/// assert!(firing.interrupts());
/// assert_eq!(firing.rules[0].site.excerpt, "still a TODO");
/// ```
#[derive(Debug)]
pub struct RuleEngine {
    settings: RuleSettings,
    options: EngineOptions,
    rules: Arc<CompiledRules>,
    /// Rules that apply from the next message on.
    next: Option<Arc<CompiledRules>>,
    /// The index of each rule in the gate.
    slots: Vec<usize>,
    gate: Gate,
    text: MessageStream,
    thinking: MessageStream,
    calls: Vec<CallStream>,
    spare: Vec<CallStream>,
    /// Whether a message is being read.
    is_reading: bool,
    /// Rules that fired in this message.
    fired: Vec<bool>,
    search: Backtracking,
    is_exhausted: bool,
    session: RetryLedger,
    turn: RetryLedger,
    /// Rules of the last interrupt, to which its tokens are counted.
    interrupted: Vec<RuleName>,
    /// All reports, and the number of reports already taken.
    reports: Vec<RuleReport>,
    taken: usize,
    trace: Trace,
    bytes: u64,
    /// Bytes that discarded automata read.
    scanned: u64,
    judgements: u64,
}

/// The position of a match.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    position: history::Position,
    excerpt: String,
}

impl Site {
    fn new(history: &History, offset: usize) -> Self {
        Self { position: history.position(offset), excerpt: history.excerpt(offset) }
    }

    fn matched(self, pattern: PatternIndex, path: Option<String>) -> MatchSite {
        let Self { position: history::Position { offset, line, column }, excerpt } = self;
        MatchSite { pattern, offset, line, column, excerpt, path }
    }
}

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
    /// Creates the engine of a session. Rules that are off, of other agents or without conditions are left out, and nothing runs
    /// unless the settings say `enabled`. See [`RuleEngine::take_reports`] for conditions that do not run.
    pub fn new(rules: Vec<Rule>, settings: RuleSettings, options: EngineOptions) -> Self {
        let trace = Trace::new(options.trace);
        let mut engine = Self {
            rules: Arc::default(),
            next: None,
            slots: Vec::new(),
            gate: Gate::default(),
            text: MessageStream::default(),
            thinking: MessageStream::default(),
            calls: Vec::new(),
            spare: Vec::new(),
            is_reading: false,
            fired: Vec::new(),
            search: Backtracking::default(),
            is_exhausted: false,
            session: RetryLedger::default(),
            turn: RetryLedger::default(),
            interrupted: Vec::new(),
            reports: Vec::new(),
            taken: 0,
            trace,
            bytes: 0,
            scanned: 0,
            judgements: 0,
            settings,
            options,
        };
        engine.replace_rules(rules);
        engine
    }

    /// Replaces the rules after a change of their files. Records and counts are kept, by the names of the rules. A message that
    /// is being read keeps the previous rules.
    pub fn replace_rules(&mut self, rules: Vec<Rule>) {
        let activities = activities(&rules, &self.settings, Some(&self.options.agent));
        let active = rules.into_iter().zip(activities).filter(|(_, activity)| activity.bucket == Bucket::Stream);
        let rules = active.map(|(rule, _)| rule).collect();
        let mut reports = Vec::new();
        let compiled = CompiledRules::new(rules, &self.settings, self.trace.is_on(), &mut reports);
        reports.into_iter().for_each(|report| self.report(report));
        self.next = Some(Arc::new(compiled));
        if !self.is_reading {
            self.take_next();
        }
    }

    /// Returns the rules that run, in their order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.rules.iter().map(|compiled| &compiled.rule)
    }

    /// Returns the settings.
    pub fn settings(&self) -> &RuleSettings {
        &self.settings
    }

    /// Begins a turn: a request of the user, with all attempts and calls that follow from it.
    pub fn begin_turn(&mut self) {
        self.gate.begin_turn();
        self.turn = RetryLedger::default();
    }

    /// Ends a turn, and returns what rules did in it.
    pub fn end_turn(&mut self) -> RetryLedger {
        self.gate.end_turn();
        std::mem::take(&mut self.turn)
    }

    /// Forgets the text that was read. Called at the beginning of each attempt at a message.
    pub fn reset_buffers(&mut self) {
        if !std::mem::take(&mut self.is_reading) {
            return;
        }
        self.fired.fill(false);
        if self.next.is_some() {
            return self.take_next();
        }
        self.text.restart();
        self.thinking.restart();
        for call in std::mem::take(&mut self.calls) {
            self.keep(call);
        }
    }

    /// Reads the next delta of a stream, and returns the rules that it breaks. The delta of a tool call is JSON text.
    #[inline]
    pub fn check_delta(&mut self, delta: &str, context: &MatchContext<'_>) -> Option<Firing> {
        match context.stream {
            StreamKind::Text if self.text.is_unread() => None,
            StreamKind::Text => {
                self.is_reading = true;
                self.bytes += delta.len() as u64;
                self.text.push(delta, &mut self.search);
                if self.text.is_quiet() {
                    self.text.history.trim();
                    return None;
                }
                self.judge_message(StreamKind::Text, context.now_ms)
            }
            StreamKind::Thinking if self.thinking.is_unread() => None,
            StreamKind::Thinking => {
                self.is_reading = true;
                self.bytes += delta.len() as u64;
                self.thinking.push(delta, &mut self.search);
                if self.thinking.is_quiet() {
                    self.thinking.history.trim();
                    return None;
                }
                self.judge_message(StreamKind::Thinking, context.now_ms)
            }
            StreamKind::Tool if self.rules.tool.is_unread() => None,
            StreamKind::Tool => {
                let at = self.call(context);
                self.bytes += delta.len() as u64;
                self.calls[at].push(delta, &mut self.search);
                if !self.calls[at].has_unjudged() {
                    return None;
                }
                self.judge_call(at, false, context.now_ms)
            }
        }
    }

    /// Replaces the text of a stream, and returns the rules that it breaks. The text of a tool call is one value, decoded.
    pub fn check_snapshot(&mut self, text: &str, context: &MatchContext<'_>) -> Option<Firing> {
        match context.stream {
            StreamKind::Text => self.text.restart(),
            StreamKind::Thinking => self.thinking.restart(),
            StreamKind::Tool if self.rules.tool.is_unread() => return None,
            StreamKind::Tool => {
                let at = self.call(context);
                self.bytes += text.len() as u64;
                let (id, tool) = (context.call_id.unwrap_or_default(), context.tool_name.unwrap_or_default());
                self.calls[at].restart(id, tool);
                self.calls[at].give_paths(context.paths);
                self.calls[at].set(text, &mut self.search);
                return self.judge_call(at, false, context.now_ms);
            }
        }
        self.check_delta(text, context)
    }

    /// Ends the arguments of a tool call, and returns the rules that they break as a whole.
    pub fn end_of_call(&mut self, context: &MatchContext<'_>) -> Option<Firing> {
        let id = context.call_id.unwrap_or_default();
        let at = self.calls.iter().position(|call| call.id == id)?;
        let firing = self.close_call(at, context.now_ms);
        let call = self.calls.remove(at);
        self.keep(call);
        firing
    }

    /// Ends the message, and returns the rules that its text, its thinking and the calls that have not ended break as a whole.
    pub fn end_of_message(&mut self, now_ms: u64) -> Vec<Firing> {
        let mut firings = Vec::new();
        self.text.close(&mut self.search);
        firings.extend(self.judge_message(StreamKind::Text, now_ms));
        self.thinking.close(&mut self.search);
        firings.extend(self.judge_message(StreamKind::Thinking, now_ms));
        for at in 0..self.calls.len() {
            firings.extend(self.close_call(at, now_ms));
        }
        self.reset_buffers();
        firings
    }

    /// Returns the records to persist for the session's rules, by name.
    pub fn injected_records(&self) -> Vec<InjectedRecord> {
        self.gate.records()
    }

    /// Restores records, after compaction or in a new process. The current turn becomes that of the latest record, unless it is
    /// later.
    pub fn restore(&mut self, records: impl IntoIterator<Item = InjectedRecord>) {
        self.gate.restore(records);
    }

    /// Restores the ledger of the session after a resume.
    pub fn restore_ledger(&mut self, ledger: RetryLedger) {
        self.session = ledger;
    }

    /// Returns the number of turns that have ended.
    pub fn current_turn(&self) -> u64 {
        self.gate.turn()
    }

    /// Sets the number of turns that have ended, of a session that is resumed.
    pub fn set_current_turn(&mut self, turn: u64) {
        self.gate.set_turn(turn);
    }

    /// Records that a rule was injected in a turn by other means than a firing.
    pub fn mark_injected(&mut self, name: &RuleName, turn: u64) {
        self.gate.mark(name, turn);
    }

    /// Undoes the firing of a rule: its reminder was not delivered, since the message failed or the user ended it.
    pub fn retract(&mut self, name: &RuleName) {
        self.gate.retract(name);
    }

    /// Sets whether the session may discard no more replies, for reasons that the engine does not count. Rules only remind then.
    pub fn set_exhausted(&mut self, is_exhausted: bool) {
        self.is_exhausted = is_exhausted;
    }

    /// Counts the tokens of the reply that was interrupted last.
    pub fn burned(&mut self, tokens: u64) {
        if self.interrupted.is_empty() {
            return;
        }
        self.session.burn(tokens, self.interrupted.iter());
        self.turn.burn(tokens, self.interrupted.iter());
        self.interrupted.clear();
    }

    /// Returns what rules did in this session.
    pub fn ledger(&self) -> &RetryLedger {
        &self.session
    }

    /// Returns what rules did in this turn.
    pub fn turn_ledger(&self) -> &RetryLedger {
        &self.turn
    }

    /// Returns the outcomes of the latest matches, the oldest first; nothing when the options ask for no trace.
    pub fn trace(&self) -> impl Iterator<Item = &TraceEntry> {
        self.trace.entries()
    }

    /// Takes the reports on conditions that do not run as they should. Each is reported once.
    pub fn take_reports(&mut self) -> Vec<RuleReport> {
        let new = self.reports[self.taken..].to_vec();
        self.taken = self.reports.len();
        new
    }

    /// Returns counts of the engine.
    pub fn stats(&self) -> EngineStats {
        EngineStats {
            rules: self.rules.rules.len(),
            bytes: self.bytes,
            scanned_bytes: self.scanned
                + self.text.scanned()
                + self.thinking.scanned()
                + self.calls.iter().chain(&self.spare).map(CallStream::scanned).sum::<u64>(),
            searched_bytes: self.search.bytes,
            searches: self.search.searches,
            judgements: self.judgements,
        }
    }

    fn take_next(&mut self) {
        let Some(rules) = self.next.take() else { return };
        self.scanned = self.stats().scanned_bytes;
        self.slots = rules.rules.iter().map(|compiled| self.gate.slot(&compiled.rule.name)).collect();
        self.fired = vec![false; rules.rules.len()];
        self.text = MessageStream::new(&rules.text, self.trace.is_on());
        self.thinking = MessageStream::new(&rules.thinking, self.trace.is_on());
        self.calls.clear();
        self.spare.clear();
        self.search.restart(&rules);
        self.rules = rules;
    }

    /// Returns the index of a call; a new call begins.
    fn call(&mut self, context: &MatchContext<'_>) -> usize {
        self.is_reading = true;
        let id = context.call_id.unwrap_or_default();
        let at = self.calls.iter().rposition(|call| call.id == id).unwrap_or_else(|| {
            let new = || CallStream::new(&self.rules.tool, self.trace.is_on());
            let mut call = self.spare.pop().unwrap_or_else(new);
            call.restart(id, context.tool_name.unwrap_or_default());
            if self.calls.len() == MAX_CALLS {
                let oldest = self.calls.remove(0);
                self.scanned += oldest.scanned();
            }
            self.calls.push(call);
            self.calls.len() - 1
        });
        if !context.paths.is_empty() {
            self.calls[at].give_paths(context.paths);
        }
        at
    }

    /// Keeps the buffers of a call for a later one.
    fn keep(&mut self, call: CallStream) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(call);
        } else {
            self.scanned += call.scanned();
        }
    }

    fn close_call(&mut self, at: usize, now_ms: u64) -> Option<Firing> {
        self.calls[at].close(&mut self.search);
        self.judge_call(at, true, now_ms)
    }

    /// Judges matches in text or thinking.
    #[cold]
    fn judge_message(&mut self, stream: StreamKind, now_ms: u64) -> Option<Firing> {
        let rules = Arc::clone(&self.rules);
        let source = Source { stream, tool: None, call: None, now_ms };
        let mut candidates = Vec::new();
        let of_stream = |engine: &mut Self| match stream {
            StreamKind::Thinking => std::mem::take(&mut engine.thinking),
            StreamKind::Text | StreamKind::Tool => std::mem::take(&mut engine.text),
        };
        let mut read = of_stream(self);
        for found in read.matches.drain(..) {
            if let MatchKind::GaveUp(why) = found.kind {
                self.report(RuleReport::gave_up(&rules.rules[found.rule].rule, found.condition, why));
                continue;
            }
            if self.fired[found.rule] && !self.trace.is_on() {
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
        match stream {
            StreamKind::Thinking => self.thinking = read,
            StreamKind::Text | StreamKind::Tool => self.text = read,
        }
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
        let rules = Arc::clone(&self.rules);
        let is_wanted = |rule: usize| {
            !self.fired[rule]
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
        let rules = Arc::clone(&self.rules);
        let call = &self.calls[at];
        let paths = call.paths(&text.owner);
        let Some(language) = paths.iter().find_map(|path| AstLanguage::from_path(path)) else { return };
        let tool = call.tool.clone();
        let is_wanted = |rule: usize| {
            let scope = &rules.rules[rule].scope;
            !self.fired[rule]
                && scope.matches(StreamKind::Tool, Some(&tool), &paths, &self.options.cwd) == ScopeMatch::Yes
        };
        let wanted = rules.ast_owners.iter().map(|&(rule, _)| is_wanted(rule)).collect();
        let found = self.search_ast(language, &text.text, wanted);
        candidates.extend(found.into_iter().map(|(rule, condition, site)| Candidate {
            rule,
            site: site.matched(PatternIndex::Ast(condition), paths.first().cloned()),
        }));
    }

    /// Searches a text for the wanted AST conditions: of each hit the rule, the condition and the position.
    fn search_ast(&mut self, language: AstLanguage, text: &str, wanted: Vec<bool>) -> Vec<(usize, usize, Site)> {
        let rules = Arc::clone(&self.rules);
        if !wanted.contains(&true) {
            return Vec::new();
        }
        let scan = rules.ast.find_each(language, text, DEFAULT_BUDGET, |pattern| wanted[pattern]);
        if let Some(limit) = scan.limit {
            for (pattern, &(rule, condition)) in rules.ast_owners.iter().enumerate() {
                if wanted[pattern] && !scan.hits.iter().any(|hit| hit.pattern == pattern) {
                    self.report(RuleReport::ast(&rules.rules[rule].rule, condition, limit.to_string()));
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
    fn judge_call(&mut self, at: usize, is_end: bool, now_ms: u64) -> Option<Firing> {
        let rules = Arc::clone(&self.rules);
        let (tool, id) = (self.calls[at].tool.clone(), self.calls[at].id.clone());
        let source = Source { stream: StreamKind::Tool, tool: Some(&tool), call: Some(&id), now_ms };
        let mut candidates = Vec::new();
        let (fired, is_traced) = (&self.fired, self.trace.is_on());
        let is_over = |rule: usize| fired[rule] && !is_traced;
        let mut scope =
            CallScope { rules: &rules, tool: &tool, cwd: &self.options.cwd, is_over: &is_over, judgements: 0 };
        let judged = self.calls[at].judge(&mut scope);
        let judgements = scope.judgements;
        self.judgements += judgements;
        for (CallMatch { found, site, .. }, verdict) in judged {
            let pattern = PatternIndex::Regex(found.condition);
            match (verdict, found.kind) {
                (_, MatchKind::GaveUp(why)) => {
                    self.report(RuleReport::gave_up(&rules.rules[found.rule].rule, found.condition, why));
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
            let waiting = if is_traced { self.calls[at].take_waiting() } else { Vec::new() };
            for CallMatch { found, site, owner } in waiting {
                let paths = self.calls[at].paths(&owner);
                let outcome = if paths.is_empty() { Outcome::PathUnknown } else { Outcome::PathMismatch { paths } };
                self.note(source, found.rule, &site.matched(PatternIndex::Regex(found.condition), None), outcome);
            }
        }
        if is_end {
            for text in self.calls[at].take_texts() {
                self.judge_text(at, &text, &mut candidates);
            }
        }
        self.decide(source, candidates)
    }

    /// Decides which of the rules that matched fire, and whether the reply is interrupted.
    fn decide(&mut self, source: Source<'_>, mut candidates: Vec<Candidate>) -> Option<Firing> {
        let rules = Arc::clone(&self.rules);
        candidates.sort_by_key(|candidate| candidate.rule);
        candidates.dedup_by_key(|candidate| candidate.rule);
        candidates.retain(|candidate| {
            let compiled = &rules.rules[candidate.rule];
            if self.fired[candidate.rule] {
                self.note(source, candidate.rule, &candidate.site, Outcome::AlreadyFired);
                return false;
            }
            let slot = self.slots[candidate.rule];
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
            let slot = self.slots[rule];
            let asks = compiled.interrupt_mode.interrupts(source.stream);
            let caps = Caps {
                rule_per_turn: compiled.max_retries_per_turn,
                per_turn: self.settings.max_retries_per_turn,
                per_session: self.settings.max_retries_per_session,
                is_exhausted: self.is_exhausted,
            };
            let degraded = if asks { self.gate.degraded(slot, caps, self.session.interrupts) } else { None };
            let interrupts = asks && degraded.is_none();
            if interrupts {
                // One rule that discards the partial reply suffices: its text must not be seen again.
                let mode = compiled.context_mode;
                context_mode = context_mode.filter(|&other| other == ContextMode::Discard).or(Some(mode));
            }
            self.fired[rule] = true;
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
            self.interrupted =
                firing.rules.iter().filter(|rule| rule.interrupts).map(|rule| rule.name.clone()).collect();
        }
        self.session.record(&firing);
        self.turn.record(&firing);
        Some(firing)
    }

    fn note(&mut self, source: Source<'_>, rule: usize, site: &MatchSite, outcome: Outcome) {
        let (turn, rules) = (self.gate.turn(), &self.rules);
        self.trace.record(|| TraceEntry {
            turn,
            rule: rules.rules[rule].rule.name.clone(),
            stream: source.stream,
            tool: source.tool.map(str::to_owned),
            site: site.clone(),
            outcome,
        });
    }

    fn report(&mut self, report: RuleReport) {
        if self.reports.len() < MAX_REPORTS && !self.reports.contains(&report) {
            self.reports.push(report);
        }
    }
}
