//! Matches patterns against paths and bodies. A pattern has one of six notations, recognised by its form.
//!
//! | form | notation | matches a text if |
//! |---|---|---|
//! | `s/search/replace/flags` | sed | `search` occurs in the text; with flags, `search` is a regular expression |
//! | `/source/flags` | regular expression of ECMAScript | the expression matches anywhere in the text |
//! | `$.key`, `$[0]`, `$..key` | JSONPath | the text is JSON in which the path selects a value |
//! | `//element`, `/a/b[1]` | XPath 1.0 | the text is XML in which the expression selects a node |
//! | `**`, `*`, `?` | glob | the glob matches the whole text |
//! | anything else | literal | the text is equal |
//!
//! [`Pattern::matches`] decides about the whole text, [`Pattern::search`] finds a position in the text, and [`Pattern::replace`]
//! changes the text. A pattern is compiled once. Matching takes time linear in the text; regular expressions and XPath instead
//! have a limit of steps. The same pattern and text give the same result on every machine, so these functions are registered with
//! SQLite as deterministic.

mod expand;
mod glob;
mod json_path;
mod regexp;
mod sed;
mod xpath;

pub use sed::{Sed, parse_sed};

use glob::Glob;
use json_path::JsonPath;
use regexp::RegExp;
use std::fmt;
use xpath::XPath;

/// Maximum length of a pattern in bytes.
const MAX_PATTERN: usize = 8 * 1024;

/// The notation of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// `s/a/b/`
    Sed,
    /// `/a/`
    RegExp,
    /// `$.a`
    JsonPath,
    /// `//a`
    XPath,
    /// `*.a`
    Glob,
    /// `a`
    Literal,
}

/// The kind of a pattern error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternErrorKind {
    /// The pattern is invalid.
    Syntax,
    /// The evaluation exceeded its limit of steps or memory.
    Limit,
}

/// The error of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError {
    kind: PatternErrorKind,
    message: String,
}

impl PatternError {
    pub(crate) fn new(kind: PatternErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Returns the kind of error.
    pub fn kind(&self) -> PatternErrorKind {
        self.kind
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for PatternError {}

/// A match in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The text that matched.
    pub text: String,
    /// Byte offset of the match; 0 for JSONPath and XPath, whose values have no position.
    pub offset: usize,
}

/// A compiled pattern.
///
/// ```
/// use pijs_dialect_rummy::Pattern;
///
/// let pattern = Pattern::parse("known://*")?;
/// assert!(pattern.matches("known://plan/today")?);
/// assert!(!pattern.matches("unknown://plan")?);
/// assert_eq!(Pattern::parse(r"s/\d+/N/g")?.replace("1 of 23", "")?.as_deref(), Some("N of N"));
/// # Ok::<(), pijs_dialect_rummy::PatternError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pattern(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Literal(String),
    Glob(Glob),
    RegExp(RegExp),
    SedLiteral { search: String, replace: String },
    SedRegExp { search: RegExp, replace: String },
    JsonPath(JsonPath),
    XPath(XPath),
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// Fails for invalid regular expressions and XPath expressions, and for patterns that are too long.
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        if pattern.len() > MAX_PATTERN {
            let message = format!("a pattern of {} bytes: at most {MAX_PATTERN} are allowed", pattern.len());
            return Err(PatternError::new(PatternErrorKind::Limit, message));
        }
        Ok(Self(match notation(pattern) {
            Notation::Literal => Kind::Literal(pattern.to_owned()),
            Notation::Glob => Kind::Glob(Glob::parse(pattern)?),
            Notation::JsonPath => Kind::JsonPath(JsonPath::parse(pattern)),
            Notation::RegExp => {
                let end = pattern.rfind('/').unwrap_or_default();
                Kind::RegExp(RegExp::parse(&pattern[1..end], &pattern[end + 1..], true)?)
            }
            Notation::Sed => {
                let (search, replace, flags) = sed::simple(pattern).unwrap_or_default();
                if flags.is_empty() {
                    Kind::SedLiteral { search, replace }
                } else {
                    Kind::SedRegExp { search: RegExp::parse(&search, &flags, false)?, replace }
                }
            }
            Notation::XPath => Kind::XPath(XPath::parse(pattern)?),
        }))
    }

    /// Returns whether the pattern matches the whole text.
    pub fn matches(&self, text: &str) -> Result<bool, PatternError> {
        match &self.0 {
            Kind::Literal(literal) => Ok(literal == text),
            Kind::Glob(glob) => Ok(glob.matches(text)),
            Kind::RegExp(expression) | Kind::SedRegExp { search: expression, .. } => expression.is_match(text),
            Kind::SedLiteral { search, .. } => Ok(text.contains(search.as_str())),
            Kind::JsonPath(path) => Ok(path.first(text)?.is_some()),
            Kind::XPath(path) => Ok(path.first(text)?.is_some()),
        }
    }

