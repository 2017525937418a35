//! Matches regular expressions of ECMAScript against text that grows, reading each character once.
//!
//! ```text
//! source, flags ──▶ Pattern ──▶ PatternSet ──begin──▶ Scan ──read(piece)──▶ Hit { pattern, offset, is_settled }
//!                      └──────▶ Prefilter ──▶ Group       (one automaton for each expression, yes or no)
//! ```
//!
//! | type | is |
//! |---|---|
//! | [`Pattern`] | an expression as automata take it: exactly, or one that matches more |
//! | [`PatternSet`] | many patterns in one lazy automaton |
//! | [`Scan`] | one text: its state is carried from piece to piece |
//! | [`Hit`] | a match: its pattern, where it ends, and whether it stays |
//! | [`Prefilter`], [`Group`] | automata that are built in full: *no*, or *ask the expression itself* |
//!
//! Three things always hold. A pattern that is [`Exact`](Precision::Exact) hits where ECMAScript's expression matches the text so
//! far, for UTF-16, all ends of lines and case folding included. One that is [`Coarse`](Precision::Coarse) never misses. Cost and memory are bounded by [`Limits`], which count states, not time.
//!
//! A pattern that is coarse, or that a set has given up, needs a second engine: `RegExpVm` of `pijs-engine` matches it in bounded steps.

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
