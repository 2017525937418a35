//! ECMAScript regular expressions, translated for automata.

use crate::translate;
use oxc_allocator::Allocator;
use oxc_regular_expression::{LiteralParser, Options};
use regex_syntax::hir::{Hir, HirKind};
use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// Maximum length of an expression in bytes.
const MAX_SOURCE: usize = 16 * 1024;
/// Maximum nesting of groups and classes, which parser and translator traverse recursively.
const MAX_DEPTH: usize = 100;
/// Approximate maximum number of states of an automaton for one expression.
const MAX_WEIGHT: usize = 50_000;

/// Relation of a [`Pattern`] to its expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// The automaton matches the same texts; `\p{..}` uses the tables of Unicode 16.
    Exact,
    /// The automaton matches these texts and others, so the expression itself has to confirm a match.
    Coarse,
}

/// The reason why an expression cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError {
    kind: PatternErrorKind,
    offset: usize,
    message: String,
}

/// The kinds of [`PatternError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternErrorKind {
    /// The expression is not valid ECMAScript.
    Syntax,
    /// A flag is unknown, duplicated, or selects the start of matches (`g`, `y`).
    Flags,
    /// The expression is too long, nests too deeply, or needs too many states.
    TooLarge,
}

impl PatternError {
    fn new(kind: PatternErrorKind, offset: usize, message: impl Into<String>) -> Self {
        Self { kind, offset, message: message.into() }
    }

    /// Returns the kind of error.
    pub fn kind(&self) -> PatternErrorKind {
        self.kind
    }

    /// Returns the position of the error as a byte offset: in the source, or in the flags for an error in the flags.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns one sentence about the error.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (at byte {})", self.message, self.offset)
    }
}

impl Error for PatternError {}

/// Flags of an expression that affect which texts it matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) ignores_case: bool,
    pub(crate) is_multiline: bool,
    pub(crate) dot_is_all: bool,
    /// Whether the flag `u` or `v` is set.
    pub(crate) is_unicode: bool,
    /// Whether the flag `v` is set.
    pub(crate) is_sets: bool,
}

impl Flags {
    fn parse(flags: &str) -> Result<Self, PatternError> {
        let refuse = |offset, message: String| Err(PatternError::new(PatternErrorKind::Flags, offset, message));
        let mut parsed = Self::default();
        for (offset, flag) in flags.char_indices() {
            if flags[..offset].contains(flag) {
                return refuse(offset, format!("the flag `{flag}` is given twice"));
            }
            match flag {
                'i' => parsed.ignores_case = true,
                'm' => parsed.is_multiline = true,
                's' => parsed.dot_is_all = true,
                'u' => parsed.is_unicode = true,
                'v' => parsed.is_sets = true,
                'd' => {}
                'g' | 'y' => {
                    return refuse(offset, format!("the flag `{flag}` has no effect on streamed text: remove it"));
                }
                _ => {
                    return refuse(
                        offset,
                        format!("unknown flag `{flag}`: the flags are `i`, `m`, `s`, `u`, `v`, `d`"),
                    );
                }
            }
        }
        if parsed.is_unicode && parsed.is_sets {
            return refuse(0, "the flags `u` and `v` exclude each other: use `v` alone".to_owned());
        }
        parsed.is_unicode |= parsed.is_sets;
        Ok(parsed)
    }
}

/// One of the expressions that make up a [`Pattern`].
#[derive(Debug, Clone)]
pub(crate) struct PatternPart {
    pub(crate) hir: Hir,
    /// Whether a match may depend on the text after it.
    pub(crate) looks_at_end: bool,
    /// Expression for the matches that do not depend on the text after them, if there are others as well.
    pub(crate) certain: Option<Hir>,
}

impl PatternPart {
    fn new(hir: Hir) -> Self {
        let looks_at_end = looks_at_end(&hir);
        let certain = if looks_at_end { certain(&hir) } else { None };
        Self { hir, looks_at_end, certain }
    }

    /// Returns the expressions for an automaton, each with a flag for matches that may depend on the text after them.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = (&Hir, bool)> {
        self.certain.iter().map(|hir| (hir, false)).chain([(&self.hir, self.looks_at_end)])
    }
}

/// A regular expression of ECMAScript, translated for automata.
///
/// ```
/// use pijs_matcher::{Pattern, Precision};
///
/// assert_eq!(Pattern::parse(r"\bTODO\b", "i")?.precision(), Precision::Exact);
/// // A reference to a group is taken for whatever the group may match.
/// assert_eq!(Pattern::parse(r"(['`]).*\1", "")?.precision(), Precision::Coarse);
///
/// let error = Pattern::parse("a(b", "").unwrap_err();
/// assert_eq!(error.offset(), 1);
/// # Ok::<(), pijs_matcher::PatternError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pattern {
    source: String,
    flags: String,
    precision: Precision,
    looks_past_end: bool,
    parts: Vec<PatternPart>,
}

