//! The rules engine of a session: reads the deltas of a reply and returns the rules that they break.
//!
//! ```text
//! delta ─▶ streams ─┬─ fences ──────▶ lane ─▶ match ─▶ scope, path ─▶ gate ─▶ Firing
//!          calls ───┴─ arguments ───▶ (automaton, settle, fallback)   (repeat, caps)
//! ```
//!
//! | module | idea |
//! |---|---|
//! | `engine/compiled.rs` | one automaton for all rules that read the same parts of a stream |
//! | `engine/lane.rs` | the text of such parts; the automaton's state is carried from delta to delta |
//! | `engine/settle.rs` | waits until the text after a match is known |
//! | `engine/fallback.rs` | the budget of patterns that need backtracking |
//! | `engine/streams.rs`, `engine/fences.rs` | text and thinking, and their code blocks |
//! | `engine/calls.rs`, `engine/arguments.rs`, `engine/new_lines.rs`, `engine/value_lanes.rs` | the decoded arguments of tool calls |
//! | `engine/call_matches.rs`, `engine/waiting.rs` | matches in arguments, and those that wait for a path |
//! | `engine/reply.rs` | all streams of the reply that is being read |
//! | `engine/judge.rs` | which matches are in scope, and which of their rules fire |
//! | `engine/gate.rs`, `engine/ledger.rs` | repetition, caps, records; counts and costs |
//! | `engine/trace.rs` | the outcome of each match, for `pi rules explain` |
//!
//! A session calls [`RuleEngine::begin_turn`], then for each attempt at a reply [`RuleEngine::reset_buffers`],
//! [`RuleEngine::check_delta`] for each delta, [`RuleEngine::end_of_call`] and [`RuleEngine::end_of_message`], and at last
//! [`RuleEngine::end_turn`]. A delta costs what its own characters cost, however long the reply is.

mod arguments;
mod call_matches;
mod calls;
mod compiled;
mod fallback;
mod fences;
mod firing;
mod gate;
mod history;
mod judge;
mod lane;
mod ledger;
mod new_lines;
mod reply;
mod report;
mod settle;
mod streams;
#[cfg(test)]
mod tests;
mod trace;
mod value_lanes;
mod waiting;

pub use fallback::GiveUp;
pub use firing::{Action, Degraded, FiredRule, Firing, MAX_EXCERPT, MatchSite, PatternIndex};
pub use gate::{Blocked, InjectedRecord};
pub use ledger::{RetryLedger, RuleCounts};
pub use report::RuleReport;
pub use trace::{Outcome, TraceEntry};

use crate::activity::{Bucket, activities};
use crate::rule::{Rule, RuleName, StreamKind};
use crate::settings::RuleSettings;
use compiled::CompiledRules;
use fallback::Backtracking;
use gate::Gate;
use ledger::SessionLedgers;
use reply::ReplyStreams;
use report::RuleReports;
use std::sync::Arc;
use trace::Trace;

/// Options of a session's engine. The default is the agent `main` in the directory `/`, without a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineOptions {
    /// The name of the agent, for rules with `agents`.
    pub agent: String,
    /// Working directory that relative paths and globs refer to.
    pub cwd: String,
    /// Maximum number of trace entries that are kept; 0 disables the trace. An engine with a trace reads each stream for all
    /// rules.
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
    /// Paths that the caller knows the call to affect. Paths in the arguments need not be listed.
    pub paths: &'a [&'a str],
    /// Time in milliseconds, of a clock that continues across processes.
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
    /// Number of active rules.
    pub rules: usize,
    /// Bytes of the checked deltas, except for streams that no rule reads.
    pub bytes: u64,
    /// Decoded bytes of them that automata read, over all lanes of rules.
    pub scanned_bytes: u64,
    /// Bytes on which patterns that need backtracking were tested.
    pub searched_bytes: u64,
    /// Number of tests of such patterns.
    pub searches: u64,
    /// Number of visited matches in tool arguments, and of paths that were tested against them.
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
    active: ActiveRules,
    gate: Gate,
    reply: ReplyStreams,
    search: Backtracking,
    /// Whether the session must discard no more replies.
    is_exhausted: bool,
    ledgers: SessionLedgers,
    reports: RuleReports,
    trace: Trace,
    judgements: u64,
}

