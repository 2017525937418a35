//! Tests of component realms. All components are written as text, so that these tests need no compiler for other languages.

mod limits;
mod refusals;
mod support;
mod turns;
mod wasi;
mod world;
