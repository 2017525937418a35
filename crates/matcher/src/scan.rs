//! Reads one text in pieces for all patterns of a set.
//!
//! A lazy DFA reports a match one byte late, so the end of each piece is evaluated as if the text ended there. A match that the
//! following byte confirms is *settled*, that is, final. A match that depends on the end (`$`, `\b`, `(?!x)`) is not settled
//! until more text arrives: `\bTODO\b` matches `TODO`, but does not match `TODOS`.
//!
//! An automaton that computes too many states is replaced in the middle of the text by the parts that the set splits it into.
//! These read the end of the text again, of which at least [`WINDOW_BYTES`] bytes are kept; a longer match may be missed. A
//! reported match is not reported again.

use crate::set::{Automaton, PatternId, SetShared};
use crate::transcode;
use regex_automata::Anchored;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::Cache;
use regex_automata::util::start;
use std::fmt;
use std::sync::Arc;

/// Minimum number of bytes of the text that are kept for automata that begin in its middle; the maximum is twice as many.
const WINDOW_BYTES: usize = 16 * 1024;
/// Number of bytes of a piece between checks of the limits.
const SLICE_BYTES: usize = 1024;
/// Number of bytes charged for a newly computed transition to an existing state.
const TRANSITION_BYTES: u64 = 64;
/// Number of cached states whose matches have all been reported.
const MAX_QUIET_STATES: usize = 8;

/// A match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    /// End of the match, in bytes of text. A match that ends inside a surrogate pair ends with the character, and a match that
    /// ends with `(?=x)` ends after the `x`.
    pub offset: u64,
    /// The matching pattern.
    pub pattern: PatternId,
    /// Whether the match is final. Otherwise it is valid only if the text ends here.
    pub is_settled: bool,
}

/// Matches of a pattern that a [`Scan`] reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reporting {
    /// The first settled match, and before it unsettled matches at the end of each piece.
    #[default]
    Once,
    /// All matches with different ends.
    Every,
    /// No matches.
    Never,
}

/// A text in progress, with the state of each automaton.
///
/// Created by [`PatternSet::begin`](crate::PatternSet::begin). Its caches return to the set when it is dropped.
pub struct Scan {
    shared: Arc<SetShared>,
    readers: Vec<AutomatonReader>,
    log: MatchLog,
    /// Number of bytes read.
    offset: u64,
    /// End of the text, and the byte that automata read before it.
    tail: String,
    before_tail: Option<u8>,
    /// Abandoned patterns, in the order of abandonment.
    abandoned: Vec<PatternId>,
    /// Number of bytes of states that may be computed, and that were computed.
    allowed: u64,
    spent: u64,
}

/// One automaton and its state.
struct AutomatonReader {
    automaton: Arc<Automaton>,
    cache: Cache,
    state: LazyStateID,
    quiet: [LazyStateID; MAX_QUIET_STATES],
    next_quiet: usize,
    clears: usize,
    spent: u64,
    is_exhausted: bool,
}

/// Matches so far.
struct MatchLog {
    /// End of the last settled match of each part, if there is one.
    settled: Vec<Option<u64>>,
    found: Vec<usize>,
    /// Number of parts of each pattern with a settled match.
    settled_parts: Vec<u32>,
    /// End of the last reported settled match of each pattern.
    reported: Vec<Option<u64>>,
    /// Parts that match if the text ends here, during the evaluation of a piece's end.
    ending: Vec<(PatternId, usize)>,
    reporting: Vec<Reporting>,
    /// Whether a pattern has a reporting mode other than the default.
    is_reporting_set: bool,
    hits: Vec<Hit>,
}

impl Scan {
    pub(crate) fn new(shared: Arc<SetShared>) -> Self {
        let readers = shared.automata().into_iter().map(|automaton| AutomatonReader::new(automaton, None)).collect();
        let log = MatchLog::new(&shared);
        let allowed = shared.limits.computed_bytes;
        let (tail, before_tail, abandoned) = (String::new(), None, Vec::new());
        Self { shared, readers, log, offset: 0, tail, before_tail, abandoned, allowed, spent: 0 }
    }

    /// Selects the matches of a pattern that are reported from here on.
    pub fn report(&mut self, pattern: PatternId, reporting: Reporting) {
        self.log.reporting[pattern.index()] = reporting;
        self.log.is_reporting_set = true;
        for reader in &mut self.readers {
            reader.quiet = [LazyStateID::default(); MAX_QUIET_STATES];
        }
    }

