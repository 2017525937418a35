//! `find`: files by glob.

use super::walk::Walk;
use super::{ToolContext, ToolOutput, truncate};
use crate::system::Kind;
use globset::GlobBuilder;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const LIMIT: usize = 1000;

#[derive(Deserialize)]
pub(super) struct Input {
    pattern: String,
    path: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn run(context: &mut ToolContext<'_>, input: Input) -> Result<ToolOutput, String> {
    let shown = input.path.as_deref().unwrap_or(".");
    let root = context.path(shown);
    if !matches!(context.system.kind(&root).await, Ok(Kind::Directory)) {
        return Err(format!("Path not found: {shown}"));
    }
    let glob = GlobBuilder::new(&input.pattern)
        .literal_separator(true)
        .build()
        .map_err(|error| format!("Bad pattern {:?}: {error}", input.pattern))?
        .compile_matcher();
    // A pattern without a slash matches names, as fd does.
    let by_name = !input.pattern.contains('/');
    let limit = input.limit.unwrap_or(LIMIT);
    let mut results = Vec::new();
    let mut walk = Walk::below(&root);
    while results.len() < limit {
        let Some(found) = walk.next(context).await? else { break };
        let name = found.relative.rsplit('/').next().unwrap_or(&found.relative);
        if glob.is_match(if by_name { name } else { &found.relative }) {
            results.push(if found.is_directory { format!("{}/", found.relative) } else { found.relative.clone() });
        }
    }
    if results.is_empty() {
        return Ok(ToolOutput::text("No files found matching pattern"));
    }
    let reached = results.len() >= limit;
    let kept = truncate::head_of(&results.join("\n"), usize::MAX);
    let mut text = kept.content.clone();
    let mut details = Map::new();
    if reached {
        text.push_str(&format!(
            "\n\n[{limit} results limit reached. Use limit={} for more, or refine pattern]",
            limit * 2
        ));
        details.insert("resultLimitReached".to_owned(), limit.into());
    }
    if kept.truncated {
        details.insert("truncation".to_owned(), json!(kept));
    }
    Ok(ToolOutput::text(text).with_details(Value::Object(details)))
}
