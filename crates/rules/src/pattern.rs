//! Regular expressions of rules: flags, syntax, and the engine that runs them.

use crate::diagnostic::quoted;
use crate::rule::Condition;
use oxc_allocator::Allocator;
use oxc_regular_expression::ast::{Alternative, BoundaryAssertionKind, Disjunction, LookAroundAssertionKind, Term};
use oxc_regular_expression::{LiteralParser, Options};
use pijs_matcher::{Pattern, PatternErrorKind, Precision};

/// Maximum length of an expression, in bytes: the automaton's time and memory grow with it.
pub const MAX_PATTERN: usize = 8 * 1024;
/// Maximum nesting of groups and classes. Parsers of expressions recurse, and the stack is finite.
pub const MAX_NESTING: usize = 64;

/// A mistake in an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PatternError {
    /// Byte offset in [`Condition::source`] at which the mistake was noticed.
    pub offset: usize,
    /// The problem, as in `Unterminated group`.
    pub message: String,
    /// A hint for the fix; `None` if there is none.
    pub help: Option<String>,
    /// Whether the expression is beyond [`MAX_PATTERN`] or [`MAX_NESTING`]. Parsing a file leaves such an expression out of the
    /// rule.
    pub is_too_large: bool,
}

/// A part of an expression that probably matches text other than its author means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternDoubt {
    /// Byte offset in [`Condition::source`] at which the part begins.
    pub offset: usize,
    /// Length of the part in bytes.
    pub length: usize,
    /// The behaviour of the expression, worded as the end of a sentence about it.
    pub message: String,
    /// The text to write instead.
    pub help: String,
    /// Whether the expression is almost certainly not meant literally.
    pub is_sure: bool,
}

/// Describes how an expression runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatternReport {
    /// Whether the expression matches the empty text, so that a rule fires at the first delta.
    pub matches_empty: bool,
    /// The construct that the automaton cannot match exactly, if there is one. Its hits are confirmed by a JavaScript engine.
    pub slow: Option<&'static str>,
}

impl Condition {
    /// Reads an expression as oh-my-pi does: a leading group of `i`, `m` and `s` (`(?im)`) becomes flags.
    pub fn from_inline(text: &str) -> Self {
        let (flags, source) = inline_flags(text).unwrap_or_default();
        if flags.is_empty() {
            return Self { source: text.to_owned(), flags: String::new() };
        }
        let mut unique = String::new();
        flags.chars().for_each(|flag| add_flag(&mut unique, flag));
        Self { source: source.to_owned(), flags: unique }
    }

    /// Returns the parts of a valid expression that match text other than they seem to.
    pub fn doubts(&self) -> Vec<PatternDoubt> {
        let literal = self.javascript_literal().into_iter();
        literal.chain(self.unicode_escape()).chain(self.letter_escapes()).chain(self.posix_classes()).collect()
    }

    /// Finds escapes of other dialects, in an expression without the flags `u` and `v`, which reject them: `\A` matches the
    /// letter `A`.
    fn letter_escapes(&self) -> Vec<PatternDoubt> {
        let mut doubts: Vec<PatternDoubt> = Vec::new();
        if self.flags.contains(['u', 'v']) {
            return doubts;
        }
        let mut bytes = self.source.bytes().enumerate();
        while let Some((at, byte)) = bytes.next() {
            let Some((_, letter)) = (if byte == b'\\' { bytes.next() } else { None }) else { continue };
            let rest = &self.source.as_bytes()[at + 2..];
            let has_digits = |count| rest.len() >= count && rest[..count].iter().all(u8::is_ascii_hexdigit);
            let is_known = match letter {
                b'x' => has_digits(2),
                // Another doubt covers `\u{...}`.
                b'u' => has_digits(4) || rest.starts_with(b"{"),
                _ => !letter.is_ascii_alphabetic() || b"bBcdDfknpPrsStvwW".contains(&letter),
            };
            let escape = quoted(&format!("\\{}", char::from(letter)));
            let message = format!("has {escape}, which matches the letter {}", quoted(&char::from(letter).to_string()));
            if is_known || doubts.iter().any(|doubt| doubt.message == message) {
                continue;
            }
            doubts.push(PatternDoubt {
                offset: at,
                length: 2,
                message,
                help: instead_of_escape(letter),
                is_sure: true,
            });
        }
        doubts
    }

