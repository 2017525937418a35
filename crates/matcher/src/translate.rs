//! Translates ECMAScript's expressions to expressions over the alphabet of [`transcode`], for the same language or a larger one.
//!
//! | ECMAScript | here |
//! |---|---|
//! | characters, classes, `\p{..}`, groups, alternatives, modifiers | exact |
//! | `^` `$` `\b` `\B` | exact; with `i` and `u`, `\b` and `\B` match everywhere, because U+017F and U+212A are then word characters |
//! | `x(?=y)` where the expression ends, `(?<=y)x` where it begins | exact: `xy`, `yx` |
//! | `x(?!abc)` where it ends, `(?<!abc)x` where it begins, for a sequence of characters or classes | exact: a text that differs from the sequence, or ends before |
//! | `(?=[^]*a)(?=[^]*b)`, `^(?=a)(?=b)c` | exact: several expressions, each of which has to match |
//! | other look-arounds | match everywhere |
//! | a reference to a group | whatever the group may match, look-arounds aside, or any text |
//! | a quantifier that multiplies an expression too far | unbounded |

use crate::case;
use crate::code_set::{CodeSet, MAX_POINT, MAX_UNIT};
use crate::pattern::{Flags, Precision};
use crate::transcode;
use oxc_regular_expression::ast::{
    Alternative, BoundaryAssertionKind, CapturingGroup, Character, CharacterClass, CharacterClassContents,
    CharacterClassContentsKind, CharacterClassEscapeKind, ClassStringDisjunction, Disjunction, IgnoreGroup,
    LookAroundAssertionKind, Modifier, Pattern, Quantifier, Term, UnicodePropertyEscape,
};
use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};
use std::collections::HashMap;

/// Approximate maximum number of states of an expression under a quantifier.
const MAX_REPEATED: usize = 2_000;
/// Approximate maximum number of states of a group that is repeated at a reference.
const MAX_REFERRED: usize = 200;
/// Maximum length of a sequence in a negative look-around; the size of its translation grows with the square.
const MAX_SEQUENCE: usize = 32;

/// The translation of an expression.
#[derive(Debug, Clone)]
pub(crate) struct Translation {
    /// Expressions, each of which has to match somewhere.
    pub(crate) parts: Vec<Hir>,
    pub(crate) precision: Precision,
    /// Whether a term was omitted that reads past the end of a match.
    pub(crate) looks_past_end: bool,
}

/// Translates a parsed expression.
pub(crate) fn translate(pattern: &Pattern<'_>, flags: Flags) -> Translation {
    let mut translator = Translator { is_unicode: flags.is_unicode, is_sets: flags.is_sets, ..Translator::default() };
    let mode =
        GroupFlags { ignores_case: flags.ignores_case, is_multiline: flags.is_multiline, dot_is_all: flags.dot_is_all };
    let parts = translator.conjunction(&pattern.body, mode).unwrap_or_else(|| {
        translator = Translator { is_unicode: flags.is_unicode, is_sets: flags.is_sets, ..Translator::default() };
        vec![translator.disjunction(&pattern.body, mode, TermEdges::BOTH)]
    });
    let precision = if translator.is_coarse { Precision::Coarse } else { Precision::Exact };
    let looks_past_end = translator.looks_past_end;
    Translation { parts: parts.into_iter().map(|part| translator.aligned(part)).collect(), precision, looks_past_end }
}

/// Returns the approximate number of states of an expression.
pub(crate) fn weight(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Unicode(class)) => 2 + class.ranges().len() * 2,
        HirKind::Class(Class::Bytes(_)) => 1,
        HirKind::Capture(capture) => weight(&capture.sub),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min + 1).max(1) as usize;
            weight(&repetition.sub).saturating_mul(times)
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().fold(1, |sum: usize, part| sum.saturating_add(weight(part)))
        }
    }
}

/// Flags that a group may change for its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GroupFlags {
    ignores_case: bool,
    is_multiline: bool,
    dot_is_all: bool,
}