/// The active rules.
#[derive(Debug, Default)]
struct ActiveRules {
    current: Arc<CompiledRules>,
    /// Rules that apply from the next message on.
    next: Option<Arc<CompiledRules>>,
    /// The index of each rule in the gate.
    slots: Vec<usize>,
    /// Rules that fired in this message.
    fired: Vec<bool>,
}

impl RuleEngine {
    /// Creates the engine of a session. Rules that are off, belong to other agents or have no conditions are left out, and no
    /// rule is active unless the settings have `enabled`. See [`RuleEngine::take_reports`] for conditions that do not run.
    pub fn new(rules: Vec<Rule>, settings: RuleSettings, options: EngineOptions) -> Self {
        let trace = Trace::new(options.trace);
        let mut engine = Self {
            active: ActiveRules::default(),
            gate: Gate::default(),
            reply: ReplyStreams::default(),
            search: Backtracking::default(),
            is_exhausted: false,
            ledgers: SessionLedgers::default(),
            reports: RuleReports::default(),
            trace,
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
        reports.into_iter().for_each(|report| self.reports.add(report));
        self.active.next = Some(Arc::new(compiled));
        if !self.reply.is_reading {
            self.take_next();
        }
    }

    /// Returns the active rules, in their order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.active.current.rules.iter().map(|compiled| &compiled.rule)
    }

    /// Returns the settings.
    pub fn settings(&self) -> &RuleSettings {
        &self.settings
    }

    /// Begins a turn: a request of the user, with all attempts and calls that follow from it.
    pub fn begin_turn(&mut self) {
        self.gate.begin_turn();
        self.ledgers.turn = RetryLedger::default();
    }

    /// Ends a turn, and returns the counts of its firings and their cost.
    pub fn end_turn(&mut self) -> RetryLedger {
        self.gate.end_turn();
        std::mem::take(&mut self.ledgers.turn)
    }

    /// Discards the text that was read. Called at the beginning of each attempt at a message.
    pub fn reset_buffers(&mut self) {
        if !std::mem::take(&mut self.reply.is_reading) {
            return;
        }
        self.active.fired.fill(false);
        if self.active.next.is_some() {
            return self.take_next();
        }
        self.reply.restart();
    }

    /// Reads the next delta of a stream, and returns the rules that it breaks. The delta of a tool call is JSON text.
    #[inline]
    pub fn check_delta(&mut self, delta: &str, context: &MatchContext<'_>) -> Option<Firing> {
        match context.stream {
            StreamKind::Text if self.reply.text.is_unread() => None,
            StreamKind::Text => {
                self.reply.is_reading = true;
                self.reply.bytes += delta.len() as u64;
                self.reply.text.push(delta, &mut self.search);
                if self.reply.text.is_quiet() {
                    self.reply.text.history.trim();
                    return None;
                }
                self.judge_message(StreamKind::Text, context.now_ms)
            }
            StreamKind::Thinking if self.reply.thinking.is_unread() => None,
            StreamKind::Thinking => {
                self.reply.is_reading = true;
                self.reply.bytes += delta.len() as u64;
                self.reply.thinking.push(delta, &mut self.search);
                if self.reply.thinking.is_quiet() {
                    self.reply.thinking.history.trim();
                    return None;
                }
                self.judge_message(StreamKind::Thinking, context.now_ms)
            }
            StreamKind::Tool if self.active.current.tool.is_unread() => None,
            StreamKind::Tool => {
                let at = self.call(context);
                self.reply.bytes += delta.len() as u64;
                self.reply.calls[at].push(delta, &mut self.search);
                if !self.reply.calls[at].has_unjudged() {
                    return None;
                }
                self.judge_call(at, false, context.now_ms)
            }
        }
    }

