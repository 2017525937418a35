//! The system prompt: sections in a fixed order, as in pi, with texts from [`Words`].
//!
//! [`PromptOptions`] is the input, which `before_agent_start` handlers see and change as `systemPromptOptions`;
//! [`PromptOptions::sections`] renders it. The first section is plain, every other one is in a tag with its name:
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
use crate::options::AgentOptions;
use crate::tool::Tool;
use crate::tool_set::ToolSet;
use pijs_protocol::chat_markup;
use pijs_resources::{ContextFile, Resources, Skill};
use pijs_tools::words::Words;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Input of the system prompt; pi's `BuildSystemPromptOptions`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PromptOptions {
    /// Text in place of the built-in preamble, tools and rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_prompt: Option<String>,
    /// Text in place of the whole prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_system_prompt: Option<String>,
    /// Names of the active tools.
    pub selected_tools: Vec<String>,
    /// One line for each tool, for all tools in order.
    pub tool_snippets: Map<String, Value>,
    /// List items for each tool, for all tools in order.
    pub tool_guidelines: Map<String, Value>,
    /// Additional list items.
    pub prompt_guidelines: Vec<String>,
    /// Text appended to the built-in prompt.
    pub append_system_prompt: String,
    /// Sections of extensions: name to text. An empty text removes a section.
    pub sections: Map<String, Value>,
    /// Working directory.
    pub cwd: String,
    /// Context files such as `AGENTS.md`.
    pub context_files: Vec<ContextFile>,
    /// Skills that are listed for the model.
    pub skills: Vec<Skill>,
}

impl PromptOptions {
    /// Neutralises text that extensions may have written ([`chat_markup`]).
    pub(crate) fn neutralise(&mut self) {
        let whole = [&mut self.custom_prompt, &mut self.force_system_prompt].into_iter().flatten();
        let texts = whole.chain(&mut self.prompt_guidelines).chain(std::iter::once(&mut self.append_system_prompt));
        for text in texts {
            if let Cow::Owned(changed) = chat_markup::neutralise(text) {
                *text = changed;
            }
        }
        let maps = [&mut self.tool_snippets, &mut self.tool_guidelines, &mut self.sections];
        maps.into_iter().flat_map(Map::values_mut).for_each(chat_markup::neutralise_all);
    }

    /// Returns the options of the session, on which every run is based.
    pub(crate) fn new(
        asked: &AgentOptions,
        tools: &ToolSet,
        resources: &Resources,
        extensions: &dyn Extensions,
    ) -> Self {
        let all = tools.all(extensions);
        let snippet =
            |tool: &Tool| Some((tool.name().to_owned(), tool.prompt_snippet().filter(|text| !text.is_empty())?.into()));
        let bullets = |tool: &Tool| {
            let lines = distinct(tool.prompt_guidelines().iter().map(String::as_str));
            (!lines.is_empty()).then(|| (tool.name().to_owned(), lines.into()))
        };
        // Explicit options have precedence over files, even when they are empty.
        let custom = asked.system_prompt.clone().or_else(|| resources.system_prompt.clone());
        let appended = asked.append_system_prompt.clone().or_else(|| resources.appended_prompt.clone());
        Self {
            custom_prompt: custom.filter(|text| !text.is_empty()),
            force_system_prompt: None,
            selected_tools: tools.active_names(extensions),
            tool_snippets: all.iter().filter_map(snippet).collect(),
            tool_guidelines: all.iter().filter_map(bullets).collect(),
            prompt_guidelines: Vec::new(),
            append_system_prompt: appended.unwrap_or_default(),
            sections: extensions.prompt_sections(),
            cwd: asked.cwd.display().to_string(),
            context_files: resources.context_files.clone(),
            skills: resources.skills.clone(),
        }
    }

    /// Appends a text to the prompt after a blank line.
    pub(crate) fn append(&mut self, text: &str) {
        if !self.append_system_prompt.is_empty() {
            self.append_system_prompt += "\n\n";
        }
        self.append_system_prompt += text;
    }

    /// Renders the prompt.
    pub fn render(&self, words: &Words) -> String {
        match &self.force_system_prompt {
            Some(forced) => forced.clone(),
            None => text(&self.sections(words)),
        }
    }

    /// Renders the sections in order, each with its tag; the first one is named `preamble`. Ignores `force_system_prompt`.
    pub(crate) fn sections(&self, words: &Words) -> Map<String, Value> {
        let mut sections = Map::new();
        let custom = self.custom_prompt.clone().filter(|text| !text.is_empty());
        let is_built_in = custom.is_none();
        sections.insert("preamble".to_owned(), custom.unwrap_or_else(|| words.preamble.clone()).into());
        let mut put = |name: &str, text: String| sections.insert(name.to_owned(), tagged(name, &text));
        if is_built_in {
            put("tools", self.tools(words));
            put("rules", self.rules(words));
            if let Some(docs) = words.docs() {
                put("docs", docs);
            }
        }
        if !self.append_system_prompt.is_empty() {
            put("addendum", self.append_system_prompt.clone());
        }
        if !self.context_files.is_empty() {
            let files = self.context_files.iter().map(|file| {
                format!("<project_instructions path=\"{}\">\n{}\n</project_instructions>", file.path, file.content)
            });
            let head = words.project_context.clone();
            put("project_context", std::iter::once(head).chain(files).collect::<Vec<_>>().join("\n\n"));
        }
        if let Some(skills) = self.skill_list(words) {
            put("skills", skills);
        }
        put("cwd", self.cwd.replace('\\', "/"));
        for (name, text) in &self.sections {
            if let Some(text) = text.as_str().filter(|text| !text.is_empty()) {
                put(name, text.to_owned());
            }
        }
        sections
    }

