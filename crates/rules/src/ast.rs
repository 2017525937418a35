//! Structural conditions: patterns of [ast-grep](https://ast-grep.github.io) over the syntax tree of a finished text.
//!
//! A pattern is code with metavariables: `console.debug($$$ARGS)` matches a call with any arguments, and neither a comment
//! nor a string that contains the same characters. `$X` stands for one node, `$$$X` for any number of them, and a name that
//! is used twice stands for equal code. Strictness is ast-grep's `smart`.
//!
//! ```text
//! patterns ──compile──▶ AstPatterns ──find_each(language, text, budget)──▶ AstScan { hits, limit }
//!               └─────▶ Vec<AstPatternProblem>
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `ast/patterns.rs` | [`AstPatterns`]: compiles patterns for each language, and finds them in one walk over the tree |
//! | `ast/document.rs` | a parsed text whose nodes charge each visit to a budget |
//! | `ast/grammar.rs` | the grammars of [`AstLanguage`] |
//! | `ast/disabled.rs` | the same interface without the feature `ast`: every pattern is reported and nothing matches |
//!
//! No text costs more than the budget of steps, and none overflows the stack: the walk over the tree is a loop, and matching
//! descends no deeper than the pattern, or [`MAX_COMPARED_DEPTH`] where two subtrees are compared.

#[cfg(not(feature = "ast"))]
mod disabled;
#[cfg(feature = "ast")]
mod document;
#[cfg(feature = "ast")]
mod grammar;
#[cfg(feature = "ast")]
mod patterns;
#[cfg(all(test, feature = "ast"))]
mod tests;

#[cfg(not(feature = "ast"))]
pub use disabled::AstPatterns;
#[cfg(feature = "ast")]
pub use patterns::AstPatterns;

use std::fmt;
use std::ops::Range;

/// Maximum length of a text that is parsed, in bytes.
pub const MAX_TEXT: usize = 2 << 20;

/// Maximum length of a pattern, in bytes. A pattern is a statement or two.
pub const MAX_PATTERN: usize = 16 << 10;

/// Maximum depth of a pattern's tree, since matching recurses once per level.
pub const MAX_PATTERN_DEPTH: usize = 128;

/// Maximum depth at which two subtrees that a pattern binds to one metavariable are compared, since the comparison recurses.
pub const MAX_COMPARED_DEPTH: u32 = 256;

/// Twice the steps that a text of [`MAX_TEXT`] bytes of ordinary code needs.
///
/// One operation of the parser is a step, and so is each visit to a node of the tree.
pub const DEFAULT_BUDGET: u64 = 8_000_000;

/// A language whose syntax tree patterns can match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AstLanguage {
    /// TypeScript without JSX.
    TypeScript,
    /// TypeScript with JSX.
    Tsx,
    /// JavaScript, with JSX.
    JavaScript,
    /// Rust, of any edition.
    Rust,
    /// Python 3.
    Python,
    /// Go: files and statements.
    Go,
}

impl AstLanguage {
    /// All languages, in the order of their declaration.
    pub const ALL: [Self; 6] = [Self::TypeScript, Self::Tsx, Self::JavaScript, Self::Rust, Self::Python, Self::Go];

    /// Returns the language of a file by the extension of its name, ignoring case.
    ///
    /// ```
    /// use pijs_rules::ast::AstLanguage;
    /// assert_eq!(AstLanguage::from_path("src/App.tsx"), Some(AstLanguage::Tsx));
    /// assert_eq!(AstLanguage::from_path("README.md"), None);
    /// ```
    pub fn from_path(path: &str) -> Option<Self> {
        let name = path.rsplit(['/', '\\']).next()?;
        let (stem, extension) = name.rsplit_once('.')?;
        if stem.is_empty() {
            return None;
        }
        Some(match extension.to_ascii_lowercase().as_str() {
            "ts" | "mts" | "cts" => Self::TypeScript,
            "tsx" => Self::Tsx,
            "js" | "mjs" | "cjs" | "jsx" => Self::JavaScript,
            "rs" => Self::Rust,
            "py" | "pyi" => Self::Python,
            "go" => Self::Go,
            _ => return None,
        })
    }

    /// Returns the language that the info string of a code fence names: `rust,ignore`, `ts title="a.ts"`, `python {1,3}`.
    ///
    /// ```
    /// use pijs_rules::ast::AstLanguage;
    /// assert_eq!(AstLanguage::from_info_string("rust,ignore"), Some(AstLanguage::Rust));
    /// assert_eq!(AstLanguage::from_info_string("text"), None);
    /// ```
    pub fn from_info_string(info: &str) -> Option<Self> {
        let word = info.trim_start().split([' ', '\t', ',', '{', ':', ';']).next()?;
        Some(match word.trim().to_ascii_lowercase().as_str() {
            "typescript" | "ts" | "mts" | "cts" => Self::TypeScript,
            "tsx" => Self::Tsx,
            "javascript" | "js" | "jsx" | "mjs" | "cjs" => Self::JavaScript,
            "rust" | "rs" => Self::Rust,
            "python" | "py" | "pyi" | "python3" => Self::Python,
            "go" | "golang" => Self::Go,
            _ => return None,
        })
    }

    /// Returns the name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::TypeScript => "TypeScript",
            Self::Tsx => "TSX",
            Self::JavaScript => "JavaScript",
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::Go => "Go",
        }
    }
}

impl fmt::Display for AstLanguage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The position at which a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AstHit {
    /// Index of the pattern in the list that was compiled.
    pub pattern: usize,
    /// Byte range of the matching node in the text.
    pub range: Range<usize>,
}

/// The hits in a text, and the limit that ended the search early.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AstScan {
    /// The first hit of each pattern that matches, in text order; hits at the same position are ordered by pattern.
    pub hits: Vec<AstHit>,
    /// Set if the search ended early, so that a pattern without a hit may still match.
    pub limit: Option<AstLimit>,
}

/// A limit that kept a text from being searched to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AstLimit {
    /// The text was not parsed.
    #[error("the text is larger than {} KiB and was not searched for AST patterns", MAX_TEXT >> 10)]
    TextTooLarge,
    /// Parsing or matching needed more steps than the budget allows.
    #[error("the search for AST patterns took more steps than its budget")]
    OutOfBudget,
    /// Two subtrees that had to be equal are nested too deeply to compare; the rest of the text was searched.
    #[error("code nested deeper than {MAX_COMPARED_DEPTH} levels was not compared for a repeated metavariable")]
    TooDeep,
}

/// A pattern that cannot match, or that may match text other than its author means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AstPatternProblem {
    /// Index of the pattern in the list that was compiled.
    pub index: usize,
    /// The pattern itself.
    pub pattern: String,
    /// The reason, and what to write instead.
    pub message: String,
    /// Whether the pattern cannot match anything. A pattern with a syntax error still matches code with the same error, as in
    /// ast-grep.
    pub unusable: bool,
    /// Whether the pattern may match the intended text nevertheless: the mistake is inside of a whole expression or statement.
    pub is_doubt: bool,
}

impl fmt::Display for AstPatternProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AST pattern `{}`: {}", self.pattern, self.message)
    }
}
