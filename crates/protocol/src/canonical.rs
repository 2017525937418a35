//! Writes the canonical form of a call, over which `params_hash` is computed: the RFC 8785 JSON of `{"method", "params"}`.
//!
//! Attachments are written as `{"$sha256": HEX, "len": n}` in place of `{"$bytes": i}`, so the hash covers their content. Members
//! are sorted by UTF-16 units, and numbers are written as ECMAScript writes doubles; integers beyond 2^53 are rounded to a
//! double.

use crate::hostcall::bytes_index;
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};
use std::io::Write;

/// Largest integer that a double represents exactly.
const MAX_EXACT: u64 = 1 << 53;

/// Returns the bytes whose sha256 is the `params_hash` of a call.
pub fn canonical_call(method: &str, params: &Map<String, Value>, attachments: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    write_call(method, params, attachments, &mut out);
    out
}

/// Appends the canonical form of a call.
pub fn write_call(method: &str, params: &Map<String, Value>, attachments: &[Vec<u8>], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"method\":");
    string(method, out);
    out.extend_from_slice(b",\"params\":");
    object(params, attachments, out);
    out.push(b'}');
}

fn value(value: &Value, attachments: &[Vec<u8>], out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(n) => number(n, out),
        Value::String(text) => string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                self::value(item, attachments, out);
            }
            out.push(b']');
        }
        Value::Object(members) => match bytes_index(value).and_then(|index| attachments.get(index)) {
            Some(bytes) => {
                out.extend_from_slice(b"{\"$sha256\":\"");
                out.extend_from_slice(hex::encode(Sha256::digest(bytes)).as_bytes());
                out.extend_from_slice(b"\",\"len\":");
                out.extend_from_slice(bytes.len().to_string().as_bytes());
                out.push(b'}');
            }
            None => object(members, attachments, out),
        },
    }
}

fn object(members: &Map<String, Value>, attachments: &[Vec<u8>], out: &mut Vec<u8>) {
    /// Number of members that are sorted without an allocation; most objects have fewer.
    const INLINE_MEMBERS: usize = 8;
    let (mut few, mut many) = ([None; INLINE_MEMBERS], Vec::new());
    let sorted = match few.get_mut(..members.len()) {
        Some(few) => few,
        None => {
            many.resize(members.len(), None);
            many.as_mut_slice()
        }
    };
    for (slot, (key, member)) in sorted.iter_mut().zip(members) {
        *slot = Some((key.as_str(), member));
    }
    if members.keys().all(|key| key.is_ascii()) {
        sorted.sort_unstable_by(|a, b| name(a).as_bytes().cmp(name(b).as_bytes()));
    } else {
        sorted.sort_unstable_by(|a, b| name(a).encode_utf16().cmp(name(b).encode_utf16()));
    }
    out.push(b'{');
    for (at, (key, member)) in sorted.iter().flatten().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        string(key, out);
        out.push(b':');
        value(member, attachments, out);
    }
    out.push(b'}');
}

/// Returns the sort key of a member.
fn name<'a>(member: &Option<(&'a str, &Value)>) -> &'a str {
    member.map_or("", |(key, _)| key)
}

fn number(n: &Number, out: &mut Vec<u8>) {
    match n.as_i64() {
        Some(integer) if integer.unsigned_abs() <= MAX_EXACT => {
            // Writing to a Vec does not fail.
            let _ = write!(out, "{integer}");
        }
        _ => {
            let double = Number::from_f64(n.as_f64().unwrap_or_default()).unwrap_or_else(|| Number::from(0));
            match serde_json_canonicalizer::to_vec(&double) {
                Ok(text) => out.extend_from_slice(&text),
                Err(error) => unreachable!("a finite double has a canonical form: {error}"),
            }
        }
    }
}

/// Appends a JSON string. As in RFC 8785, only the characters that JSON requires are escaped; serde_json does the same.
pub fn string(text: &str, out: &mut Vec<u8>) {
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else if let Err(error) = serde_json::to_writer(&mut *out, text) {
        unreachable!("writing a string to memory does not fail: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn canonical(params: &Value) -> String {
        let mut out = Vec::new();
        write_call("m", params.as_object().unwrap(), &[b"abc".to_vec()], &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn equal_values_have_one_form() {
        let a: Value = serde_json::from_str(r#"{"b": 1.0, "a": [-0, 1e2, "\u00e9"]}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"a": [0, 100, "é"], "b": 1}"#).unwrap();
        assert_eq!(canonical(&a), canonical(&b));
        assert_eq!(canonical(&b), r#"{"method":"m","params":{"a":[0,100,"é"],"b":1}}"#);
    }

    #[test]
    fn attachments_enter_by_digest_and_length() {
        let form = canonical(&json!({"data": {"$bytes": 0}, "other": {"$bytes": 7}}));
        assert_eq!(
            form,
            r#"{"method":"m","params":{"data":{"$sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","len":3},"other":{"$bytes":7}}}"#
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_filter_map("finite", |f| Number::from_f64(f).map(Value::Number)),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..12)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_form_matches_a_reference_library(params in prop::collection::vec((any::<String>(), any_json()), 0..12)) {
            let params: Map<String, Value> = params.into_iter().collect();
            let mut ours = Vec::new();
            write_call("tool", &params, &[], &mut ours);
            let theirs = serde_json_canonicalizer::to_vec(&json!({"method": "tool", "params": params})).unwrap();
            prop_assert_eq!(String::from_utf8(ours).unwrap(), String::from_utf8(theirs).unwrap());
        }
    }
}
