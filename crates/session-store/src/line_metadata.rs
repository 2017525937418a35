//! Parses the index metadata of a line without building the values in the line.
//!
//! The parser accepts exactly the lines that serde_json and [`Entry::from_value`](super::Entry::from_value) accept, because the
//! entries of a session must not depend on whether it is long enough to be indexed.

use super::index::{CompactId, EntryKind};
use serde::Deserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Metadata of an entry line.
#[derive(Debug, PartialEq)]
pub(super) struct LineMetadata {
    pub(super) name: CompactId,
    pub(super) parent: Option<CompactId>,
    pub(super) kind: EntryKind,
    /// Whether the entry describes another entry or the session, so that it must be parsed in full.
    pub(super) describes_others: bool,
}

/// Parses a line. Fails for invalid JSON; returns `None` if the JSON is not an entry.
pub(super) fn line_metadata(line: &[u8]) -> Result<Option<LineMetadata>, serde_json::Error> {
    let mut text = serde_json::Deserializer::from_slice(line);
    let shape = Extract::Entry.deserialize(&mut text)?;
    text.end()?;
    Ok(match shape {
        LineShape::Members(members) => members.entry(),
        _ => None,
    })
}

/// Selects the part of a value that is extracted. Ignored values are still validated like in serde_json: numbers must be in range
/// and surrogates paired.
#[derive(Clone, Copy)]
enum Extract {
    Nothing,
    Text,
    Entry,
}

enum LineShape {
    Null,
    Text(String),
    Members(Box<Members>),
    Other,
}

/// The relevant members of an entry. If a name is repeated, the last member is used.
#[derive(Default)]
struct Members {
    kind: Option<LineShape>,
    id: Option<LineShape>,
    parent: Option<LineShape>,
    timestamp: Option<LineShape>,
}

impl Members {
    fn entry(self) -> Option<LineMetadata> {
        let (Some(LineShape::Text(kind)), Some(LineShape::Text(id)), Some(LineShape::Text(_))) =
            (self.kind, self.id, self.timestamp)
        else {
            return None;
        };
        let parent = match self.parent {
            None | Some(LineShape::Null) => None,
            Some(LineShape::Text(parent)) => Some(CompactId::of(&parent)),
            Some(_) => return None,
        };
        let describes_others = matches!(kind.as_str(), "label" | "session_info");
        Some(LineMetadata { name: CompactId::of(&id), parent, kind: EntryKind::named(&kind), describes_others })
    }
}

impl<'de> DeserializeSeed<'de> for Extract {
    type Value = LineShape;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<LineShape, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Extract {
    type Value = LineShape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<LineShape, E> {
        Ok(LineShape::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<LineShape, E> {
        Ok(LineShape::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<LineShape, E> {
        Ok(LineShape::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<LineShape, E> {
        Ok(LineShape::Other)
    }

    fn visit_unit<E>(self) -> Result<LineShape, E> {
        Ok(LineShape::Null)
    }

    fn visit_str<E>(self, text: &str) -> Result<LineShape, E> {
        Ok(if matches!(self, Self::Text) { LineShape::Text(text.to_owned()) } else { LineShape::Other })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<LineShape, A::Error> {
        while items.next_element_seed(Self::Nothing)?.is_some() {}
        Ok(LineShape::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<LineShape, A::Error> {
        if !matches!(self, Self::Entry) {
            while members.next_key_seed(Self::Nothing)?.is_some() {
                members.next_value_seed(Self::Nothing)?;
            }
            return Ok(LineShape::Other);
        }
        let mut found = Box::<Members>::default();
        while let Some(key) = members.next_key_seed(Self::Text)? {
            let LineShape::Text(key) = key else { continue };
            let member = match key.as_str() {
                "type" => &mut found.kind,
                "id" => &mut found.id,
                "parentId" => &mut found.parent,
                "timestamp" => &mut found.timestamp,
                _ => {
                    members.next_value_seed(Self::Nothing)?;
                    continue;
                }
            };
            *member = Some(members.next_value_seed(Self::Text)?);
        }
        Ok(LineShape::Members(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Entry;
    use proptest::prelude::*;
    use serde_json::Value;

    /// Parses the whole line, for comparison.
    fn whole(line: &[u8]) -> Result<Option<(String, Option<String>)>, ()> {
        let value: Value = serde_json::from_slice(line).map_err(|_| ())?;
        Ok(Entry::from_value(value).map(|entry| (entry.id.0, entry.parent.map(|parent| parent.0))))
    }

    fn outlined(line: &[u8]) -> Result<Option<(String, Option<String>)>, ()> {
        let found = line_metadata(line).map_err(|_| ())?;
        Ok(found.map(|found| (found.name.id().0, found.parent.map(|parent| parent.id().0))))
    }

    #[test]
    fn metadata_accepts_the_same_lines_as_a_full_parse() {
        let nested = format!(
            "{{\"type\":\"x\",\"id\":\"a\",\"timestamp\":\"t\",\"d\":{}1{}}}",
            "[".repeat(200),
            "]".repeat(200)
        );
        for line in [
            r#"{"type":"message","id":"01234567","parentId":null,"timestamp":"t","message":{"role":"user"}}"#,
            r#"{"type":"message","id":"01234567","parentId":"0123456z","timestamp":"t"} "#,
            r#"{"id":"a","timestamp":"t"}"#,
            r#"{"type":"x","id":"a"}"#,
            r#"{"type":"x","id":7,"timestamp":"t"}"#,
            r#"{"type":"x","id":"a","parentId":7,"timestamp":"t"}"#,
            r#"{"type":"x","id":"a","id":"b","parentId":1,"parentId":"c","timestamp":"t"}"#,
            r#"{"type":"x","id":"a","id":null,"timestamp":"t"}"#,
            r#"{"type":"x","\u0069d":"a","timestamp":"t"}"#,
            r#"{"type":"x","id":"a","timestamp":"t","n":1e999}"#,
            r#"{"type":"x","id":"a","timestamp":"t","s":"\ud800"}"#,
            r#"{"type":"x","id":"a","timestamp":"t","s":"\ud83d\ude00"}"#,
            r#"{"type":"x","id":"a","timestamp":"t"}}"#,
            r#"{"type":"x","id":"a","timestamp":"t""#,
            nested.as_str(),
            "[]",
            "7",
            "\"text\"",
            "null",
            "",
            "noise",
        ] {
            assert_eq!(outlined(line.as_bytes()), whole(line.as_bytes()), "{line}");
        }
        let bad = b"{\"type\":\"x\",\"id\":\"a\",\"timestamp\":\"t\",\"s\":\"\xff\"}";
        assert_eq!(outlined(bad), whole(bad));
    }

    proptest! {
        #[test]
        fn metadata_accepts_the_same_lines_as_a_full_parse_for_any_input(pieces in proptest::collection::vec(prop_oneof![
            Just("{"), Just("}"), Just("["), Just("]"), Just(","), Just(":"), Just("\"id\""), Just("\"type\""),
            Just("\"parentId\""), Just("\"timestamp\""), Just("\"a\""), Just("null"), Just("1"), Just("-0.5e400"),
            Just("\"type\":\"x\""), Just("\"id\":\"a\""), Just("\"timestamp\":\"t\""), Just("{\"type\":\"x\",\"id\":\"b\",\"timestamp\":\"t\""),
        ], 0..12)) {
            let line = pieces.concat();
            prop_assert_eq!(outlined(line.as_bytes()), whole(line.as_bytes()), "{}", line);
        }
    }
}
