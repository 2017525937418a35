//! Texts of the system prompt, of the built-in tools and of summary requests.
//!
//! Code determines the structure (`agent/src/system_prompt.rs`, and the tools here); the sentences are data in one format, from
//! one of two sources:
//!
//! ```text
//! words/own.json                    this program's own, always available    Words::own the package pi-coding-agent       pi's,
//! by running it (pijs-runtime)      SessionBuilder::words
//! ```
//!
//! A model or extension that was tuned to pi's prompt needs pi's sentences. No code depends on a particular sentence.

use crate::Builtin;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Maximum number of deciding tools, which bounds the 2^n combinations in `rules`; pi has eight built-in tools.
const MAX_DECIDING: usize = 10;

const OWN: &str = include_str!("words/own.json");

/// All texts that a session uses without extensions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Words {
    /// The first section of the prompt.
    pub preamble: String,
    /// Texts around the list of tools.
    pub tool_list: ToolList,
    /// Tools whose presence selects an entry of `rules`.
    pub deciding: Vec<String>,
    /// Rules for each combination of `deciding`.
    pub rules: Vec<RuleTexts>,
    /// The section on pi's documentation, split where its folder is inserted; empty if there is no such section.
    pub docs: Vec<String>,
    /// Texts around the list of skills, by the tool that reads skills.
    pub skills: BTreeMap<String, ListTexts>,
    /// Heading of the project's instructions.
    pub project_context: String,
    /// Prompts for summaries.
    pub summaries: SummaryWords,
    /// The built-in tools, by name.
    pub tools: BTreeMap<String, ToolWords>,
    /// Folder of pi's documentation on this machine; without it the prompt omits the section.
    #[serde(skip)]
    pub pi_folder: Option<String>,
}

/// Texts before and after a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ListTexts {
    pub before: String,
    pub after: String,
}

/// Texts of the list of tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ToolList {
    pub before: String,
    pub after: String,
    /// Text in place of an empty list.
    pub none: String,
}

/// Rules for one combination of the deciding tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleTexts {
    /// The tools of the combination, in the order of `deciding`.
    pub tools: Vec<String>,
    /// Rules that precede those of tools.
    pub first: Vec<String>,
    /// Rules that follow those of tools.
    pub last: Vec<String>,
}

/// Prompts for summaries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SummaryWords {
    /// The system prompt.
    pub system: String,
    /// Instructions for the summary of a conversation.
    pub form: String,
    /// Instructions for the update of an earlier summary.
    pub update: String,
    /// Instructions for the summary of the beginning of a turn.
    pub turn: String,
    /// Instructions for the summary of an abandoned branch.
    pub branch: String,
    /// Heading of the summary of a branch.
    pub branch_head: String,
}

/// Texts about a built-in tool for the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolWords {
    /// Description in the model request.
    pub description: String,
    /// Line in the system prompt.
    pub snippet: String,
    /// Rules for the system prompt.
    #[serde(default)]
    pub guidelines: Vec<String>,
    /// JSON Schema of the input.
    pub parameters: Value,
    /// pi's constraint, for providers that can sample by a schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constrained_sampling: Option<Value>,
}

impl Words {
    /// Returns the texts of PiJS.
    pub fn own() -> Arc<Self> {
        static WORDS: OnceLock<Arc<Words>> = OnceLock::new();
        let read = || Arc::new(Self::read(OWN.as_bytes()).expect("the built-in words are complete"));
        Arc::clone(WORDS.get_or_init(read))
    }

    /// Parses a file of texts.
    ///
    /// # Errors
    ///
    /// Fails if the JSON does not have this format, or if a tool or a combination of tools is missing.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        let words: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let own = |tool: &Builtin| words.tools.contains_key(tool.name());
        if let Some(absent) = Builtin::ALL.iter().find(|tool| !own(tool)) {
            return Err(format!("the texts have no entry for the tool {}", absent.name()));
        }
        if words.deciding.len() > MAX_DECIDING {
            return Err(format!("{} tools select rules; the limit is {MAX_DECIDING}", words.deciding.len()));
        }
        let absent = (0..1_usize << words.deciding.len())
            .map(|choice| words.chosen(|at| choice >> at & 1 == 1))
            .find(|chosen| words.rules_of(chosen).is_none());
        match absent {
            Some(chosen) => Err(format!("no rules for [{}]", chosen.join(", "))),
            None => Ok(words),
        }
    }

    /// Returns the texts of a built-in tool.
    pub fn of(&self, tool: Builtin) -> &ToolWords {
        self.tools.get(tool.name()).expect("`read` checks that all tools have words")
    }

    /// Returns the rules for the active tools.
    pub fn rules(&self, active: &[String]) -> &RuleTexts {
        let chosen = self.chosen(|at| active.contains(&self.deciding[at]));
        self.rules_of(&chosen).expect("`read` checks that each choice has rules")
    }

    /// Returns the selected deciding tools, in their order.
    fn chosen(&self, is_chosen: impl Fn(usize) -> bool) -> Vec<&str> {
        self.deciding.iter().enumerate().filter(|(at, _)| is_chosen(*at)).map(|(_, name)| name.as_str()).collect()
    }

    fn rules_of(&self, chosen: &[&str]) -> Option<&RuleTexts> {
        self.rules.iter().find(|rules| rules.tools.iter().eq(chosen))
    }

    /// Returns the section on pi's documentation.
    pub fn docs(&self) -> Option<String> {
        let folder = self.pi_folder.as_ref()?;
        (!self.docs.is_empty()).then(|| self.docs.join(folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn changed(change: impl FnOnce(&mut Value)) -> Result<Words, String> {
        let mut value: Value = serde_json::from_str(OWN).unwrap();
        change(&mut value);
        Words::read(value.to_string().as_bytes())
    }

    #[test]
    fn incomplete_texts_are_refused() {
        assert_eq!(changed(|_| {}).unwrap(), *Words::own());
        let error = changed(|words| drop(words["tools"].as_object_mut().unwrap().remove("ls"))).unwrap_err();
        assert_eq!(error, "the texts have no entry for the tool ls");
        let error = changed(|words| words["deciding"] = json!(["bash"])).unwrap_err();
        assert_eq!(error, "no rules for [bash]");
    }

    #[test]
    fn rules_do_not_depend_on_the_order_of_tools() {
        let rules = |tools: &[&str], first: &str| json!({"tools": tools, "first": [first], "last": []});
        let words = changed(|words| {
            words["deciding"] = json!(["bash", "ls"]);
            words["rules"] = json!([
                rules(&[], "none"),
                rules(&["bash"], "one"),
                rules(&["ls"], "other"),
                rules(&["bash", "ls"], "both")
            ]);
        });
        let words = words.unwrap();
        let first = |active: &[&str]| {
            let active: Vec<String> = active.iter().map(|name| (*name).to_owned()).collect();
            words.rules(&active).first.concat()
        };
        assert_eq!(
            [first(&["read"]), first(&["ls", "read", "bash"]), first(&["mine", "ls"])],
            ["none", "both", "other"]
        );
    }

    #[test]
    fn the_documentation_section_names_its_folder() {
        let mut words = changed(|words| words["docs"] = json!(["See ", "/README.md and ", "/docs"])).unwrap();
        assert_eq!(words.docs(), None);
        words.pi_folder = Some("/pi".to_owned());
        assert_eq!(words.docs().as_deref(), Some("See /pi/README.md and /pi/docs"));
    }
}
