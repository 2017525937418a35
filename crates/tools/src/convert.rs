//! Converts values of the wrong type to the type of their schema, like typebox's `Value.Convert`.
//!
//! pi calls `Value.Convert` only for the arguments of a tool whose schema was made with typebox, not for a plain JSON Schema.
//! Types are inferred from the JSON form of the schema.
//!
//! ```text
//! "x"           as a list     ["x"]
//! "TRUE", 1     as a boolean  true
//! "0x10", true  as a number   16, 1
//! 5.7           as an integer 5
//! ```

use super::validate::matches_schema;
use serde_json::{Map, Value};

/// Converts a value to its schema's type. A value that cannot be converted is returned unchanged.
pub(super) fn convert(schema: &Value, value: Value) -> Value {
    if let Some(options) = schema.get("anyOf").and_then(Value::as_array) {
        return to_one(schema, options, value);
    }
    if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
        return parts.iter().fold(value, |value, part| convert(part, value));
    }
    if let Some(constant) = schema.get("const") {
        let like = match constant {
            Value::String(_) => text(&value),
            Value::Number(_) => number(&value),
            Value::Bool(_) => boolean(&value),
            _ => None,
        };
        return like.filter(|like| is_same(like, constant)).unwrap_or(value);
    }
    let converted = match schema.get("type").and_then(Value::as_str) {
        Some("array") => return list(schema, value),
        Some("object") => return members(schema, value),
        Some("boolean") => boolean(&value),
        Some("integer") => number(&value).and_then(|number| whole(number.as_f64()?.trunc())),
        Some("number") => number(&value),
        Some("null") => is_nothing(&value).then_some(Value::Null),
        Some("string") => text(&value),
        _ => None,
    };
    converted.unwrap_or(value)
}

/// Converts to a list. A schema with a single item type also accepts a single value; a tuple accepts only lists.
fn list(schema: &Value, value: Value) -> Value {
    match (schema.get("items"), value) {
        (Some(Value::Array(kinds)), Value::Array(items)) => {
            let item = |(at, item)| match kinds.get(at) {
                Some(kind) => convert(kind, item),
                None => item,
            };
            items.into_iter().enumerate().map(item).collect()
        }
        (Some(Value::Array(_)), other) => other,
        (Some(kind), Value::Array(items)) => items.into_iter().map(|item| convert(kind, item)).collect(),
        (Some(kind), other) => Value::Array(vec![convert(kind, other)]),
        (None, other) => other,
    }
}

fn members(schema: &Value, value: Value) -> Value {
    let Value::Object(given) = value else { return value };
    let named = schema.get("properties");
    // A record type has a single pattern, which applies to all of its members.
    let patterns = schema.get("patternProperties").and_then(Value::as_object);
    let patterned = patterns.and_then(|patterns| patterns.values().next());
    // typebox consults `additionalProperties` only for schemas that name other members.
    let has_names = patterned.is_some() || named.and_then(Value::as_object).is_some_and(|named| !named.is_empty());
    let further = schema.get("additionalProperties").filter(|further| further.is_object() && has_names);
    let member = |(key, value)| {
        let kind = named.and_then(|named| named.get(&key)).or(patterned).or(further);
        let value = match kind {
            Some(kind) => convert(kind, value),
            None => value,
        };
        (key, value)
    };
    Value::Object(given.into_iter().map(member).collect::<Map<String, Value>>())
}

fn to_one(schema: &Value, options: &[Value], value: Value) -> Value {
    if options.iter().any(|option| matches_schema(option, &value)) {
        return value;
    }
    let mut candidates = options.iter().map(|option| convert(option, value.clone()));
    candidates.find(|candidate| matches_schema(schema, candidate)).unwrap_or(value)
}

fn boolean(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(_) => Some(value.clone()),
        Value::Null => Some(Value::Bool(false)),
        Value::Number(number) => match number.as_f64() {
            Some(1.0) => Some(Value::Bool(true)),
            Some(0.0) => Some(Value::Bool(false)),
            _ => None,
        },
        Value::String(text) => match text.to_lowercase().as_str() {
            "true" | "1" => Some(Value::Bool(true)),
            "false" | "0" => Some(Value::Bool(false)),
            _ => None,
        },
        _ => None,
    }
}

fn number(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::Bool(value) => Some(Value::from(u8::from(*value))),
        Value::Null => Some(Value::from(0)),
        Value::String(text) => match text.to_lowercase().as_str() {
            "true" => Some(Value::from(1)),
            "false" => Some(Value::from(0)),
            _ => whole(read(text.trim())?),
        },
        _ => None,
    }
}

/// Parses a text as JavaScript's `Number` does; `None` for anything but a finite number.
fn read(text: &str) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let radix = match text.get(..2).map(str::to_lowercase).as_deref() {
        Some("0x") => 16,
        Some("0o") => 8,
        Some("0b") => 2,
        // Rust parses `inf` and `nan`, which JavaScript does not.
        _ if text.chars().any(|character| character.is_alphabetic() && !"eE".contains(character)) => return None,
        _ => return text.parse().ok().filter(|number: &f64| number.is_finite()),
    };
    let digits = text.get(2..)?;
    if digits.starts_with(['+', '-']) {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "JavaScript's numbers are of this kind")]
    u128::from_str_radix(digits, radix).ok().map(|number| number as f64)
}

/// Returns a JSON number; an integer if it has no fraction.
fn whole(number: f64) -> Option<Value> {
    if number.fract() == 0.0 && number.abs() <= MAX_SAFE {
        return Some(Value::from(number as i64));
    }
    serde_json::Number::from_f64(number).map(Value::Number)
}

/// `Number.MAX_SAFE_INTEGER` of JavaScript: 2^53 - 1.
const MAX_SAFE: f64 = 9_007_199_254_740_991.0;

fn text(value: &Value) -> Option<Value> {
    match value {
        Value::String(_) => Some(value.clone()),
        Value::Number(number) => Some(Value::String(number.to_string())),
        Value::Bool(value) => Some(Value::String(value.to_string())),
        Value::Null => Some(Value::String("null".to_owned())),
        _ => None,
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => ["undefined", "null", "", "0"].contains(&text.to_lowercase().as_str()),
        _ => false,
    }
}

/// Compares two values; numbers by value, not by notation (`1` equals `1.0`).
fn is_same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}
