//! Questions about the text of an artifact's modules, which need a parser or a reader of source maps.
//!
//! `extc` answers them (`SourceMaps`, `Functions`); the host asks, and knows these traits only.

use pijs_protocol::message::Position;
use std::ops::Range;

/// Frames of one stack that are looked up in the source: an extension may write a stack as long as it likes.
pub const MOST_FRAMES: usize = 100;

/// Folder of code that the author of a package did not write.
const DEPENDENCIES: &str = "node_modules/";

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

/// One line of a stack, `    at name (module:line:column)` or `    at module:line:column`, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The text up to the module.
    pub before: &'a str,
    /// Specifier of the module.
    pub module: &'a str,
    /// 1-based.
    pub line: u32,
    /// 1-based.
    pub column: u32,
    /// The text after the column.
    pub after: &'a str,
}

impl<'a> Frame<'a> {
    /// Reads a line of a stack; `None` for one that is no frame.
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

/// Returns the innermost position of a stack that is in the source: in the package's own files, or else in those of its
/// dependencies.
pub fn innermost(stack: &str, map: &dyn PositionMap) -> Option<Position> {
    let frames = stack.lines().filter_map(Frame::parse).take(MOST_FRAMES);
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
