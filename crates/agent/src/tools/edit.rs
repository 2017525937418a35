//! `edit`: exact replacements, all matched against the file as it was.

use super::{ToolContext, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

#[derive(Deserialize)]
pub(super) struct Input {
    path: String,
    edits: Vec<Edit>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edit {
    old_text: String,
    new_text: String,
}

pub(super) async fn run(context: &mut ToolContext<'_>, input: Input) -> Result<ToolOutput, String> {
    let path = context.path(&input.path);
    let bytes = context.system.read(&path).await.map_err(|error| format!("Cannot read {}: {error}", input.path))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("Cannot edit {}: it is not UTF-8 text", input.path))?;
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text.as_str()),
    };
    // Models write LF; the file keeps what it had.
    let crlf = body.contains("\r\n");
    let before = body.replace("\r\n", "\n");
    let after = apply(&input, &before)?;
    let written = if crlf { after.replace('\n', "\r\n") } else { after.clone() };
    context
        .system
        .write(&path, format!("{mark}{written}").into_bytes())
        .await
        .map_err(|error| format!("Cannot write {}: {error}", input.path))?;
    let message = format!("Successfully replaced {} block(s) in {}.", input.edits.len(), input.path);
    Ok(ToolOutput::text(message).with_details(diff(&before, &after)))
}

fn apply(input: &Input, before: &str) -> Result<String, String> {
    let mut places = Vec::new();
    for (number, edit) in input.edits.iter().enumerate() {
        let old = edit.old_text.replace("\r\n", "\n");
        let which = if input.edits.len() == 1 { String::new() } else { format!(" (edits[{number}])") };
        if old.is_empty() {
            return Err(format!("oldText must not be empty in {}{which}", input.path));
        }
        let mut found = before.match_indices(&old);
        match (found.next(), found.next()) {
            (Some((at, _)), None) => places.push((at, at + old.len(), edit.new_text.replace("\r\n", "\n"))),
            (None, _) => {
                return Err(format!(
                    "Could not find the exact text in {}{which}. The old text must match exactly including all whitespace and newlines.",
                    input.path
                ));
            }
            (Some(_), Some(_)) => {
                let count = before.matches(&old).count();
                return Err(format!(
                    "Found {count} occurrences of the text in {}{which}. The text must be unique. Please provide more context to make it unique.",
                    input.path
                ));
            }
        }
    }
    places.sort();
    if places.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err(format!("The edits of {} overlap. Merge them into one edit.", input.path));
    }
    let mut after = String::with_capacity(before.len());
    let mut from = 0;
    for (start, end, new) in places {
        after.push_str(&before[from..start]);
        after.push_str(&new);
        from = end;
    }
    after.push_str(&before[from..]);
    if after == before {
        return Err(format!("No changes made to {}. The replacement produced identical content.", input.path));
    }
    Ok(after)
}

/// `{diff, firstChangedLine}`: changed lines with their numbers and four lines around.
fn diff(before: &str, after: &str) -> Value {
    const CONTEXT: usize = 4;
    let changes = TextDiff::from_lines(before, after);
    let width = before.lines().count().max(after.lines().count()).to_string().len();
    let mut text = String::new();
    let mut first = None;
    for (index, group) in changes.grouped_ops(CONTEXT).iter().enumerate() {
        if index > 0 {
            text.push_str(&format!(" {:width$} ...\n", ""));
        }
        for change in group.iter().flat_map(|op| changes.iter_changes(op)) {
            let (sign, number) = match change.tag() {
                ChangeTag::Equal => (' ', change.new_index()),
                ChangeTag::Delete => ('-', change.old_index()),
                ChangeTag::Insert => ('+', change.new_index()),
            };
            let number = number.map_or(0, |index| index + 1);
            if change.tag() != ChangeTag::Equal {
                first.get_or_insert(number);
            }
            text.push_str(&format!("{sign}{number:>width$} {}\n", change.value().trim_end_matches('\n')));
        }
    }
    let mut details = json!({"diff": text.trim_end_matches('\n')});
    if let Some(first) = first {
        details["firstChangedLine"] = first.into();
    }
    details
}
