//! From the syntax of JavaScript to that of automata: the same expression, or one that matches more.
//!
//! | JavaScript | here |
//! |---|---|
//! | characters, classes, groups, alternatives | the same; quantifiers beyond [`MAX_COUNT`] have no end |
//! | `^` `$` `\b` `\B` | the same; with the flag `m`, and `\b` with `iu`, they hold everywhere |
//! | looking ahead or behind | holds everywhere |
//! | a reference to a group, `\p{..}` | any text, any character |
//! | flag `i` | letters of ASCII in both cases; what is not ASCII matches whatever is not |
//! | half a character (without `u` a class sees UTF-16) | either half of the four bytes |

use oxc_allocator::Allocator;
use oxc_regular_expression::ast::{
    Alternative, BoundaryAssertionKind, Character, CharacterClass, CharacterClassContents, CharacterClassContentsKind,
    CharacterClassEscapeKind, Disjunction, Term,
};
use oxc_regular_expression::{LiteralParser, Options};
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, Look, Repetition};

/// A quantifier that counts further than this multiplies the automaton.
const MAX_COUNT: u32 = 32;
/// The translation walks the expression by recursion.
const MAX_GROUPS: usize = 50;

const LINE_ENDS: &[(char, char)] = &[('\n', '\n'), ('\r', '\r'), ('\u{2028}', '\u{2029}')];
const DIGITS: &[(char, char)] = &[('0', '9')];
const WORD: &[(char, char)] = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];
/// White space and line ends of ECMA-262.
const SPACE: &[(char, char)] = &[
    ('\t', '\r'),
    (' ', ' '),
    ('\u{A0}', '\u{A0}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{2000}', '\u{200A}'),
    ('\u{2028}', '\u{2029}'),
    ('\u{202F}', '\u{202F}'),
    ('\u{205F}', '\u{205F}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{FEFF}', '\u{FEFF}'),
];
const NOT_ASCII: (char, char) = ('\u{80}', char::MAX);

/// What the expression is here; `None` when that cannot be told or would match everywhere.
pub(crate) fn translate(source: &str, flags: &str) -> Option<Hir> {
    if source.matches('(').count() > MAX_GROUPS {
        return None;
    }
    let mut translator = Translator::default();
    for flag in flags.chars() {
        match flag {
            'i' => translator.ignores_case = true,
            'm' => translator.is_multiline = true,
            's' => translator.dot_is_all = true,
            'u' => translator.is_unicode = true,
            'd' => {}
            _ => return None,
        }
    }
    let allocator = Allocator::default();
    let pattern = LiteralParser::new(&allocator, source, Some(flags), Options::default()).parse().ok()?;
    let pattern = translator.disjunction(&pattern.body)?;
    // What matches the empty text matches everywhere, unless it looks at what is around it.
    let properties = pattern.properties();
    let is_everywhere = properties.minimum_len() == Some(0) && properties.look_set().is_empty();
    (!is_everywhere).then_some(pattern)
}

#[derive(Default)]
struct Translator {
    ignores_case: bool,
    is_multiline: bool,
    dot_is_all: bool,
    is_unicode: bool,
}

/// Characters, and whether halves of those beyond the BMP are among them.
struct Set {
    chars: ClassUnicode,
    halves: bool,
}

impl Set {
    fn new(ranges: &[(char, char)]) -> Self {
        let ranges = ranges.iter().map(|&(start, end)| ClassUnicodeRange::new(start, end));
        Self { chars: ClassUnicode::new(ranges), halves: false }
    }

    fn negated(mut self) -> Self {
        self.chars.negate();
        Self { halves: true, ..self }
    }

    fn add(&mut self, (start, end): (char, char)) {
        self.chars.push(ClassUnicodeRange::new(start, end));
    }

    fn has(&self, wanted: char) -> bool {
        self.chars.ranges().iter().any(|range| (range.start()..=range.end()).contains(&wanted))
    }
}

impl Translator {
    fn disjunction(&self, disjunction: &Disjunction<'_>) -> Option<Hir> {
        let alternatives: Option<Vec<Hir>> = disjunction.body.iter().map(|each| self.alternative(each)).collect();
        Some(Hir::alternation(alternatives?))
    }

    fn alternative(&self, alternative: &Alternative<'_>) -> Option<Hir> {
        let terms: Option<Vec<Hir>> = alternative.body.iter().map(|term| self.term(term)).collect();
        Some(Hir::concat(terms?))
    }

    fn term(&self, term: &Term<'_>) -> Option<Hir> {
        Some(match term {
            Term::BoundaryAssertion(boundary) => self.boundary(boundary.kind),
            Term::LookAroundAssertion(_) => Hir::empty(),
            Term::Quantifier(quantifier) => {
                let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
                let (min, max) = (count(quantifier.min), quantifier.max.map(count));
                Hir::repetition(Repetition {
                    min: min.min(MAX_COUNT),
                    max: max.filter(|&max| max <= MAX_COUNT),
                    greedy: quantifier.greedy,
                    sub: Box::new(self.term(&quantifier.body)?),
                })
            }
            Term::Character(character) => self.folded(self.character(character)?, false),
            Term::Dot(_) if self.dot_is_all => class(Set::new(&[]).negated()),
            Term::Dot(_) => class(Set::new(LINE_ENDS).negated()),
            Term::CharacterClassEscape(escape) => self.folded(escaped(escape.kind), false),
            Term::UnicodePropertyEscape(_) => class(Set::new(&[]).negated()),
            Term::CharacterClass(set) => self.class(set)?,
            Term::CapturingGroup(group) => self.disjunction(&group.body)?,
            Term::IgnoreGroup(group) if group.modifiers.is_some() => return None,
            Term::IgnoreGroup(group) => self.disjunction(&group.body)?,
            Term::IndexedReference(_) | Term::NamedReference(_) => Hir::repetition(Repetition {
                min: 0,
                max: None,
                greedy: true,
                sub: Box::new(Hir::class(Class::Bytes(bytes(&[(0, 255)])))),
            }),
        })
    }