/// Whether a term is the first and the last of the whole expression, so that nothing is read before or after it.
#[derive(Debug, Clone, Copy)]
struct TermEdges {
    is_head: bool,
    is_tail: bool,
}

impl TermEdges {
    const BOTH: Self = Self { is_head: true, is_tail: true };
    const NONE: Self = Self { is_head: false, is_tail: false };
}

#[derive(Default)]
struct Translator {
    is_unicode: bool,
    is_sets: bool,
    /// Whether a term was approximated.
    is_coarse: bool,
    /// Whether a look-ahead, `$`, `\b` or `\B` was omitted.
    looks_past_end: bool,
    /// Number of look-arounds that were translated as part of the match.
    included_looks: usize,
    /// Translated groups by number, without look-arounds, each with its flag `i`.
    groups: HashMap<u32, (Hir, bool)>,
    /// Numbers of the groups of each name.
    named: HashMap<String, Vec<u32>>,
    next_group: u32,
    /// Whether groups were omitted, to which a name may refer.
    has_dropped_groups: bool,
}

impl Translator {
    /// Returns the parts of an expression with several look-aheads at one position; all parts have to match.
    fn conjunction(&mut self, body: &Disjunction<'_>, mode: GroupFlags) -> Option<Vec<Hir>> {
        let [alternative] = body.body.as_slice() else { return None };
        let mut terms = alternative.body.as_slice();
        let mut is_anchored = false;
        if let [Term::BoundaryAssertion(boundary), rest @ ..] = terms
            && boundary.kind == BoundaryAssertionKind::Start
        {
            is_anchored = !mode.is_multiline;
            terms = rest;
        }
        let mut parts = Vec::new();
        while let [Term::LookAroundAssertion(look), rest @ ..] = terms
            && look.kind == LookAroundAssertionKind::Lookahead
        {
            terms = rest;
            if is_anchored {
                let ahead = self.disjunction(&look.body, mode, TermEdges { is_head: false, is_tail: true });
                parts.push(Hir::concat(vec![Hir::look(Look::Start), ahead]));
                continue;
            }
            let [ahead] = look.body.body.as_slice() else { return None };
            let [first, wanted @ ..] = ahead.body.as_slice() else { return None };
            if !self.reads_everything(first, mode) {
                return None;
            }
            parts.push(self.terms(wanted, mode, TermEdges::BOTH));
        }
        if parts.is_empty() {
            return None;
        }
        if is_anchored {
            let rest = self.terms(terms, mode, TermEdges { is_head: false, is_tail: true });
            parts.push(Hir::concat(vec![Hir::look(Look::Start), rest]));
        } else if !terms.iter().all(|term| self.reads_everything(term, mode)) {
            return None;
        }
        // A part that matches everywhere is omitted, unless it is the last one.
        let is_everywhere = |part: &Hir| {
            let HirKind::Concat(terms) = part.kind() else { return matches!(part.kind(), HirKind::Empty) };
            terms.iter().all(|term| matches!(term.kind(), HirKind::Empty | HirKind::Look(Look::Start)))
        };
        let last = parts.last().cloned();
        parts.retain(|part| !is_everywhere(part) && *part != Hir::look(Look::Start));
        if parts.is_empty() {
            parts.extend(last);
        }
        Some(parts)
    }

    /// Returns whether a term is a form of `[^]*`.
    fn reads_everything(&self, term: &Term<'_>, mode: GroupFlags) -> bool {
        let Term::Quantifier(quantifier) = term else { return false };
        quantifier.min == 0
            && quantifier.max.is_none()
            && self.single(&quantifier.body, mode).is_some_and(|set| set.complement(self.max()).is_empty())
    }

    fn disjunction(&mut self, disjunction: &Disjunction<'_>, mode: GroupFlags, edges: TermEdges) -> Hir {
        let each = |alternative: &Alternative<'_>| self.terms(&alternative.body, mode, edges);
        let alternatives: Vec<Hir> = disjunction.body.iter().map(each).collect();
        Hir::alternation(alternatives)
    }