    /// Replaces the text of a stream, and returns the rules that it breaks. The text of a tool call is one value, decoded.
    pub fn check_snapshot(&mut self, text: &str, context: &MatchContext<'_>) -> Option<Firing> {
        match context.stream {
            StreamKind::Text => self.reply.text.restart(),
            StreamKind::Thinking => self.reply.thinking.restart(),
            StreamKind::Tool if self.active.current.tool.is_unread() => return None,
            StreamKind::Tool => {
                let at = self.call(context);
                self.reply.bytes += text.len() as u64;
                let (id, tool) = (context.call_id.unwrap_or_default(), context.tool_name.unwrap_or_default());
                self.reply.calls[at].restart(id, tool);
                self.reply.calls[at].give_paths(context.paths);
                self.reply.calls[at].set(text, &mut self.search);
                return self.judge_call(at, false, context.now_ms);
            }
        }
        self.check_delta(text, context)
    }

    /// Ends the arguments of a tool call, and returns the rules that they break as a whole.
    pub fn end_of_call(&mut self, context: &MatchContext<'_>) -> Option<Firing> {
        let id = context.call_id.unwrap_or_default();
        let at = self.reply.find_call(id)?;
        let firing = self.close_call(at, context.now_ms);
        self.reply.end_call(at);
        firing
    }

    /// Ends the message, and returns the rules that its text, its thinking and the calls that have not ended break as a whole.
    pub fn end_of_message(&mut self, now_ms: u64) -> Vec<Firing> {
        let mut firings = Vec::new();
        self.reply.text.close(&mut self.search);
        firings.extend(self.judge_message(StreamKind::Text, now_ms));
        self.reply.thinking.close(&mut self.search);
        firings.extend(self.judge_message(StreamKind::Thinking, now_ms));
        for at in 0..self.reply.calls.len() {
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
        self.ledgers.session = ledger;
    }

    /// Returns the number of turns that have ended.
    pub fn current_turn(&self) -> u64 {
        self.gate.turn()
    }

    /// Sets the number of turns that have ended, when a session is resumed.
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

    /// Sets whether the session must discard no more replies, for reasons that the engine does not count. Rules then only remind.
    pub fn set_exhausted(&mut self, is_exhausted: bool) {
        self.is_exhausted = is_exhausted;
    }

    /// Adds the tokens of the reply that was interrupted last.
    pub fn burned(&mut self, tokens: u64) {
        self.ledgers.burn(tokens);
    }

    /// Returns the counts of this session's firings and their cost.
    pub fn ledger(&self) -> &RetryLedger {
        &self.ledgers.session
    }

    /// Returns the counts of this turn's firings and their cost.
    pub fn turn_ledger(&self) -> &RetryLedger {
        &self.ledgers.turn
    }

    /// Returns the outcomes of the latest matches, the oldest first; empty unless the options enable the trace.
    pub fn trace(&self) -> impl Iterator<Item = &TraceEntry> {
        self.trace.entries()
    }

    /// Returns the reports on conditions that do not run as they should, since the last call. Each is reported once.
    pub fn take_reports(&mut self) -> Vec<RuleReport> {
        self.reports.take_new()
    }

    /// Returns the counters of the engine.
    pub fn stats(&self) -> EngineStats {
        EngineStats {
            rules: self.active.current.rules.len(),
            bytes: self.reply.bytes,
            scanned_bytes: self.reply.scanned(),
            searched_bytes: self.search.bytes,
            searches: self.search.searches,
            judgements: self.judgements,
        }
    }

    fn take_next(&mut self) {
        let Some(rules) = self.active.next.take() else { return };
        self.active.slots = rules.rules.iter().map(|compiled| self.gate.slot(&compiled.rule.name)).collect();
        self.active.fired = vec![false; rules.rules.len()];
        self.reply.take_rules(&rules, self.trace.is_on());
        self.search.restart(&rules);
        self.active.current = rules;
    }

    /// Returns the index of a call. An unknown id begins a new call.
    fn call(&mut self, context: &MatchContext<'_>) -> usize {
        let (id, tool) = (context.call_id.unwrap_or_default(), context.tool_name.unwrap_or_default());
        let at = self.reply.call(id, tool, &self.active.current, self.trace.is_on());
        if !context.paths.is_empty() {
            self.reply.calls[at].give_paths(context.paths);
        }
        at
    }

    fn close_call(&mut self, at: usize, now_ms: u64) -> Option<Firing> {
        self.reply.calls[at].close(&mut self.search);
        self.judge_call(at, true, now_ms)
    }
}
