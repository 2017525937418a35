//! Alphabet of the automata, in which each UTF-16 code unit and each line end is a separate symbol.
//!
//! ECMAScript's expressions see UTF-16, and `^` and `$` with the flag `m` see four kinds of line ends; automata see bytes. So the
//! text is encoded for them as UTF-8 with two changes, and expressions are translated to match that encoding:
//!
//! | in the text | is read as |
//! |---|---|
//! | a character beyond the BMP | two private characters of plane 16, one for each surrogate, `U+10F800` on |
//! | `\n` `\r` U+2028 U+2029 | `\n`, a byte that does not occur in UTF-8, `\n` |
//!
//! A character of plane 16 in the text is written as a pair like all characters beyond the BMP, so the private characters are
//! unambiguous. As each encoded line end begins and ends with `\n`, an automaton's look-around for `\n` matches before and after
//! all four kinds.

use crate::case;
use crate::code_set::{CodeSet, MAX_UNIT};
use regex_syntax::hir::{Class, Hir};
use std::collections::BTreeMap;

/// Offset between a surrogate and its private character.
const SURROGATE_SHIFT: u32 = 0x10_F800 - 0xD800;
const SURROGATES: (u32, u32) = (0xD800, 0xDFFF);
const LEADS: (u32, u32) = (0xD800, 0xDBFF);
const TRAILS: (u32, u32) = (0xDC00, 0xDFFF);

/// Line ends, with the bytes that are read for each.
const LINE_ENDS: [(u32, &[u8; 3]); 4] =
    [(0x0A, b"\n\xF8\n"), (0x0D, b"\n\xF9\n"), (0x2028, b"\n\xFA\n"), (0x2029, b"\n\xFB\n")];

/// Returns the set of line ends.
pub(crate) fn line_ends() -> CodeSet {
    CodeSet::new([(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)])
}

/// Returns the bytes that are read for a character, and their number; `None` for a character that is read unchanged.
pub(crate) fn special(character: char) -> Option<([u8; 8], usize)> {
    let mut bytes = [0; 8];
    let code = u32::from(character);
    if let Some((_, written)) = LINE_ENDS.iter().find(|&&(end, _)| end == code) {
        bytes[..3].copy_from_slice(*written);
        return Some((bytes, 3));
    }
    if code <= MAX_UNIT {
        return None;
    }
    let mut units = [0; 2];
    for (number, unit) in character.encode_utf16(&mut units).iter().enumerate() {
        private(u32::from(*unit)).encode_utf8(&mut bytes[number * 4..]);
    }
    Some((bytes, 8))
}

/// Returns the last byte that is read for a character.
pub(crate) fn last_byte(character: char) -> u8 {
    let (bytes, length) = special(character).unwrap_or_else(|| {
        let mut bytes = [0; 8];
        let length = character.encode_utf8(&mut bytes).len();
        (bytes, length)
    });
    bytes[length - 1]
}

/// Returns whether a byte of UTF-8 is read unchanged in any context.
#[inline]
pub(crate) fn is_plain(byte: u8) -> bool {
    !matches!(byte, b'\n' | b'\r' | 0xE2 | 0xF0..)
}

fn private(surrogate: u32) -> char {
    char::from_u32(surrogate + SURROGATE_SHIFT).expect("the shifted code is below the end of plane 16")
}

/// Returns the expression that reads one code unit of the set.
pub(crate) fn unit(set: &CodeSet) -> Hir {
    let mut choices = vec![without_line_ends(&set.between(0, MAX_UNIT))];
    choices.extend(line_ends_of(set));
    one_of(choices)
}

/// Returns the expression that reads one code point of the set. Well-formed text has no lone surrogates.
pub(crate) fn point(set: &CodeSet) -> Hir {
    let surrogates = CodeSet::new([SURROGATES]);
    let mut choices = vec![without_line_ends(&set.between(0, MAX_UNIT).difference(&surrogates))];
    choices.extend(line_ends_of(set));
    choices.extend(pairs(set));
    one_of(choices)
}

/// Returns the alternation of several expressions. Expressions that match nothing are removed, because they hide the minimum
/// length.
fn one_of(mut choices: Vec<Hir>) -> Hir {
    let nothing = Hir::fail();
    choices.retain(|choice| *choice != nothing);
    Hir::alternation(choices)
}

