//! Explains why a value does not match a JSON Schema, in the sentences and the order of pi's validator (typebox 1.x).
//!
//! `jsonschema` decides whether a value is valid; this module only produces the messages. It does not follow references.

use super::validate::matches_schema;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Maximum number of errors that typebox reports.
const MAX_MISMATCHES: usize = 8;

/// A message with its `/`-separated path.
struct Mismatch {
    path: String,
    words: String,
}

/// Returns an error `path: message` for each mismatch, in typebox's order.
pub(super) fn explain(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, value, "", &mut found);
    found.truncate(MAX_MISMATCHES);
    found.into_iter().map(|problem| format!("{}: {}", place(&problem.path), problem.words)).collect()
}

fn place(path: &str) -> String {
    let place = path.trim_start_matches('/').replace('/', ".");
    if place.is_empty() { "root".to_owned() } else { place }
}

/// Adds the mismatches of a value. Returns whether there are none.
fn check(schema: &Value, value: &Value, path: &str, found: &mut Vec<Mismatch>) -> bool {
    if let Some(all) = schema.as_bool() {
        if !all {
            found.push(Mismatch { path: path.to_owned(), words: "schema is false".to_owned() });
        }
        return all;
    }
    let Some(schema) = schema.as_object() else { return true };
    let before = found.len();
    if let Some(words) = schema.get("type").and_then(|kind| wrong_type(kind, value)) {
        found.push(Mismatch { path: path.to_owned(), words });
    }
    match value {
        Value::Object(members) => object(schema, members, path, found),
        Value::Array(items) => array(schema, items, path, found),
        Value::String(text) => string(schema, text, path, found),
        Value::Number(number) => self::number(schema, number.as_f64().unwrap_or(f64::NAN), path, found),
        Value::Null | Value::Bool(_) => {}
    }
    let mut say = |wrong: bool, words: &str| {
        if wrong {
            found.push(Mismatch { path: path.to_owned(), words: words.to_owned() });
        }
    };
    say(schema.get("const").is_some_and(|only| only != value), "must be equal to constant");
    let listed = schema.get("enum").and_then(Value::as_array);
    say(listed.is_some_and(|all| !all.contains(value)), "must be equal to one of the allowed values");
    say(schema.get("not").is_some_and(|not| matches_schema(not, value)), "must not be valid");
    for all in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        check(all, value, path, found);
    }
    for (keyword, words) in
        [("anyOf", "must match a schema in anyOf"), ("oneOf", "must match exactly one schema in oneOf")]
    {
        let Some(options) = schema.get(keyword).and_then(Value::as_array) else { continue };
        let mut failed = Vec::new();
        let fitting = options.iter().filter(|option| check(option, value, path, &mut failed)).count();
        if fitting == 0 {
            found.append(&mut failed);
        }
        if fitting == 0 || (keyword == "oneOf" && fitting > 1) {
            found.push(Mismatch { path: path.to_owned(), words: words.to_owned() });
        }
    }
    found.len() == before
}

fn wrong_type(kind: &Value, value: &Value) -> Option<String> {
    let is = |kind: &str| match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => true,
    };
    match kind {
        Value::String(kind) => (!is(kind)).then(|| format!("must be {kind}")),
        Value::Array(kinds) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            (!kinds.iter().any(|kind| is(kind))).then(|| format!("must be either {}", kinds.join(" or ")))
        }
        _ => None,
    }
}

