//! `write`: a whole file.

use super::{ToolContext, ToolOutput};
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Input {
    path: String,
    content: String,
}

pub(super) async fn run(context: &mut ToolContext<'_>, input: Input) -> Result<ToolOutput, String> {
    let path = context.path(&input.path);
    context
        .system
        .write(&path, input.content.into_bytes())
        .await
        .map_err(|error| format!("Cannot write {}: {error}", input.path))?;
    Ok(ToolOutput::text(format!("Successfully wrote to {}", input.path)))
}
