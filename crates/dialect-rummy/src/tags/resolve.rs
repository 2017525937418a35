//! Converts a tag to the fields for its handler; the body can take the place of a missing attribute.

use super::{Command, edits};
use crate::pattern::parse_sed;
use serde_json::{Map, Value, json};

/// Returns the command of a tag, and a warning about its body, if any.
pub(super) fn command(name: &str, attributes: &Map<String, Value>, body: &str) -> (Command, Option<String>) {
    let trimmed = body.trim();
    let text = |key: &str| attributes.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let or_body =
        |key: &str| text(key).or(Some(trimmed).filter(|body| !body.is_empty())).map_or(Value::Null, Value::from);
    let mut fields = Map::new();
    let mut warning = None;
    match name {
        "set" => {
            fields = attributes.clone();
            warning = set_body(&mut fields, body);
        }
        "update" => {
            fields = attributes.clone();
            fields.insert("body".to_owned(), text("body").filter(|_| trimmed.is_empty()).unwrap_or(trimmed).into());
            let status = text("status").map_or(Value::from(102), |status| {
                status.trim().parse::<i64>().map_or_else(|_| status.into(), Value::from)
            });
            fields.insert("status".to_owned(), status);
        }
        "get" | "rm" => {
            fields = attributes.clone();
            fields.insert("path".to_owned(), or_body("path"));
            for key in ["line", "limit"] {
                if let Some(number) = text(key).and_then(|digits| digits.trim().parse::<i64>().ok()) {
                    fields.insert(key.to_owned(), number.into());
                }
            }
        }
        "search" => {
            fields.insert("path".to_owned(), or_body("path"));
            let results = text("results").and_then(|digits| digits.trim().parse::<i64>().ok());
            fields.insert("results".to_owned(), results.map_or(Value::Null, Value::from));
        }
        "mv" | "cp" => {
            fields = attributes.clone();
            fields.entry("path").or_insert(Value::Null);
            fields.insert("to".to_owned(), or_body("to"));
        }
        "sh" | "env" => {
            fields = attributes.clone();
            fields.insert("command".to_owned(), or_body("command"));
        }
        "ask_user" => {
            fields.insert("question".to_owned(), text("question").map_or(Value::Null, Value::from));
            fields.insert("options".to_owned(), or_body("options"));
        }
        _ => {
            fields = attributes.clone();
            if !trimmed.is_empty() {
                fields.insert("body".to_owned(), trimmed.into());
            }
        }
    }
    (Command { name: name.to_owned(), fields }, warning)
}

/// Returns the command of a foreign call. Arguments that the tool knows become attributes; if there are none, the first value
/// becomes the body.
pub(super) fn foreign(name: &str, arguments: &Map<String, Value>) -> Command {
    const KNOWN: &[&str] = &[
        "path",
        "body",
        "to",
        "command",
        "question",
        "options",
        "status",
        "visibility",
        "tags",
        "summary",
        "line",
        "limit",
        "results",
        "search",
        "replace",
        "manifest",
        "preview",
    ];
    let as_text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let known = arguments.iter().filter(|(key, _)| KNOWN.contains(&key.as_str()));
    let mut attributes: Map<String, Value> = known.map(|(key, value)| (key.clone(), as_text(value).into())).collect();
    let body = match (name, attributes.remove("body")) {
        (_, Some(body)) => as_text(&body),
        (_, None) if attributes.is_empty() => arguments.values().next().map(as_text).unwrap_or_default(),
        _ => String::new(),
    };
    command(name, &attributes, &body).0
}

/// Parses the body of `set`: edits in one of several notations, or the new content.
fn set_body(fields: &mut Map<String, Value>, body: &str) -> Option<String> {
    let trimmed = body.trim();
    match edits::edits(body) {
        Ok(found) if !found.is_empty() => {
            fields.insert("operations".to_owned(), found.iter().map(edits::Edit::to_json).collect());
            return None;
        }
        Ok(_) => {}
        Err(error) => {
            fields.insert("error".to_owned(), error.to_string().into());
            return Some(error.to_string());
        }
    }
    let blocks = edits::blocks(body);
    if !blocks.is_empty() {
        fields.insert("blocks".to_owned(), Value::Array(blocks));
        return None;
    }
    if let Some((search, replace)) = json_edit(trimmed) {
        fields.insert("search".to_owned(), search.into());
        fields.insert("replace".to_owned(), replace.into());
        return None;
    }
    if trimmed.starts_with("s/") {
        let chain = parse_sed(trimmed);
        if let [one] = &chain[..] {
            fields.insert("search".to_owned(), one.search.clone().into());
            fields.insert("replace".to_owned(), one.replace.clone().into());
            fields.insert("flags".to_owned(), one.flags.clone().into());
            fields.insert("sed".to_owned(), true.into());
            return None;
        }
        if !chain.is_empty() {
            let blocks = chain
                .iter()
                .map(|one| json!({ "search": one.search, "replace": one.replace, "flags": one.flags, "sed": true }));
            fields.insert("blocks".to_owned(), blocks.collect());
            return None;
        }
    }
    let given = fields.get("body").and_then(Value::as_str).map(str::to_owned).filter(|body| !body.is_empty());
    if fields.get("search").and_then(Value::as_str).is_some_and(|search| !search.is_empty()) {
        fields.entry("replace").or_insert_with(|| trimmed.into());
        return None;
    }
    if let Some(search) = given.as_ref().filter(|_| !trimmed.is_empty()) {
        fields.insert("search".to_owned(), search.clone().into());
        fields.insert("replace".to_owned(), trimmed.into());
        fields.remove("body");
        return None;
    }
    fields.insert(
        "body".to_owned(),
        if trimmed.is_empty() { given.unwrap_or_default() } else { trimmed.to_owned() }.into(),
    );
    None
}

/// Parses `{"search": "old", "replace": "new"}`, also with `=` in place of the colons.
fn json_edit(text: &str) -> Option<(String, String)> {
    if !text.starts_with('{') || !text.contains("search") {
        return None;
    }
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let replace = value.get("replace").and_then(Value::as_str).unwrap_or_default();
        return Some((value.get("search")?.as_str()?.to_owned(), replace.to_owned()));
    }
    let after = |name: &str| {
        let rest = text.split_once(name)?.1.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    Some((after("search")?, after("replace").unwrap_or_default()))
}
