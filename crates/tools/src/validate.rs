//! Validates the arguments of a tool call against its schema, and coerces them like pi.
//!
//! Models write `"5"` for `5`. Before validation, a value of the wrong type is converted if the conversion is lossless: between
//! text and numbers, between booleans and text, and from `null` to an empty value.

use super::convert::convert;
use super::explain::explain;
use pijs_protocol::guard;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// `Number.MAX_SAFE_INTEGER` of JavaScript: 2^53 - 1.
const MAX_SAFE: f64 = 9_007_199_254_740_991.0;

/// Returns the coerced arguments, or an error message for the model. `converts` is set for a schema made with typebox, for which
/// [`convert`](super::convert) is applied first.
pub fn arguments(tool: &str, schema: &Value, converts: bool, arguments: &Value) -> Result<Value, String> {
    if is_too_large(schema) {
        return Err(format!(
            "The parameters of tool \"{tool}\" are too large: with references expanded, the schema has more than {MAX_NODES} parts, or more than {MAX_PATTERNS} patterns"
        ));
    }
    let validator = validator(schema)
        .map_err(|error| format!("The parameters of tool \"{tool}\" are not a valid JSON Schema: {error}"))?;
    let mut given = arguments.clone();
    drop_nulls(schema, &mut given);
    if converts {
        given = convert(schema, given);
    }
    if validator.is_valid(&given) {
        return Ok(given);
    }
    let coerced = coerce(schema, given);
    if validator.is_valid(&coerced) {
        return Ok(coerced);
    }
    let mut problems = explain(schema, &coerced);
    if problems.is_empty() {
        // `explain` does not follow references, so an error in a referenced schema has jsonschema's message.
        problems = validator.iter_errors(&coerced).map(|error| format!("{}: {error}", error.instance_path())).collect();
    }
    let problems: Vec<String> = problems.into_iter().map(|problem| format!("  - {problem}")).collect();
    let received = serde_json::to_string_pretty(arguments).expect("JSON has only string keys");
    Err(format!("Validation failed for tool \"{tool}\":\n{}\n\nReceived arguments:\n{received}", problems.join("\n")))
}