    fn tools(&self, words: &Words) -> String {
        let snippet = |name: &String| self.tool_snippets.get(name).and_then(Value::as_str);
        let shown = |name: &String| snippet(name).filter(|snippet| !snippet.is_empty());
        let line = |name: &String| shown(name).map(|snippet| format!("- {name}: {snippet}"));
        let lines: Vec<String> = self.selected_tools.iter().filter_map(line).collect();
        let list = &words.tool_list;
        let lines = if lines.is_empty() { list.none.clone() } else { lines.join("\n") };
        format!("{}{lines}{}", list.before, list.after)
    }

    fn rules(&self, words: &Words) -> String {
        let around = words.rules(&self.selected_tools);
        let bullets = |name: &String| self.tool_guidelines.get(name).and_then(Value::as_array);
        let of_tools = self.selected_tools.iter().filter_map(bullets).flatten().filter_map(Value::as_str);
        let further = self.prompt_guidelines.iter().chain(&around.last).map(String::as_str);
        let all = around.first.iter().map(String::as_str).chain(of_tools).chain(further);
        distinct(all).iter().map(|rule| format!("- {rule}")).collect::<Vec<_>>().join("\n")
    }

    /// Returns the list of skills, if a tool can read them.
    fn skill_list(&self, words: &Words) -> Option<String> {
        let is_active = |name: &&str| self.selected_tools.iter().any(|tool| tool == name);
        let around = words.skills.get(["read", "bash"].into_iter().find(is_active)?)?;
        let mut shown = self.skills.iter().filter(|skill| !skill.disable_model_invocation).peekable();
        shown.peek()?;
        let mut text = around.before.clone();
        for skill in shown {
            text.push_str(&format!(
                "  <skill>\n    <name>{}</name>\n    <description>{}</description>\n    <location>{}</location>\n  </skill>\n",
                escaped(&skill.name),
                escaped(&skill.description),
                escaped(&skill.file_path)
            ));
        }
        text.push_str(&around.after);
        Some(text)
    }
}

fn tagged(name: &str, text: &str) -> Value {
    format!("<{name}>\n{text}\n</{name}>").into()
}

/// Joins sections to one text.
pub(crate) fn text(sections: &Map<String, Value>) -> String {
    sections.values().filter_map(Value::as_str).collect::<Vec<_>>().join("\n\n")
}

/// Trims lines and removes empty and repeated ones.
fn distinct<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        if !seen.iter().any(|known| known == line) {
            seen.push(line.to_owned());
        }
    }
    seen
}

/// Escapes text for XML.
pub(crate) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&apos;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sections_have_a_fixed_order_and_extensions_replace_them() {
        let mut options = PromptOptions {
            custom_prompt: Some("You are a test.".into()),
            selected_tools: vec!["read".into()],
            cwd: "/w".into(),
            context_files: vec![ContextFile { path: "/w/AGENTS.md".into(), content: "Be kind.".into() }],
            ..PromptOptions::default()
        };
        let project = "<project_context>\nInstructions of this project:\n\n<project_instructions path=\"/w/AGENTS.md\">\nBe kind.\n</project_instructions>\n</project_context>";
        assert_eq!(options.render(&Words::own()), format!("You are a test.\n\n{project}\n\n<cwd>\n/w\n</cwd>"));
        options.sections.insert("cwd".into(), json!("nowhere"));
        options.sections.insert("mine".into(), json!("x"));
        options.sections.insert("gone".into(), json!(""));
        assert!(
            options
                .render(&Words::own())
                .ends_with("</project_context>\n\n<cwd>\nnowhere\n</cwd>\n\n<mine>\nx\n</mine>")
        );
        options.force_system_prompt = Some("all".into());
        assert_eq!(options.render(&Words::own()), "all");
    }

    #[test]
    fn guidelines_skip_inactive_tools_and_duplicates() {
        let options = PromptOptions {
            selected_tools: vec!["a".into()],
            tool_guidelines: Map::from_iter([
                ("a".to_owned(), json!(["one", "two"])),
                ("b".to_owned(), json!(["three"])),
            ]),
            prompt_guidelines: vec!["one".into()],
            ..PromptOptions::default()
        };
        assert_eq!(options.rules(&Words::own()).lines().take(2).collect::<Vec<_>>(), ["- one", "- two"]);
        assert!(!options.rules(&Words::own()).contains("three"));
    }
}
