//! Interfaces for queries about the text of modules, which need a parser or source maps.
//!
//! `extc` implements them (`SourceMaps`, `Functions`); the host uses only these traits.

use pijs_protocol::message::Position;
use std::ops::Range;

/// Maximum number of frames of one stack that are mapped to the source: an extension may produce an arbitrarily long stack.
pub const MAX_FRAMES: usize = 100;

/// Folder of dependencies.
const DEPENDENCIES: &str = "node_modules/";

/// Maps positions of compiled modules to the source.
pub trait PositionMap {
    /// Maps a position; `line` and `column` are 1-based. `None`: the module is not the extension's own, or the position has no
    /// mapping.
    fn source_position(&self, module: &str, line: u32, column: u32) -> Option<Position>;
}

/// Finds the functions in a module's text.
pub trait FindFunctions: Send + Sync {
    /// Returns all functions, in any order; none for text that does not parse.
    fn functions(&self, source: &str) -> Vec<FunctionText>;
}

/// The ranges of a function, as byte offsets in its module's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionText {
    /// From the start of the function to its body; the engine may report any position in it for the function.
    pub head: Range<usize>,
    /// The whole function, as `toString` returns it.
    pub text: Range<usize>,
}

/// A parsed stack frame, `    at name (module:line:column)` or `    at module:line:column`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The text up to the module.
    pub before: &'a str,
    /// Specifier of the module.
    pub module: &'a str,
    /// Line, 1-based.
    pub line: u32,
    /// Column, 1-based.
    pub column: u32,
    /// The text after the column.
    pub after: &'a str,
}

impl<'a> Frame<'a> {
    /// Parses a line of a stack; `None` for another line.
    pub fn parse(text: &'a str) -> Option<Self> {
        let after_start = text.trim_end().strip_suffix(')').map_or(text.trim_end().len(), str::len);
        let (head, after) = text.split_at(after_start);
        let start = match head.rfind('(') {
            Some(open) if !after.is_empty() => open + 1,
            _ => head.find("at ")? + 3,
        };
        let (before, place) = head.split_at(start);
        let mut parts = place.rsplitn(3, ':');
        let column = parts.next()?.parse().ok()?;
        let line = parts.next()?.parse().ok()?;
        let module = parts.next().filter(|module| !module.is_empty())?;
        Some(Self { before, module, line, column, after })
    }
}

/// Returns the innermost mapped position of a stack: in the package's own files, or else in those of its dependencies.
pub fn innermost(stack: &str, map: &dyn PositionMap) -> Option<Position> {
    let frames = stack.lines().filter_map(Frame::parse).take(MAX_FRAMES);
    let found: Vec<Position> =
        frames.filter_map(|frame| map.source_position(frame.module, frame.line, frame.column)).collect();
    let own = found.iter().find(|position| !position.file.contains(DEPENDENCIES));
    own.or(found.first()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Identity;

    impl PositionMap for Identity {
        fn source_position(&self, module: &str, line: u32, column: u32) -> Option<Position> {
            (!module.starts_with("pi:")).then(|| Position { file: module.to_owned(), line, column })
        }
    }

    #[test]
    fn the_innermost_frame_of_the_packages_own_files_is_preferred() {
        let at = |stack| innermost(stack, &Identity).map(|position| position.file);
        assert_eq!(
            at("    at call (pi:web:1:1)\n    at f (node_modules/a/b.js:2:3)\n    at main.ts:4:5").as_deref(),
            Some("main.ts")
        );
        assert_eq!(
            at("    at call (pi:web:1:1)\n    at f (node_modules/a/b.js:2:3)").as_deref(),
            Some("node_modules/a/b.js")
        );
        assert_eq!(at("TypeError: x\n    at native"), None);
    }
}