    /// Finds POSIX classes, which are ordinary character classes here. The flag `u` rejects `[[:alpha:]]`.
    fn posix_classes(&self) -> Vec<PatternDoubt> {
        if self.flags.contains('u') {
            return Vec::new();
        }
        let doubt = |(offset, class, help): (usize, &str, String)| PatternDoubt {
            offset,
            length: class.len(),
            message: format!("has {}, which matches one of these characters", quoted(class)),
            help,
            is_sure: true,
        };
        posix_classes(&self.source).map(doubt).collect()
    }

    /// Finds an expression that is written as a literal of JavaScript: `/foo/i`.
    fn javascript_literal(&self) -> Option<PatternDoubt> {
        let (inner, flags) = self.source.strip_prefix('/')?.rsplit_once('/')?;
        let is_flags = flags.bytes().all(|flag| b"dgimsuvy".contains(&flag));
        let has_slash = inner.bytes().enumerate().any(|(at, byte)| byte == b'/' && !inner[..at].ends_with('\\'));
        if inner.is_empty() || has_slash || !is_flags {
            return None;
        }
        // `/tmp/` may well be a path.
        let is_sure = !flags.is_empty() || inner.contains(['\\', '^', '$', '(', '|', '[', '+', '*', '?']);
        let inline: String = flags.chars().filter(|flag| "ims".contains(*flag)).collect();
        let inline = if inline.is_empty() { inline } else { format!("(?{inline})") };
        Some(PatternDoubt {
            offset: 0,
            length: self.source.len(),
            message: "is written as a literal of JavaScript, and matches the slashes too".to_owned(),
            help: format!("write it without them: {}", quoted(&format!("{inline}{inner}"))),
            is_sure,
        })
    }

    /// Finds an escape that needs the flag `u` or `v`, in an expression without them: `\p{L}` matches the text `p{L}` there.
    fn unicode_escape(&self) -> Option<PatternDoubt> {
        if self.flags.contains(['u', 'v']) {
            return None;
        }
        let mut bytes = self.source.bytes().enumerate();
        while let Some((at, byte)) = bytes.next() {
            let Some((_, letter @ (b'p' | b'P' | b'u'))) = (if byte == b'\\' { bytes.next() } else { None }) else {
                continue;
            };
            let Some((inside, _)) = self.source[at + 2..].strip_prefix('{').and_then(|rest| rest.split_once('}'))
            else {
                continue;
            };
            let length = 4 + inside.len();
            let (escape, letter) = (quoted(&self.source[at..at + length]), char::from(letter));
            let message = match letter {
                'u' => format!("has {escape}, which names no character without the flag `u`"),
                _ => {
                    let matched = quoted(&format!("{letter}{{{inside}}}"));
                    format!("has {escape}, which matches the text {matched} without the flag `u`")
                }
            };
            let help = "add `flags: u`".to_owned();
            return Some(PatternDoubt { offset: at, length, message, help, is_sure: true });
        }
        None
    }

