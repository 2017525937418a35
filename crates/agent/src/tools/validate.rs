//! Arguments of a tool call against its schema, coerced as pi coerces them.
//!
//! Models write `"5"` for `5`. Before the check, values of the wrong kind are converted where the
//! conversion loses nothing: text and numbers, booleans and text, `null` to an empty value.

use serde_json::{Map, Value};

/// The arguments as the tool takes them, or what the model is told.
pub fn arguments(tool: &str, schema: &Value, arguments: &Value) -> Result<Value, String> {
    let validator = jsonschema::validator_for(schema)
        .map_err(|error| format!("The parameters of tool \"{tool}\" are no valid JSON Schema: {error}"))?;
    if validator.is_valid(arguments) {
        return Ok(arguments.clone());
    }
    let coerced = coerce(schema, arguments.clone());
    let problems = problems(&validator, &coerced);
    if problems.is_empty() {
        return Ok(coerced);
    }
    let received = serde_json::to_string_pretty(arguments).expect("JSON has only string keys");
    Err(format!("Validation failed for tool \"{tool}\":\n{}\n\nReceived arguments:\n{received}", problems.join("\n")))
}

/// What is wrong, a line each. Members that lack are named together, in pi's words and at the place of the first.
fn problems(validator: &jsonschema::Validator, value: &Value) -> Vec<String> {
    const LACKS: &str = "must have required properties ";
    let mut found: Vec<(String, String)> = Vec::new();
    for error in validator.iter_errors(value) {
        let path = error.instance_path().to_string().trim_start_matches('/').replace('/', ".");
        let words = error.to_string();
        let Some(name) = words.strip_suffix(" is a required property") else {
            found.push((if path.is_empty() { "root".to_owned() } else { path }, words));
            continue;
        };
        let name = name.trim_matches('"');
        let inside = if path.is_empty() { String::new() } else { format!("{path}.") };
        let is_beside = |(place, words): &&mut (String, String)| {
            words.starts_with(LACKS) && place.rsplit_once('.').map_or("", |(inside, _)| inside) == path
        };
        match found.iter_mut().find(is_beside) {
            Some((_, words)) => {
                words.push_str(", ");
                words.push_str(name);
            }
            None => found.push((format!("{inside}{name}"), format!("{LACKS}{name}"))),
        }
    }
    found.into_iter().map(|(place, words)| format!("  - {place}: {words}")).collect()
}

fn coerce(schema: &Value, value: Value) -> Value {
    for union in ["anyOf", "oneOf"] {
        if let Some(options) = schema.get(union).and_then(Value::as_array) {
            return options
                .iter()
                .map(|option| (option, coerce(option, value.clone())))
                .find(|(option, coerced)| jsonschema::is_valid(option, coerced))
                .map_or(value, |(_, coerced)| coerced);
        }
    }
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    match (kind, value) {
        ("object", Value::Object(members)) => Value::Object(coerce_members(schema, members)),
        ("array", Value::Array(items)) => match schema.get("items") {
            Some(item) => items.into_iter().map(|value| coerce(item, value)).collect(),
            None => Value::Array(items),
        },
        ("number" | "integer", Value::String(text)) => number(kind, &text).unwrap_or(Value::String(text)),
        ("number" | "integer", Value::Bool(value)) => Value::from(u8::from(value)),
        ("number" | "integer", Value::Null) => Value::from(0),
        ("boolean", Value::String(text)) => match text.as_str() {
            "true" | "1" => Value::Bool(true),
            "false" | "0" => Value::Bool(false),
            _ => Value::String(text),
        },
        ("boolean", Value::Number(number)) => match number.as_f64() {
            Some(1.0) => Value::Bool(true),
            Some(0.0) => Value::Bool(false),
            _ => Value::Number(number),
        },
        ("boolean", Value::Null) => Value::Bool(false),
        ("string", Value::Number(number)) => Value::String(number.to_string()),
        ("string", Value::Bool(value)) => Value::String(value.to_string()),
        ("string", Value::Null) => Value::String(String::new()),
        (_, value) => value,
    }
}

fn coerce_members(schema: &Value, members: Map<String, Value>) -> Map<String, Value> {
    let properties = schema.get("properties");
    let coerced = members.into_iter().map(|(key, value)| {
        let value = match properties.and_then(|properties| properties.get(&key)) {
            Some(property) => coerce(property, value),
            None => value,
        };
        (key, value)
    });
    coerced.collect()
}

fn number(kind: &str, text: &str) -> Option<Value> {
    let text = text.trim();
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && kind == "number")?;
    serde_json::Number::from_f64(number).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({"type": "object", "required": ["n"], "properties": {
            "n": {"type": "integer"}, "b": {"type": "boolean"}, "s": {"type": "string"},
            "l": {"type": "array", "items": {"type": "number"}},
            "u": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        }})
    }

    #[test]
    fn values_of_the_wrong_kind_are_converted_where_nothing_is_lost() {
        let given = json!({"n": " 5 ", "b": "true", "s": 7, "l": ["1.5", 2], "u": "x", "extra": null});
        let taken = arguments("t", &schema(), &given).unwrap();
        assert_eq!(taken, json!({"n": 5, "b": true, "s": "7", "l": [1.5, 2], "u": "x", "extra": null}));
    }

    #[test]
    fn fitting_values_are_left_alone() {
        let given = json!({"n": 5, "u": "5"});
        assert_eq!(arguments("t", &schema(), &given).unwrap(), given);
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_place() {
        let message = arguments("t", &schema(), &json!({"n": "5.5", "l": [true, "x"]})).unwrap_err();
        assert!(message.starts_with("Validation failed for tool \"t\":\n  - "), "{message}");
        assert!(message.contains("  - n: ") && message.contains("  - l.1: "), "{message}");
        assert!(message.contains("\n\nReceived arguments:\n{"), "{message}");
    }
}
