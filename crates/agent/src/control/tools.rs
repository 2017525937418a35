//! What extensions are told about tools, and what they choose between two looks of the agent.
//!
//! A choice shows at once: in `activeTools`, in the options of the prompt and, outside of a run, in the prompt itself, as
//! pi builds it anew with each choice. It counts from the next turn on.

use super::AgentControl;
use crate::system_prompt::PromptOptions;
use pijs_tools::words::Words;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Default)]
pub(super) struct Tools {
    all: Vec<Value>,
    active: Vec<String>,
    /// `setActiveTools` since the agent last looked.
    wanted: Option<Vec<String>>,
    /// What the prompt is built from.
    prompt: Option<ToolPrompt>,
    /// How often the agent took over what is registered: a realm counts no tool of its own beyond that, since one that
    /// was left out is none.
    taken: u64,
}

impl Tools {
    /// As at the start of a session.
    pub(super) fn emptied(&self) -> Self {
        Self { taken: self.taken, ..Self::default() }
    }
}

/// What a prompt is built from, for choices of tools to show in it.
pub(crate) struct ToolPrompt {
    pub(crate) options: PromptOptions,
    pub(crate) words: Arc<Words>,
    /// Whether a run has a prompt of its own, which keeps the tools that its turn has.
    pub(crate) of_run: bool,
}

impl AgentControl {
    /// `setActiveTools`, from the next turn on. A name may be of a tool that is only registered with the rest of what its
    /// extension sends; that of no tool counts for nothing once the agent looks.
    pub fn set_active_tools(&self, names: &[String]) {
        let mut inner = self.lock();
        inner.tools.wanted = Some(names.to_owned());
        names.clone_into(&mut inner.tools.active);
        self.0.state.set("activeTools", json!(names));
        if let Some(prompt) = &mut inner.tools.prompt {
            names.clone_into(&mut prompt.options.selected_tools);
            self.0.state.set("systemPromptOptions", serde_json::to_value(&prompt.options).expect("string keys"));
            if !prompt.of_run {
                self.0.state.set("systemPrompt", json!(prompt.options.render(&prompt.words)));
            }
        }
    }

    /// All tools as `{name, description, parameters, sourceInfo}`, and the names of the active ones.
    pub fn tools(&self) -> (Vec<Value>, Vec<String>) {
        let tools = &self.lock().tools;
        (tools.all.clone(), tools.active.clone())
    }

    pub(crate) fn take_active_tools(&self) -> Option<Vec<String>> {
        self.lock().tools.wanted.take()
    }

    pub(crate) fn publish_tools(&self, all: Vec<Value>, active: Vec<String>, prompt: ToolPrompt) {
        let mut inner = self.lock();
        if inner.tools.all != all {
            self.0.state.set("tools", json!(all));
            inner.tools.all = all;
        }
        if inner.tools.active != active {
            self.0.state.set("activeTools", json!(active));
            inner.tools.active = active;
        }
        if inner.tools.prompt.as_ref().is_none_or(|known| known.options != prompt.options) {
            self.0.state.set("systemPromptOptions", serde_json::to_value(&prompt.options).expect("string keys"));
        }
        inner.tools.prompt = Some(prompt);
        inner.tools.taken += 1;
        self.0.state.set("toolsTaken", json!(inner.tools.taken));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extensions::StateSink;
    use crate::testing;
    use pijs_session_store::Session;
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Said(Mutex<BTreeMap<String, Value>>);

    impl Said {
        fn take(&self, key: &str) -> Option<Value> {
            self.0.lock().unwrap().remove(key)
        }
    }

    impl StateSink for Said {
        fn set(&self, key: &str, value: Value) {
            self.0.lock().unwrap().insert(key.to_owned(), value);
        }

        fn change_entries(&self, _: usize, _: Vec<Value>) {}
    }

    fn prompt(of_run: bool) -> ToolPrompt {
        let mut options = PromptOptions { cwd: "/w".to_owned(), ..PromptOptions::default() };
        options.tool_snippets.insert("look".to_owned(), json!("Looks around"));
        ToolPrompt { options, words: Words::own(), of_run }
    }

    #[test]
    fn a_choice_shows_at_once_and_in_a_run_leaves_its_prompt_alone() {
        let said = Arc::new(Said::default());
        let session = Session::in_memory(Path::new("/w"), testing::ambient());
        let control = AgentControl::new(session, Arc::clone(&said) as Arc<dyn StateSink>, testing::ambient());
        control.publish_tools(vec![json!({"name": "look"})], Vec::new(), prompt(false));
        control.set_active_tools(&["look".to_owned()]);
        assert_eq!(said.take("activeTools"), Some(json!(["look"])));
        assert_eq!(said.take("systemPromptOptions").unwrap()["selectedTools"], json!(["look"]));
        assert!(said.take("systemPrompt").unwrap().as_str().unwrap().contains("- look: Looks around"));
        control.publish_tools(vec![json!({"name": "look"})], Vec::new(), prompt(true));
        said.take("systemPromptOptions");
        control.set_active_tools(&["look".to_owned()]);
        assert_eq!(said.take("systemPromptOptions").unwrap()["selectedTools"], json!(["look"]));
        assert_eq!(said.take("systemPrompt"), None);
    }
}
