//! The `ls` tool: lists a directory.

use super::{NO_LIMIT, ToolContext, ToolOutput, json_number, number, refused, shown, truncate, with_notes};
use crate::system::FileKind;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const LIMIT: f64 = 500.0;

#[derive(Deserialize)]
pub(super) struct Input {
    path: Option<String>,
    limit: Option<f64>,
}

pub(super) async fn run(context: &mut ToolContext<'_>, input: Input) -> Result<ToolOutput, String> {
    let path = context.path(input.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("."));
    match context.system.kind(&path).await {
        Err(_) => return Err(format!("Path not found: {}", shown(&path))),
        Ok(FileKind::Directory) => {}
        Ok(_) => return Err(format!("Not a directory: {}", shown(&path))),
    }
    let listed = context.system.list(&path).await;
    let mut listed =
        listed.map_err(|error| format!("Cannot read directory: {}", refused(&error, "scandir", Some(&path))))?;
    listed.sort_by_cached_key(|item| item.name.to_lowercase());
    let limit = input.limit.unwrap_or(LIMIT);
    let mut names: Vec<String> = Vec::new();
    let mut reached = false;
    for item in listed {
        #[expect(clippy::cast_precision_loss, reason = "a directory has fewer entries than that")]
        let count = names.len() as f64;
        if count >= limit {
            reached = true;
            break;
        }
        // A link is listed as its target; a broken link is omitted.
        let is_directory = match item.is_directory || item.is_file {
            true => item.is_directory,
            false => match context.system.kind(&path.join(&item.name)).await {
                Ok(kind) => kind == FileKind::Directory,
                Err(_) => continue,
            },
        };
        names.push(if is_directory { format!("{}/", item.name) } else { item.name });
    }
    if names.is_empty() {
        return Ok(ToolOutput::text("(empty directory)"));
    }
    let kept = truncate::head_of(&names.join("\n"), NO_LIMIT);
    let (mut details, mut notes) = (Map::new(), Vec::new());
    if reached {
        notes.push(format!("{} entries limit reached. Use limit={} for more", number(limit), number(limit * 2.0)));
        details.insert("entryLimitReached".to_owned(), json_number(limit));
    }
    let text = kept.content.clone();
    if kept.truncated {
        notes.push(format!("{} limit reached", truncate::size(truncate::MAX_BYTES)));
        details.insert("truncation".to_owned(), json!(kept));
    }
    Ok(ToolOutput::text(with_notes(text, &notes)).with_details(Value::Object(details)))
}
