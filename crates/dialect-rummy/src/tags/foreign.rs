//! Parses tool calls in the formats of several vendors' models.

use serde_json::{Map, Value};

/// The result of parsing a foreign tool call.
pub(super) enum Call {
    /// A tool call.
    Command { name: String, arguments: Map<String, Value> },
    /// Plain text: displayed, not parsed as a command.
    Text(String),
    /// A malformed call, with the warning about it.
    Refused(String),
}

const MALFORMED: &str =
    "Native tool call format not supported: use the XML commands that are listed above, such as a get tag with a path.";

/// Parses a line that begins with three backticks. Returns its length, and whether it begins a fence around commands; bare
/// backticks end the fence if `is_open`. Returns `None` for any other fence, whose content is text.
pub(super) fn fence(text: &str, is_open: bool) -> Option<(usize, bool)> {
    let line_end = text.find('\n').map_or(text.len(), |end| end + 1);
    match text[..line_end].strip_prefix("```")?.trim_end() {
        "tool_code" | "tool_command" | "tool_call" | "xml" => Some((line_end, true)),
        "" if is_open => Some((line_end, false)),
        _ => None,
    }
}

/// Parses a foreign tool call at the start of a text. Returns the results and the length of the parsed text.
pub(super) fn call(text: &str) -> Option<(Vec<Call>, usize)> {
    if let Some(rest) = text.strip_prefix("<|tool_call>").or_else(|| text.strip_prefix("<|tool_call|>")) {
        let (call, length) = qwen(rest);
        return Some((vec![call], text.len() - rest.len() + length));
    }
    if text.starts_with("<|\"|>") {
        return Some((vec![Call::Text("\"".to_owned())], 5));
    }
    if text.starts_with("<|") {
        return harmony(text);
    }
    if let Some(rest) = text.strip_prefix("[TOOL_CALLS]") {
        let (value, length) = json(rest)?;
        let calls = match value {
            Value::Array(items) => items.iter().map(named).collect::<Option<Vec<_>>>()?,
            other => vec![named(&other)?],
        };
        return Some((calls, text.len() - rest.len() + length));
    }
    if text.starts_with('{') {
        let head: String = text.chars().take(64).filter(|one| !one.is_whitespace()).collect();
        if !head.starts_with("{\"name\":\"") && !head.starts_with("{\"type\":\"function") {
            return None;
        }
        let (value, length) = json(text)?;
        return Some((vec![named(&value)?], length));
    }
    tool_use(text)
}

/// Parses `call:NAME{key:"value"}<tool_call|>`, or JSON, after the opening token.
fn qwen(text: &str) -> (Call, usize) {
    let ends = ["<tool_call|>", "<|tool_call|>", "<|tool_call>", "</tool_call>", "<|/tool_call|>"];
    let end = ends.iter().filter_map(|end| text.find(end).map(|place| (place, place + end.len()))).min();
    let line_end = text.find(['\n', '<']).unwrap_or(text.len());
    let (inside_end, length) = end.unwrap_or((line_end, line_end));
    let inside = text[..inside_end].trim();
    let read = || {
        if let Some((value, _)) = json(inside) {
            return named(&value);
        }
        let (name, rest) = inside.strip_prefix("call:")?.split_once('{')?;
        let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
        let name = last_word(name);
        let arguments = pairs(inside);
        if arguments.values().all(|value| value.as_str().is_none_or(str::is_empty)) {
            return Some(Call::Refused(format!(
                "Could not extract an argument from a native call of {name}: write <{name}>value</{name}>."
            )));
        }
        Some(Call::Command { name, arguments })
    };
    (end.and_then(|_| read()).unwrap_or_else(|| Call::Refused(MALFORMED.to_owned())), length)
}