    /// Checks the syntax, and reports how the expression will run.
    ///
    /// # Errors
    ///
    /// Fails for an expression that `new RegExp(source, flags)` rejects, for flags that have no meaning in a growing text (`g`,
    /// `y`), and for an expression beyond [`MAX_PATTERN`] or [`MAX_NESTING`].
    pub fn check(&self) -> Result<PatternReport, PatternError> {
        let too_large = |offset, message: String| {
            let help = Some("split it into several conditions".to_owned());
            Err(PatternError { offset, message, help, is_too_large: true })
        };
        if self.source.len() > MAX_PATTERN {
            return too_large(0, format!("it has {} bytes; the limit is {MAX_PATTERN}", self.source.len()));
        }
        if let Some(offset) = too_deep(&self.source) {
            return too_large(offset, format!("it is nested more than {MAX_NESTING} deep"));
        }
        let precision = match Pattern::parse(&self.source, &self.flags) {
            Ok(pattern) => Some(pattern.precision()),
            // The backtracking engine supports this expression.
            Err(error) if error.kind() == PatternErrorKind::TooLarge => None,
            Err(error) => {
                // An error in the flags has an offset in the flags.
                let offset = if error.kind() == PatternErrorKind::Flags { 0 } else { error.offset() };
                let (offset, message) = (offset.min(self.source.len()), error.message().to_owned());
                let help = help(&self.source, offset, &message);
                return Err(PatternError { offset, message, help, is_too_large: false });
            }
        };
        let allocator = Allocator::default();
        let parsed = LiteralParser::new(&allocator, &self.source, Some(&self.flags), Options::default()).parse();
        let Ok(pattern) = parsed else { return Ok(PatternReport { matches_empty: false, slow: None }) };
        let slow = match precision {
            Some(Precision::Exact) => None,
            Some(Precision::Coarse) => Some(slow(&pattern.body).unwrap_or("one of its constructs")),
            None => Some("its size"),
        };
        Ok(PatternReport { matches_empty: may_be_empty(&pattern.body), slow })
    }
}

/// Returns JavaScript's equivalent of an escape of another dialect.
fn instead_of_escape(letter: u8) -> String {
    let help = match letter {
        b'A' | b'G' => "write `^` for the beginning of the text",
        b'Z' | b'z' => "write `$` for the end of the text",
        b'h' => "write `[ \\t]`",
        b'H' => "write `[^ \\t]`",
        b'N' => "write `[^\\n]`",
        b'R' => "write `\\r?\\n`",
        b'K' => "write a look-behind: `(?<=...)`",
        b'Q' | b'E' => "write a backslash before each special character, instead of `\\Q...\\E`",
        b'a' => "write `\\x07`",
        b'e' => "write `\\x1b`",
        b'x' => "write two digits, as in `\\x41`, or `\\u{1F600}` with `flags: u`",
        b'u' => "write four digits, as in `\\u0041`, or `\\u{1F600}` with `flags: u`",
        letter => {
            let letter = char::from(letter);
            return format!("write `{letter}`, or `\\\\{letter}` for a backslash in front of it");
        }
    };
    help.to_owned()
}

/// Finds POSIX classes: the byte of each, the class, and the replacement to type.
fn posix_classes(source: &str) -> impl Iterator<Item = (usize, &str, String)> {
    source.match_indices("[:").filter_map(|(at, _)| {
        let inner = source[at + 2..].split_once(":]")?.0;
        let (is_negated, name) = inner.strip_prefix('^').map_or((false, inner), |name| (true, name));
        let (_, members) = POSIX_CLASSES.iter().find(|(known, _)| *known == name)?;
        let help = match is_negated {
            true => format!("write {} for {}", quoted(&format!("[^{members}]")), quoted(&format!("[[:^{name}:]]"))),
            false => format!("write {} for {}", quoted(&format!("[{members}]")), quoted(&format!("[[:{name}:]]"))),
        };
        Some((at, &source[at..at + inner.len() + 4], help))
    })
}

/// POSIX classes, each with its members as written in a JavaScript class.
const POSIX_CLASSES: [(&str, &str); 13] = [
    ("alnum", r"A-Za-z\d"),
    ("alpha", "A-Za-z"),
    ("blank", r" \t"),
    ("cntrl", r"\x00-\x1f\x7f"),
    ("digit", r"\d"),
    ("graph", "!-~"),
    ("lower", "a-z"),
    ("print", " -~"),
    ("punct", r"!-\/:-@\[-`{-~"),
    ("space", r"\s"),
    ("upper", "A-Z"),
    ("word", r"\w"),
    ("xdigit", r"\dA-Fa-f"),
];

/// Adds a flag unless it is there.
pub(crate) fn add_flag(flags: &mut String, flag: char) {
    if !flags.contains(flag) {
        flags.push(flag);
    }
}

/// Splits a leading `(?ims)` from an expression.
fn inline_flags(text: &str) -> Option<(&str, &str)> {
    let (flags, rest) = text.strip_prefix("(?")?.split_once(')')?;
    (!flags.is_empty() && flags.chars().all(|flag| "ims".contains(flag))).then_some((flags, rest))
}

