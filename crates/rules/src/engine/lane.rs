//! Matches a stream against the patterns of all rules that read the same parts of it.

use super::fallback::{Budget, GiveUp, MAX_TEXT, Search};
use super::settle::Wait;
use crate::rule::{Region, Settle, Window};
use pijs_matcher::{Hit, PatternSet, Reporting, Scan};
use std::sync::Arc;

/// The patterns of a lane, compiled into one automaton.
#[derive(Debug)]
pub(crate) struct LaneRules {
    pub(crate) region: Region,
    pub(crate) window: Window,
    pub(crate) owners: Vec<Owner>,
    pub(crate) set: PatternSet,
    /// Patterns, by index in `owners`, for which the automaton finds only possible matches. Sorted.
    pub(crate) coarse: Vec<usize>,
    /// For each coarse pattern, whether text after a hit can turn the hit into a match.
    pub(crate) looks_past_end: Vec<bool>,
    /// Patterns that the automaton does not support: each piece of a text may be a match.
    pub(crate) unfiltered: Vec<usize>,
}

/// A pattern of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Index of the rule in the session.
    pub(crate) rule: usize,
    /// Index of the rule's condition.
    pub(crate) condition: usize,
    pub(crate) settle: Settle,
}

/// A match, or a report that a pattern is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) rule: usize,
    pub(crate) condition: usize,
    /// Byte of the stream at which the match ends.
    pub(crate) offset: usize,
    pub(crate) kind: MatchKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum MatchKind {
    /// The match is final.
    Sure,
    /// Later text may undo the match. Reported only for the trace.
    Unsettled,
    /// The pattern is no longer tested, or is tested less often.
    GaveUp(GiveUp),
}

#[derive(Debug, Clone, Copy, Default)]
struct ReportedMatches {
    sure: bool,
    unsettled: bool,
}

/// Hits of the automaton that were not reported yet.
#[derive(Debug, Default)]
struct PendingHits {
    /// Settled hits of the last piece.
    settled: Vec<Hit>,
    /// Hits that are valid if the text ends here.
    unsettled: Vec<Hit>,
    /// Patterns that match before a CR if it is the last character of the line.
    before_return: Vec<usize>,
    waits: Vec<Wait>,
}

impl PendingHits {
    /// Begins a new text.
    fn restart(&mut self) {
        self.unsettled.clear();
        self.before_return.clear();
        self.waits.clear();
    }
}

/// Position at the end of the text that was read.
#[derive(Debug, Default)]
struct TextPosition {
    /// Length of the text in bytes.
    length: usize,
    /// Offset in the stream at which the text ends.
    end: usize,
    last: Option<char>,
    /// Length of all texts of the stream, in bytes.
    read: usize,
}

impl TextPosition {
    fn restart_text(&mut self) {
        (self.length, self.last) = (0, None);
    }

    /// Advances over a piece that begins at byte `at` of the stream.
    #[inline]
    fn advance(&mut self, at: usize, piece: &str) {
        self.length += piece.len();
        self.read += piece.len();
        self.end = at + piece.len();
        if let Some(last) = piece.chars().next_back() {
            self.last = Some(last);
        }
    }

    /// Returns the stream offset of a byte of the text, and its index in the next piece, which begins at stream offset `at`. The
    /// index is 0 for a byte before the piece.
    fn locate(&self, byte: usize, at: usize) -> (usize, usize) {
        match byte.checked_sub(self.length) {
            Some(inside) if inside > 0 => (at + inside, inside),
            _ => (self.end.saturating_sub(self.length - byte.min(self.length)), 0),
        }
    }
}

/// Tests the patterns for which the automaton finds only possible matches, or none.
#[derive(Debug)]
struct LaneFallback {
    /// The text, if a pattern needs it.
    text: String,
    /// Budgets of the coarse patterns, then of the unfiltered ones.
    budgets: Vec<Budget>,
    /// Indexes of budgets whose patterns have new text.
    asked: Vec<usize>,
}

impl LaneFallback {
    /// Keeps a piece of the text for tests, and schedules a test of each unsupported pattern.
    fn push(&mut self, piece: &str, unfiltered: std::ops::Range<usize>) {
        if self.text.len() <= MAX_TEXT {
            self.text.push_str(piece);
        }
        unfiltered.for_each(|budget| self.ask(budget));
    }

    /// Schedules a test of a pattern that the automaton does not support.
    fn ask(&mut self, budget: usize) {
        if !std::mem::replace(&mut self.budgets[budget].is_asked, true) {
            self.asked.push(budget);
        }
    }

    fn restart(&mut self) {
        self.budgets.fill_with(Budget::default);
    }

    fn restart_text(&mut self) {
        self.text.clear();
        self.asked.clear();
        self.budgets.iter_mut().for_each(Budget::restart_text);
    }
}

