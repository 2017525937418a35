//! Matches many patterns with automata that all texts of a session share.
//!
//! The automata are lazy DFAs: a state is computed when a text first leads to it, and cached. A pattern set starts with one
//! automaton for all its patterns. Patterns with a state explosion are found by counting the computed states; the automaton is
//! then split in halves, for the rest of the text as well, until the responsible pattern is alone and is abandoned. All limits
//! are counts, so the outcome depends only on the patterns and the texts.

use crate::pattern::{Pattern, PatternPart};
use crate::scan::Scan;
use regex_automata::MatchKind;
use regex_automata::hybrid::dfa::{Cache, Config, DFA};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of automata of a set; beyond it an automaton with a state explosion is abandoned as a whole.
const MAX_AUTOMATA: usize = 256;
/// Minimum size of a cache in bytes; a smaller one is not halved.
const MIN_CACHE: usize = 32 * 1024;

/// Minimum size of each half of a split automaton, in bytes.
const MIN_AUTOMATON: usize = 1 << 20;

/// Number of a pattern in its [`PatternSet`], in the order of construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PatternId(u32);

impl PatternId {
    pub(crate) fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("the number of patterns fits into 32 bits"))
    }

    /// Returns the number.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Resource limits of a [`PatternSet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of the automata at construction, in bytes.
    pub automaton_bytes: usize,
    /// Maximum size of the states that one [`Scan`] keeps, in bytes; up to twice as many for a moment.
    pub scan_bytes: usize,
    /// Number of bytes of states that one [`Scan`] may compute for any text.
    pub computed_bytes: u64,
    /// Additional number of bytes of states that a scan may compute for each byte of text.
    pub computed_bytes_per_byte: u64,
    /// Number of caches that are kept for later texts.
    pub pooled_scans: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            automaton_bytes: 64 << 20,
            scan_bytes: 8 << 20,
            computed_bytes: 16 << 20,
            // A state of a hundred bytes and its transitions, for each byte of text.
            computed_bytes_per_byte: 1024,
            pooled_scans: 4,
        }
    }
}

/// Patterns that are matched together, reading each text once, in pieces.
///
/// Clones are cheap and share their automata.
///
/// ```
/// use pijs_matcher::{Limits, Pattern, PatternSet};
///
/// let patterns = [Pattern::parse(r"\bTODO\b", "")?, Pattern::parse("rm -rf", "")?];
/// let set = PatternSet::new(&patterns, Limits::default());
/// let mut scan = set.begin();
/// let mut hits = Vec::new();
/// scan.read("a TO", |hit| hits.push(hit));
/// assert!(hits.is_empty());
/// // A letter may still follow: the hit holds if the text ends here.
/// scan.read("DO", |hit| hits.push(hit));
/// assert_eq!((hits[0].pattern.index(), hits[0].offset, hits[0].is_settled), (0, 6, false));
/// scan.read(": rm -rf", |hit| hits.push(hit));
/// assert_eq!((hits[1].pattern.index(), hits[1].offset, hits[1].is_settled), (0, 6, true));
/// assert_eq!((hits[2].pattern.index(), hits[2].offset, hits[2].is_settled), (1, 14, true));
/// # Ok::<(), pijs_matcher::PatternError>(())
/// ```
#[derive(Clone)]
pub struct PatternSet {
    shared: Arc<SetShared>,
}

impl PatternSet {
    /// Builds the automaton of the patterns. Abandons those beyond the limits; see [`Self::given_up`].
    pub fn new(patterns: &[Pattern], limits: Limits) -> Self {
        let mut parts = Vec::new();
        let mut parts_of_pattern = Vec::with_capacity(patterns.len());
        for (index, pattern) in patterns.iter().enumerate() {
            parts_of_pattern.push(u32::try_from(pattern.parts().len()).expect("a pattern has fewer parts than bytes"));
            parts.extend(
                pattern.parts().iter().map(|part| SetPart { pattern: PatternId::new(index), part: part.clone() }),
            );
        }
        let shared = SetShared { parts, parts_of_pattern, limits, plan: Mutex::default() };
        let all: Vec<u32> =
            (0..u32::try_from(shared.parts.len()).expect("the number of parts fits into 32 bits")).collect();
        let mut plan = AutomataPlan { is_given_up: vec![false; patterns.len()], ..AutomataPlan::default() };
        if !all.is_empty() {
            shared.build(&mut plan, all, limits.scan_bytes, limits.automaton_bytes);
        }
        *shared.plan() = plan;
        Self { shared: Arc::new(shared) }
    }

