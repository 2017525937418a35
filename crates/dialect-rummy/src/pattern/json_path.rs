//! The supported part of JSONPath: keys, indices, wildcards and descent.

use super::{PatternError, PatternErrorKind};
use serde_json::Value;

/// Maximum number of values that one path may visit.
const MAX_VALUES: usize = 200_000;

/// A compiled path.
#[derive(Debug, Clone)]
pub(super) struct JsonPath(Vec<Step>);

#[derive(Debug, Clone)]
enum Step {
    Key(String),
    Index(usize),
    All,
    Descend,
}

impl JsonPath {
    /// Parses a path; invalid steps are skipped.
    pub(super) fn parse(path: &str) -> Self {
        let mut steps = Vec::new();
        let mut rest = path.strip_prefix('$').unwrap_or(path);
        while let Some(first) = rest.chars().next() {
            if let Some(inside) = rest.strip_prefix('[') {
                let quote = inside.chars().next().filter(|quote| matches!(quote, '\'' | '"'));
                let (text, after) = match quote {
                    Some(quote) => {
                        let (text, after) = inside[1..].split_once(quote).unwrap_or((&inside[1..], ""));
                        (text, after.strip_prefix(']').unwrap_or(after))
                    }
                    None => inside.split_once(']').unwrap_or((inside, "")),
                };
                steps.push(match (quote, text) {
                    (None, "*") => Step::All,
                    (None, number) => number.trim().parse().map_or_else(|_| Step::Key(number.to_owned()), Step::Index),
                    (Some(_), key) => Step::Key(key.to_owned()),
                });
                rest = after;
            } else if let Some(after) = rest.strip_prefix('.') {
                let after = after.strip_prefix('.').map_or(after, |after| {
                    steps.push(Step::Descend);
                    after
                });
                let end = after.find(['.', '[']).unwrap_or(after.len());
                match &after[..end] {
                    "" => {}
                    "*" => steps.push(Step::All),
                    key => steps.push(Step::Key(key.to_owned())),
                }
                rest = &after[end..];
            } else {
                rest = &rest[first.len_utf8()..];
            }
        }
        Self(steps)
    }

    /// Returns the first value that the path selects in the text: a string unchanged, any other value as JSON. Returns `None` for
    /// text that is not JSON.
    pub(super) fn first(&self, text: &str) -> Result<Option<String>, PatternError> {
        if !text
            .trim_start()
            .starts_with(['{', '[', '"', '-', 't', 'f', 'n', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
        {
            return Ok(None);
        }
        let Ok(root) = serde_json::from_str::<Value>(text) else { return Ok(None) };
        let mut current = vec![&root];
        let mut seen = 0;
        for step in &self.0 {
            let mut next = Vec::new();
            for value in current {
                match (step, value) {
                    (Step::Key(key), Value::Object(members)) => next.extend(members.get(key)),
                    (Step::Index(place), Value::Array(items)) => next.extend(items.get(*place)),
                    (Step::All, Value::Object(members)) => next.extend(members.values()),
                    (Step::All, Value::Array(items)) => next.extend(items),
                    (Step::Descend, value) => descend(value, &mut next),
                    _ => {}
                }
                if seen + next.len() > MAX_VALUES {
                    let message =
                        format!("the JSONPath matches more than {MAX_VALUES} values: name keys instead of `..`");
                    return Err(PatternError::new(PatternErrorKind::Limit, message));
                }
            }
            seen += next.len();
            current = next;
        }
        Ok(current.first().map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }))
    }
}

/// Appends a value, and all objects and arrays in it, to `out`; outermost first.
fn descend<'a>(root: &'a Value, out: &mut Vec<&'a Value>) {
    let mut waiting = vec![root];
    while let Some(value) = waiting.pop() {
        if out.len() > MAX_VALUES {
            return;
        }
        out.push(value);
        let mut inner: Vec<&Value> = match value {
            Value::Object(members) => members.values().collect(),
            Value::Array(items) => items.iter().collect(),
            _ => Vec::new(),
        };
        inner.retain(|value| value.is_object() || value.is_array());
        waiting.extend(inner.into_iter().rev());
    }
}
