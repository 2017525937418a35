//! The `write` tool: writes a whole file.

use super::{ToolContext, ToolOutput, refused};
use crate::system::FileKind;
use serde::Deserialize;
use std::io;
use std::path::Path;

#[derive(Deserialize)]
pub(super) struct Input {
    path: String,
    content: String,
}

pub(super) async fn run(context: &mut ToolContext<'_>, input: Input) -> Result<ToolOutput, String> {
    let path = context.path(&input.path);
    match context.system.write(&path, input.content.into_bytes()).await {
        Ok(()) => Ok(ToolOutput::text(format!("Successfully wrote to {}", input.path))),
        Err(error) => Err(why(context, &path, &error).await),
    }
}

/// Returns the error message for a failed write, whether creating the parent folders or opening the file failed.
async fn why(context: &ToolContext<'_>, path: &Path, error: &io::Error) -> String {
    let Some(parent) = path.parent() else { return refused(error, "open", Some(path)) };
    match context.system.kind(parent).await {
        Ok(FileKind::Directory) => refused(error, "open", Some(path)),
        // A file has the name of the folder or of one of its parents.
        _ => refused(error, "mkdir", Some(parent)),
    }
}
