//! The `edit` tool: replaces parts of a file. All replacements are matched against the original text.
//!
//! Text that has no exact match is searched again after normalisation (`normalise.rs`), which removes differences that models
//! often cause: typographic quotes and dashes, unusual spaces, blanks at line ends. Lines that no replacement touches keep their
//! bytes.

mod diff;
mod normalise;

use super::{ToolContext, ToolOutput, refused};
use crate::system::FileKind;
use serde::Deserialize;
use serde_json::{Value, json};
use std::ops::Range;

#[derive(Deserialize)]
pub(super) struct Input {
    path: String,
    edits: Vec<Replacement>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Replacement {
    old_text: String,
    new_text: String,
}

/// A replacement with its position in the file.
struct MatchedEdit {
    /// Index of the edit in the arguments.
    edit: usize,
    at: Range<usize>,
    new: String,
}

/// Normalises the argument forms that models use into one: `edits` as a JSON text or as a single edit, and `oldText` with
/// `newText` next to `path`.
pub fn prepare(mut arguments: Value) -> Value {
    let Some(members) = arguments.as_object_mut() else { return arguments };
    let is_edit = |value: &Value| value["oldText"].is_string() && value["newText"].is_string();
    let listed = match members.get("edits") {
        Some(Value::String(text)) => serde_json::from_str::<Value>(text).ok(),
        edits => edits.cloned(),
    };
    match listed {
        Some(Value::Array(edits)) => drop(members.insert("edits".to_owned(), edits.into())),
        Some(edit) if is_edit(&edit) => drop(members.insert("edits".to_owned(), json!([edit]))),
        _ => {}
    }
    let beside = |key: &str| members.get(key).filter(|text| text.is_string()).cloned();
    let (Some(old), Some(new)) = (beside("oldText"), beside("newText")) else { return arguments };
    members.shift_remove("oldText");
    members.shift_remove("newText");
    let mut edits = members.get("edits").and_then(Value::as_array).cloned().unwrap_or_default();
    edits.push(json!({"oldText": old, "newText": new}));
    members.insert("edits".to_owned(), edits.into());
    arguments
}

pub(super) async fn run(context: &mut ToolContext<'_>, input: Input) -> Result<ToolOutput, String> {
    if input.edits.is_empty() {
        return Err("Edit tool input is invalid. edits must contain at least one replacement.".to_owned());
    }
    let path = context.path(&input.path);
    let kind = context.system.kind(&path).await;
    let unreachable = |error: &std::io::Error| {
        let (code, _) = pijs_connectors::fs::system_error(error);
        format!("Could not edit file: {}. Error code: {code}.", input.path)
    };
    if kind.map_err(|error| unreachable(&error))? == FileKind::Other {
        return Err(format!("Could not edit file: {}: it is not a regular file.", input.path));
    }
    let bytes = context.system.read(&path).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => unreachable(&error),
        _ => refused(&error, "read", None),
    })?;
    let text = String::from_utf8_lossy(&bytes);
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", &*text),
    };
    // Models write LF; the file keeps the line ends of its first line.
    let crlf = body.find('\n').is_some_and(|at| body[..at].ends_with('\r'));
    let before = line_feeds(body);
    // Runs on a blocking thread, because each edit searches the whole file.
    let applied = tokio::task::spawn_blocking(move || apply(&input, &before).map(|after| (input, before, after)));
    let (input, before, after) = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return Err("Operation aborted".to_owned()),
        applied = applied => applied.map_err(|error| error.to_string())??,
    };
    let written = if crlf { after.replace('\n', "\r\n") } else { after.clone() };
    let written = context.system.write(&path, format!("{mark}{written}").into_bytes()).await;
    written.map_err(|error| refused(&error, "open", Some(&path)))?;
    let message = format!("Successfully replaced {} block(s) in {}.", input.edits.len(), input.path);
    // Runs on a blocking thread, because the diff of tens of thousands of changed lines takes seconds.
    let lines = |edit: &Replacement| edit.old_text.lines().count() + edit.new_text.lines().count() + 2;
    let replaced = input.edits.iter().map(lines).sum();
    let details = tokio::task::spawn_blocking(move || diff::details(&input.path, &before, &after, replaced)).await;
    Ok(ToolOutput::text(message).with_details(details.map_err(|error| error.to_string())?))
}

