//! Joins surrogate pairs that a server splits between two deltas.
//!
//! One delta ends with `"\ud83d"`, the next begins with `"\ude00"`. [`Wtf8`] deserialises such JSON strings; a [`Joiner`] for
//! each text keeps a trailing high surrogate until the next piece. The output is always well formed: a lone surrogate becomes
//! U+FFFD.

use serde::de::{Deserialize, Deserializer, Visitor};
use std::fmt;

/// A JSON string that may contain lone surrogates, in WTF-8.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wtf8(Vec<u8>);

impl Wtf8 {
    /// Returns whether the string is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for Wtf8 {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl<'de> Deserialize<'de> for Wtf8 {
    /// Requests bytes, for which serde_json accepts lone surrogates.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Wtf8;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E>(self, text: &str) -> Result<Wtf8, E> {
                Ok(text.into())
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Wtf8, E> {
                Ok(Wtf8(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// Joins the pieces of one text.
#[derive(Debug, Default)]
pub struct Joiner {
    /// Upper ten bits of a high surrogate at the end of the last piece.
    high: Option<u32>,
}

impl Joiner {
    /// Returns the text that is complete after this piece; may be empty.
    pub fn push(&mut self, piece: &Wtf8) -> String {
        let mut out = String::with_capacity(piece.0.len() + 3);
        let mut rest = piece.0.as_slice();
        while !rest.is_empty() {
            let valid = match std::str::from_utf8(rest) {
                Ok(text) => text,
                Err(error) => {
                    std::str::from_utf8(&rest[..error.valid_up_to()]).expect("valid up to the position of the error")
                }
            };
            if !valid.is_empty() {
                self.flush_into(&mut out);
                out.push_str(valid);
                rest = &rest[valid.len()..];
                continue;
            }
            match surrogate(rest) {
                Some(high @ 0xD800..=0xDBFF) => {
                    self.flush_into(&mut out);
                    self.high = Some(high);
                    rest = &rest[3..];
                }
                Some(low) => {
                    let joined = self
                        .high
                        .take()
                        .and_then(|high| char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)));
                    out.push(joined.unwrap_or(char::REPLACEMENT_CHARACTER));
                    rest = &rest[3..];
                }
                None => {
                    self.flush_into(&mut out);
                    out.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[1..];
                }
            }
        }
        out
    }

    /// Ends the text: a pending surrogate becomes U+FFFD.
    pub fn finish(&mut self) -> Option<String> {
        self.high.take().map(|_| char::REPLACEMENT_CHARACTER.to_string())
    }

    fn flush_into(&mut self, out: &mut String) {
        if self.high.take().is_some() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Returns the surrogate at the start of these bytes.
fn surrogate(bytes: &[u8]) -> Option<u32> {
    match bytes {
        [0xED, second @ 0xA0..=0xBF, third @ 0x80..=0xBF, ..] => {
            Some(0xD000 | (u32::from(second & 0x3F) << 6) | u32::from(third & 0x3F))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(pieces: &[&str]) -> Vec<String> {
        let mut joiner = Joiner::default();
        let mut out: Vec<String> =
            pieces.iter().map(|json| joiner.push(&serde_json::from_str(json).unwrap())).collect();
        out.extend(joiner.finish());
        out
    }

    #[test]
    fn surrogates_in_two_deltas_are_joined() {
        assert_eq!(join(&[r#""a\ud83d""#, r#""\ude00b""#]), ["a", "😀b"]);
        assert_eq!(join(&[r#""\ud83d""#, r#""""#, r#""\ude00""#]), ["", "", "😀"]);
    }

    #[test]
    fn a_whole_pair_passes_unchanged() {
        assert_eq!(join(&[r#""\ud83d\ude00""#, r#""é😀""#]), ["😀", "é😀"]);
    }

    #[test]
    fn a_lone_surrogate_becomes_the_replacement_character() {
        assert_eq!(join(&[r#""a\ud83d""#]), ["a", "\u{fffd}"]);
        assert_eq!(join(&[r#""\ud83d""#, r#""x""#]), ["", "\u{fffd}x"]);
        assert_eq!(join(&[r#""\ude00x""#]), ["\u{fffd}x"]);
        assert_eq!(join(&[r#""\ud83d\ud83d\ude00""#]), ["\u{fffd}😀"]);
    }

    proptest::proptest! {
        /// Checks that splitting a text between any UTF-16 units does not change the output.
        #[test]
        fn every_cut_gives_the_same_text(text in "[a-z😀é𝄞\u{fffd}]{0,20}", cuts in proptest::collection::vec(0usize..45, 0..6)) {
            let units: Vec<u16> = text.encode_utf16().collect();
            let mut bounds: Vec<usize> = cuts.into_iter().map(|cut| cut.min(units.len())).collect();
            bounds.extend([0, units.len()]);
            bounds.sort_unstable();
            let pieces: Vec<String> = bounds
                .windows(2)
                .map(|range| units[range[0]..range[1]].iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>())
                .map(|escaped| format!("\"{escaped}\""))
                .collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            proptest::prop_assert_eq!(join(&pieces).concat(), text);
        }
    }
}