/// Returns the expression for members of the BMP, including surrogates.
fn without_line_ends(set: &CodeSet) -> Hir {
    let surrogates = CodeSet::new([SURROGATES]);
    let set = set.difference(&line_ends());
    let mut class = case::to_class(&set.difference(&surrogates));
    let shifted = set.intersection(&surrogates);
    let shifted = shifted.ranges().iter().map(|&(start, end)| (start + SURROGATE_SHIFT, end + SURROGATE_SHIFT));
    class.union(&case::to_class(&CodeSet::new(shifted)));
    Hir::class(Class::Unicode(class))
}

fn line_ends_of(set: &CodeSet) -> impl Iterator<Item = Hir> {
    LINE_ENDS.iter().filter(|(end, _)| set.contains(*end)).map(|(_, written)| Hir::literal(written.to_vec()))
}

/// Returns the expressions for members beyond the BMP: lead surrogates with the trail surrogates that may follow them.
fn pairs(set: &CodeSet) -> Vec<Hir> {
    let mut trails_of_lead: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    let mut whole: Vec<(u32, u32)> = Vec::new();
    for &(start, end) in set.ranges().iter().filter(|&&(_, end)| end > MAX_UNIT) {
        let start = start.max(MAX_UNIT + 1);
        let split = |code: u32| (LEADS.0 + ((code - 0x1_0000) >> 10), TRAILS.0 + ((code - 0x1_0000) & 0x3FF));
        let ((first, first_trail), (last, last_trail)) = (split(start), split(end));
        if first == last {
            trails_of_lead.entry(first).or_default().push((first_trail, last_trail));
            continue;
        }
        let mut full = (first, last);
        if first_trail > TRAILS.0 {
            trails_of_lead.entry(first).or_default().push((first_trail, TRAILS.1));
            full.0 += 1;
        }
        if last_trail < TRAILS.1 {
            trails_of_lead.entry(last).or_default().push((TRAILS.0, last_trail));
            full.1 -= 1;
        }
        if full.0 <= full.1 {
            whole.push(full);
        }
    }
    let mut leads_of_trails: BTreeMap<CodeSet, Vec<(u32, u32)>> = BTreeMap::new();
    for (lead, trails) in trails_of_lead {
        leads_of_trails.entry(CodeSet::new(trails)).or_default().push((lead, lead));
    }
    if !whole.is_empty() {
        leads_of_trails.entry(CodeSet::new([TRAILS])).or_default().extend(whole);
    }
    let pair = |(trails, leads): (CodeSet, Vec<(u32, u32)>)| {
        Hir::concat(vec![without_line_ends(&CodeSet::new(leads)), without_line_ends(&trails)])
    };
    leads_of_trails.into_iter().map(pair).collect()
}

/// Calls `on_byte` with each byte that is read for the piece, until it returns `false`. The second argument is the offset at
/// which a match ends that ended before this byte; inside a surrogate pair, it is the end of the character.
#[inline]
pub(crate) fn read(piece: &str, mut on_byte: impl FnMut(u8, usize) -> bool) {
    let bytes = piece.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if !is_plain(byte) {
            let character = piece[at..].chars().next().expect("`at` is a character boundary");
            if let Some((written, length)) = special(character) {
                let end = at + character.len_utf8();
                for (number, &byte) in written[..length].iter().enumerate() {
                    if !on_byte(byte, if number == 0 { at } else { end }) {
                        return;
                    }
                }
                at = end;
                continue;
            }
        }
        if !on_byte(byte, at) {
            return;
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_bytes(piece: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        read(piece, |byte, _| {
            bytes.push(byte);
            true
        });
        bytes
    }

    #[test]
    fn plain_text_is_read_unchanged() {
        for text in ["", "plain", "grüße", "日本 \u{2027}\u{202A}…", "\u{E000}\u{FFFF}"] {
            assert_eq!(read_bytes(text), text.as_bytes());
        }
    }

    #[test]
    fn ends_of_lines_begin_and_end_with_a_line_feed() {
        assert_eq!(read_bytes("a\r\u{2028}"), b"a\n\xF9\n\n\xFA\n");
    }

    #[test]
    fn a_character_beyond_the_bmp_is_two() {
        assert_eq!(read_bytes("😀"), "\u{10F83D}\u{10FE00}".as_bytes());
    }
}
