//! Runs the patterns that the automaton does not support on a backtracking engine, within a budget.
//!
//! A test reads the text from its beginning. So tests are limited by a budget that grows with the text. After the budget is
//! spent, a test takes place only when the text has grown by a quarter, which costs as much as reading it five times. A test that
//! runs out of steps disables the pattern for this text.

use super::compiled::CompiledRules;
use crate::rule::Condition;
use oxc_allocator::Allocator;
use oxc_regular_expression::ast::{Character, CharacterClass, CharacterKind};
use oxc_regular_expression::visit::Visit;
use oxc_regular_expression::{LiteralParser, Options};
use pijs_engine::{RegExpId, RegExpVm};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that the tests of a text may read regardless of its length, for all patterns together and for each one: enough for 2.8
/// KB in pieces of 8 bytes.
const FREE: u64 = 4 << 20;
const FREE_OF_PATTERN: u64 = 512 << 10;
/// Additional bytes that all patterns together may read for each byte of the text.
const PER_BYTE: u64 = 128;
/// Additional bytes that one pattern may read for each byte of the text.
const PER_BYTE_OF_PATTERN: u64 = 16;
/// Maximum length of a text on which a pattern is tested, in bytes.
pub(crate) const MAX_TEXT: usize = 8 << 20;

/// Reason why a pattern is no longer tested, or is tested later than the text arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GiveUp {
    /// The pattern ran out of steps: it backtracks too much on this text.
    Steps,
    /// The text is too long for the pattern.
    Length,
    /// The pattern is tested at growing intervals: testing each piece of a text of this length costs too much.
    Slow,
    /// The backtracking engine rejected the pattern.
    Unsupported,
    /// The automaton does not support the pattern, so each piece of a text may be a match.
    NoAutomaton,
    /// The pattern needs too many states of the automaton on this text.
    States,
}

impl fmt::Display for GiveUp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Steps => "it backtracks too much on this text, and is not tested on the rest",
            Self::Length => {
                "the text is too long for a pattern that needs backtracking, which is not tested on the rest"
            }
            Self::Slow => "it needs backtracking and the text is long, so it is tested less often and may fire late",
            Self::Unsupported => "the engine rejects it, so it never matches",
            Self::NoAutomaton => "it is too large for the automaton and is tested by backtracking, so it may fire late",
            Self::States => "it needs too many states of the automaton, and is no longer tested",
        })
    }
}

/// Searches a text for a pattern, from the beginning of the text.
pub(crate) trait Search {
    /// Returns the byte range of the first match of a rule's condition.
    ///
    /// # Errors
    ///
    /// Fails with the reason why the condition cannot be tested on this text.
    fn search(&mut self, rule: usize, condition: usize, text: &str) -> Result<Option<Range<usize>>, GiveUp>;
}

/// Maximum number of expressions in a thread's runtime; one more restarts the runtime.
const MAX_EXPRESSIONS: usize = 512;
/// Minimum number of polls of a test. Each allows 10,000 steps, which take a tenth of a millisecond.
const MIN_POLLS: u64 = 20;
/// Bytes of text per additional poll: about forty steps for each byte. A pattern that needs more reads its text repeatedly.
const BYTES_PER_POLL: u64 = 256;

/// The engine's `RegExp`, with the compiled expressions.
struct Machine {
    vm: RegExpVm,
    compiled: BTreeMap<Condition, Result<RegExpId, String>>,
}

thread_local! {
    // A QuickJS runtime must stay on its thread, but a session may move.
    static MACHINE: RefCell<Option<Machine>> = const { RefCell::new(None) };
}

/// Runs conditions on the engine's `RegExp`.
#[derive(Debug, Default)]
pub(crate) struct Backtracking {
    rules: Arc<CompiledRules>,
    /// Number of bytes that were searched, and of searches.
    pub(crate) bytes: u64,
    pub(crate) searches: u64,
}

impl Backtracking {
    /// Switches to other rules.
    pub(crate) fn restart(&mut self, rules: &Arc<CompiledRules>) {
        self.rules = Arc::clone(rules);
    }
}

impl Search for Backtracking {
    fn search(&mut self, rule: usize, condition: usize, text: &str) -> Result<Option<Range<usize>>, GiveUp> {
        self.searches += 1;
        self.bytes += text.len() as u64;
        let condition = &self.rules.rules[rule].rule.conditions[condition];
        MACHINE.with_borrow_mut(|machine| {
            if machine.as_ref().is_some_and(|machine| machine.compiled.len() == MAX_EXPRESSIONS) {
                *machine = None;
            }
            let machine = match machine {
                Some(machine) => machine,
                none => {
                    let vm = RegExpVm::new().map_err(|_| GiveUp::Unsupported)?;
                    none.insert(Machine { vm, compiled: BTreeMap::new() })
                }
            };
            let Machine { vm, compiled } = machine;
            let id = match compiled.get(condition) {
                Some(id) => id.clone(),
                None => {
                    let id = vm.compile(&accepted(condition), &condition.flags);
                    compiled.insert(condition.clone(), id.clone());
                    id
                }
            };
            let id = id.map_err(|_| GiveUp::Unsupported)?;
            let found =
                vm.matches(id, text, MIN_POLLS + text.len() as u64 / BYTES_PER_POLL).map_err(|_| GiveUp::Steps)?;
            Ok(found.map(|(start, end)| start..end))
        })
    }
}

