//! The built-in system prompt, in our own words.

use crate::extensions::Extensions;
use crate::tools::ToolSet;
use std::path::Path;

/// The prompt for a working directory and a set of tools.
pub(crate) fn build(cwd: &Path, tools: &ToolSet, extensions: &dyn Extensions) -> String {
    let mut prompt = String::from(
        "You are a coding agent. You work in the user's project with the tools below and answer briefly.\n\nTools:\n",
    );
    let mut guidelines = vec!["Read a file before you change it.".to_owned(), "Name files by their paths.".to_owned()];
    for tool in tools.active(extensions) {
        if let Some(snippet) = tool.prompt_snippet() {
            prompt.push_str(&format!("- {}: {snippet}\n", tool.name()));
        }
        for guideline in tool.prompt_guidelines() {
            let guideline = guideline.trim().to_owned();
            if !guideline.is_empty() && !guidelines.contains(&guideline) {
                guidelines.push(guideline);
            }
        }
    }
    prompt.push_str("\nGuidelines:\n");
    for guideline in guidelines {
        prompt.push_str(&format!("- {guideline}\n"));
    }
    prompt.push_str(&format!("\nWorking directory: {}", cwd.display()));
    prompt
}
