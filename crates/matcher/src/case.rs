//! Case folding by ECMAScript's `Canonicalize`: two characters match when their canonical forms are equal.
//!
//! With `u` or `v` the canonical form is Unicode's simple case folding. Otherwise it is `toUpperCase` of one UTF-16 code unit,
//! unless that yields several units, or maps a unit outside of ASCII into ASCII. So `/ſ/i` does not match `s`, and `/ſ/iu` does.

use crate::code_set::{CodeSet, MAX_UNIT};
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Code units by canonical form, for forms with several units.
static UNIT_CLASSES: LazyLock<Vec<Vec<u32>>> = LazyLock::new(|| {
    let mut classes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for unit in 0..=MAX_UNIT {
        classes.entry(canonical_unit(unit)).or_default().push(unit);
    }
    classes.into_values().filter(|members| members.len() > 1).collect()
});

/// Index of the class in [`UNIT_CLASSES`] by unit, sorted by unit.
static CLASS_OF_UNIT: LazyLock<Vec<(u32, usize)>> = LazyLock::new(|| {
    let members =
        |(number, class): (usize, &Vec<u32>)| class.iter().map(move |&unit| (unit, number)).collect::<Vec<_>>();
    let mut units: Vec<(u32, usize)> = UNIT_CLASSES.iter().enumerate().flat_map(members).collect();
    units.sort_unstable();
    units
});

/// Letters and their lower case that the tables of `regex-syntax` do not have yet; the tables of `char` are newer.
static NEWER_LETTERS: LazyLock<Vec<(u32, u32)>> = LazyLock::new(|| {
    let is_unknown = |character: char| {
        let mut class = ClassUnicode::new([ClassUnicodeRange::new(character, character)]);
        class.try_case_fold_simple().is_ok() && class.ranges() == [ClassUnicodeRange::new(character, character)]
    };
    let lowered = |character: char| {
        let mut lower = character.to_lowercase();
        let (first, more) = (lower.next()?, lower.next());
        (first != character && more.is_none() && is_unknown(character)).then_some((character.into(), first.into()))
    };
    ('\0'..=char::MAX).filter_map(lowered).collect()
});

fn canonical_unit(unit: u32) -> u32 {
    let Some(character) = char::from_u32(unit) else { return unit };
    let mut upper = character.to_uppercase();
    match (upper.next().map(u32::from), upper.next()) {
        (Some(upper), None) if upper <= MAX_UNIT && (unit < 128 || upper >= 128) => upper,
        _ => unit,
    }
}

/// Adds the code units with the canonical form of a member.
pub(crate) fn close_units(set: &CodeSet) -> CodeSet {
    let mut more = Vec::new();
    for &(start, end) in set.ranges() {
        let first = CLASS_OF_UNIT.partition_point(|&(unit, _)| unit < start);
        for &(_, class) in CLASS_OF_UNIT[first..].iter().take_while(|&&(unit, _)| unit <= end) {
            more.extend(UNIT_CLASSES[class].iter().map(|&member| (member, member)));
        }
    }
    let mut closed = set.clone();
    closed.extend(more);
    closed
}

/// Adds the code points with the canonical form of a member under `u` or `v`. Surrogates have no case.
pub(crate) fn close_points(set: &CodeSet) -> CodeSet {
    let mut class = to_class(set);
    class.try_case_fold_simple().expect("the tables of the feature `unicode-case` are compiled in");
    let mut closed = set.clone().union(&from_class(&class));
    let newer = NEWER_LETTERS.iter().filter(|(upper, lower)| set.contains(*upper) || set.contains(*lower));
    closed.extend(newer.flat_map(|&(upper, lower)| [(upper, upper), (lower, lower)]));
    closed
}

/// Returns the members that are Unicode scalar values.
pub(crate) fn to_class(set: &CodeSet) -> ClassUnicode {
    let scalars = set.ranges().iter().flat_map(|&(start, end)| {
        let low = (start < 0xD800).then(|| (start, end.min(0xD7FF)));
        let high = (end > 0xDFFF).then(|| (start.max(0xE000), end));
        [low, high].into_iter().flatten()
    });
    ClassUnicode::new(scalars.map(|(start, end)| {
        let scalar = |code| char::from_u32(code).expect("the range lies outside of the surrogates");
        ClassUnicodeRange::new(scalar(start), scalar(end))
    }))
}

/// Returns the set of a class of scalar values.
pub(crate) fn from_class(class: &ClassUnicode) -> CodeSet {
    CodeSet::new(class.ranges().iter().map(|range| (u32::from(range.start()), u32::from(range.end()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units_of(character: char) -> String {
        let set = close_units(&CodeSet::single(u32::from(character)));
        set.ranges().iter().flat_map(|&(start, end)| start..=end).filter_map(char::from_u32).collect()
    }

    #[test]
    fn code_units_fold_through_upper_case() {
        assert_eq!(units_of('s'), "Ss");
        assert_eq!(units_of('\u{17F}'), "\u{17F}");
        assert_eq!(units_of('\u{212A}'), "\u{212A}");
        assert_eq!(units_of('\u{DF}'), "\u{DF}");
        assert_eq!(units_of('\u{3C3}'), "\u{3A3}\u{3C2}\u{3C3}");
        assert_eq!(units_of('\u{1C6}'), "\u{1C4}\u{1C5}\u{1C6}");
        assert_eq!(units_of('\u{130}'), "\u{130}");
    }

    #[test]
    fn points_fold_simply() {
        let set = close_points(&CodeSet::new([(0x73, 0x73), (0x212A, 0x212A)]));
        for member in ['s', 'S', '\u{17F}', 'k', 'K', '\u{212A}'] {
            assert!(set.contains(u32::from(member)), "{member}");
        }
        assert!(close_points(&CodeSet::single(0xDF)).contains(0x1E9E));
    }
}
