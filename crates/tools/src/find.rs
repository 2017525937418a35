//! The `find` tool: lists files by glob.

use super::walk::FileWalk;
use super::{NO_LIMIT, ToolContext, ToolOutput, json_number, number, shown, to_count, truncate, with_notes};
use crate::system::FileKind;
use globset::GlobBuilder;
use ignore::overrides::Override;
use pijs_protocol::globs;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::Path;

const LIMIT: f64 = 1000.0;

#[derive(Deserialize)]
pub(super) struct Input {
    pattern: String,
    path: Option<String>,
    limit: Option<f64>,
}

pub(super) async fn run(context: &mut ToolContext<'_>, input: Input) -> Result<ToolOutput, String> {
    let root = context.path(input.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("."));
    if !matches!(context.system.kind(&root).await, Ok(FileKind::Directory)) {
        return Err(format!("Path not found: {}", shown(&root)));
    }
    if !globs::fits(&input.pattern) {
        return Err(format!("Bad pattern: {}", globs::problem()));
    }
    // As in fd for pi, a pattern without a slash matches file names, and any other pattern the whole path or its end.
    let by_name = !input.pattern.contains('/');
    let is_whole =
        by_name || input.pattern == "**" || ["/", "**/"].iter().any(|start| input.pattern.starts_with(start));
    let pattern = if is_whole { input.pattern.clone() } else { format!("**/{}", input.pattern) };
    let glob = GlobBuilder::new(&pattern)
        .literal_separator(true)
        .case_insensitive(!pattern.contains(char::is_uppercase))
        .build()
        .map_err(|error| format!("Bad pattern {:?}: {error}", input.pattern))?
        .compile_matcher();
    let asked = input.limit.unwrap_or(LIMIT);
    let limit = to_count(asked);
    let mut results = Vec::new();
    let mut walk = FileWalk::below(context, &root, Override::empty(), true).await;
    while results.len() < limit {
        let Some(found) = walk.next(context).await? else { break };
        let name = found.path.file_name().filter(|_| by_name).map_or(found.path.as_path(), Path::new);
        if glob.is_match(name) {
            results.push(if found.is_directory { format!("{}/", found.relative) } else { found.relative.clone() });
        }
    }
    if results.is_empty() {
        return Ok(ToolOutput::text("No files found matching pattern"));
    }
    let reached = results.len() >= limit;
    let kept = truncate::head_of(&results.join("\n"), NO_LIMIT);
    let (mut details, mut notes) = (Map::new(), Vec::new());
    if reached {
        let (limit, more) = (number(asked), number(asked * 2.0));
        notes.push(format!("{limit} results limit reached. Use limit={more} for more, or refine pattern"));
        details.insert("resultLimitReached".to_owned(), json_number(asked));
    }
    let text = kept.content.clone();
    if kept.truncated {
        notes.push(format!("{} limit reached", truncate::size(truncate::MAX_BYTES)));
        details.insert("truncation".to_owned(), json!(kept));
    }
    Ok(ToolOutput::text(with_notes(text, &notes)).with_details(Value::Object(details)))
}