/// Matches the text of a lane as it arrives.
#[derive(Debug)]
pub(crate) struct Lane {
    rules: Arc<LaneRules>,
    scan: Scan,
    hits: PendingHits,
    position: TextPosition,
    fallback: LaneFallback,
    /// Number of patterns that the automaton gave up in this text and that were already reported.
    exhausted: usize,
    /// For each pattern, whether a match and whether an unsettled match was reported.
    told: Vec<ReportedMatches>,
    /// Bytes that the automaton read.
    scanned: u64,
    /// Whether unsettled matches are reported.
    is_traced: bool,
}

impl Lane {
    pub(crate) fn new(rules: Arc<LaneRules>, is_traced: bool) -> Self {
        let budgets = vec![Budget::default(); rules.coarse.len() + rules.unfiltered.len()];
        Self {
            scan: rules.set.begin(),
            hits: PendingHits::default(),
            position: TextPosition::default(),
            fallback: LaneFallback { text: String::new(), budgets, asked: Vec::new() },
            exhausted: 0,
            told: vec![ReportedMatches::default(); rules.owners.len()],
            scanned: 0,
            is_traced,
            rules,
        }
    }

    /// Returns the number of bytes that the automaton read, in all streams.
    pub(crate) fn scanned(&self) -> u64 {
        self.scanned
    }

    pub(crate) fn region(&self) -> Region {
        self.rules.region
    }

    /// Begins a new stream.
    pub(crate) fn restart(&mut self) {
        self.restart_text();
        self.told.fill(ReportedMatches::default());
        self.position.read = 0;
        self.fallback.restart();
    }

    /// Begins a value of the stream, which is judged separately. Even an empty value is a text.
    pub(crate) fn begin_value(&mut self, matches: &mut Vec<Match>) {
        self.forget();
        self.read(0, "", matches);
    }

    /// Resets which matches were reported.
    pub(crate) fn forget(&mut self) {
        self.told.fill(ReportedMatches::default());
    }

    /// Reports a match, unless one of the same pattern was reported in this stream.
    fn report(&mut self, pattern: usize, offset: usize, kind: MatchKind, matches: &mut Vec<Match>) {
        let told = &mut self.told[pattern];
        let told = if kind == MatchKind::Unsettled { &mut told.unsettled } else { &mut told.sure };
        if !std::mem::replace(told, true) {
            let Owner { rule, condition, .. } = self.rules.owners[pattern];
            matches.push(Match { rule, condition, offset, kind });
        }
    }

    /// Begins a new text of the stream.
    fn restart_text(&mut self) {
        if self.position.length > 0 {
            self.scan.restart();
            self.exhausted = 0;
        }
        self.hits.restart();
        self.position.restart_text();
        self.fallback.restart_text();
    }

    /// Reads the next piece of the text, which begins at byte `at` of the stream.
    #[inline]
    pub(crate) fn push(&mut self, at: usize, piece: &str, search: &mut dyn Search, matches: &mut Vec<Match>) {
        if self.rules.window == Window::Line {
            self.push_lines(at, piece, search, matches);
        } else {
            self.read(at, piece, matches);
        }
    }

    fn push_lines(&mut self, mut at: usize, mut piece: &str, search: &mut dyn Search, matches: &mut Vec<Match>) {
        while !piece.is_empty() {
            let end = piece.find('\n');
            let line = &piece[..end.unwrap_or(piece.len())];
            if !line.is_empty() {
                self.hits.before_return.clear();
            }
            let before = line.strip_suffix('\r').unwrap_or(line);
            self.read(at, before, matches);
            if before.len() < line.len() {
                // `$` matches before the CR, too.
                self.read_end(false, matches);
                let patterns = self.hits.unsettled.iter().map(|hit| hit.pattern.index());
                self.hits.before_return.extend(patterns);
                self.read(at + before.len(), "\r", matches);
            }
            let Some(end) = end else { return };
            self.close(search, matches);
            at += end + 1;
            piece = &piece[end + 1..];
        }
    }

    /// Reports the matches that are valid if the text ends here. Called after each delta.
    #[inline]
    pub(crate) fn end_delta(&mut self, search: &mut dyn Search, matches: &mut Vec<Match>) {
        if self.rules.window == Window::Chunk {
            return self.close(search, matches);
        }
        if !self.hits.unsettled.is_empty() {
            self.read_end(false, matches);
        }
        if !self.fallback.asked.is_empty() {
            self.search(search, false, matches);
        }
    }

    /// Ends the text, which is complete.
    pub(crate) fn close(&mut self, search: &mut dyn Search, matches: &mut Vec<Match>) {
        self.read_end(true, matches);
        for pattern in std::mem::take(&mut self.hits.before_return) {
            if self.rules.coarse.binary_search(&pattern).is_err() {
                self.report(pattern, self.position.end.saturating_sub(1), MatchKind::Sure, matches);
            }
        }
        if !self.fallback.asked.is_empty() {
            self.search(search, true, matches);
        }
        for wait in std::mem::take(&mut self.hits.waits) {
            self.report(wait.pattern, wait.offset, MatchKind::Sure, matches);
        }
        self.restart_text();
    }

