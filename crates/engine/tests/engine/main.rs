//! Tests the engine with small guests, through its public API alone.
//!
//! `fixtures/runtime.js` replaces `pi:runtime`; each guest in `fixtures/guests` is one artifact.

mod boundary;
mod compiling;
mod determinism;
mod limits;
mod loading;
mod streaming;
mod support;
mod text_code;
