//! Matches the patterns of the rules that read the same parts of a stream against the text of those parts.

use super::fallback::{Budget, GiveUp, Search};
use super::settle::Wait;
use crate::rule::{Region, Settle, Window};
use pijs_matcher::{Hit, PatternSet, Reporting, Scan};
use std::sync::Arc;

/// The patterns of a lane, in one automaton.
#[derive(Debug)]
pub(crate) struct LaneRules {
    pub(crate) region: Region,
    pub(crate) window: Window,
    pub(crate) owners: Vec<Owner>,
    pub(crate) set: PatternSet,
    /// Patterns, by their numbers in `owners`, of which the automaton says only where they may match. Sorted.
    pub(crate) coarse: Vec<usize>,
    /// Patterns that the automaton does not read for. Each piece of a text may be a match.
    pub(crate) unfiltered: Vec<usize>,
}

/// A pattern of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The rule, by its number in the session.
    pub(crate) rule: usize,
    /// The condition of the rule.
    pub(crate) condition: usize,
    pub(crate) settle: Settle,
}

/// A match, or what has to be said instead of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) rule: usize,
    pub(crate) condition: usize,
    /// The byte of the stream at which it ends.
    pub(crate) offset: usize,
    pub(crate) kind: MatchKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchKind {
    /// It counts.
    Sure,
    /// It does not, since what follows may undo it. Only told for the trace.
    Unsettled,
    /// The pattern is not tested, or less often.
    GaveUp(GiveUp),
}

/// The text of a lane, as far as it has been read.
#[derive(Debug)]
pub(crate) struct Lane {
    rules: Arc<LaneRules>,
    scan: Scan,
    /// Settled hits of the last piece.
    hits: Vec<Hit>,
    /// Hits that hold if the text ends here.
    unsettled: Vec<Hit>,
    /// Patterns that match before a CR which may be the line's last character.
    before_return: Vec<usize>,
    waits: Vec<Wait>,
    /// Bytes of the text, and the byte of the stream at which it ends.
    length: usize,
    end: usize,
    last: Option<char>,
    /// Bytes of all texts of the stream.
    read: usize,
    /// The text, when a pattern needs it.
    text: String,
    /// Of the coarse patterns, then of the unfiltered ones.
    budgets: Vec<Budget>,
    is_exhausted: bool,
    /// Bytes that the automaton read.
    scanned: u64,
    /// Whether matches that do not count yet are told.
    is_traced: bool,
}

impl Lane {
    pub(crate) fn new(rules: Arc<LaneRules>, is_traced: bool) -> Self {
        Self {
            scan: rules.set.begin(),
            hits: Vec::new(),
            unsettled: Vec::new(),
            before_return: Vec::new(),
            waits: Vec::new(),
            length: 0,
            end: 0,
            last: None,
            read: 0,
            text: String::new(),
            budgets: vec![Budget::default(); rules.coarse.len() + rules.unfiltered.len()],
            is_exhausted: false,
            scanned: 0,
            is_traced,
            rules,
        }
    }

    /// Returns the bytes that the automaton read, of all streams.
    pub(crate) fn scanned(&self) -> u64 {
        self.scanned
    }

    pub(crate) fn region(&self) -> Region {
        self.rules.region
    }

    /// Begins a new stream.
    pub(crate) fn restart(&mut self) {
        self.restart_text();
        self.read = 0;
        for budget in &mut self.budgets {
            *budget = Budget::default();
        }
    }

    /// Begins a text that is known to be one although nothing of it is: an empty argument.
    pub(crate) fn open(&mut self, at: usize, matches: &mut Vec<Match>) {
        self.read(at, "", matches);
    }

    /// Begins a new text of the stream.
    fn restart_text(&mut self) {
        if self.length > 0 {
            self.scan = self.rules.set.begin();
            self.is_exhausted = false;
        }
        self.unsettled.clear();
        self.before_return.clear();
        self.waits.clear();
        self.length = 0;
        self.last = None;
        self.text.clear();
        for budget in &mut self.budgets {
            budget.restart_text();
        }
    }