    #[inline]
    fn read(&mut self, at: usize, piece: &str, matches: &mut Vec<Match>) {
        self.hits.settled.clear();
        self.hits.unsettled.clear();
        self.scan.read(
            piece,
            |hit| if hit.is_settled { self.hits.settled.push(hit) } else { self.hits.unsettled.push(hit) },
        );
        if !self.hits.settled.is_empty() || !self.hits.waits.is_empty() {
            self.take_hits(at, piece, matches);
        }
        if !self.fallback.budgets.is_empty() {
            let unfiltered = self.rules.coarse.len()..self.fallback.budgets.len();
            self.fallback.push(piece, unfiltered);
        }
        if self.scan.is_exhausted() {
            let patterns =
                self.scan.exhausted().skip(self.exhausted).map(|pattern| &self.rules.owners[pattern.index()]);
            let states = MatchKind::GaveUp(GiveUp::States);
            let known = matches.len();
            matches.extend(patterns.map(|owner| Match { kind: states, ..owner.matched(at) }));
            self.exhausted += matches.len() - known;
        }
        self.scanned += piece.len() as u64;
        self.position.advance(at, piece);
    }

    #[cold]
    fn take_hits(&mut self, at: usize, piece: &str, matches: &mut Vec<Match>) {
        let rules = Arc::clone(&self.rules);
        let mut waits = std::mem::take(&mut self.hits.waits);
        waits.retain(|wait| {
            let is_over = wait.is_over(piece);
            if is_over {
                self.report(wait.pattern, wait.offset, MatchKind::Sure, matches);
            }
            !is_over
        });
        self.hits.waits = waits;
        let hits = std::mem::take(&mut self.hits.settled);
        for &Hit { pattern: id, offset: end, .. } in &hits {
            let pattern = id.index();
            if let Ok(budget) = rules.coarse.binary_search(&pattern) {
                self.fallback.ask(budget);
                // A pattern that may match now may also match later text, so all hits are reported.
                self.scan.report(id, Reporting::Every);
                continue;
            }
            let (offset, inside) = self.position.locate(end as usize, at);
            let last = if inside > 0 { piece[..inside].chars().next_back() } else { self.position.last };
            let wait = Wait::new(rules.owners[pattern].settle, pattern, offset, last);
            if wait.is_over(&piece[inside..]) {
                self.report(pattern, offset, MatchKind::Sure, matches);
            } else {
                self.hits.waits.push(wait);
            }
        }
        self.hits.settled = hits;
    }

    /// Takes the matches that are valid if the text ends here.
    #[cold]
    fn read_end(&mut self, is_end: bool, matches: &mut Vec<Match>) {
        let unsettled = std::mem::take(&mut self.hits.unsettled);
        for hit in &unsettled {
            let pattern = hit.pattern.index();
            if let Ok(budget) = self.rules.coarse.binary_search(&pattern) {
                self.fallback.ask(budget);
            } else if is_end || self.rules.owners[pattern].settle == Settle::Now {
                self.report(pattern, self.position.end, MatchKind::Sure, matches);
            } else if self.is_traced {
                self.report(pattern, self.position.end, MatchKind::Unsettled, matches);
            }
        }
        self.hits.unsettled = unsettled;
    }

    /// Tests the patterns that the automaton does not support.
    #[cold]
    fn search(&mut self, search: &mut dyn Search, is_end: bool, matches: &mut Vec<Match>) {
        let rules = Arc::clone(&self.rules);
        let mut asked = std::mem::take(&mut self.fallback.asked);
        asked.retain(|&number| {
            let coarse = rules.coarse.get(number);
            let pattern = coarse.copied().unwrap_or_else(|| rules.unfiltered[number - rules.coarse.len()]);
            let owner = &rules.owners[pattern];
            let gave_up = |why| Match { kind: MatchKind::GaveUp(why), ..owner.matched(self.position.end) };
            let share = self.fallback.budgets.len();
            let budget = &mut self.fallback.budgets[number];
            let (is_allowed, report) = budget.allows(self.fallback.text.len(), self.position.read, share, is_end);
            matches.extend(report.map(gave_up));
            if !is_allowed {
                return budget.is_asked;
            }
            match search.search(owner.rule, owner.condition, &self.fallback.text) {
                Ok(Some(found)) => {
                    let last = self.fallback.text[..found.end].chars().next_back();
                    let offset = self.position.end - (self.fallback.text.len() - found.end).min(self.position.end);
                    let wait = Wait::new(owner.settle, pattern, offset, last);
                    if is_end || wait.is_over(&self.fallback.text[found.end..]) {
                        budget.is_asked = false;
                        budget.has_matched = true;
                        self.report(pattern, offset, MatchKind::Sure, matches);
                    }
                }
                // The automaton reports the next possible match, except where text after a hit matters.
                Ok(None) => budget.is_asked = rules.looks_past_end.get(number).copied().unwrap_or(false),
                Err(why) => {
                    budget.give_up();
                    matches.push(gave_up(why));
                }
            }
            self.fallback.budgets[number].is_asked
        });
        self.fallback.asked = asked;
    }
}

impl Owner {
    fn matched(&self, offset: usize) -> Match {
        Match { rule: self.rule, condition: self.condition, offset, kind: MatchKind::Sure }
    }
}