    fn terms(&mut self, terms: &[Term<'_>], mode: GroupFlags, edges: TermEdges) -> Hir {
        let mut parts = Vec::with_capacity(terms.len());
        let mut at = 0;
        while at < terms.len() {
            // `(?=x)y`, `(?!x)y`: for single characters, y is narrowed.
            if let Some(narrowed) = self.narrowed(&terms[at..], mode) {
                parts.push(narrowed);
                at += 2;
                continue;
            }
            let edges =
                TermEdges { is_head: edges.is_head && at == 0, is_tail: edges.is_tail && at + 1 == terms.len() };
            parts.push(self.term(&terms[at], mode, edges));
            at += 1;
        }
        Hir::concat(parts)
    }

    fn term(&mut self, term: &Term<'_>, mode: GroupFlags, edges: TermEdges) -> Hir {
        match term {
            Term::BoundaryAssertion(boundary) => self.boundary(boundary.kind, mode),
            Term::LookAroundAssertion(look) => self.look_around(look.kind, &look.body, mode, edges),
            Term::Quantifier(quantifier) => self.quantifier(quantifier, mode),
            Term::CharacterClass(class) if class.strings => self.strings(class, mode),
            Term::UnicodePropertyEscape(escape) if escape.strings => self.coarse_text(),
            Term::Character(_)
            | Term::Dot(_)
            | Term::CharacterClassEscape(_)
            | Term::UnicodePropertyEscape(_)
            | Term::CharacterClass(_) => match self.single(term, mode) {
                Some(set) => self.symbol(&set),
                None => {
                    let any = self.symbol(&CodeSet::up_to(self.max()));
                    self.coarse(any)
                }
            },
            Term::CapturingGroup(group) => self.capturing(group, mode, edges),
            Term::IgnoreGroup(group) => {
                let mode = modified(group, mode);
                self.disjunction(&group.body, mode, edges)
            }
            Term::IndexedReference(reference) => self.reference(&[reference.index], mode),
            Term::NamedReference(_) if self.has_dropped_groups => self.coarse_text(),
            Term::NamedReference(reference) => {
                let numbers = self.named.get(reference.name.as_str()).cloned().unwrap_or_default();
                self.reference(&numbers, mode)
            }
        }
    }

    fn coarse(&mut self, hir: Hir) -> Hir {
        self.is_coarse = true;
        hir
    }

    fn boundary(&mut self, kind: BoundaryAssertionKind, mode: GroupFlags) -> Hir {
        let has_more_letters = mode.ignores_case && self.is_unicode;
        match kind {
            BoundaryAssertionKind::Start if mode.is_multiline => Hir::look(Look::StartLF),
            BoundaryAssertionKind::Start => Hir::look(Look::Start),
            BoundaryAssertionKind::End if mode.is_multiline => Hir::look(Look::EndLF),
            BoundaryAssertionKind::End => Hir::look(Look::End),
            _ if has_more_letters => {
                self.looks_past_end = true;
                self.coarse(Hir::empty())
            }
            BoundaryAssertionKind::Boundary => Hir::look(Look::WordAscii),
            BoundaryAssertionKind::NegativeBoundary => Hir::look(Look::WordAsciiNegate),
        }
    }

    fn look_around(
        &mut self,
        kind: LookAroundAssertionKind,
        body: &Disjunction<'_>,
        mode: GroupFlags,
        edges: TermEdges,
    ) -> Hir {
        let groups = count_groups(body);
        match kind {
            LookAroundAssertionKind::Lookahead if edges.is_tail => {
                self.included_looks += 1;
                return self.disjunction(body, mode, TermEdges { is_head: false, ..edges });
            }
            LookAroundAssertionKind::Lookbehind if edges.is_head => {
                self.included_looks += 1;
                return self.disjunction(body, mode, TermEdges { is_tail: false, ..edges });
            }
            LookAroundAssertionKind::NegativeLookahead if edges.is_tail => {
                if let Some(sequence) = self.sequence(body, mode) {
                    self.included_looks += 1;
                    return self.other_than(&sequence, Look::End);
                }
            }
            LookAroundAssertionKind::NegativeLookbehind if edges.is_head => {
                if let Some(mut sequence) = self.sequence(body, mode) {
                    sequence.reverse();
                    self.included_looks += 1;
                    return self.other_than(&sequence, Look::Start);
                }
            }
            _ => {}
        }
        self.next_group += groups;
        self.has_dropped_groups |= groups > 0;
        self.looks_past_end |= is_ahead(kind) || looks_ahead(body);
        self.coarse(Hir::empty())
    }

    /// Returns the expression for a text that differs from this sequence of characters; the sequence is read in the direction
    /// away from the look-around.
    fn other_than(&self, sequence: &[CodeSet], edge: Look) -> Hir {
        let mut choices = Vec::with_capacity(sequence.len());
        for (number, set) in sequence.iter().enumerate() {
            let differs = Hir::alternation(vec![Hir::look(edge), self.symbol(&set.complement(self.max()))]);
            let mut parts: Vec<Hir> = sequence[..number].iter().map(|set| self.symbol(set)).collect();
            parts.push(differs);
            if edge == Look::Start {
                parts.reverse();
            }
            choices.push(Hir::concat(parts));
        }
        // An empty sequence always matches.
        Hir::alternation(choices)
    }

    /// Returns the sets of a body that is a sequence of single characters.
    fn sequence(&self, body: &Disjunction<'_>, mode: GroupFlags) -> Option<Vec<CodeSet>> {
        let rows: Option<Vec<Vec<CodeSet>>> = body
            .body
            .iter()
            .map(|alternative| alternative.body.iter().map(|term| self.single(term, mode)).collect())
            .collect();
        let mut rows = rows?;
        if rows.len() > 1 && rows.iter().all(|sequence| sequence.len() == 1) {
            let union = rows.iter().fold(CodeSet::default(), |union, sequence| union.union(&sequence[0]));
            return Some(vec![union]);
        }
        if rows.len() == 1 { rows.pop().filter(|sequence| sequence.len() <= MAX_SEQUENCE) } else { None }
    }

    /// Returns the expression for a look-ahead by one character and the single-character term after it.
    fn narrowed(&self, terms: &[Term<'_>], mode: GroupFlags) -> Option<Hir> {
        let [Term::LookAroundAssertion(look), next, ..] = terms else { return None };
        let sequence = match look.kind {
            LookAroundAssertionKind::Lookahead | LookAroundAssertionKind::NegativeLookahead => {
                self.sequence(&look.body, mode)?
            }
            _ => return None,
        };
        let [ahead] = sequence.as_slice() else { return None };
        let narrow = |set: CodeSet| match look.kind {
            LookAroundAssertionKind::Lookahead => set.intersection(ahead),
            _ => set.difference(ahead),
        };
        match next {
            Term::Quantifier(quantifier) if quantifier.min > 0 => {
                let set = self.single(&quantifier.body, mode)?;
                let symbol = self.symbol(&set);
                let most = (MAX_REPEATED / weight(&symbol).max(1)) as u64;
                if quantifier.min > most || quantifier.max.is_some_and(|max| max > most) {
                    return None;
                }
                let less = |count: u64| u32::try_from(count - 1).unwrap_or(u32::MAX);
                let rest = Hir::repetition(Repetition {
                    min: less(quantifier.min),
                    max: quantifier.max.map(less),
                    greedy: quantifier.greedy,
                    sub: Box::new(symbol),
                });
                Some(Hir::concat(vec![self.symbol(&narrow(set)), rest]))
            }
            _ => Some(self.symbol(&narrow(self.single(next, mode)?))),
        }
    }

    fn quantifier(&mut self, quantifier: &Quantifier<'_>, mode: GroupFlags) -> Hir {
        let sub = self.term(&quantifier.body, mode, TermEdges::NONE);
        let most = u64::try_from(MAX_REPEATED / weight(&sub).max(1)).unwrap_or(u64::MAX).max(1);
        let (mut min, mut max) = (quantifier.min, quantifier.max);
        if min > most || max.is_some_and(|max| max > most) {
            self.is_coarse = true;
            min = min.min(most);
            max = None;
        }
        let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Hir::repetition(Repetition {
            min: count(min),
            max: max.map(count),
            greedy: quantifier.greedy,
            sub: Box::new(sub),
        })
    }

    fn capturing(&mut self, group: &CapturingGroup<'_>, mode: GroupFlags, edges: TermEdges) -> Hir {
        self.next_group += 1;
        let number = self.next_group;
        if let Some(name) = group.name {
            self.named.entry(name.as_str().to_owned()).or_default().push(number);
        }
        let included_looks = self.included_looks;
        let hir = self.disjunction(&group.body, mode, edges);
        if weight(&hir) <= MAX_REFERRED && self.included_looks == included_looks {
            self.groups.insert(number, (without_looks(&hir), mode.ignores_case));
        }
        hir
    }

    /// Returns the texts that a reference to one of these groups may match: the text of the group, or nothing before the group
    /// has matched.
    fn reference(&mut self, numbers: &[u32], mode: GroupFlags) -> Hir {
        self.is_coarse = true;
        let mut choices = vec![Hir::empty()];
        for number in numbers {
            match self.groups.get(number) {
                Some((hir, ignores_case)) if *ignores_case || !mode.ignores_case => choices.push(hir.clone()),
                _ => return self.any_text(),
            }
        }
        if numbers.is_empty() { self.any_text() } else { Hir::alternation(choices) }
    }

    /// Returns the set of characters that a term matches, if the term always matches exactly one character.
    fn single(&self, term: &Term<'_>, mode: GroupFlags) -> Option<CodeSet> {
        match term {
            Term::Character(character) => Some(self.closed(CodeSet::single(character.value), mode)),
            Term::Dot(_) if mode.dot_is_all => Some(CodeSet::up_to(self.max())),
            Term::Dot(_) => Some(transcode::line_ends().complement(self.max())),
            Term::CharacterClassEscape(escape) => Some(self.closed(self.escaped(escape.kind, mode), mode)),
            Term::UnicodePropertyEscape(escape) => Some(self.closed(self.property(escape, mode)?, mode)),
            Term::CharacterClass(class) if !class.strings => {
                let set = self.closed(self.class(class, mode)?, mode);
                Some(if class.negative && !self.is_sets { set.complement(self.max()) } else { set })
            }
            Term::IgnoreGroup(group) => match group.body.body.as_slice() {
                [only] => match only.body.as_slice() {
                    [term] => self.single(term, modified(group, mode)),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the members of a class, before `i` is applied and, without `v`, before `^` is applied.
    fn class(&self, class: &CharacterClass<'_>, mode: GroupFlags) -> Option<CodeSet> {
        let mut contents = class.body.iter().map(|content| self.content(content, mode));
        let mut set = contents.next().unwrap_or_else(|| Some(CodeSet::default()))?;
        for other in contents {
            set = match class.kind {
                CharacterClassContentsKind::Union => set.union(&other?),
                CharacterClassContentsKind::Intersection => set.intersection(&other?),
                CharacterClassContentsKind::Subtraction => set.difference(&other?),
            };
        }
        Some(if class.negative && self.is_sets { set.complement(self.max()) } else { set })
    }

    fn content(&self, content: &CharacterClassContents<'_>, mode: GroupFlags) -> Option<CodeSet> {
        let set = match content {
            CharacterClassContents::CharacterClassRange(range) => CodeSet::new([(range.min.value, range.max.value)]),
            CharacterClassContents::CharacterClassEscape(escape) => self.escaped(escape.kind, mode),
            CharacterClassContents::UnicodePropertyEscape(escape) => self.property(escape, mode)?,
            CharacterClassContents::Character(character) => CodeSet::single(character.value),
            CharacterClassContents::NestedCharacterClass(class) if !class.strings => self.class(class, mode)?,
            CharacterClassContents::ClassStringDisjunction(strings) if !strings.strings => CodeSet::new(
                strings.body.iter().flat_map(|string| &string.body).map(|character| (character.value, character.value)),
            ),
            _ => return None,
        };
        // With `v`, set operations compare canonical forms.
        Some(if self.is_sets { self.closed(set, mode) } else { set })
    }

    /// Returns the expression of a class with strings among its members.
    fn strings(&mut self, class: &CharacterClass<'_>, mode: GroupFlags) -> Hir {
        if class.kind != CharacterClassContentsKind::Union || class.negative {
            return self.coarse_text();
        }
        let mut choices = Vec::new();
        for content in &class.body {
            choices.push(match content {
                CharacterClassContents::ClassStringDisjunction(strings) => self.string_choices(strings, mode),
                CharacterClassContents::NestedCharacterClass(class) if class.strings => self.strings(class, mode),
                _ => match self.content(content, mode) {
                    Some(set) => self.symbol(&set),
                    None => return self.coarse_text(),
                },
            });
        }
        Hir::alternation(choices)
    }

    fn string_choices(&self, strings: &ClassStringDisjunction<'_>, mode: GroupFlags) -> Hir {
        let symbol = |character: &Character| self.symbol(&self.closed(CodeSet::single(character.value), mode));
        let choices = strings.body.iter().map(|string| Hir::concat(string.body.iter().map(symbol).collect()));
        Hir::alternation(choices.collect())
    }

    fn escaped(&self, kind: CharacterClassEscapeKind, mode: GroupFlags) -> CodeSet {
        let digits = || CodeSet::new([(0x30, 0x39)]);
        let space = || CodeSet::new(SPACE.iter().copied());
        let word = || {
            let word = CodeSet::new(WORD.iter().copied());
            // With `i`, the flags `u` and `v` make U+017F and U+212A word characters.
            if mode.ignores_case && self.is_unicode { case::close_points(&word) } else { word }
        };
        match kind {
            CharacterClassEscapeKind::D => digits(),
            CharacterClassEscapeKind::NegativeD => digits().complement(self.max()),
            CharacterClassEscapeKind::S => space(),
            CharacterClassEscapeKind::NegativeS => space().complement(self.max()),
            CharacterClassEscapeKind::W => word(),
            CharacterClassEscapeKind::NegativeW => word().complement(self.max()),
        }
    }

    /// Returns the members of `\p{..}` from the tables of `regex-syntax`; `None` for an unknown property.
    fn property(&self, escape: &UnicodePropertyEscape<'_>, mode: GroupFlags) -> Option<CodeSet> {
        // Unicode 17, which engines use, removed hundreds of characters from this one.
        if escape.strings || matches!(escape.name.as_str(), "Extended_Pictographic" | "ExtPict") {
            return None;
        }
        let name = match &escape.value {
            Some(value) => format!(r"\p{{{}={value}}}", escape.name),
            None => format!(r"\p{{{}}}", escape.name),
        };
        let hir = regex_syntax::parse(&name).ok()?;
        let mut set = match hir.kind() {
            HirKind::Class(Class::Unicode(class)) => case::from_class(class),
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).ok()?;
                CodeSet::new(text.chars().map(|character| (u32::from(character), u32::from(character))))
            }
            HirKind::Class(Class::Bytes(class)) => {
                CodeSet::new(class.ranges().iter().map(|range| (u32::from(range.start()), u32::from(range.end()))))
            }
            _ => return None,
        };
        if self.is_sets {
            set = self.closed(set, mode);
        }
        Some(if escape.negative { set.complement(self.max()) } else { set })
    }

    /// Adds the characters with the canonical form of a member.
    fn closed(&self, set: CodeSet, mode: GroupFlags) -> CodeSet {
        match (mode.ignores_case, self.is_unicode) {
            (false, _) => set,
            (true, true) => case::close_points(&set),
            (true, false) => case::close_units(&set),
        }
    }

    fn max(&self) -> u32 {
        if self.is_unicode { MAX_POINT } else { MAX_UNIT }
    }

    fn symbol(&self, set: &CodeSet) -> Hir {
        if self.is_unicode { transcode::point(set) } else { transcode::unit(set) }
    }

    /// Returns the approximation of an unknown expression.
    fn coarse_text(&mut self) -> Hir {
        self.is_coarse = true;
        self.any_text()
    }

    fn any_text(&self) -> Hir {
        let sub = Box::new(self.symbol(&CodeSet::up_to(self.max())));
        Hir::repetition(Repetition { min: 0, max: None, greedy: true, sub })
    }

    /// Aligns an expression that may read nothing with symbol boundaries, because a look-around could otherwise match inside a
    /// symbol.
    fn aligned(&self, hir: Hir) -> Hir {
        let reads_something = hir.properties().minimum_len().is_some_and(|length| length > 0);
        if reads_something || hir.properties().look_set().is_empty() {
            return hir;
        }
        let symbol = self.symbol(&CodeSet::up_to(self.max()));
        let start = Hir::concat(vec![Hir::look(Look::Start), hir.clone()]);
        Hir::alternation(vec![start, Hir::concat(vec![symbol, hir])])
    }
}

const WORD: [(u32, u32); 4] = [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)];
/// White space and line ends of ECMA-262.
const SPACE: [(u32, u32); 10] = [
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
];

fn modified(group: &IgnoreGroup<'_>, mode: GroupFlags) -> GroupFlags {
    let Some(modifiers) = &group.modifiers else { return mode };
    let after = |flag: Modifier, is_set: bool| {
        (is_set || modifiers.enabling.contains(flag)) && !modifiers.disabling.contains(flag)
    };
    GroupFlags {
        ignores_case: after(Modifier::I, mode.ignores_case),
        is_multiline: after(Modifier::M, mode.is_multiline),
        dot_is_all: after(Modifier::S, mode.dot_is_all),
    }
}

fn is_ahead(kind: LookAroundAssertionKind) -> bool {
    matches!(kind, LookAroundAssertionKind::Lookahead | LookAroundAssertionKind::NegativeLookahead)
}

/// Returns whether a match of a body may depend on the text after it.
fn looks_ahead(body: &Disjunction<'_>) -> bool {
    body.body.iter().flat_map(|alternative| &alternative.body).any(term_looks_ahead)
}

fn term_looks_ahead(term: &Term<'_>) -> bool {
    match term {
        Term::BoundaryAssertion(boundary) => boundary.kind != BoundaryAssertionKind::Start,
        Term::LookAroundAssertion(look) => is_ahead(look.kind) || looks_ahead(&look.body),
        Term::Quantifier(quantifier) => term_looks_ahead(&quantifier.body),
        Term::CapturingGroup(group) => looks_ahead(&group.body),
        Term::IgnoreGroup(group) => looks_ahead(&group.body),
        _ => false,
    }
}

/// Returns an expression for the same texts in any context.
fn without_looks(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Look(_) => Hir::empty(),
        HirKind::Repetition(repetition) => {
            Hir::repetition(Repetition { sub: Box::new(without_looks(&repetition.sub)), ..repetition.clone() })
        }
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(without_looks).collect()),
        HirKind::Alternation(choices) => Hir::alternation(choices.iter().map(without_looks).collect()),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Capture(_) => hir.clone(),
    }
}

/// Returns the number of groups in an untranslated body, so that later groups keep their numbers.
fn count_groups(body: &Disjunction<'_>) -> u32 {
    let terms = body.body.iter().flat_map(|alternative| &alternative.body);
    terms.map(count_groups_of_term).sum()
}

fn count_groups_of_term(term: &Term<'_>) -> u32 {
    match term {
        Term::LookAroundAssertion(look) => count_groups(&look.body),
        Term::Quantifier(quantifier) => count_groups_of_term(&quantifier.body),
        Term::CapturingGroup(group) => 1 + count_groups(&group.body),
        Term::IgnoreGroup(group) => count_groups(&group.body),
        _ => 0,
    }
}
