//! `ls`: what is in a directory.

use super::{ToolContext, ToolOutput, truncate};
use crate::system::Kind;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const LIMIT: usize = 500;

#[derive(Deserialize)]
pub(super) struct Input {
    path: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn run(context: &mut ToolContext<'_>, input: Input) -> Result<ToolOutput, String> {
    let shown = input.path.as_deref().unwrap_or(".");
    let path = context.path(shown);
    match context.system.kind(&path).await {
        Err(_) => return Err(format!("Path not found: {shown}")),
        Ok(Kind::Directory) => {}
        Ok(_) => return Err(format!("Not a directory: {shown}")),
    }
    let mut listed =
        context.system.list(&path).await.map_err(|error| format!("Cannot read directory {shown}: {error}"))?;
    listed.sort_by_key(|item| item.name.to_lowercase());
    if listed.is_empty() {
        return Ok(ToolOutput::text("(empty directory)"));
    }
    let limit = input.limit.unwrap_or(LIMIT);
    let reached = listed.len() > limit;
    let names: Vec<String> = listed
        .into_iter()
        .take(limit)
        .map(|item| if item.is_directory { format!("{}/", item.name) } else { item.name })
        .collect();
    let kept = truncate::head_of(&names.join("\n"), usize::MAX);
    let mut details = Map::new();
    let mut text = kept.content.clone();
    if reached {
        text.push_str(&format!("\n\n[{limit} entries limit reached. Use limit={} for more]", limit * 2));
        details.insert("entryLimitReached".to_owned(), limit.into());
    }
    if kept.truncated {
        details.insert("truncation".to_owned(), json!(kept));
    }
    Ok(ToolOutput::text(text).with_details(Value::Object(details)))
}