/// Validates arguments against an extension's schema. An expensive validation runs on a separate thread with a timeout: its time
/// is the product of the sizes of the schema, which the extension controls, and of the arguments, which the model controls.
pub async fn arguments_of(tool: &str, schema: &Value, converts: bool, given: &Value) -> Result<Value, String> {
    /// Number of validations that run on separate threads, including abandoned ones.
    static WORKERS: AtomicUsize = AtomicUsize::new(0);
    if is_too_large(schema) || cost(schema, given) <= INLINE_COST || !guard!(SchemaWorker) {
        return arguments(tool, schema, converts, given);
    }
    let late = || format!("The arguments of tool \"{tool}\" take too long to validate");
    /// Counts one validation thread until it ends or fails to start.
    struct WorkerSlot;
    impl Drop for WorkerSlot {
        fn drop(&mut self) {
            WORKERS.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let others = WORKERS.fetch_add(1, Ordering::Relaxed);
    let slot = WorkerSlot;
    if others >= MAX_WORKERS {
        return Err(late());
    }
    let (tell, told) = oneshot::channel();
    let (name, schema, given) = (tool.to_owned(), schema.clone(), given.clone());
    let work = move || {
        // The caller may have stopped waiting.
        let _ = tell.send(arguments(&name, &schema, converts, &given));
        drop(slot);
    };
    // Not a thread of tokio's blocking pool, because the runtime waits for those at shutdown.
    std::thread::Builder::new().name("pijs-schema".to_owned()).spawn(work).map_err(|error| error.to_string())?;
    match tokio::time::timeout(TIMEOUT, told).await {
        Ok(Ok(checked)) => checked,
        _ => Err(late()),
    }
}

/// Maximum cost (schema nodes times values) of a validation that runs on the calling thread.
const INLINE_COST: usize = 1_000_000;

/// Timeout of an expensive validation.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of expensive validations that run concurrently.
const MAX_WORKERS: usize = 4;

/// Estimates the number of steps of a validation.
fn cost(schema: &Value, value: &Value) -> usize {
    /// Number of bytes of text that are charged as one value.
    const TEXT_UNIT: usize = 256;
    fn size(value: &Value) -> usize {
        match value {
            Value::Object(members) => {
                1 + members.iter().map(|(name, member)| name.len() / TEXT_UNIT + size(member)).sum::<usize>()
            }
            Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
            Value::String(text) => 1 + text.len() / TEXT_UNIT,
            _ => 1,
        }
    }
    let patterns = patterns(schema).saturating_mul(PATTERN_COST);
    size(value).saturating_mul(expanded_size(schema).saturating_add(patterns))
}

/// Cost of matching one pattern against one value, in schema nodes.
const PATTERN_COST: usize = 2_000;

/// Counts the patterns of a schema, including repeated ones.
fn patterns(schema: &Value) -> usize {
    match schema {
        Value::Object(members) => members
            .iter()
            .map(|(key, member)| match (key.as_str(), member) {
                ("pattern", Value::String(_)) => 1,
                ("patternProperties", Value::Object(rules)) => {
                    rules.len() + rules.values().map(patterns).sum::<usize>()
                }
                _ => patterns(member),
            })
            .sum(),
        Value::Array(items) => items.iter().map(patterns).sum(),
        _ => 0,
    }
}

/// Returns a validator that checks formats like typebox, including typebox's format `url`.
pub(super) fn validator(schema: &Value) -> Result<jsonschema::Validator, jsonschema::ValidationError<'static>> {
    let is_url = |text: &str| url::Url::parse(text).is_ok();
    let mut options = jsonschema::options().should_validate_formats(true).with_format("url", is_url);
    if guard!(SchemaPatterns) {
        options = options.with_pattern_options(
            jsonschema::PatternOptions::fancy_regex()
                .backtrack_limit(MAX_BACKTRACKS)
                .size_limit(PATTERN_BYTES)
                .dfa_size_limit(PATTERN_BYTES),
        );
    }
    if has_tuple(schema) {
        options.with_draft(jsonschema::Draft::Draft201909).build(schema)
    } else {
        options.build(schema)
    }
}

/// Maximum number of backtracks of a pattern on one text; after that it does not match.
const MAX_BACKTRACKS: usize = 10_000;

/// Maximum memory of a compiled pattern, and of its lazy automaton, in bytes.
const PATTERN_BYTES: usize = 1 << 20;

/// Maximum number of patterns of one schema, which bounds their total memory.
const MAX_PATTERNS: usize = 100;

/// Maximum number of nodes of a schema after its references are expanded, as the validator does. Nested references multiply
/// nodes.
const MAX_NODES: usize = 20_000;

/// Maximum number of references by name, which [`expanded_size`] does not count. Within this limit the size grows to at most 3^6
/// / 16 times the size that [`MAX_NODES`] allows without them: six levels of three references.
const MAX_NAMED_REFERENCES: usize = 16;

fn is_too_large(schema: &Value) -> bool {
    if patterns(schema) > MAX_PATTERNS && guard!(SchemaPatterns) {
        return true;
    }
    match named_references(schema) {
        0 => expanded_size(schema) > MAX_NODES,
        named => named > MAX_NAMED_REFERENCES || expanded_size(schema) > MAX_NODES / MAX_NAMED_REFERENCES,
    }
}

/// Counts references that are not plain paths from the root (`#/a/b`): references by anchor, by the id of a subschema, or with
/// escapes. Paths below a subschema with an id are relative to it, so if there is such an id, all references count.
fn named_references(schema: &Value) -> usize {
    #[derive(Default)]
    struct ReferenceCounts {
        plain: usize,
        named: usize,
        has_named_parts: bool,
    }
    fn look(value: &Value, is_top: bool, found: &mut ReferenceCounts) {
        match value {
            Value::Object(members) => {
                for (key, member) in members {
                    match (key.as_str(), member.as_str()) {
                        ("$ref", Some(place)) if is_path(place) => found.plain += 1,
                        ("$ref" | "$dynamicRef" | "$recursiveRef", Some(_)) => found.named += 1,
                        ("$id" | "id", Some(_)) if !is_top => found.has_named_parts = true,
                        _ => look(member, false, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| look(item, false, found)),
            _ => {}
        }
    }
    let mut found = ReferenceCounts::default();
    look(schema, true, &mut found);
    found.named + if found.has_named_parts { found.plain } else { 0 }
}

fn is_path(place: &str) -> bool {
    place == "#" || (place.starts_with("#/") && !place.contains('%'))
}

/// Counts the nodes of a schema after its references by path are expanded; stops at [`MAX_NODES`].
fn expanded_size(schema: &Value) -> usize {
    // Counts the nodes of a target without its references, and collects those.
    fn parts<'a>(value: &'a Value, refers: &mut Vec<&'a str>) -> usize {
        match value {
            Value::Object(members) => {
                refers.extend(members.get("$ref").and_then(Value::as_str));
                1 + members.values().map(|member| parts(member, refers)).sum::<usize>()
            }
            Value::Array(items) => 1 + items.iter().map(|item| parts(item, refers)).sum::<usize>(),
            _ => 1,
        }
    }
    fn spelled<'a>(root: &'a Value, place: &'a str, known: &mut BTreeMap<&'a str, usize>, depth: usize) -> usize {
        if let Some(size) = known.get(place) {
            return *size;
        }
        // A reference to itself is expanded only once.
        known.insert(place, 1);
        let mut refers = Vec::new();
        let target =
            if place == "#" { Some(root) } else { place.strip_prefix('#').and_then(|path| root.pointer(path)) };
        let own = target.map_or(1, |target| parts(target, &mut refers));
        let size = if depth > MAX_REFERENCE_DEPTH {
            MAX_NODES + 1
        } else {
            refers.into_iter().fold(own, |sum, next| sum.saturating_add(spelled(root, next, known, depth + 1)))
        };
        known.insert(place, size);
        size
    }
    spelled(schema, "#", &mut BTreeMap::new(), 0)
}

/// Maximum depth of chained references.
const MAX_REFERENCE_DEPTH: usize = 500;

/// Returns whether `items` lists the types of a tuple, as in typebox's output; drafts since 2020-12 use `prefixItems`.
fn has_tuple(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.get("items").is_some_and(Value::is_array) || members.values().any(has_tuple),
        Value::Array(items) => items.iter().any(has_tuple),
        _ => false,
    }
}

/// Returns whether a value matches; an invalid schema matches everything.
pub(super) fn matches_schema(schema: &Value, value: &Value) -> bool {
    validator(schema).map_or(true, |validator| validator.is_valid(value))
}

/// Removes optional members that are `null` although the schema does not allow it: models write `null` for members that they
/// omit.
fn drop_nulls(schema: &Value, value: &mut Value) {
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                let schema = match schema.get("items") {
                    Some(Value::Array(schemas)) => schemas.get(at),
                    one => one,
                };
                if let Some(schema) = schema {
                    drop_nulls(schema, item);
                }
            }
        }
        Value::Object(members) => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
            let required = schema.get("required").and_then(Value::as_array);
            for (name, property) in properties {
                let is_required = required.is_some_and(|all| all.iter().any(|one| one == name));
                let Some(member) = members.get_mut(name) else { continue };
                if member.is_null()
                    && !is_required
                    && property.get("$ref").is_none()
                    && !matches_schema(property, &Value::Null)
                {
                    members.shift_remove(name);
                } else {
                    drop_nulls(property, member);
                }
            }
        }
        _ => {}
    }
}