    /// Reads the next piece of the text, which begins at this byte of the stream.
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
                self.before_return.clear();
            }
            let before = line.strip_suffix('\r').unwrap_or(line);
            self.read(at, before, matches);
            if before.len() < line.len() {
                // `$` holds before the CR too.
                self.read_end(false, matches);
                let patterns = self.unsettled.iter().map(|hit| hit.pattern.index());
                self.before_return.extend(patterns);
                self.read(at + before.len(), "\r", matches);
            }
            let Some(end) = end else { return };
            self.close(search, matches);
            at += end + 1;
            piece = &piece[end + 1..];
        }
    }

    /// Answers what holds if the text ended here. Called behind each delta.
    #[inline]
    pub(crate) fn end_delta(&mut self, search: &mut dyn Search, matches: &mut Vec<Match>) {
        if self.rules.window == Window::Chunk {
            return self.close(search, matches);
        }
        if !self.unsettled.is_empty() {
            self.read_end(false, matches);
        }
        if !self.budgets.is_empty() {
            self.search(search, false, matches);
        }
    }

    /// Ends the text: all of it is known.
    pub(crate) fn close(&mut self, search: &mut dyn Search, matches: &mut Vec<Match>) {
        self.read_end(true, matches);
        for pattern in std::mem::take(&mut self.before_return) {
            if self.rules.coarse.binary_search(&pattern).is_err() {
                matches.push(self.rules.owners[pattern].matched(self.end.saturating_sub(1)));
            }
        }
        self.search(search, true, matches);
        for wait in std::mem::take(&mut self.waits) {
            matches.push(self.rules.owners[wait.pattern].matched(wait.offset));
        }
        self.restart_text();
    }

    #[inline]
    fn read(&mut self, at: usize, piece: &str, matches: &mut Vec<Match>) {
        self.hits.clear();
        self.unsettled.clear();
        self.scan.read(piece, |hit| if hit.is_settled { self.hits.push(hit) } else { self.unsettled.push(hit) });
        if !self.hits.is_empty() || !self.waits.is_empty() {
            self.take_hits(at, piece, matches);
        }
        if !self.budgets.is_empty() {
            self.text.push_str(piece);
            self.budgets[self.rules.coarse.len()..].iter_mut().for_each(|budget| budget.is_asked = true);
        }
        if self.scan.is_exhausted() && !self.is_exhausted {
            self.is_exhausted = true;
            let patterns = self.scan.exhausted().map(|pattern| &self.rules.owners[pattern.index()]);
            let states = MatchKind::GaveUp(GiveUp::States);
            matches.extend(patterns.map(|owner| Match { kind: states, ..owner.matched(at) }));
        }
        self.length += piece.len();
        self.scanned += piece.len() as u64;
        self.read += piece.len();
        self.end = at + piece.len();
        if let Some(last) = piece.chars().next_back() {
            self.last = Some(last);
        }
    }

    #[cold]
    fn take_hits(&mut self, at: usize, piece: &str, matches: &mut Vec<Match>) {
        let owners = &self.rules.owners;
        self.waits.retain(|wait| {
            let is_over = wait.is_over(piece);
            if is_over {
                matches.push(owners[wait.pattern].matched(wait.offset));
            }
            !is_over
        });
        for &Hit { pattern: id, offset: end, .. } in &self.hits {
            let pattern = id.index();
            let owner = &owners[pattern];
            if let Ok(budget) = self.rules.coarse.binary_search(&pattern) {
                self.budgets[budget].is_asked = true;
                // A text that may match now may match again when it has grown.
                self.scan.report(id, Reporting::Every);
                continue;
            }
            let end = end as usize;
            let (offset, inside) = match end.checked_sub(self.length) {
                Some(inside) if inside > 0 => (at + inside, inside),
                _ => (self.end.saturating_sub(self.length - end.min(self.length)), 0),
            };
            let last = if inside > 0 { piece[..inside].chars().next_back() } else { self.last };
            let wait = Wait::new(owner.settle, pattern, offset, last);
            if wait.is_over(&piece[inside..]) {
                matches.push(owner.matched(offset));
            } else {
                self.waits.push(wait);
            }
        }
    }

    /// Takes the matches that hold if the text ends here.
    #[inline]
    fn read_end(&mut self, is_end: bool, matches: &mut Vec<Match>) {
        for hit in &self.unsettled {
            let pattern = hit.pattern.index();
            let owner = &self.rules.owners[pattern];
            if let Ok(budget) = self.rules.coarse.binary_search(&pattern) {
                self.budgets[budget].is_asked = true;
            } else if is_end || owner.settle == Settle::Now {
                matches.push(owner.matched(self.end));
            } else if self.is_traced {
                matches.push(Match { kind: MatchKind::Unsettled, ..owner.matched(self.end) });
            }
        }
    }

    /// Tests the patterns that the automaton cannot take.
    fn search(&mut self, search: &mut dyn Search, is_end: bool, matches: &mut Vec<Match>) {
        let patterns = self.rules.coarse.iter().chain(&self.rules.unfiltered);
        for (budget, &pattern) in self.budgets.iter_mut().zip(patterns) {
            let owner = &self.rules.owners[pattern];
            let gave_up = |why| Match { kind: MatchKind::GaveUp(why), ..owner.matched(self.end) };
            let (is_allowed, report) = budget.allows(self.text.len(), self.read, is_end);
            matches.extend(report.map(gave_up));
            if !is_allowed {
                continue;
            }
            match search.search(owner.rule, owner.condition, &self.text) {
                Ok(Some(found)) => {
                    let last = self.text[..found.end].chars().next_back();
                    let offset = self.end - (self.text.len() - found.end).min(self.end);
                    let wait = Wait::new(owner.settle, pattern, offset, last);
                    if is_end || wait.is_over(&self.text[found.end..]) {
                        matches.push(owner.matched(offset));
                        budget.is_asked = false;
                        budget.has_matched = true;
                    }
                }
                // The automaton asks again when the text may match.
                Ok(None) => budget.is_asked = false,
                Err(why) => {
                    budget.give_up();
                    matches.push(gave_up(why));
                }
            }
        }
    }
}

impl Owner {
    fn matched(&self, offset: usize) -> Match {
        Match { rule: self.rule, condition: self.condition, offset, kind: MatchKind::Sure }
    }
}