/// Returns the source of an expression in a form that QuickJS accepts: with the flag `v` it rejects `-`, `/` and doubled
/// punctuation even outside of classes.
fn accepted(condition: &Condition) -> Cow<'_, str> {
    let Condition { source, flags } = condition;
    if !flags.contains('v') {
        return Cow::Borrowed(source);
    }
    let allocator = Allocator::default();
    let Ok(pattern) = LiteralParser::new(&allocator, source, Some(flags), Options::default()).parse() else {
        return Cow::Borrowed(source);
    };
    let mut punctuation = Punctuation::default();
    punctuation.visit_pattern(&pattern);
    let mut written = source.clone();
    for &(at, code) in punctuation.0.iter().rev() {
        written.replace_range(at..=at, &format!("\\x{code:02X}"));
    }
    Cow::Owned(written)
}

/// Characters outside of classes that QuickJS may reject, with their positions, in text order.
#[derive(Default)]
struct Punctuation(Vec<(usize, u32)>);

impl Visit<'_> for Punctuation {
    fn visit_character(&mut self, character: &Character) {
        let is_punctuation = u8::try_from(character.value).is_ok_and(|byte| byte.is_ascii_punctuation());
        if character.kind == CharacterKind::Symbol && is_punctuation {
            self.0.push((character.span.start as usize, character.value));
        }
    }

    fn visit_character_class(&mut self, _: &CharacterClass<'_>) {}
}

/// The state of one pattern in one text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budget {
    /// Whether the text has new content for the pattern.
    pub(crate) is_asked: bool,
    /// Whether the pattern has matched this text.
    pub(crate) has_matched: bool,
    /// Whether the pattern is given up in this stream.
    is_given_up: bool,
    is_slow: bool,
    spent: u64,
    /// Byte of the text up to which a test is due that the budget does not allow yet.
    due: usize,
}

impl Budget {
    /// Begins a new text of a stream. Tests of the previous texts stay charged to the budget of the stream.
    pub(crate) fn restart_text(&mut self) {
        (self.is_asked, self.has_matched, self.due) = (false, false, 0);
    }

    /// Returns whether a test may take place now, and a report if the pattern is given up or slowed down. `text` is the number of
    /// bytes to search, `read` the number of bytes of the stream, and `patterns` the number of patterns that share the budget.
    pub(crate) fn allows(&mut self, text: usize, read: usize, patterns: usize, is_end: bool) -> (bool, Option<GiveUp>) {
        if self.has_matched || self.is_given_up {
            self.is_asked = false;
            return (false, None);
        }
        if text > MAX_TEXT {
            self.give_up();
            return (false, Some(GiveUp::Length));
        }
        let cost = text as u64 + 64;
        let mut report = None;
        let patterns = patterns.max(1) as u64;
        let (free, per_byte) = (FREE_OF_PATTERN.min(FREE / patterns), PER_BYTE_OF_PATTERN.min(PER_BYTE / patterns));
        if self.spent + cost > free + per_byte * read as u64 {
            if text < self.due && !is_end {
                return (false, None);
            }
            self.due = text + text / 4 + 1;
            report = (!self.is_slow).then_some(GiveUp::Slow);
            self.is_slow = true;
        }
        self.spent += cost;
        (true, report)
    }

    /// Disables the pattern for this stream.
    pub(crate) fn give_up(&mut self) {
        self.is_asked = false;
        self.is_given_up = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of bytes that the tests of one of `patterns` patterns read, for a text that arrives in pieces of 8
    /// bytes.
    fn cost(length: usize, patterns: usize) -> usize {
        let mut budget = Budget::default();
        let mut cost = 0;
        for text in (8..=length).step_by(8) {
            budget.is_asked = true;
            if budget.allows(text, text, patterns, text == length).0 {
                cost += text;
            }
        }
        cost
    }

    #[test]
    fn tests_cost_no_more_than_a_multiple_of_the_text() {
        let short = cost(2 << 10, 8);
        assert_eq!(short, (8..=2 << 10).step_by(8).sum::<usize>(), "each piece of a short text is tested");
        let long = 4 << 20;
        assert!(cost(long, 1) < FREE_OF_PATTERN as usize + (PER_BYTE_OF_PATTERN as usize + 6) * long);
        assert!(1_000 * cost(long, 1_000) < FREE as usize + 6_000 * long);
    }

    #[test]
    fn a_pattern_that_is_given_up_stays_so_for_the_stream() {
        let mut budget = Budget { is_asked: true, ..Budget::default() };
        budget.give_up();
        budget.restart_text();
        budget.is_asked = true;
        assert_eq!(budget.allows(1, 1, 1, true), (false, None));
    }
}