fn coerce(schema: &Value, value: Value) -> Value {
    let mut value = value;
    for nested in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        value = coerce(nested, value);
    }
    for union in ["anyOf", "oneOf"] {
        if let Some(options) = schema.get(union).and_then(Value::as_array) {
            value = coerce_to_one(options, value);
        }
    }
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is_already = |kind: &&str| jsonschema::is_valid(&json!({"type": *kind}), &value);
    if kinds.len() < 2 || !kinds.iter().any(is_already) {
        value = kinds.iter().find_map(|kind| primitive(kind, &value)).unwrap_or(value);
    }
    match value {
        Value::Object(members) if kinds.contains(&"object") => Value::Object(coerce_members(schema, members)),
        Value::Array(items) if kinds.contains(&"array") => {
            let items = items.into_iter().enumerate();
            let coerced = items.map(|(at, item)| match schema.get("items") {
                Some(Value::Array(schemas)) => match schemas.get(at) {
                    Some(schema) => coerce(schema, item),
                    None => item,
                },
                Some(schema) => coerce(schema, item),
                None => item,
            });
            coerced.collect()
        }
        value => value,
    }
}

fn coerce_to_one(options: &[Value], value: Value) -> Value {
    if options.iter().any(|option| matches_schema(option, &value)) {
        return value;
    }
    let candidates = options.iter().map(|option| (option, coerce(option, value.clone())));
    let fitting = candidates.into_iter().find(|(option, coerced)| matches_schema(option, coerced));
    fitting.map_or(value, |(_, coerced)| coerced)
}

