//! The words of the system prompt, of the built-in tools and of requests for summaries.
//!
//! Code says what stands where (`agent/src/system_prompt.rs`, and the tools here); the sentences are data of one shape, from
//! one of two places:
//!
//! ```text
//! words/own.json                    this program's own, always there        Words::own
//! the package pi-coding-agent       pi's, by running it (pijs-runtime)      SessionBuilder::words
//! ```
//!
//! Whoever tunes a model or an extension to pi's prompt needs pi's sentences; nothing here needs one of them.

use crate::Builtin;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// pi has eight built-in tools.
const MOST_DECIDING: usize = 10;

const OWN: &str = include_str!("words/own.json");

/// Every sentence that a session brings by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Words {
    /// The first section of the prompt.
    pub preamble: String,
    /// What stands around the list of tools.
    pub tool_list: ToolList,
    /// The tools whose presence decides which of `rules` holds.
    pub deciding: Vec<String>,
    /// Rules for each choice among `deciding`.
    pub rules: Vec<Rules>,
    /// The section on pi's documentation, cut where the folder of the documentation belongs; empty: no such section.
    pub docs: Vec<String>,
    /// What stands around the list of skills, by the tool that reads them.
    pub skills: BTreeMap<String, Around>,
    /// Heads the project's own instructions.
    pub project_context: String,
    /// What a model is told that is to summarise.
    pub summaries: SummaryWords,
    /// The built-in tools, by name.
    pub tools: BTreeMap<String, ToolWords>,
    /// The folder of pi's documentation on this machine. Without one the prompt does not speak of it.
    #[serde(skip)]
    pub pi_folder: Option<String>,
}

/// What stands before and after a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Around {
    pub before: String,
    pub after: String,
}

/// The list of tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ToolList {
    pub before: String,
    pub after: String,
    /// In place of an empty list.
    pub none: String,
}

/// The rules that hold when these of the deciding tools are there, and no others of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// In order of `deciding`.
    pub tools: Vec<String>,
    /// Before the rules of tools.
    pub first: Vec<String>,
    /// After them.
    pub last: Vec<String>,
}

/// What a model is told that is to summarise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SummaryWords {
    /// Its system prompt.
    pub system: String,
    /// What to write of a conversation.
    pub form: String,
    /// The same where there is an earlier summary.
    pub update: String,
    /// What to write of the beginning of a turn.
    pub turn: String,
    /// What to write of a branch that is left.
    pub branch: String,
    /// Stands before the summary of a branch.
    pub branch_head: String,
}

/// What the model is told of a built-in tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolWords {
    /// With the request.
    pub description: String,
    /// One line of the prompt.
    pub snippet: String,
    /// Rules of the prompt.
    #[serde(default)]
    pub guidelines: Vec<String>,
    /// JSON Schema of the input.
    pub parameters: Value,
    /// What pi asks of providers that can hold a model to a schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constrained_sampling: Option<Value>,
}

impl Words {
    /// This program's own.
    pub fn own() -> Arc<Self> {
        static WORDS: OnceLock<Arc<Words>> = OnceLock::new();
        let read = || Arc::new(Self::read(OWN.as_bytes()).expect("the words of this program are whole"));
        Arc::clone(WORDS.get_or_init(read))
    }

    /// Reads words that were written down.
    ///
    /// # Errors
    ///
    /// What is wrong with them: not of this shape, or not of all tools and choices.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        let words: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let own = |tool: &Builtin| words.tools.contains_key(tool.name());
        if let Some(absent) = Builtin::ALL.iter().find(|tool| !own(tool)) {
            return Err(format!("nothing is said of the tool {}", absent.name()));
        }
        if words.deciding.len() > MOST_DECIDING {
            return Err(format!("{} tools decide on rules", words.deciding.len()));
        }
        let absent = (0..1_usize << words.deciding.len())
            .map(|choice| words.chosen(|at| choice >> at & 1 == 1))
            .find(|chosen| words.rules_of(chosen).is_none());
        match absent {
            Some(chosen) => Err(format!("no rules for [{}]", chosen.join(", "))),
            None => Ok(words),
        }
    }

    /// What is said of a built-in tool.
    pub fn of(&self, tool: Builtin) -> &ToolWords {
        self.tools.get(tool.name()).expect("words that were read are of all tools")
    }

    /// The rules around those of tools, when these tools are active.
    pub fn rules(&self, active: &[String]) -> &Rules {
        let chosen = self.chosen(|at| active.contains(&self.deciding[at]));
        self.rules_of(&chosen).expect("words that were read have rules for each choice")
    }

    /// Some of the deciding tools, in their order.
    fn chosen(&self, is_chosen: impl Fn(usize) -> bool) -> Vec<&str> {
        self.deciding.iter().enumerate().filter(|(at, _)| is_chosen(*at)).map(|(_, name)| name.as_str()).collect()
    }

    fn rules_of(&self, chosen: &[&str]) -> Option<&Rules> {
        self.rules.iter().find(|rules| rules.tools.iter().eq(chosen))
    }

    /// The section on pi's documentation.
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
    fn words_of_some_tools_or_choices_only_are_refused() {
        assert_eq!(changed(|_| {}).unwrap(), *Words::own());
        let error = changed(|words| drop(words["tools"].as_object_mut().unwrap().remove("ls"))).unwrap_err();
        assert_eq!(error, "nothing is said of the tool ls");
        let error = changed(|words| words["deciding"] = json!(["bash"])).unwrap_err();
        assert_eq!(error, "no rules for [bash]");
    }

    #[test]
    fn the_rules_of_a_choice_do_not_depend_on_the_order_of_tools() {
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
    fn documentation_is_spoken_of_where_it_lies() {
        let mut words = changed(|words| words["docs"] = json!(["See ", "/README.md and ", "/docs"])).unwrap();
        assert_eq!(words.docs(), None);
        words.pi_folder = Some("/pi".to_owned());
        assert_eq!(words.docs().as_deref(), Some("See /pi/README.md and /pi/docs"));
    }
}
