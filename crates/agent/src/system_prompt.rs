//! The system prompt: sections in a fixed order, as pi has them, in our own words.
//!
//! [`PromptOptions`] is what the prompt is built from and what `before_agent_start` handlers see and
//! change as `systemPromptOptions`; [`PromptOptions::render`] makes the text. The first section stands
//! bare, every other one in a tag of its name:
//!
//! ```text
//! You are a coding agent. ...
//!
//! <tools>
//! - read: Read file contents
//! </tools>
//! ...
//! <cwd>
//! /home/me/project
//! </cwd>
//! ```

use crate::extensions::Extensions;
use crate::resources::{ContextFile, Resources, Skill};
use crate::tools::{Tool, ToolSet};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

const PREAMBLE: &str =
    "You are a coding agent. You work in the user's project with the tools below and answer briefly.";
const RULES: [&str; 2] = ["Read a file before you change it", "Name files by their paths"];
const SKILLS: &str = "The following skills provide specialized instructions for specific tasks.\n";
const SKILLS_END: &str = "When a skill file references a relative path, resolve it against the skill directory (parent of SKILL.md / dirname of the path) and use that absolute path in tool commands.\n";

/// What a system prompt is built from; pi's `BuildSystemPromptOptions`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PromptOptions {
    /// In place of our own first words, tools and rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_prompt: Option<String>,
    /// The whole prompt, whatever the rest says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_system_prompt: Option<String>,
    /// Names of the active tools.
    pub selected_tools: Vec<String>,
    /// One line a tool, of all tools.
    pub tool_snippets: BTreeMap<String, String>,
    /// Bullets a tool, of all tools.
    pub tool_guidelines: BTreeMap<String, Vec<String>>,
    /// Further bullets.
    pub prompt_guidelines: Vec<String>,
    /// After our own words.
    pub append_system_prompt: String,
    /// Sections of extensions: name to text. An empty text is no section.
    pub sections: Map<String, Value>,
    /// Working directory.
    pub cwd: String,
    /// `AGENTS.md` and its like.
    pub context_files: Vec<ContextFile>,
    /// Skills the model may load.
    pub skills: Vec<Skill>,
}

impl PromptOptions {
    /// What a session has: the base of every run.
    pub(crate) fn new(
        cwd: &Path,
        custom_prompt: Option<String>,
        tools: &ToolSet,
        resources: &Resources,
        extensions: &dyn Extensions,
    ) -> Self {
        let all = ToolSet::all(extensions);
        let snippet =
            |tool: &Tool| Some((tool.name().to_owned(), tool.prompt_snippet().filter(|text| !text.is_empty())?));
        let bullets = |tool: &Tool| {
            let lines = distinct(tool.prompt_guidelines().iter().map(String::as_str));
            (!lines.is_empty()).then(|| (tool.name().to_owned(), lines))
        };
        Self {
            custom_prompt,
            force_system_prompt: None,
            selected_tools: tools.active_names(extensions),
            tool_snippets: all.iter().filter_map(snippet).collect(),
            tool_guidelines: all.iter().filter_map(bullets).collect(),
            prompt_guidelines: Vec::new(),
            append_system_prompt: resources.appended_prompt.clone(),
            sections: Map::new(),
            cwd: cwd.display().to_string(),
            context_files: resources.context_files.clone(),
            skills: resources.skills.clone(),
        }
    }