/// Converts a primitive to another type if the conversion is lossless.
fn primitive(kind: &str, value: &Value) -> Option<Value> {
    Some(match (kind, value) {
        ("number" | "integer", Value::String(text)) => number(kind, text)?,
        ("number" | "integer", Value::Bool(value)) => Value::from(u8::from(*value)),
        ("number" | "integer", Value::Null) => Value::from(0),
        ("boolean", Value::String(text)) => match text.as_str() {
            "true" | "1" => Value::Bool(true),
            "false" | "0" => Value::Bool(false),
            _ => return None,
        },
        ("boolean", Value::Number(number)) => match number.as_f64() {
            Some(1.0) => Value::Bool(true),
            Some(0.0) => Value::Bool(false),
            _ => return None,
        },
        ("boolean", Value::Null) => Value::Bool(false),
        ("string", Value::Number(number)) => Value::String(number.to_string()),
        ("string", Value::Bool(value)) => Value::String(value.to_string()),
        ("string", Value::Null) => Value::String(String::new()),
        ("null", Value::String(text)) if text.is_empty() => Value::Null,
        ("null", Value::Bool(false)) => Value::Null,
        ("null", Value::Number(number)) if number.as_f64() == Some(0.0) => Value::Null,
        _ => return None,
    })
}

fn coerce_members(schema: &Value, members: Map<String, Value>) -> Map<String, Value> {
    let properties = schema.get("properties");
    let further = schema.get("additionalProperties").filter(|further| further.is_object());
    let coerced = members.into_iter().map(|(key, value)| {
        let property = properties.and_then(|properties| properties.get(&key)).or(further);
        let value = match property {
            Some(property) => coerce(property, value),
            None => value,
        };
        (key, value)
    });
    coerced.collect()
}