/// Returns whether a condition is a file glob instead of an expression: `*.rs`, `src/**/*.ts`.
pub(crate) fn is_glob(text: &str) -> bool {
    if text.contains(['\\', '^', '$', '+', '|', '(', ')']) || !text.contains(['?', '*', '[', ']', '{', '}']) {
        return false;
    }
    text.contains('/')
        || text.strip_prefix("*.").is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace))
}

/// Returns the byte of the bracket that exceeds the maximum nesting. Counts brackets inside classes, too.
fn too_deep(source: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut bytes = source.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return Some(at);
        }
    }
    None
}

/// Returns a hint for a part of an expression that the parser rejects with `message`.
fn help(source: &str, offset: usize, message: &str) -> Option<String> {
    let message = message.to_lowercase();
    let rest = source.get(offset.min(source.len())..).unwrap_or_default();
    let before = source.get(..offset).unwrap_or_default();
    if message.contains("modifier") {
        return before.rsplit_once("(?").map(|(_, group)| instead_of_group(source, &source[offset - group.len()..]));
    }
    if rest.starts_with('+') && before.ends_with(['*', '+', '?', '}']) {
        return Some("JavaScript has no possessive quantifiers: remove this `+`".to_owned());
    }
    if message.contains("entire pattern") {
        let escaped = rest.bytes().next().filter(|letter| before.ends_with('\\') && letter.is_ascii_alphabetic());
        let help = escaped.map(instead_of_escape).or_else(|| posix_classes(source).next().map(|(.., help)| help));
        if help.is_some() {
            return help;
        }
    }
    let known = HELP.iter().find(|(part, _)| message.contains(part)).map(|(_, help)| *help);
    let by_character = || match rest.chars().next()? {
        '(' | ')' => Some(CLOSE_GROUP),
        '*' | '+' | '?' | '{' => Some(ESCAPE_QUANTIFIER),
        ']' | '}' => Some("write a backslash before `]` or `}` for the character itself"),
        _ => None,
    };
    known.or_else(by_character).map(str::to_owned)
}

/// Returns a hint for a group of another dialect. `group` is the text after its `(?`.
fn instead_of_group(source: &str, group: &str) -> String {
    let inner = group.split(')').next().unwrap_or_default();
    let is_flags = !inner.is_empty() && inner.chars().all(|flag| "imsuv".contains(flag));
    let help = match group.chars().next() {
        _ if is_flags && source.starts_with("(?") => return format!("write `flags: {inner}` instead of `(?{inner})`"),
        _ if is_flags => return format!("put flags at the very start of a condition: `(?{inner})...`"),
        Some('>') => "JavaScript has no atomic groups: write `(?:...)`",
        Some('|') => "write `(?:...)`",
        Some('#') => "JavaScript has no comments in expressions: remove `(?#...)`",
        Some('(') => "JavaScript has no conditional groups: write a condition for each of the two",
        Some('R' | '&' | '0'..='9') => "JavaScript has no recursion: write out the levels that matter",
        Some('P') if group.starts_with("P=") => "write `\\k<name>`",
        Some('P' | '\'') => "write `(?<name>...)`",
        _ if inner.contains('x') => "JavaScript has no flag `x`: remove it, and the spaces that it ignores",
        _ => "use JavaScript's flags, at the start of the pattern: `(?i)`, `(?m)` or `(?s)`",
    };
    help.to_owned()
}

const CLOSE_GROUP: &str = "close the group with `)`, or write `\\(` and `\\)` for the characters themselves";
const ESCAPE_QUANTIFIER: &str = "write a backslash before `*`, `+`, `?` or `{` for the character itself";

