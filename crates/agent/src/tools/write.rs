//! `write`: a whole file.

use super::{ToolContext, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) const DESCRIPTION: &str =
    "Write a file. Creates it and the directories above it when they do not exist, and replaces it when it does.";

#[derive(Deserialize)]
pub(super) struct Input {
    path: String,
    content: String,
}

pub(super) fn parameters() -> Value {
    json!({
        "type": "object",
        "required": ["path", "content"],
        "properties": {
            "path": {"type": "string", "description": "Path of the file, relative or absolute"},
            "content": {"type": "string", "description": "All of the file's content"},
        },
    })
}

pub(super) async fn run(context: &mut ToolContext<'_>, input: Input) -> Result<ToolOutput, String> {
    let path = context.path(&input.path);
    let count = input.content.len();
    context
        .system
        .write(&path, input.content.into_bytes())
        .await
        .map_err(|error| format!("Cannot write {}: {error}", input.path))?;
    Ok(ToolOutput::text(format!("Successfully wrote {count} bytes to {}", input.path)))
}