    /// Returns the number of patterns.
    pub fn len(&self) -> usize {
        self.shared.parts_of_pattern.len()
    }

    /// Returns whether the set has no patterns.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the ids of the set's patterns, in order.
    pub fn ids(&self) -> impl Iterator<Item = PatternId> + use<> {
        (0..self.len()).map(PatternId::new)
    }

    /// Begins a text.
    pub fn begin(&self) -> Scan {
        Scan::new(Arc::clone(&self.shared))
    }

    /// Returns the patterns that are not matched in texts that begin now, because they are too large or caused too many states.
    pub fn given_up(&self) -> Vec<PatternId> {
        let plan = self.shared.plan();
        let given_up = plan.is_given_up.iter().enumerate().filter(|&(_, &is_given_up)| is_given_up);
        given_up.map(|(index, _)| PatternId::new(index)).collect()
    }

    /// Returns the size of the set's automata and unused caches in bytes.
    pub fn memory_usage(&self) -> usize {
        let plan = self.shared.plan();
        let pooled = |automaton: &Automaton| automaton.pool().iter().map(Cache::memory_usage).sum::<usize>();
        plan.automata.iter().map(|automaton| automaton.nfa_bytes + pooled(automaton)).sum()
    }

    /// Returns the number of automata for a text that begins now.
    pub fn automata(&self) -> usize {
        self.shared.plan().automata.len()
    }
}

impl fmt::Debug for PatternSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PatternSet").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// One of the expressions of a pattern.
pub(crate) struct SetPart {
    pub(crate) pattern: PatternId,
    pub(crate) part: PatternPart,
}

/// State shared by a set and its scans.
pub(crate) struct SetShared {
    pub(crate) parts: Vec<SetPart>,
    /// Number of parts of each pattern.
    pub(crate) parts_of_pattern: Vec<u32>,
    pub(crate) limits: Limits,
    plan: Mutex<AutomataPlan>,
}

/// The automata for texts that begin now.
#[derive(Default)]
struct AutomataPlan {
    automata: Vec<Arc<Automaton>>,
    is_given_up: Vec<bool>,
}

/// A lazy DFA for some parts.
pub(crate) struct Automaton {
    /// Reads bytes. Discards all states but the current one if they exceed the cache.
    pub(crate) bytes: DFA,
    /// An equal automaton for the end of a piece. It never discards states, because the current state has to survive.
    pub(crate) ends: DFA,
    /// Numbers of the automaton's parts in the set.
    pub(crate) parts: Vec<u32>,
    /// Part of each of the automaton's patterns, and whether a match may depend on the text after it.
    pub(crate) expressions: Vec<(u32, bool)>,
    pub(crate) cache_bytes: usize,
    nfa_bytes: usize,
    /// Whether the automaton computed too many states in some text.
    is_exhausted: AtomicBool,
    pool: Mutex<Vec<Cache>>,
}

impl Automaton {
    pub(crate) fn take_cache(&self) -> Cache {
        self.pool().pop().unwrap_or_else(|| self.bytes.create_cache())
    }

    pub(crate) fn give_back(&self, cache: Cache, limits: &Limits) {
        let mut pool = self.pool();
        if pool.len() < limits.pooled_scans {
            pool.push(cache);
        }
    }

    pub(crate) fn mark_exhausted(&self) {
        self.is_exhausted.store(true, Ordering::Relaxed);
    }