    fn boundary(&self, kind: BoundaryAssertionKind) -> Hir {
        // With both flags, U+017F and U+212A are characters of words.
        let is_word_ascii = !(self.ignores_case && self.is_unicode);
        match kind {
            BoundaryAssertionKind::Start if !self.is_multiline => Hir::look(Look::Start),
            BoundaryAssertionKind::End if !self.is_multiline => Hir::look(Look::End),
            BoundaryAssertionKind::Boundary if is_word_ascii => Hir::look(Look::WordAscii),
            BoundaryAssertionKind::NegativeBoundary if is_word_ascii => Hir::look(Look::WordAsciiNegate),
            _ => Hir::empty(),
        }
    }

    /// One character. Beyond the BMP it is two without `u`, of which a quantifier takes only the second.
    fn character(&self, character: &Character) -> Option<Set> {
        match char::from_u32(character.value) {
            Some(found) if self.is_unicode || character.value <= 0xFFFF => Some(Set::new(&[(found, found)])),
            Some(_) => None,
            None => Some(Set { halves: true, ..Set::new(&[]) }),
        }
    }

    fn class(&self, set: &CharacterClass<'_>) -> Option<Hir> {
        if set.strings || set.kind != CharacterClassContentsKind::Union {
            return None;
        }
        let mut union = Set::new(&[]);
        for content in &set.body {
            let part = match content {
                CharacterClassContents::CharacterClassRange(range) => self.range(&range.min, &range.max)?,
                CharacterClassContents::CharacterClassEscape(escape) => escaped(escape.kind),
                // Whatever it stands for, and whatever it does not.
                CharacterClassContents::UnicodePropertyEscape(_) => return Some(class(Set::new(&[]).negated())),
                CharacterClassContents::Character(character) => self.character(character)?,
                _ => return None,
            };
            union.chars.union(&part.chars);
            union.halves |= part.halves;
        }
        Some(self.folded(union, set.negative))
    }

    fn range(&self, min: &Character, max: &Character) -> Option<Set> {
        if !self.is_unicode && max.value > 0xFFFF {
            return None;
        }
        // The ends of a range may be halves; characters are what lies between them on either side.
        let surrogates = 0xD800..=0xDFFF_u32;
        let start = if surrogates.contains(&min.value) { 0xE000 } else { min.value };
        let end = if surrogates.contains(&max.value) { 0xD7FF } else { max.value };
        let mut set = match (char::from_u32(start), char::from_u32(end)) {
            (Some(start), Some(end)) if start <= end => Set::new(&[(start, end)]),
            _ => Set::new(&[]),
        };
        set.halves = min.value <= *surrogates.end() && max.value >= *surrogates.start();
        Some(set)
    }

    fn folded(&self, mut set: Set, is_negative: bool) -> Hir {
        if self.ignores_case {
            let beyond_ascii = set.chars.ranges().iter().any(|range| range.end() >= NOT_ASCII.0);
            for letter in 'a'..='z' {
                let (small, large) = (letter, letter.to_ascii_uppercase());
                if set.has(small) || set.has(large) {
                    set.add((small, small));
                    set.add((large, large));
                }
            }
            if is_negative {
                set = set.negated();
                set.add(NOT_ASCII);
            } else {
                // With `u`, and for some engines without it, U+017F and U+212A are other cases of `s` and `k`.
                if beyond_ascii {
                    ['s', 'S', 'k', 'K'].into_iter().for_each(|letter| set.add((letter, letter)));
                }
                if set.has('s') || set.has('k') {
                    set.add(NOT_ASCII);
                    set.halves = true;
                }
            }
        } else if is_negative {
            set = set.negated();
        }
        if self.is_unicode {
            set.halves = false;
        }
        class(set)
    }
}

fn escaped(kind: CharacterClassEscapeKind) -> Set {
    match kind {
        CharacterClassEscapeKind::D => Set::new(DIGITS),
        CharacterClassEscapeKind::NegativeD => Set::new(DIGITS).negated(),
        CharacterClassEscapeKind::S => Set::new(SPACE),
        CharacterClassEscapeKind::NegativeS => Set::new(SPACE).negated(),
        CharacterClassEscapeKind::W => Set::new(WORD),
        CharacterClassEscapeKind::NegativeW => Set::new(WORD).negated(),
    }
}

fn class(set: Set) -> Hir {
    let chars = Hir::class(Class::Unicode(set.chars));
    if !set.halves {
        return chars;
    }
    let part = |ranges: &[(u8, u8)]| Hir::class(Class::Bytes(bytes(ranges)));
    let rest = [(0x80, 0xBF)];
    let high = Hir::concat(vec![part(&[(0xF0, 0xF4)]), part(&rest)]);
    let low = Hir::concat(vec![part(&rest), part(&rest)]);
    Hir::alternation(vec![chars, high, low])
}

fn bytes(ranges: &[(u8, u8)]) -> ClassBytes {
    ClassBytes::new(ranges.iter().map(|&(start, end)| ClassBytesRange::new(start, end)))
}
