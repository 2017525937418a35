//! Helpers for end-to-end tests.
//!
//! [`validate`] checks a value against a schema in `schema/`, which is generated from the types: all data that a test run writes
//! to a wire, to a ledger or next to an artifact must conform.

use serde_json::Value;
use std::path::Path;

/// Checks a value against `schema/NAME`; `name` is the file's name, with or without `.schema.json`.
///
/// ```
/// let manifest = serde_json::json!({ "schema": "pi.ext.cap.v1", "capabilities": [] });
/// pijs_tests::validate("pi.ext.cap.v1", &manifest)?;
/// assert!(pijs_tests::validate("pi.ext.cap.v1", &serde_json::json!({})).is_err());
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
///
/// Returns one line for each violation of the schema.
///
/// # Panics
///
/// Panics if there is no such schema.
pub fn validate(name: &str, value: &Value) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schema");
    let file = if name.ends_with(".json") { name.to_owned() } else { format!("{name}.schema.json") };
    let text = std::fs::read_to_string(folder.join(&file)).unwrap_or_else(|error| panic!("schema/{file}: {error}"));
    let schema: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("schema/{file}: {error}"));
    let validator = jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("schema/{file}: {error}"));
    let wrong: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("not a {name}:\n{}", wrong.join("\n"))) }
}