fn object(schema: &Map<String, Value>, members: &Map<String, Value>, path: &str, found: &mut Vec<Mismatch>) {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let lacking: Vec<&str> = required.filter(|name| !members.contains_key(*name)).collect();
    if let Some(first) = lacking.first() {
        // pi reports this at the path of the first missing member.
        let words = format!("must have required properties {}", lacking.join(", "));
        found.push(Mismatch { path: format!("{path}/{first}"), words });
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let patterns = schema.get("patternProperties").and_then(Value::as_object);
    let matches = |pattern: &str, name: &str| {
        matches_schema(&serde_json::json!({"pattern": pattern}), &Value::String(name.to_owned()))
    };
    if let Some(further) = schema.get("additionalProperties") {
        let mut fits = true;
        for (name, value) in members {
            let known = properties.is_some_and(|properties| properties.contains_key(name))
                || patterns.is_some_and(|patterns| patterns.keys().any(|pattern| matches(pattern, name)));
            fits &= known || check(further, value, &format!("{path}/{name}"), found);
        }
        if !fits {
            found.push(Mismatch { path: path.to_owned(), words: "must not have additional properties".to_owned() });
        }
    }
    for (pattern, schema) in patterns.into_iter().flatten() {
        for (name, value) in members.iter().filter(|(name, _)| matches(pattern, name)) {
            check(schema, value, &format!("{path}/{name}"), found);
        }
    }
    for (name, schema) in properties.into_iter().flatten() {
        if let Some(value) = members.get(name) {
            check(schema, value, &format!("{path}/{name}"), found);
        }
    }
    bounds(schema, members.len(), ["minProperties", "maxProperties"], "properties", path, found);
}

fn array(schema: &Map<String, Value>, items: &[Value], path: &str, found: &mut Vec<Mismatch>) {
    let each = |schemas: &mut dyn Iterator<Item = &Value>, found: &mut Vec<Mismatch>| {
        for (at, (schema, item)) in schemas.zip(items).enumerate() {
            check(schema, item, &format!("{path}/{at}"), found);
        }
    };
    match schema.get("items") {
        Some(Value::Array(schemas)) => each(&mut schemas.iter(), found),
        Some(schema) => each(&mut std::iter::repeat(schema), found),
        None => {}
    }
    bounds(schema, items.len(), ["minItems", "maxItems"], "items", path, found);
    if let Some(schemas) = schema.get("prefixItems").and_then(Value::as_array) {
        each(&mut schemas.iter(), found);
    }
    let unique = schema.get("uniqueItems").and_then(Value::as_bool).unwrap_or(false);
    let mut seen = BTreeSet::new();
    if unique && items.iter().any(|item| !seen.insert(item.to_string())) {
        found.push(Mismatch { path: path.to_owned(), words: "must not have duplicate items".to_owned() });
    }
}

fn string(schema: &Map<String, Value>, text: &str, path: &str, found: &mut Vec<Mismatch>) {
    bounds(schema, text.chars().count(), ["minLength", "maxLength"], "characters", path, found);
    for keyword in ["format", "pattern"] {
        let Some(rule) = schema.get(keyword).and_then(Value::as_str) else { continue };
        let alone = Value::Object(Map::from_iter([(keyword.to_owned(), Value::from(rule))]));
        if !matches_schema(&alone, &Value::from(text)) {
            found.push(Mismatch { path: path.to_owned(), words: format!("must match {keyword} \"{rule}\"") });
        }
    }
}

fn number(schema: &Map<String, Value>, number: f64, path: &str, found: &mut Vec<Mismatch>) {
    for (keyword, comparison) in
        [("exclusiveMaximum", "<"), ("exclusiveMinimum", ">"), ("maximum", "<="), ("minimum", ">=")]
    {
        let Some(limit) = schema.get(keyword) else { continue };
        let holds = limit.as_f64().is_none_or(|limit| match comparison {
            "<" => number < limit,
            ">" => number > limit,
            "<=" => number <= limit,
            _ => number >= limit,
        });
        if !holds {
            found.push(Mismatch { path: path.to_owned(), words: format!("must be {comparison} {limit}") });
        }
    }
    if let Some(step) = schema.get("multipleOf") {
        let alone = serde_json::json!({"multipleOf": step});
        if serde_json::Number::from_f64(number)
            .is_some_and(|number| !jsonschema::is_valid(&alone, &Value::Number(number)))
        {
            found.push(Mismatch { path: path.to_owned(), words: format!("must be multiple of {step}") });
        }
    }
}

/// Checks the lower and upper bound of a count. typebox checks the upper one first for lists and texts.
fn bounds(schema: &Map<String, Value>, count: usize, keys: [&str; 2], of: &str, path: &str, found: &mut Vec<Mismatch>) {
    let [lower, upper] = keys.map(|key| schema.get(key).and_then(Value::as_u64));
    let count = count as u64;
    if let Some(limit) = upper.filter(|limit| count > *limit) {
        found.push(Mismatch { path: path.to_owned(), words: format!("must not have more than {limit} {of}") });
    }
    if let Some(limit) = lower.filter(|limit| count < *limit) {
        found.push(Mismatch { path: path.to_owned(), words: format!("must not have fewer than {limit} {of}") });
    }
}