    /// Reads the next piece of the text and reports matches, ordered by their ends.
    pub fn read(&mut self, piece: &str, mut on_hit: impl FnMut(Hit)) {
        let mut rest = piece;
        loop {
            let (slice, after) = rest.split_at(rest.floor_char_boundary(SLICE_BYTES));
            self.keep(slice);
            self.read_slice(slice, after.is_empty());
            for hit in self.log.hits.drain(..) {
                on_hit(hit);
            }
            if after.is_empty() {
                return;
            }
            rest = after;
        }
    }

    /// Returns the number of bytes read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the patterns that are no longer matched in this text, because they need more states than the limits allow. The set
    /// has [abandoned them](crate::PatternSet::given_up).
    pub fn exhausted(&self) -> impl Iterator<Item = PatternId> {
        self.abandoned.iter().copied()
    }

    /// Returns whether [`Self::exhausted`] is not empty.
    pub fn is_exhausted(&self) -> bool {
        !self.abandoned.is_empty()
    }

    /// Begins a new text with the current reporting modes. Costs time in proportion to the matches of the previous text.
    pub fn restart(&mut self) {
        if !self.shared.is_current(self.readers.iter().map(|reader| &reader.automaton)) {
            *self = Self::new(Arc::clone(&self.shared));
            return;
        }
        self.readers.iter_mut().for_each(AutomatonReader::restart);
        self.log.restart(&self.shared);
        self.offset = 0;
        self.tail.clear();
        self.before_tail = None;
        self.abandoned.clear();
        (self.allowed, self.spent) = (self.shared.limits.computed_bytes, 0);
    }

    /// Returns the size of the scan's caches in bytes.
    pub fn memory_usage(&self) -> usize {
        self.readers.iter().map(|reader| reader.cache.memory_usage()).sum()
    }

    /// Stores the end of the text.
    #[inline]
    fn keep(&mut self, slice: &str) {
        if self.tail.len() + slice.len() > 2 * WINDOW_BYTES {
            let cut = self.tail.floor_char_boundary(self.tail.len().saturating_sub(WINDOW_BYTES));
            if let Some(last) = self.tail[..cut].chars().next_back() {
                self.before_tail = Some(transcode::last_byte(last));
            }
            self.tail.drain(..cut);
        }
        self.tail.push_str(slice);
    }

    fn read_slice(&mut self, slice: &str, is_end: bool) {
        let length = slice.len() as u64;
        self.allow(slice.len());
        for reader in &mut self.readers {
            let computed = reader.read(&self.shared, &mut self.log, slice, self.offset, is_end);
            self.spent = self.spent.saturating_add(computed);
        }
        self.offset += length;
        if self.spent > self.allowed
            && let Some(worst) = self.readers.iter_mut().max_by_key(|reader| reader.spent)
        {
            worst.is_exhausted = true;
        }
        while let Some(at) = self.readers.iter().position(|reader| reader.is_exhausted) {
            self.replace(at, is_end);
        }
        if is_end {
            self.log.end(&self.shared, self.offset);
        }
        if self.readers.len() > 1 || self.log.hits.len() > 1 {
            self.log.hits.sort_unstable();
        }
    }

    fn allow(&mut self, bytes: usize) {
        let more = (bytes as u64).saturating_mul(self.shared.limits.computed_bytes_per_byte);
        self.allowed = self.allowed.saturating_add(more);
    }

