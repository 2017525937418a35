//! Conformance: compares how real extensions behave in PiJS and in the real pi.
//!
//! The real pi's documents were recorded once (`fixtures/conformance/expected`); `pi ext snapshot` and `pi ext drive` print the
//! same documents, and [`compare`] applies the rules of `fixtures/conformance/format.md`.
//!
//! | module | contents |
//! |---|---|
//! | [`compare`] | the differences between two documents |
//! | [`corpus`] | the cases, and the packages they need, fetched by name, version and digest |
//! | [`run`] | runs `pi` over the cases |
//! | [`baseline`] | known differences, each with its reason; a deviation in either direction fails |
//! | [`features`] | runs the main feature of each package, installed and used as by a user |
//! | [`verdicts`] | verdicts of `extc`, compared with the behaviour in the real pi |
//! | [`report`] | renders a run as an HTML page |
//! | [`drive`], [`snapshot`] | `pi ext drive`, `pi ext snapshot` |
//! | [`cost`] | time and memory of each extension |
//! | [`coverage`] | names of pi and of Node that a realm has |
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