    /// Returns the first match of the pattern in the text. A glob matches only the whole text.
    pub fn search(&self, text: &str) -> Result<Option<Found>, PatternError> {
        let found = |offset: usize, end: usize| Found { text: text[offset..end].to_owned(), offset };
        Ok(match &self.0 {
            Kind::Literal(search) | Kind::SedLiteral { search, .. } => {
                text.find(search.as_str()).map(|offset| found(offset, offset + search.len()))
            }
            Kind::Glob(glob) => glob.matches(text).then(|| found(0, text.len())),
            Kind::RegExp(expression) | Kind::SedRegExp { search: expression, .. } => {
                expression.find(text)?.map(|(offset, end)| found(offset, end))
            }
            Kind::JsonPath(path) => path.first(text)?.map(|text| Found { text, offset: 0 }),
            Kind::XPath(path) => path.first(text)?.map(|text| Found { text, offset: 0 }),
        })
    }

    /// Returns the text with matches replaced and `$1` and the like expanded; `None` if nothing matches. A sed command contains
    /// its replacement and ignores `replacement`; it replaces more than one match only with the flag `g`.
    pub fn replace(&self, text: &str, replacement: &str) -> Result<Option<String>, PatternError> {
        Ok(match &self.0 {
            Kind::Literal(search) => expand::replace_all(text, search, replacement),
            Kind::SedLiteral { search, replace } => expand::replace_all(text, search, replace),
            Kind::Glob(glob) => glob.matches(text).then(|| expand::one(text, 0, text.len(), replacement)),
            Kind::RegExp(expression) => expression.replace(text, replacement)?,
            Kind::SedRegExp { search, replace } => search.replace(text, replace)?,
            Kind::JsonPath(_) | Kind::XPath(_) => None,
        })
    }

    /// Returns the common prefix of all texts that the pattern matches as a whole; empty if it is not known.
    pub fn literal_prefix(&self) -> &str {
        match &self.0 {
            Kind::Literal(literal) => literal,
            Kind::Glob(glob) => glob.prefix(),
            _ => "",
        }
    }
}

/// Returns the notation of a pattern.
pub fn notation(pattern: &str) -> Notation {
    if sed::simple(pattern).is_some() {
        return Notation::Sed;
    }
    if let Some(rest) = pattern.strip_prefix('/')
        && pattern.len() > 2
        && rest.trim_end_matches(['g', 'i', 'm', 's', 'u', 'y']).ends_with('/')
    {
        return Notation::RegExp;
    }
    if is_json_path(pattern) {
        return Notation::JsonPath;
    }
    if is_xpath(pattern) {
        return Notation::XPath;
    }
    let bytes = pattern.as_bytes();
    let is_wild =
        |place: usize| matches!(bytes[place], b'*' | b'?') && (place == 0 || !matches!(bytes[place - 1], b'.' | b'\\'));
    if pattern.contains("**") || (0..bytes.len()).any(is_wild) { Notation::Glob } else { Notation::Literal }
}

fn is_json_path(pattern: &str) -> bool {
    if pattern.contains('/') {
        return false;
    }
    let of_key = |after: &str| after.starts_with(|first: char| first.is_ascii_alphabetic() || "_*@.[".contains(first));
    pattern.starts_with("$[") || pattern.strip_prefix("$.").is_some_and(of_key)
}

fn is_xpath(pattern: &str) -> bool {
    const AXES: &[&str] = &[
        "child",
        "descendant",
        "descendant-or-self",
        "parent",
        "ancestor",
        "ancestor-or-self",
        "following",
        "following-sibling",
        "preceding",
        "preceding-sibling",
        "self",
        "attribute",
        "namespace",
    ];
    const FUNCTIONS: &[&str] = &["position(", "last(", "contains(", "starts-with(", "not(", "text(", "count(", "name("];
    if let Some(rest) = pattern.strip_prefix("//") {
        return rest.starts_with(|first: char| first.is_ascii_alphabetic() || "_*@.".contains(first));
    }
    if !pattern.starts_with('/') {
        return false;
    }
    let word = |text: &str| {
        let begin =
            text.rfind(|one: char| !(one.is_ascii_alphanumeric() || matches!(one, '_' | '-'))).map_or(0, |at| at + 1);
        AXES.contains(&&text[begin..])
    };
    let predicate = |inside: &str| {
        inside.starts_with('@')
            || inside.trim().bytes().all(|digit| digit.is_ascii_digit()) && !inside.trim().is_empty()
            || FUNCTIONS.iter().any(|function| inside.contains(function))
    };
    pattern.match_indices("::").any(|(place, _)| word(&pattern[..place]))
        || pattern.split('[').skip(1).filter_map(|rest| rest.split_once(']')).any(|(inside, _)| predicate(inside))
}

#[cfg(test)]
mod tests;
