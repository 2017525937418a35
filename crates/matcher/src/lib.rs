//! Whether a JavaScript regular expression can match a text that grows.
//!
//! A [`Prefilter`] is an automaton that says *no* only when the expression matches nowhere in the text; *maybe* otherwise,
//! and then the expression itself is asked. So it may be coarser than the expression (what looks around or refers back is
//! taken for granted), but never finer. Its state is carried from piece to piece: a character is read once.
//!
//! ```
//! use pijs_matcher::Prefilter;
//!
//! let filter = Prefilter::new(r"\bconsole\.log\(", "").expect("it is simple enough");
//! let mut reading = filter.start();
//! assert!(!filter.may_match(&mut reading, "a console"));
//! assert!(!filter.may_match(&mut reading, ".lo"));
//! assert!(filter.may_match(&mut reading, "g("));
//! ```

mod group;
mod translate;

pub use group::Group;

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::{primitives::StateID, start};
use regex_automata::{Anchored, MatchKind};

/// Longer expressions are left to the engine: building an automaton must not take longer than it saves.
const MAX_SOURCE: usize = 1_000;
/// Bytes of an automaton, and of what it takes to build one.
const MAX_AUTOMATON: usize = 256 * 1024;

/// The automaton of one expression.
#[derive(Debug, Clone)]
pub struct Prefilter {
    automaton: dense::DFA<Vec<u32>>,
    start: StateID,
}

/// How far a text has been read.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    state: StateID,
    has_matched: bool,
}

impl Prefilter {
    /// Builds the automaton of `new RegExp(source, flags)`; `None` when it would be too large, would never say *no*, or the
    /// expression uses what is not known here (flags `v`, `g` and `y`, modifiers).
    pub fn new(source: &str, flags: &str) -> Option<Self> {
        if source.len() > MAX_SOURCE {
            return None;
        }
        let pattern = translate::translate(source, flags)?;
        let nfa =
            thompson::Config::new().utf8(false).which_captures(WhichCaptures::None).nfa_size_limit(Some(MAX_AUTOMATON));
        let nfa = thompson::Compiler::new().configure(nfa).build_from_hir(&pattern).ok()?;
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

    /// Reads the next piece of the text: whether the expression may match somewhere in all of it, were this its end.
    pub fn may_match(&self, reading: &mut Reading, piece: &str) -> bool {
        if !reading.has_matched {
            for &byte in piece.as_bytes() {
                reading.state = self.automaton.next_state(reading.state, byte);
                // The automaton tells of a match one byte late.
                if self.automaton.is_match_state(reading.state) {
                    reading.has_matched = true;
                    break;
                }
            }
        }
        reading.has_matched || self.automaton.is_match_state(self.automaton.next_eoi_state(reading.state))
    }
}
