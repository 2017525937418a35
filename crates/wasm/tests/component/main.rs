//! Tests of component realms. All components are written as text, so that these tests run everywhere.

mod limits;
mod refusals;
mod support;
mod turns;
mod wasi;
mod world;