    fn pool(&self) -> MutexGuard<'_, Vec<Cache>> {
        // A cache is consistent before and after each change of the pool.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SetShared {
    /// Returns the automata for a text that begins now, after splitting those that computed too many states.
    pub(crate) fn automata(&self) -> Vec<Arc<Automaton>> {
        let mut plan = self.plan();
        while let Some(at) = plan.automata.iter().position(|each| each.is_exhausted.load(Ordering::Relaxed)) {
            let exhausted = plan.automata.remove(at);
            let halves = self.halves(&exhausted.parts);
            let Some((first, second)) = halves.filter(|_| plan.automata.len() + 2 <= MAX_AUTOMATA) else {
                self.abandon(&mut plan, &exhausted.parts);
                continue;
            };
            let cache_bytes = (exhausted.cache_bytes / 2).max(MIN_CACHE.min(exhausted.cache_bytes));
            for half in [first, second] {
                self.build(&mut plan, half, cache_bytes, exhausted.nfa_bytes.max(MIN_AUTOMATON));
            }
        }
        plan.automata.clone()
    }

    /// Returns whether these are the automata for a text that begins now.
    pub(crate) fn is_current<'a>(&self, automata: impl ExactSizeIterator<Item = &'a Arc<Automaton>>) -> bool {
        let plan = self.plan();
        let is_same = |(one, other): (&Arc<Automaton>, &Arc<Automaton>)| {
            Arc::ptr_eq(one, other) && !one.is_exhausted.load(Ordering::Relaxed)
        };
        plan.automata.len() == automata.len() && plan.automata.iter().zip(automata).all(is_same)
    }

    /// Adds the automaton of these parts to the plan, or several automata if one would be too large, within the remaining bytes.
    /// Returns the number of bytes left.
    fn build(&self, plan: &mut AutomataPlan, parts: Vec<u32>, cache_bytes: usize, automaton_bytes: usize) -> usize {
        if let Some(automaton) = self.automaton(&parts, cache_bytes, automaton_bytes) {
            let left = automaton_bytes.saturating_sub(automaton.nfa_bytes);
            plan.automata.push(Arc::new(automaton));
            return left;
        }
        let Some((first, second)) = self.halves(&parts) else {
            self.abandon(plan, &parts);
            return automaton_bytes;
        };
        let left = self.build(plan, first, cache_bytes / 2, automaton_bytes);
        self.build(plan, second, cache_bytes / 2, left)
    }

    /// Splits parts in two, between two patterns; returns `None` if all parts belong to one pattern.
    fn halves(&self, parts: &[u32]) -> Option<(Vec<u32>, Vec<u32>)> {
        let pattern = |at: usize| self.parts[parts[at] as usize].pattern;
        let cuts = (1..parts.len()).filter(|&at| pattern(at - 1) != pattern(at));
        let middle = cuts.min_by_key(|&at| at.abs_diff(parts.len() / 2))?;
        let (first, second) = parts.split_at(middle);
        Some((first.to_vec(), second.to_vec()))
    }

    fn automaton(&self, parts: &[u32], cache_bytes: usize, automaton_bytes: usize) -> Option<Automaton> {
        let of_part =
            |&part: &u32| self.parts[part as usize].part.expressions().map(move |(hir, looks)| (hir, (part, looks)));
        let (hirs, expressions): (Vec<_>, Vec<_>) = parts.iter().flat_map(of_part).unzip();
        let config = thompson::Config::new()
            .utf8(false)
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(automaton_bytes));
        let nfa = thompson::Compiler::new().configure(config).build_many_from_hir(&hirs).ok()?;
        let lazy = |nfa: NFA, capacity: usize| {
            let config = Config::new()
                .match_kind(MatchKind::All)
                .cache_capacity(capacity)
                .skip_cache_capacity_check(true)
                .minimum_cache_clear_count(None);
            DFA::builder().configure(config).build_from_nfa(nfa).ok()
        };
        let nfa_bytes = nfa.memory_usage();
        let ends = lazy(nfa.clone(), usize::MAX / 4)?;
        let bytes = lazy(nfa, cache_bytes)?;
        Some(Automaton {
            bytes,
            ends,
            parts: parts.to_vec(),
            expressions,
            cache_bytes,
            nfa_bytes,
            is_exhausted: AtomicBool::new(false),
            pool: Mutex::default(),
        })
    }

    fn abandon(&self, plan: &mut AutomataPlan, parts: &[u32]) {
        for &part in parts {
            plan.is_given_up[self.parts[part as usize].pattern.index()] = true;
        }
    }

    fn plan(&self) -> MutexGuard<'_, AutomataPlan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
