//! Conformance: compares the behaviour of real extensions in PiJS with that in the real pi.
//!
//! The real pi's documents were recorded once (`fixtures/conformance/expected`); `pi ext snapshot` and `pi ext drive` print the
//! same documents, and [`compare`] applies the rules of `fixtures/conformance/format.md`.
//!
//! | module | is |
//! |---|---|
//! | [`compare`] | the differences between two documents |
//! | [`corpus`] | the cases, and the packages they need, fetched by name, version and digest |
//! | [`run`] | runs `pi` over the cases |
//! | [`baseline`] | what is known to differ, each with its reason; a surprise in either direction fails |
//! | [`features`] | the main feature of each package, installed and used as a person would |
//! | [`verdicts`] | what `extc` says beforehand, against what happened |
//! | [`report`] | a run as a page |
//! | [`drive`], [`snapshot`] | `pi ext drive`, `pi ext snapshot` |
//! | [`cost`] | what each extension costs in time and memory |
//! | [`coverage`] | which names of pi and of Node a realm has |
//! | [`compatibility`] | `docs/compatibility.md` |
//!
//! `cargo xtask conformance [--only TEXT] [--update] [--report FILE] [--costs]` builds `pi` and runs the corpus.

#![warn(missing_docs)]

pub mod baseline;
pub mod compare;
pub mod compatibility;
pub mod corpus;
pub mod cost;
pub mod coverage;
pub mod drive;
pub mod features;
mod harness_options;
mod normalise;
pub mod report;
pub mod run;
pub mod snapshot;
pub mod verdicts;

pub use harness_options::ComparedArgs;