/// Hints for parts of the parser's messages. The first match applies.
const HELP: &[(&str, &str)] = &[
    ("braced quantifier out of order", "write the smaller number first, as in `{1,3}`"),
    ("numbers out of order", "write the smaller number first, as in `{1,3}`"),
    ("out of order", "write the range from the smaller to the larger character, as in `[a-z]`"),
    ("range with invalid atom", "write `\\-` for the character itself"),
    ("too large", "write a smaller number"),
    ("duplicated capturing group", "give each group a name of its own, or write `(?:...)`"),
    ("too many capturing groups", "write `(?:...)` for groups that no back reference names"),
    ("group name", "write a name: `(?<name>...)`"),
    ("group specifier is empty", "write a name: `(?<name>...)`"),
    ("reference", "refer to a group that the expression has: `\\1`, or `\\k<name>` of `(?<name>...)`"),
    ("property", "write a property of Unicode, as in `\\p{L}` or `\\p{Script=Greek}`"),
    ("unicode escape", "write `\\uXXXX` or `\\u{XXXXX}`"),
    ("surrogate", "write `\\uXXXX` or `\\u{XXXXX}`"),
    ("unterminated character class", "close it with `]`, or write `\\[` for the character itself"),
    ("escape", "remove the backslash, or write `\\\\` for a backslash"),
    ("class", "write a backslash before the character, or remove it"),
    ("group", CLOSE_GROUP),
    ("look", CLOSE_GROUP),
    ("quantifier", ESCAPE_QUANTIFIER),
    ("repeat", ESCAPE_QUANTIFIER),
];

fn may_be_empty(disjunction: &Disjunction<'_>) -> bool {
    let is_empty = |alternative: &Alternative<'_>| alternative.body.iter().all(term_may_be_empty);
    disjunction.body.iter().any(is_empty)
}

fn term_may_be_empty(term: &Term<'_>) -> bool {
    match term {
        // `\b` needs a word character.
        Term::BoundaryAssertion(boundary) => boundary.kind != BoundaryAssertionKind::Boundary,
        Term::LookAroundAssertion(look) => {
            let is_negative = matches!(
                look.kind,
                LookAroundAssertionKind::NegativeLookahead | LookAroundAssertionKind::NegativeLookbehind
            );
            is_negative != may_be_empty(&look.body)
        }
        Term::Quantifier(quantifier) => quantifier.min == 0 || term_may_be_empty(&quantifier.body),
        Term::CapturingGroup(group) => may_be_empty(&group.body),
        Term::IgnoreGroup(group) => may_be_empty(&group.body),
        Term::IndexedReference(_) | Term::NamedReference(_) => true,
        Term::Character(_)
        | Term::Dot(_)
        | Term::CharacterClassEscape(_)
        | Term::UnicodePropertyEscape(_)
        | Term::CharacterClass(_) => false,
    }
}