impl Pattern {
    /// Translates `new RegExp(source, flags)`.
    ///
    /// Fails where ECMAScript fails, for the flags `g` and `y`, and when the expression is too large.
    pub fn parse(source: &str, flags: &str) -> Result<Self, PatternError> {
        let parsed_flags = Flags::parse(flags)?;
        if source.len() > MAX_SOURCE {
            let message = format!("the expression has {} bytes: the limit is {MAX_SOURCE}", source.len());
            return Err(PatternError::new(PatternErrorKind::TooLarge, MAX_SOURCE, message));
        }
        if let Some(offset) = too_deep(source, parsed_flags.is_sets) {
            let message = format!("groups are nested more than {MAX_DEPTH} deep");
            return Err(PatternError::new(PatternErrorKind::TooLarge, offset, message));
        }
        let allocator = Allocator::default();
        let parsed_source = bounded(source);
        let pattern = LiteralParser::new(&allocator, &parsed_source, Some(flags), Options::default()).parse().map_err(
            |error| {
                let offset = error.labels.first().map_or(0, |label| label.offset());
                let message = error.message.trim_start_matches("Invalid regular expression: ");
                PatternError::new(PatternErrorKind::Syntax, (offset as usize).min(source.len()), message)
            },
        )?;
        let translation = translate::translate(&pattern, parsed_flags);
        let weight = translation.parts.iter().fold(0_usize, |sum, part| sum.saturating_add(translate::weight(part)));
        if weight > MAX_WEIGHT {
            let message = "the expression needs too many states: use smaller counts in its quantifiers";
            return Err(PatternError::new(PatternErrorKind::TooLarge, 0, message));
        }
        let parts = translation.parts.iter().cloned().map(PatternPart::new).collect();
        let translate::Translation { precision, looks_past_end, .. } = translation;
        Ok(Self { source: source.to_owned(), flags: flags.to_owned(), precision, looks_past_end, parts })
    }

    /// Returns the source of the expression.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the flags of the expression.
    pub fn flags(&self) -> &str {
        &self.flags
    }

    /// Returns the precision: whether a match has to be confirmed.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns whether text after a hit may turn it into a match: a coarse pattern may omit a look-ahead, as in
    /// `(?=.*secret)log`. Such a hit has to be confirmed again when the text has grown.
    pub fn looks_past_end(&self) -> bool {
        self.looks_past_end
    }

    /// Returns whether the pattern matches every text, including the empty one.
    pub fn matches_everything(&self) -> bool {
        self.parts.iter().all(|part| {
            let properties = part.hir.properties();
            properties.minimum_len() == Some(0) && properties.look_set().is_empty()
        })
    }

    /// Returns the expressions, all of which have to match somewhere.
    pub(crate) fn parts(&self) -> &[PatternPart] {
        &self.parts
    }
}

/// Returns an expression of equal length whose repetition counts fit into a number. No text is long enough for larger counts.
fn bounded(source: &str) -> Cow<'_, str> {
    const MAX_DIGITS: usize = 15;
    let mut bytes = Cow::Borrowed(source.as_bytes());
    let (mut at, mut is_class) = (0, false);
    while at < source.len() {
        let (from, byte) = (at, source.as_bytes()[at]);
        at += 1 + usize::from(byte == b'\\');
        is_class = byte == b'[' || (is_class && byte != b']');
        if byte != b'{' || is_class {
            continue;
        }
        let rest = &source[from + 1..];
        let (counts, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(rest.len()));
        if counts.len() <= MAX_DIGITS || !rest.starts_with('}') {
            continue;
        }
        let mut end = from + 1;
        for count in counts.split(',') {
            let start = end;
            end += count.len() + 1;
            if count.trim_start_matches('0').len() > MAX_DIGITS {
                let digits = &mut bytes.to_mut()[start..start + count.len()];
                let (zeros, nines) = digits.split_at_mut(count.len() - MAX_DIGITS);
                zeros.fill(b'0');
                nines.fill(b'9');
            }
        }
    }
    match bytes {
        Cow::Borrowed(_) => Cow::Borrowed(source),
        Cow::Owned(bytes) => String::from_utf8(bytes).map_or(Cow::Borrowed(source), Cow::Owned),
    }
}

/// Returns the offset at which an expression nests too deeply.
fn too_deep(source: &str, is_sets: bool) -> Option<usize> {
    let (mut depth, mut classes) = (0_usize, 0_usize);
    let mut characters = source.char_indices();
    while let Some((offset, character)) = characters.next() {
        match character {
            '\\' => _ = characters.next(),
            '[' if classes == 0 || is_sets => classes += 1,
            ']' => classes = classes.saturating_sub(1),
            '(' if classes == 0 => depth += 1,
            ')' if classes == 0 => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth + classes > MAX_DEPTH {
            return Some(offset);
        }
    }
    None
}

/// Returns whether a match may end with a look-around, so that it depends on the text after it.
fn looks_at_end(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) => false,
        HirKind::Look(_) => true,
        HirKind::Repetition(repetition) => looks_at_end(&repetition.sub),
        HirKind::Capture(capture) => looks_at_end(&capture.sub),
        HirKind::Alternation(choices) => choices.iter().any(looks_at_end),
        HirKind::Concat(parts) => {
            for part in parts.iter().rev() {
                if looks_at_end(part) {
                    return true;
                }
                if part.properties().minimum_len().is_some_and(|length| length > 0) {
                    break;
                }
            }
            false
        }
    }
}

/// Returns an expression for the matches that do not end with a look-around, or for some of them.
fn certain(hir: &Hir) -> Option<Hir> {
    let found = match hir.kind() {
        _ if !looks_at_end(hir) => hir.clone(),
        HirKind::Alternation(choices) => {
            let choices: Vec<Hir> = choices.iter().filter_map(certain).collect();
            if choices.is_empty() {
                return None;
            }
            Hir::alternation(choices)
        }
        HirKind::Concat(parts) => {
            let (last, before) = parts.split_last()?;
            let mut parts = before.to_vec();
            parts.push(certain(last)?);
            Hir::concat(parts)
        }
        _ => return None,
    };
    (!looks_at_end(&found)).then_some(found)
}