fn line_feeds(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Returns the text after all replacements.
fn apply(input: &Input, before: &str) -> Result<String, String> {
    let (path, count) = (&input.path, input.edits.len());
    let one = count == 1;
    let edits: Vec<(String, String)> =
        input.edits.iter().map(|edit| (line_feeds(&edit.old_text), line_feeds(&edit.new_text))).collect();
    if let Some(at) = edits.iter().position(|(old, _)| old.is_empty()) {
        let which = if one { "oldText".to_owned() } else { format!("edits[{at}].oldText") };
        return Err(format!("{which} must not be empty in {path}."));
    }
    let exact = edits.iter().all(|(old, _)| {
        before.contains(old.as_str()) || !normalise::normalised(before).contains(&normalise::normalised(old))
    });
    let base = if exact { before.to_owned() } else { normalise::normalised(before) };
    let normalised_base = normalise::normalised(&base);
    let mut matched = Vec::new();
    for (edit, (old, new)) in edits.into_iter().enumerate() {
        let pattern = normalise::normalised(&old);
        let found = base.find(&old).map(|at| at..at + old.len());
        let found = found.or_else(|| (!exact).then(|| base.find(&pattern).map(|at| at..at + pattern.len())).flatten());
        let Some(at) = found else {
            let what = if one { "the exact text".to_owned() } else { format!("edits[{edit}]") };
            let which = if one { "old text" } else { "oldText" };
            return Err(format!(
                "Could not find {what} in {path}. The {which} must match exactly including all whitespace and newlines."
            ));
        };
        let times = if pattern.is_empty() { 0 } else { normalised_base.matches(&pattern).count() };
        if times > 1 {
            let (what, which) = match one {
                true => ("the text".to_owned(), "The text"),
                false => (format!("edits[{edit}]"), "Each oldText"),
            };
            return Err(format!(
                "Found {times} occurrences of {what} in {path}. {which} must be unique. Please provide more context to make it unique."
            ));
        }
        matched.push(MatchedEdit { edit, at, new });
    }
    matched.sort_by_key(|place| place.at.start);
    if let Some([first, second]) = matched.array_windows().find(|[first, second]| first.at.end > second.at.start) {
        return Err(format!(
            "edits[{}] and edits[{}] overlap in {path}. Merge them into one edit or target disjoint regions.",
            first.edit, second.edit
        ));
    }
    let after = if exact { replaced(&base, 0, &matched) } else { overlaid(before, &base, &matched) };
    if after == before {
        let why = match one {
            true => {
                "The replacement produced identical content. This might indicate an issue with special characters or the text not existing as expected."
            }
            false => "The replacements produced identical content.",
        };
        return Err(format!("No changes made to {path}. {why}"));
    }
    Ok(after)
}

/// Applies replacements to the part of the base text that begins at `offset`.
fn replaced(part: &str, offset: usize, matched: &[MatchedEdit]) -> String {
    let mut text = String::with_capacity(part.len());
    let mut from = 0;
    for place in matched {
        text.push_str(&part[from..place.at.start - offset]);
        text.push_str(&place.new);
        from = place.at.end - offset;
    }
    text.push_str(&part[from..]);
    text
}

/// Applies replacements that matched the normalised text. Lines that they touch come from that text, all others from the
/// original.
fn overlaid(before: &str, base: &str, matched: &[MatchedEdit]) -> String {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let mut starts: Vec<usize> = vec![0];
    starts.extend(base.split_inclusive('\n').scan(0, |end, line| {
        *end += line.len();
        Some(*end)
    }));
    let line_of = |at: usize| starts.partition_point(|start| *start <= at) - 1;
    let (mut text, mut next) = (String::with_capacity(before.len()), 0);
    let mut at = 0;
    while at < matched.len() {
        let first = line_of(matched[at].at.start);
        let mut end = line_of(matched[at].at.end.max(matched[at].at.start + 1) - 1) + 1;
        let mut last = at + 1;
        while last < matched.len() && line_of(matched[last].at.start) < end {
            end = end.max(line_of(matched[last].at.end.max(matched[last].at.start + 1) - 1) + 1);
            last += 1;
        }
        text.extend(old[next..first].iter().copied());
        text.push_str(&replaced(&base[starts[first]..starts[end]], starts[first], &matched[at..last]));
        (next, at) = (end, last);
    }
    text.extend(old[next..].iter().copied());
    text
}