    /// Replaces an automaton that computed too many states by the parts that the set splits it into.
    #[cold]
    fn replace(&mut self, at: usize, is_end: bool) {
        let AutomatonReader { automaton, cache, .. } = self.readers.swap_remove(at);
        automaton.mark_exhausted();
        automaton.give_back(cache, &self.shared.limits);
        let parts = &automaton.parts;
        let is_inside =
            |other: &Arc<Automaton>| other.parts.first() >= parts.first() && other.parts.last() <= parts.last();
        let smaller: Vec<Arc<Automaton>> = self.shared.automata().into_iter().filter(is_inside).collect();
        for part in parts.iter().filter(|part| !smaller.iter().any(|other| other.parts.binary_search(part).is_ok())) {
            let pattern = self.shared.parts[*part as usize].pattern;
            if !self.abandoned.contains(&pattern) {
                self.abandoned.push(pattern);
            }
        }
        let share = self.shared.limits.computed_bytes / (self.readers.len() + smaller.len()).max(1) as u64;
        for automaton in smaller {
            self.allowed = self.allowed.max(self.spent).saturating_add(share);
            let mut reader = AutomatonReader::new(automaton, self.before_tail);
            let tail = std::mem::take(&mut self.tail);
            let (mut rest, mut base) = (tail.as_str(), self.offset - tail.len() as u64);
            while !rest.is_empty() && !reader.is_exhausted {
                let (slice, after) = rest.split_at(rest.floor_char_boundary(SLICE_BYTES));
                self.allow(slice.len());
                let computed = reader.read(&self.shared, &mut self.log, slice, base, is_end && after.is_empty());
                self.spent = self.spent.saturating_add(computed);
                reader.is_exhausted |= self.spent > self.allowed;
                (rest, base) = (after, base + slice.len() as u64);
            }
            self.tail = tail;
            self.readers.push(reader);
        }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        for reader in self.readers.drain(..) {
            reader.automaton.give_back(reader.cache, &self.shared.limits);
        }
    }
}

impl fmt::Debug for Scan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scan").field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl AutomatonReader {
    /// Starts after a byte, or at the beginning of the text.
    fn new(automaton: Arc<Automaton>, before: Option<u8>) -> Self {
        let mut cache = automaton.take_cache();
        let state = start_state(&automaton, &mut cache, before);
        let clears = cache.clear_count();
        Self {
            automaton,
            cache,
            state,
            quiet: [LazyStateID::default(); MAX_QUIET_STATES],
            next_quiet: 0,
            clears,
            spent: 0,
            is_exhausted: false,
        }
    }

    /// Begins a new text.
    fn restart(&mut self) {
        self.state = start_state(&self.automaton, &mut self.cache, None);
        self.quiet = [LazyStateID::default(); MAX_QUIET_STATES];
        self.next_quiet = 0;
        self.clears = self.cache.clear_count();
        self.spent = 0;
    }

    /// Reads a slice, and returns the bytes of states that it computed.
    fn read(&mut self, shared: &SetShared, log: &mut MatchLog, slice: &str, base: u64, is_end: bool) -> u64 {
        let Self { automaton, cache, state, quiet, next_quiet, clears, .. } = self;
        let (mut transitions, mut has_failed) = (0, false);
        let (used, cleared) = (cache.memory_usage(), cache.clear_count());
        transcode::read(slice, |byte, at| {
            let mut known = None;
            if !state.is_tagged() {
                known =
                    Some(automaton.bytes.next_state_untagged(cache, *state, byte)).filter(|next| !next.is_unknown());
                transitions += u64::from(known.is_none());
            }
            let computed = known.map_or_else(|| automaton.bytes.next_state(cache, *state, byte), Ok);
            let Ok(next) = computed else {
                has_failed = true;
                return false;
            };
            *state = next;
            if next.is_match() {
                // A cleared cache numbers its states from the beginning.
                if *clears != cache.clear_count() {
                    *clears = cache.clear_count();
                    *quiet = [LazyStateID::default(); MAX_QUIET_STATES];
                }
                if !quiet.contains(&next) {
                    let mut is_quiet = true;
                    for number in 0..automaton.bytes.match_len(cache, next) {
                        let pattern = automaton.bytes.match_pattern(cache, next, number);
                        let part = automaton.expressions[pattern.as_usize()].0 as usize;
                        log.settle(shared, part, base + at as u64);
                        is_quiet &= log.is_quiet(shared, part);
                    }
                    if is_quiet {
                        quiet[*next_quiet % MAX_QUIET_STATES] = next;
                        *next_quiet += 1;
                    }
                }
            }
            true
        });
        if is_end && !has_failed {
            match automaton.ends.next_eoi_state(cache, *state) {
                Ok(end) if end.is_match() => {
                    for number in 0..automaton.ends.match_len(cache, end) {
                        let pattern = automaton.ends.match_pattern(cache, end, number);
                        let (part, looks_at_end) = automaton.expressions[pattern.as_usize()];
                        let offset = base + slice.len() as u64;
                        if looks_at_end {
                            log.end_part(shared, part as usize);
                        } else {
                            log.settle(shared, part as usize, offset);
                        }
                    }
                }
                Ok(_) => {}
                Err(_) => has_failed = true,
            }
        }
        let forgotten = (cache.clear_count() - cleared) * automaton.cache_bytes;
        let computed =
            ((forgotten + cache.memory_usage()).saturating_sub(used)) as u64 + transitions * TRANSITION_BYTES;
        self.spent += computed;
        self.is_exhausted |= has_failed;
        computed
    }
}