    /// The prompt's text.
    pub fn render(&self) -> String {
        if let Some(forced) = &self.force_system_prompt {
            return forced.clone();
        }
        let mut sections: Vec<(String, String)> = Vec::new();
        let mut put = |name: &str, text: String| match sections.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = text,
            None => sections.push((name.to_owned(), text)),
        };
        if self.custom_prompt.is_none() {
            put("tools", self.tools());
            put("rules", self.rules());
        }
        if !self.append_system_prompt.is_empty() {
            put("addendum", self.append_system_prompt.clone());
        }
        if !self.context_files.is_empty() {
            let files = self.context_files.iter().map(|file| {
                format!("<project_instructions path=\"{}\">\n{}\n</project_instructions>", file.path, file.content)
            });
            let head = "Project-specific instructions and guidelines:".to_owned();
            put("project_context", std::iter::once(head).chain(files).collect::<Vec<_>>().join("\n\n"));
        }
        if let Some(skills) = self.skill_list() {
            put("skills", skills);
        }
        put("cwd", self.cwd.replace('\\', "/"));
        let mut preamble =
            self.custom_prompt.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| PREAMBLE.to_owned());
        for (name, text) in &self.sections {
            if let Some(text) = text.as_str().filter(|text| !text.is_empty()) {
                put(name, text.to_owned());
            }
        }
        for (name, text) in sections {
            preamble.push_str(&format!("\n\n<{name}>\n{text}\n</{name}>"));
        }
        preamble
    }

    fn tools(&self) -> String {
        let line = |name: &String| self.tool_snippets.get(name).map(|snippet| format!("- {name}: {snippet}"));
        let lines: Vec<String> = self.selected_tools.iter().filter_map(line).collect();
        if lines.is_empty() { "(none)".to_owned() } else { lines.join("\n") }
    }

    fn rules(&self) -> String {
        let of_tools = self.selected_tools.iter().filter_map(|name| self.tool_guidelines.get(name)).flatten();
        let all = of_tools.chain(&self.prompt_guidelines).map(String::as_str).chain(RULES);
        distinct(all).iter().map(|rule| format!("- {rule}")).collect::<Vec<_>>().join("\n")
    }

    /// The list of skills, when some tool can read them.
    fn skill_list(&self) -> Option<String> {
        let reader = ["read", "bash"].into_iter().find(|name| self.selected_tools.iter().any(|tool| tool == name))?;
        let mut shown = self.skills.iter().filter(|skill| !skill.disable_model_invocation).peekable();
        shown.peek()?;
        let how = match reader {
            "read" => "Use the read tool to load a skill's file when the task matches its description.\n",
            _ => "Use bash to load a skill's file when the task matches its description.\n",
        };
        let mut text = format!("{SKILLS}{how}{SKILLS_END}\n<available_skills>\n");
        for skill in shown {
            text.push_str(&format!(
                "  <skill>\n    <name>{}</name>\n    <description>{}</description>\n    <location>{}</location>\n  </skill>\n",
                escaped(&skill.name),
                escaped(&skill.description),
                escaped(&skill.file_path)
            ));
        }
        text.push_str("</available_skills>");
        Some(text)
    }
}

/// Trimmed, without empty ones, each once.
fn distinct<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        if !seen.iter().any(|known| known == line) {
            seen.push(line.to_owned());
        }
    }
    seen
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&apos;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sections_stand_in_their_order_and_those_of_extensions_replace_them() {
        let mut options = PromptOptions {
            custom_prompt: Some("You are a test.".into()),
            selected_tools: vec!["read".into()],
            cwd: "/w".into(),
            context_files: vec![ContextFile { path: "/w/AGENTS.md".into(), content: "Be kind.".into() }],
            ..PromptOptions::default()
        };
        let project = "<project_context>\nProject-specific instructions and guidelines:\n\n<project_instructions path=\"/w/AGENTS.md\">\nBe kind.\n</project_instructions>\n</project_context>";
        assert_eq!(options.render(), format!("You are a test.\n\n{project}\n\n<cwd>\n/w\n</cwd>"));
        options.sections.insert("cwd".into(), json!("nowhere"));
        options.sections.insert("mine".into(), json!("x"));
        options.sections.insert("gone".into(), json!(""));
        assert!(options.render().ends_with("</project_context>\n\n<cwd>\nnowhere\n</cwd>\n\n<mine>\nx\n</mine>"));
        options.force_system_prompt = Some("all".into());
        assert_eq!(options.render(), "all");
    }

    #[test]
    fn guidelines_of_inactive_tools_are_left_out_and_bullets_stand_once() {
        let options = PromptOptions {
            selected_tools: vec!["a".into()],
            tool_guidelines: BTreeMap::from([
                ("a".into(), vec!["one".into(), "two".into()]),
                ("b".into(), vec!["three".into()]),
            ]),
            prompt_guidelines: vec!["one".into()],
            ..PromptOptions::default()
        };
        assert_eq!(options.rules().lines().take(2).collect::<Vec<_>>(), ["- one", "- two"]);
        assert!(!options.rules().contains("three"));
    }
}
