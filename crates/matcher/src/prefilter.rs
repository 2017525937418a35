//! A complete automaton for one expression, whose memory is bounded at construction.

use crate::pattern::Pattern;
use crate::transcode;
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::{primitives::StateID, start};
use regex_automata::{Anchored, MatchKind};

/// Maximum length of an expression in bytes. Building the automaton of a longer one takes longer than it saves.
const MAX_SOURCE: usize = 1_000;
/// Maximum size of an automaton, and of its construction, in bytes.
const MAX_AUTOMATON: usize = 256 * 1024;

/// Answers *no* only if an expression matches nowhere in the text so far. Otherwise it answers *maybe*, and the expression itself
/// has to decide.
///
/// ```
/// use pijs_matcher::Prefilter;
///
/// let filter = Prefilter::new(r"\bconsole\.log\(", "").expect("it is simple enough");
/// let mut reading = filter.start();
/// assert!(!filter.may_match(&mut reading, "a console"));
/// assert!(!filter.may_match(&mut reading, ".lo"));
/// assert!(filter.may_match(&mut reading, "g("));
/// ```
#[derive(Debug, Clone)]
pub struct Prefilter {
    automaton: dense::DFA<Vec<u32>>,
    start: StateID,
}

/// The state of reading a text.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    state: StateID,
    pub(crate) has_matched: bool,
}

impl Prefilter {
    /// Builds the automaton of `new RegExp(source, flags)`. Returns `None` if it would be too large or would match everything, or
    /// if [`Pattern::parse`] refuses the expression.
    pub fn new(source: &str, flags: &str) -> Option<Self> {
        if source.len() > MAX_SOURCE {
            return None;
        }
        let pattern = Pattern::parse(source, flags).ok()?;
        if pattern.matches_everything() {
            return None;
        }
        // The longest of several required parts excludes most texts.
        let part = pattern.parts().iter().max_by_key(|part| part.hir.properties().minimum_len())?;
        let nfa =
            thompson::Config::new().utf8(false).which_captures(WhichCaptures::None).nfa_size_limit(Some(MAX_AUTOMATON));
        let nfa = thompson::Compiler::new().configure(nfa).build_from_hir(&part.hir).ok()?;
        let dfa = dense::Config::new()
            .start_kind(StartKind::Unanchored)
            .match_kind(MatchKind::All)
            .accelerate(false)
            .dfa_size_limit(Some(MAX_AUTOMATON))
            .determinize_size_limit(Some(MAX_AUTOMATON));
        let automaton = dense::Builder::new().configure(dfa).build_from_nfa(&nfa).ok()?;
        let start = automaton.start_state(&start::Config::new().anchored(Anchored::No)).ok()?;
        Some(Self { automaton, start })
    }

    /// Begins a text.
    pub fn start(&self) -> Reading {
        Reading { state: self.start, has_matched: false }
    }

    /// Reads the next piece of the text; returns whether the expression may match somewhere in the text so far.
    pub fn may_match(&self, reading: &mut Reading, piece: &str) -> bool {
        if !reading.has_matched {
            transcode::read(piece, |byte, _| {
                reading.state = self.automaton.next_state(reading.state, byte);
                // The automaton reports a match one byte late.
                reading.has_matched = self.automaton.is_match_state(reading.state);
                !reading.has_matched
            });
        }
        reading.has_matched || self.automaton.is_match_state(self.automaton.next_eoi_state(reading.state))
    }

    /// Returns the size of the automaton in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.automaton.memory_usage()
    }
}