/// Returns the name of the construct that is hardest for an automaton.
fn slow(disjunction: &Disjunction<'_>) -> Option<&'static str> {
    let constructs = disjunction.body.iter().flat_map(|alternative| &alternative.body).filter_map(slow_term);
    constructs.max_by_key(|construct| HARDER.iter().position(|known| known == construct))
}

const HARDER: [&str; 3] = ["a look-ahead", "a look-behind", "a back reference"];

fn slow_term(term: &Term<'_>) -> Option<&'static str> {
    match term {
        Term::LookAroundAssertion(look) => {
            let is_behind =
                matches!(look.kind, LookAroundAssertionKind::Lookbehind | LookAroundAssertionKind::NegativeLookbehind);
            let inner = slow(&look.body).filter(|inner| *inner == HARDER[2]);
            inner.or(Some(HARDER[usize::from(is_behind)]))
        }
        Term::IndexedReference(_) | Term::NamedReference(_) => Some(HARDER[2]),
        Term::Quantifier(quantifier) => slow_term(&quantifier.body),
        Term::CapturingGroup(group) => slow(&group.body),
        Term::IgnoreGroup(group) => slow(&group.body),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_leading_group_of_known_flags_becomes_flags() {
        for (text, source, flags) in [
            ("(?i)a", "a", "i"),
            ("(?imsi)a", "a", "ims"),
            ("(?i)(?m)a", "(?m)a", "i"),
            ("(?x)a", "(?x)a", ""),
            ("(?i:a)", "(?i:a)", ""),
            ("(?)a", "(?)a", ""),
            ("a(?i)b", "a(?i)b", ""),
            ("(?i", "(?i", ""),
        ] {
            let expected = Condition { source: source.to_owned(), flags: flags.to_owned() };
            assert_eq!(Condition::from_inline(text), expected, "{text}");
        }
    }

    #[test]
    fn a_condition_that_looks_like_a_glob_is_recognised() {
        for glob in ["*.rs", "*.{ts,tsx}", "src/**", "a/b?.c", "[ab]/c"] {
            assert!(is_glob(glob), "{glob}");
        }
        for pattern in ["a.b", "a/b", "*.r s", "*.", "src/.*\\.ts", "^a/*", "(a/b)*", "a*b", "*"] {
            assert!(!is_glob(pattern), "{pattern}");
        }
    }

    #[test]
    fn check_reports_empty_matches_and_slow_constructs() {
        let check = |text: &str| Condition::from_inline(text).check().expect(text);
        for empty in ["", "a*", "^", "(?m)^$", "a|b?", "(?!a)", "(a?)\\1", "(?=a*)", "\\B", "(?:x|)"] {
            assert!(check(empty).matches_empty, "{empty}");
        }
        for text in ["a", "\\bb?", "\\s+", "(?=a)", "(?<=a)", "^a", ".{1,3}"] {
            assert!(!check(text).matches_empty, "{text}");
        }
        assert_eq!(check("x(?:a(?!b))+").slow, Some("a look-ahead"));
        assert_eq!(check("(a)\\1").slow, Some("a back reference"));
        assert_eq!(check("(?i)\\bTODO\\b").slow, None);
    }

    #[test]
    fn doubts_cover_expressions_that_match_other_text_than_they_seem_to() {
        let doubts = |text: &str, flags: &str| {
            let condition = Condition { source: text.to_owned(), flags: flags.to_owned() };
            condition.doubts().into_iter().map(|doubt| (doubt.help, doubt.is_sure)).collect::<Vec<_>>()
        };
        for (text, help, is_sure) in [
            ("/foo/i", "write it without them: `(?i)foo`", true),
            ("/foo/g", "write it without them: `foo`", true),
            (r"/a\/b.+/", r"write it without them: `a\/b.+`", true),
            ("/tmp/", "write it without them: `tmp`", false),
            (r"a\p{Foo}", "add `flags: u`", true),
            (r"\u{1F600}", "add `flags: u`", true),
        ] {
            assert_eq!(doubts(text, ""), [(help.to_owned(), is_sure)], "{text}");
        }
        for text in
            ["/usr/bin/", "/", "//", "a/b/i", "/foo/x", r"\\p{Foo}", r"\pL", r"\u0041", "p{Foo}", r"\\A", r"\x41"]
        {
            assert_eq!(doubts(text, ""), [], "{text}");
        }
        assert_eq!(doubts(r"\p{L}", "u"), []);
    }

    #[test]
    fn a_mistake_has_its_offset_and_a_hint() {
        let check = |text: &str| Condition::from_inline(text).check().expect_err(text);
        for (text, help) in [
            ("([unclosed", "`\\["),
            ("(unclosed", "`)`"),
            ("a)", "`\\)`"),
            ("**", "backslash"),
            ("x(?i)y", "at the very start of a condition"),
            ("(?P<a>b)", "(?<name>"),
            ("[z-a]", "smaller to the larger"),
            ("(?i)[z-a]", "smaller to the larger"),
            ("[a", "close it with `]`"),
            ("a{3,1}", "`{1,3}`"),
            ("(?<a>b)(?<a>c)", "name of its own"),
            ("(?<>b)", "(?<name>"),
            ("(?<a>b)\\k<c>", "a group that the expression has"),
            ("(?=a", "close the group"),
        ] {
            let error = check(text);
            assert!(error.offset <= text.len(), "{error:?}");
            assert!(error.help.as_deref().is_some_and(|found| found.contains(help)), "{text}: {error:?}");
        }
        assert!(check(&"(".repeat(5_000)).is_too_large);
        assert!(check(&"(".repeat(5_000)).message.contains("deep"));
        assert!(check(&"[".repeat(5_000)).message.contains("deep"));
        assert!(check(&"a".repeat(MAX_PATTERN + 1)).message.contains("bytes"));
    }
}
