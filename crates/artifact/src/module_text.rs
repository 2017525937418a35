//! Questions about the text of an artifact's modules, which need a parser or a reader of source maps.
//!
//! `extc` answers them (`SourceMaps`, `Functions`); the host asks, and knows these traits only.

use pijs_protocol::message::Position;
use std::ops::Range;

/// Says where a position of a compiled module is in the source.
pub trait PositionMap {
    /// `line` and `column` are 1-based. `None`: the module is not the extension's own, or the place
    /// has no mapping.
    fn source_position(&self, module: &str, line: u32, column: u32) -> Option<Position>;
}

/// Finds the functions in a module's text.
pub trait FindFunctions: Send + Sync {
    /// All of them, in any order; none where the text cannot be read.
    fn functions(&self, source: &str) -> Vec<FunctionText>;
}

/// The place of a function: byte offsets in its module's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionText {
    /// From its beginning to its body: where the engine may say it is.
    pub head: Range<usize>,
    /// All of it, as `toString` gives it.
    pub text: Range<usize>,
}
