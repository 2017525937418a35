//! Unescapes text and tracks the position of each byte.
//!
//! A secret in a URL or in JSON has too many spellings to list (`%2F` or `%2f`, only some characters escaped, JSON inside JSON),
//! so the text is unescaped instead.

use aho_corasick::AhoCorasick;
use std::ops::Range;

/// Number of levels of nested escapes that are undone.
const LEVELS: usize = 2;

/// Returns the ranges of `text` that contain one of `words`, possibly with escapes, in order and disjoint.
pub(crate) fn places(text: &str, words: &AhoCorasick) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // Text is never that long; if it is, all of it is redacted.
    let Ok(end) = u32::try_from(text.len()) else {
        found.push(0..text.len());
        return found;
    };
    let plain = Unescaped { bytes: text.as_bytes().to_vec(), ends: (1..=end).collect() };
    plain.search(words, LEVELS, &mut found);
    found.sort_by_key(|place| (place.start, place.end));
    let mut apart: Vec<Range<usize>> = Vec::new();
    for place in found {
        match apart.last_mut().filter(|last| place.start < last.end) {
            Some(last) => last.end = last.end.max(place.end),
            None => apart.push(place),
        }
    }
    apart
}

/// Returns whether text may contain an escape.
pub(crate) fn is_escaped(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b'%' | b'\\'))
}

struct Unescaped {
    bytes: Vec<u8>,
    /// End of each byte's spelling in the text; the spelling begins at the end of the previous one.
    ends: Vec<u32>,
}

/// Parses an escape at the start of bytes. Returns its value and its length.
type Read = fn(&[u8]) -> Option<(Unescape, usize)>;

/// The value of an escape: one byte, or a character in UTF-8.
struct Unescape {
    bytes: [u8; 4],
    length: usize,
}

impl Unescape {
    fn byte(byte: u8) -> Self {
        Self { bytes: [byte, 0, 0, 0], length: 1 }
    }

    fn character(code: u32) -> Option<Self> {
        let mut bytes = [0; 4];
        let length = char::from_u32(code)?.encode_utf8(&mut bytes).len();
        Some(Self { bytes, length })
    }
}

impl Unescaped {
    fn search(&self, words: &AhoCorasick, levels: usize, found: &mut Vec<Range<usize>>) {
        for (mark, read) in [(b'%', percent as Read), (b'\\', backslash as Read)] {
            if levels == 0 || !self.bytes.contains(&mark) {
                continue;
            }
            let unescape = self.unescape(mark, read);
            found.extend(words.find_iter(&unescape.bytes).map(|word| unescape.place(word.start(), word.end())));
            unescape.search(words, levels - 1, found);
        }
    }

    fn place(&self, start: usize, end: usize) -> Range<usize> {
        let start = if start == 0 { 0 } else { self.ends[start - 1] as usize };
        start..self.ends[end - 1] as usize
    }

    fn unescape(&self, mark: u8, read: Read) -> Self {
        let (mut bytes, mut ends) = (Vec::with_capacity(self.bytes.len()), Vec::with_capacity(self.ends.len()));
        let mut at = 0;
        while at < self.bytes.len() {
            let escape = if self.bytes[at] == mark { read(&self.bytes[at..]) } else { None };
            let (meant, length) = escape.unwrap_or_else(|| (Unescape::byte(self.bytes[at]), 1));
            at += length;
            // All bytes of a character end with its escape, so that no partial character remains.
            ends.resize(ends.len() + meant.length, self.ends[at - 1]);
            bytes.extend_from_slice(&meant.bytes[..meant.length]);
        }
        Self { bytes, ends }
    }
}

/// Parses `%2F`.
fn percent(bytes: &[u8]) -> Option<(Unescape, usize)> {
    let value = u8::try_from(number(bytes.get(1..3)?)?).ok()?;
    Some((Unescape::byte(value), 3))
}

/// Parses `\n`, `\"`, `\u00f6`, `\ud83d\ude00`, `\x41`, `\u{f6}`: JSON, JavaScript, Rust.
fn backslash(bytes: &[u8]) -> Option<(Unescape, usize)> {
    let unit =
        |at: usize| (bytes.get(at..at + 2)? == b"\\u").then(|| bytes.get(at + 2..at + 6)).flatten().and_then(number);
    let plain = match *bytes.get(1)? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        b'0' => 0,
        b'x' => return Some((Unescape::character(number(bytes.get(2..4)?)?)?, 4)),
        b'u' if bytes.get(2) == Some(&b'{') => {
            let length = bytes[3..].iter().take(7).position(|byte| *byte == b'}')?;
            return Some((Unescape::character(number(&bytes[3..3 + length])?)?, length + 4));
        }
        b'u' => {
            return match (unit(0)?, unit(6)) {
                (high @ 0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
                    Some((Unescape::character(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))?, 12))
                }
                (code, _) => Some((Unescape::character(code)?, 6)),
            };
        }
        other @ (b'"' | b'\'' | b'\\' | b'/' | b'`') => other,
        _ => return None,
    };
    Some((Unescape::byte(plain), 2))
}

fn number(digits: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u32::from_str_radix(text, 16).ok()
}