/// Parses tokens of the harmony format: a message to a function is a call, the final channel is parsed for commands, and other
/// channels are text.
fn harmony(text: &str) -> Option<(Vec<Call>, usize)> {
    if let Some(rest) = text.strip_prefix("<|channel|>") {
        let (head, after) = rest.split_once("<|message|>")?;
        let ends = ["<|call|>", "<|end|>", "<|return|>", "<|start|>"];
        let end = ends.iter().filter_map(|end| after.find(end)).min().unwrap_or(after.len());
        let start = text.len() - after.len();
        if let Some((_, to)) = head.split_once("to=functions.") {
            let name =
                to.split(|one: char| !(one.is_alphanumeric() || one == '_')).next().unwrap_or_default().to_owned();
            let call = match json(&after[..end]) {
                Some((Value::Object(arguments), _)) => Call::Command { name, arguments },
                _ => Call::Refused(MALFORMED.to_owned()),
            };
            return Some((vec![call], start + end));
        }
        if head.trim_start().starts_with("final") {
            return Some((Vec::new(), start));
        }
        return Some((vec![Call::Text(after[..end].to_owned())], start + end));
    }
    if let Some(rest) = text.strip_prefix("<|start|>") {
        let role = rest.find("<|").unwrap_or(0);
        return Some((Vec::new(), text.len() - rest.len() + if role <= 64 { role } else { 0 }));
    }
    let token = ["<|end|>", "<|call|>", "<|return|>", "<|message|>", "<|constrain|>"];
    token.iter().find(|token| text.starts_with(**token)).map(|token| (Vec::new(), token.len()))
}

/// Parses `<tool_use><name>NAME</name><input>{...}</input></tool_use>`.
fn tool_use(text: &str) -> Option<(Vec<Call>, usize)> {
    let rest = text.strip_prefix("<tool_use>")?;
    let (inside, after) = rest.split_once("</tool_use>")?;
    let between = |open: &str, close: &str| Some(inside.split_once(open)?.1.split_once(close)?.0.trim().to_owned());
    let name = between("<name>", "</name>")?;
    let (value, _) = json(&between("<input>", "</input>")?)?;
    let arguments = value.as_object()?.clone();
    Some((vec![Call::Command { name: last_word(&name), arguments }], text.len() - after.len()))
}

/// Parses a JSON value at the beginning of a text. Returns the value and its end.
fn json(text: &str) -> Option<(Value, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

/// Converts `{"name": ..., "arguments": ...}` to a call; the arguments are an object, or JSON in a string.
fn named(value: &Value) -> Option<Call> {
    let value = value.get("function").unwrap_or(value);
    let name = last_word(value.get("name")?.as_str()?);
    let arguments = ["arguments", "parameters", "input"].iter().find_map(|key| value.get(*key))?;
    let arguments = match arguments {
        Value::String(text) => serde_json::from_str(text).ok()?,
        other => other.clone(),
    };
    Some(Call::Command { name, arguments: arguments.as_object()?.clone() })
}

/// Returns the tool in a qualified name: `get` in `rummy.nvim/get`.
fn last_word(name: &str) -> String {
    name.trim().rsplit(['/', ':', '.']).next().unwrap_or_default().to_ascii_lowercase()
}

/// Parses `key: value` pairs, with values in various quotes or without quotes.
fn pairs(text: &str) -> Map<String, Value> {
    let mut found = Map::new();
    let mut rest = text;
    while let Some(place) = rest.find([':', '=']) {
        let key = rest[..place].trim_matches(|one: char| !(one.is_alphanumeric() || one == '_')).to_owned();
        let after = rest[place + 1..].trim_start();
        let quotes = [("<|\"|>", "<|\"|>"), ("\"", "\""), ("'", "'")];
        let quoted = quotes.iter().find_map(|(open, close)| after.strip_prefix(open).map(|inside| (inside, *close)));
        let (value, next) = match quoted {
            Some((inside, close)) => inside.split_once(close).unwrap_or((inside, "")),
            None => after.find(',').map_or((after, ""), |end| (&after[..end], &after[end..])),
        };
        if !key.is_empty() {
            found.insert(key, value.trim().into());
        }
        rest = next;
    }
    found
}
