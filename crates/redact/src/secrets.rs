//! Detects secrets in parameters.

use super::flags;
use super::{Redactor, is_secret_key};
use serde_json::{Map, Value};

/// Returns whether a member has a secret name, or a text contains a known secret or looks like a credential.
pub fn are_in(params: &Map<String, Value>, redactor: &Redactor) -> bool {
    params.iter().any(|(key, value)| is_secret_key(key) || holds(value, redactor))
}

fn holds(value: &Value, redactor: &Redactor) -> bool {
    match value {
        Value::String(text) => redactor.finds(text),
        Value::Array(items) => {
            items.iter().enumerate().any(|(index, item)| flags::is_value(items, index) || holds(item, redactor))
        }
        Value::Object(members) => are_in(members, redactor),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