/// Returns the start state of an automaton after a byte, or at the beginning of a text.
fn start_state(automaton: &Automaton, cache: &mut Cache, before: Option<u8>) -> LazyStateID {
    let config = start::Config::new().anchored(Anchored::No).look_behind(before);
    let start = automaton.bytes.start_state(cache, &config);
    start.expect("an automaton without quit bytes has a start state")
}

impl MatchLog {
    fn new(shared: &SetShared) -> Self {
        let patterns = shared.parts_of_pattern.len();
        Self {
            settled: vec![None; shared.parts.len()],
            found: Vec::new(),
            settled_parts: vec![0; patterns],
            reported: vec![None; patterns],
            ending: Vec::new(),
            reporting: vec![Reporting::default(); patterns],
            is_reporting_set: false,
            hits: Vec::new(),
        }
    }

    /// Drops all matches.
    fn restart(&mut self, shared: &SetShared) {
        for part in self.found.drain(..) {
            let pattern = shared.parts[part].pattern.index();
            self.settled[part] = None;
            self.settled_parts[pattern] = 0;
            self.reported[pattern] = None;
        }
        if std::mem::take(&mut self.is_reporting_set) {
            self.reporting.fill(Reporting::default());
        }
    }

    /// Returns whether no further settled match of a part will be reported.
    fn is_quiet(&self, shared: &SetShared, part: usize) -> bool {
        match self.reporting[shared.parts[part].pattern.index()] {
            Reporting::Once => self.settled[part].is_some(),
            Reporting::Every => false,
            Reporting::Never => true,
        }
    }

    /// Records a settled match of a part that ends at `offset`.
    fn settle(&mut self, shared: &SetShared, part: usize, offset: u64) {
        let before = self.settled[part];
        let pattern = shared.parts[part].pattern;
        let reporting = self.reporting[pattern.index()];
        // The match may already have been reported at the end of a piece.
        if before.is_some_and(|before| before >= offset) || (before.is_some() && reporting != Reporting::Every) {
            return;
        }
        self.settled[part] = Some(offset);
        if before.is_none() {
            self.found.push(part);
        }
        let settled_parts = &mut self.settled_parts[pattern.index()];
        *settled_parts += u32::from(before.is_none());
        let is_whole = *settled_parts == shared.parts_of_pattern[pattern.index()];
        if is_whole && reporting != Reporting::Never && self.reported[pattern.index()] != Some(offset) {
            self.reported[pattern.index()] = Some(offset);
            self.hits.push(Hit { offset, pattern, is_settled: true });
        }
    }

    /// Records that a part matches if the text ends here.
    fn end_part(&mut self, shared: &SetShared, part: usize) {
        let pattern = shared.parts[part].pattern;
        let before = self.settled[part];
        if self.reporting[pattern.index()] == Reporting::Every || before.is_none() {
            self.ending.push((pattern, part));
        }
    }

    /// Reports the patterns that match if the text ends at `offset`.
    fn end(&mut self, shared: &SetShared, offset: u64) {
        // An automaton that is replaced reports its parts twice.
        self.ending.sort_unstable();
        self.ending.dedup();
        for parts in self.ending.chunk_by(|(one, _), (other, _)| one == other) {
            let pattern = parts[0].0;
            let index = pattern.index();
            // A part with an earlier match does not complete a pattern.
            let new = parts.iter().filter(|&&(_, part)| self.settled[part].is_none()).count();
            let is_whole = self.settled_parts[index] as usize + new == shared.parts_of_pattern[index] as usize;
            if is_whole && self.reporting[index] != Reporting::Never && self.reported[index] != Some(offset) {
                self.hits.push(Hit { offset, pattern, is_settled: false });
            }
        }
        self.ending.clear();
    }
}
