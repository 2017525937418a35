//! Parses the arguments of a tool call from incomplete JSON text.
//!
//! Follows pi's rules (`parseStreamingJson` of pi-ai 0.87.1): control characters and unknown escapes in strings are accepted; of
//! truncated text, everything before the end is used, including an incomplete string or a word such as `tr`.

use serde_json::{Map, Value};
use std::borrow::Cow;

/// Maximum nesting, as in `serde_json`.
const MAX_DEPTH: usize = 128;

/// Parses a complete text.
///
/// # Errors
///
/// Fails when the text is not JSON even after its strings were repaired.
pub fn whole(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| match mended(text) {
        Cow::Owned(mended) => serde_json::from_str(&mended),
        Cow::Borrowed(_) => Err(error),
    })
}

/// Parses a text as far as it is complete; returns `{}` if it has no value yet.
pub fn so_far(text: &str) -> Value {
    let text = text.trim();
    whole(text)
        .ok()
        .or_else(|| TruncatedParser { text, at: 0 }.value(0))
        .or_else(|| TruncatedParser { text: &mended(text), at: 0 }.value(0))
        .filter(|value| !value.is_null())
        .unwrap_or_else(|| Value::Object(Map::new()))
}

/// Escapes characters that are invalid in strings.
fn mended(text: &str) -> Cow<'_, str> {
    let mut mended = String::new();
    let mut in_string = false;
    let mut kept = 0;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => in_string = !in_string,
            '\\' if in_string => {
                if text[at + 1..].starts_with(['"', '\\', '/', 'b', 'f', 'n', 'r', 't', 'u']) {
                    characters.next();
                    continue;
                }
                mended.push_str(&text[kept..at]);
                mended.push_str("\\\\");
                kept = at + 1;
            }
            '\0'..='\u{1f}' if in_string => {
                mended.push_str(&text[kept..at]);
                mended.push_str(&format!("\\u{:04x}", u32::from(character)));
                kept = at + 1;
            }
            _ => {}
        }
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    mended.push_str(&text[kept..]);
    Cow::Owned(mended)
}

/// A parser of truncated text. Its methods return `None` for an unreadable value, which the enclosing value omits.
struct TruncatedParser<'a> {
    text: &'a str,
    at: usize,
}

impl TruncatedParser<'_> {
    fn value(&mut self, depth: usize) -> Option<Value> {
        self.skip_blank();
        match self.byte()? {
            b'"' => self.string().map(Value::String),
            b'{' if depth < MAX_DEPTH => Some(self.object(depth)),
            b'[' if depth < MAX_DEPTH => Some(self.list(depth)),
            _ => self.word().or_else(|| self.number()),
        }
    }

    fn object(&mut self, depth: usize) -> Value {
        let mut members = Map::new();
        self.at += 1;
        self.skip_blank();
        while self.byte().is_some_and(|byte| byte != b'}') {
            self.skip_blank();
            let Some(key) = self.string() else { break };
            self.skip_blank();
            // Skips the colon.
            self.step();
            let Some(value) = self.value(depth + 1) else { break };
            members.insert(key, value);
            self.end_of_item();
        }
        if self.byte() == Some(b'}') {
            self.at += 1;
        }
        Value::Object(members)
    }

    fn list(&mut self, depth: usize) -> Value {
        let mut items = Vec::new();
        self.at += 1;
        while self.byte() != Some(b']') {
            let Some(item) = self.value(depth + 1) else { return Value::Array(items) };
            items.push(item);
            self.end_of_item();
        }
        self.at += 1;
        Value::Array(items)
    }

    fn end_of_item(&mut self) {
        self.skip_blank();
        if self.byte() == Some(b',') {
            self.at += 1;
        }
    }

    /// Parses a string; a truncated one ends before its incomplete escape.
    fn string(&mut self) -> Option<String> {
        let rest = &self.text[self.at..];
        let inside = rest.strip_prefix('"')?;
        let mut is_escaped = false;
        for (at, byte) in inside.bytes().enumerate() {
            if byte == b'"' && !is_escaped {
                self.at += at + 2;
                return serde_json::from_str(&rest[..at + 2]).ok();
            }
            is_escaped = byte == b'\\' && !is_escaped;
        }
        self.at = self.text.len();
        let end = rest.len() - usize::from(is_escaped);
        let close = |end: usize| serde_json::from_str(&format!("{}\"", &rest[..end])).ok();
        close(end).or_else(|| close(rest.rfind('\\')?))
    }

    /// Parses `true`, `false`, `null`, or a prefix of one of them at the end.
    fn word(&mut self) -> Option<Value> {
        let rest = &self.text[self.at..];
        let words = [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))];
        let (word, value) = words.into_iter().find(|(word, _)| rest.starts_with(word) || word.starts_with(rest))?;
        self.at = self.text.len().min(self.at + word.len());
        Some(value)
    }

    /// Parses a number; a number that is truncated in its exponent loses the exponent.
    fn number(&mut self) -> Option<Value> {
        let rest = &self.text[self.at..];
        let length = rest.find([',', ']', '}']).unwrap_or(rest.len());
        self.at += length;
        let read = |text: &str| serde_json::from_str::<serde_json::Number>(text.trim()).ok();
        read(&rest[..length]).or_else(|| read(&rest[..rest.rfind('e')?])).map(Value::Number)
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips one character.
    fn step(&mut self) {
        self.at += self.text[self.at..].chars().next().map_or(0, char::len_utf8);
    }

    fn skip_blank(&mut self) {
        while self.byte().is_some_and(|byte| b" \n\r\t".contains(&byte)) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of pi 0.87.1, written by `capture.mjs` next to the file.
    const EXPECTED: &str = include_str!("../../../fixtures/streaming-json/expected.jsonl");

    #[test]
    fn every_prefix_parses_as_in_pi() {
        for line in EXPECTED.lines() {
            let (text, expected): (String, Value) = serde_json::from_str(line).unwrap();
            assert!(is_same(&so_far(&text), &expected), "{text}: {}", so_far(&text));
        }
    }

    /// Compares values; JavaScript has a single type of number.
    fn is_same(one: &Value, other: &Value) -> bool {
        match (one, other) {
            (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
            (Value::Array(one), Value::Array(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
            }
            (Value::Object(one), Value::Object(other)) => {
                one.len() == other.len()
                    && one.iter().zip(other).all(|((a, one), (b, other))| a == b && is_same(one, other))
            }
            _ => one == other,
        }
    }

    #[test]
    fn nesting_is_parsed_to_a_limit() {
        assert_eq!(so_far(&"[".repeat(100_000)).to_string().len(), 2 * MAX_DEPTH);
    }

    #[test]
    fn truncated_text_is_not_complete() {
        for (cut, _) in r#"{"a":"x"}"#.char_indices() {
            assert!(whole(&r#"{"a":"x"}"#[..cut]).is_err(), "cut at {cut}");
        }
    }
}