/// Parses a decimal text like JavaScript's `Number`.
fn number(kind: &str, text: &str) -> Option<Value> {
    let text = text.trim();
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite())?;
    if number.fract() == 0.0 && number.abs() <= MAX_SAFE {
        return Some(Value::from(number as i64));
    }
    (kind == "number").then(|| serde_json::Number::from_f64(number).map(Value::Number))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Value {
        json!({"type": "object", "required": ["n"], "properties": {
            "n": {"type": "integer"}, "b": {"type": "boolean"}, "s": {"type": "string"},
            "l": {"type": "array", "items": {"type": "number"}},
            "u": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        }})
    }

    #[test]
    fn lossless_conversions_are_applied() {
        let given = json!({"n": " 5 ", "b": "true", "s": 7, "l": ["1.5", 2], "u": "x", "extra": null});
        let taken = arguments("t", &schema(), false, &given).unwrap();
        assert_eq!(taken, json!({"n": 5, "b": true, "s": "7", "l": [1.5, 2], "u": "x", "extra": null}));
    }

    #[test]
    fn valid_values_are_unchanged() {
        let given = json!({"n": 5, "u": "5"});
        assert_eq!(arguments("t", &schema(), false, &given).unwrap(), given);
    }

    #[derive(serde::Deserialize)]
    struct Case {
        name: String,
        schema: Value,
        /// Whether the schema was made with typebox.
        #[serde(default)]
        typebox: bool,
        arguments: Value,
        taken: Option<Value>,
        refused: Option<Vec<String>>,
    }

    /// Captured from `validateToolArguments` of pi-ai 0.87.1.
    #[test]
    fn arguments_are_accepted_and_rejected_as_in_pi() {
        let cases = include_str!("../../../fixtures/agent/tool-arguments.json");
        let cases: Vec<Case> = serde_json::from_str(cases).unwrap();
        assert!(cases.len() > 20);
        for case in cases {
            let outcome = arguments("t", &case.schema, case.typebox, &case.arguments);
            match (outcome, case.taken, case.refused) {
                (Ok(taken), Some(expected), None) => assert_eq!(taken, expected, "{}", case.name),
                (Err(message), None, Some(expected)) => {
                    let lines = message.split("\n\n").next().unwrap_or_default().lines().skip(1);
                    let lines: Vec<&str> = lines.map(|line| line.trim_start_matches("  - ")).collect();
                    assert_eq!(lines, expected, "{}", case.name);
                }
                (outcome, taken, refused) => panic!("{}: {outcome:?}, not {taken:?} {refused:?}", case.name),
            }
        }
    }

    #[test]
    fn a_mismatch_is_reported_with_its_path() {
        let message = arguments("t", &schema(), false, &json!({"n": "5.5", "l": [true, "x"]})).unwrap_err();
        assert!(message.starts_with("Validation failed for tool \"t\":\n  - "), "{message}");
        assert!(message.contains("  - n: ") && message.contains("  - l.1: "), "{message}");
        assert!(message.contains("\n\nReceived arguments:\n{"), "{message}");
    }

    #[test]
    fn nested_references_are_too_large() {
        let chain = |length: usize, next: fn(usize) -> Value| {
            let named = (0..length).map(|at| (format!("a{at}"), next(at + 1)));
            let ends = (format!("a{length}"), json!({"type": "boolean"}));
            json!({"$ref": "#/$defs/a0", "$defs": named.chain([ends]).collect::<Map<_, _>>()})
        };
        let refers = |at: usize| json!({"$ref": format!("#/$defs/a{at}")});
        let doubles = |at: usize| {
            let part = json!({"$ref": format!("#/$defs/a{at}")});
            json!({"anyOf": [part, part]})
        };
        assert!(is_too_large(&chain(24, doubles)));
        assert!(is_too_large(&chain(5000, refers)), "too deep");
        for honest in
            [chain(4, doubles), chain(100, refers), json!({"$ref": "#"}), json!({"$ref": "#/none"}), json!(true)]
        {
            assert!(!is_too_large(&honest), "{honest}");
        }
        let looped =
            json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}, {"$ref": "#"}]}, "b": {"$ref": "#/$defs/a"}}});
        assert!(!is_too_large(&looped));
        assert!(
            arguments("t", &chain(24, doubles), false, &json!({}))
                .unwrap_err()
                .contains("are too large: with references expanded")
        );
    }

    #[test]
    fn nested_references_by_name_are_too_large() {
        let part = |at: usize, name: &dyn Fn(usize) -> Value, refers: &dyn Fn(usize) -> String| {
            let next = json!({"$ref": refers(at + 1)});
            let Value::Object(mut part) = name(at) else { unreachable!("a part has members") };
            part.insert("anyOf".into(), json!([next, next]));
            Value::Object(part)
        };
        let chain = |name: &dyn Fn(usize) -> Value, refers: &dyn Fn(usize) -> String| {
            let parts = (0..24).map(|at| (format!("a{at}"), part(at, name, refers)));
            let ends = (String::from("a24"), name(24));
            json!({"$ref": refers(0), "$defs": parts.chain([ends]).collect::<Map<_, _>>()})
        };
        let by_path = |at: usize| format!("#/$defs/a{at}");
        let within = json!({"properties": {"p": {"$id": "urn:p", "$defs": chain(&|_| json!({}), &by_path)["$defs"], "$ref": "#/$defs/a0"}}});
        for doubling in [
            chain(&|at| json!({"$anchor": format!("n{at}")}), &|at| format!("#n{at}")),
            chain(&|at| json!({"$id": format!("urn:n{at}")}), &|at| format!("urn:n{at}")),
            chain(&|_| json!({}), &|at| format!("#/%24defs/a{at}")),
            within,
        ] {
            assert!(is_too_large(&doubling), "{doubling}");
        }
        let recursive = json!({"type": "array", "items": {"$id": "T0", "properties": {"of": {"$ref": "T0"}}}});
        assert!(!is_too_large(&recursive), "as typebox writes one");
    }

    #[test]
    fn patterns_are_charged_in_the_estimate() {
        let with = |pattern: &str| json!({"type": "object", "properties": {"x": {"pattern": pattern}}});
        let check = |pattern: &str, text: &str| arguments("t", &with(pattern), false, &json!({"x": text}));
        assert!(check(r"^(?!\.)[\w.-]+$", "a.b").is_ok());
        assert!(check(r"^\p{L}+$", "ä").is_ok());
        assert!(check(r"^(a|a)*(?!x)\1z$", &"a".repeat(60)).unwrap_err().contains("must match pattern"));
        assert!(check(r"^\p{L}{120}$", "a").unwrap_err().contains("not a valid JSON Schema"));
        let many: Vec<Value> = (0..101).map(|at| json!({"pattern": format!("^{at}$")})).collect();
        assert!(
            arguments("t", &json!({"anyOf": many}), false, &json!({}))
                .unwrap_err()
                .contains("are too large: with references expanded")
        );
    }

    #[tokio::test]
    async fn an_expensive_validation_times_out() {
        let items: Vec<Value> = (0..400).map(|at| json!({"n": at})).collect();
        let options: Vec<Value> = (0..3_000).map(|at| json!({"properties": {"n": {"const": -at - 1}}})).collect();
        let schema = json!({"properties": {"l": {"items": {"anyOf": options}}}});
        assert!(cost(&schema, &json!({"l": items})) > INLINE_COST);
        let told = arguments_of("t", &schema, false, &json!({"l": items})).await;
        assert!(told.is_err());
        assert_eq!(arguments_of("t", &json!({}), false, &json!({"l": 1})).await, Ok(json!({"l": 1})));
    }
}
