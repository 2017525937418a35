//! Matches ECMAScript regular expressions against growing text, reading each character once.
//!
//! ```text
//! source, flags ──▶ Pattern ──▶ PatternSet ──begin──▶ Scan ──read(piece)──▶ Hit { pattern, offset, is_settled }
//!                      └──────▶ Prefilter ──▶ Group       (one automaton for each expression, yes or no)
//! ```
//!
//! | type | is |
//! |---|---|
//! | [`Pattern`] | an expression for automata, which is exact or matches more |
//! | [`PatternSet`] | many patterns in one lazy automaton |
//! | [`Scan`] | one text: its state is carried from piece to piece |
//! | [`Hit`] | a match: its pattern, its end, and whether it is final |
//! | [`Prefilter`], [`Group`] | complete automata, which answer *no*, or *maybe* |
//!
//! Invariants: An [`Exact`](Precision::Exact) pattern hits where ECMAScript's expression matches the text so far, including
//! UTF-16, all line ends and case folding. A [`Coarse`](Precision::Coarse) pattern never misses a match. [`Limits`] bound cost
//! and memory by counting states, not time.
//!
//! A pattern that is coarse, or that a set has abandoned, needs a second engine: `RegExpVm` of `pijs-engine` matches it in
//! bounded steps.

#![warn(clippy::disallowed_methods)]

mod case;
mod code_set;
mod group;
mod pattern;
mod prefilter;
mod scan;
mod set;
mod transcode;
mod translate;

pub use group::Group;
pub use pattern::{Pattern, PatternError, PatternErrorKind, Precision};
pub use prefilter::{Prefilter, Reading};
pub use scan::{Hit, Reporting, Scan};
pub use set::{Limits, PatternId, PatternSet};
