//! Publishes the tools to extensions, and keeps a selection by an extension until the agent applies it.
//!
//! A selection is visible at once: in `activeTools`, in the prompt options and, outside of a run, in the prompt, which pi also
//! rebuilds with each selection. It takes effect with the next turn.

use super::AgentControl;
use crate::system_prompt::PromptOptions;
use pijs_tools::words::Words;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Default)]
pub(super) struct PublishedTools {
    all: Vec<Value>,
    active: Vec<String>,
    /// Pending selection of `setActiveTools`.
    wanted: Option<Vec<String>>,
    /// Data for rendering the prompt again after a selection.
    prompt: Option<ToolPrompt>,
    /// Number of times the agent has read the registrations. A realm compares it with its own count: a tool that it registered
    /// earlier and that is missing from the list was excluded.
    taken: u64,
}

impl PublishedTools {
    /// Resets the state at the start of a session.
    pub(super) fn emptied(&self) -> Self {
        Self { taken: self.taken, ..Self::default() }
    }
}

/// Data for rendering the prompt with the selected tools.
pub(crate) struct ToolPrompt {
    pub(crate) options: PromptOptions,
    pub(crate) words: Arc<Words>,
    /// Whether the run has its own prompt, which keeps the tools of its turn.
    pub(crate) of_run: bool,
}

impl AgentControl {
    /// Selects tools from the next turn on (`setActiveTools`). A name may refer to a tool that the extension registers later in
    /// the same message; unknown names are ignored when the agent applies the selection.
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

    /// Returns all tools as `{name, description, parameters, sourceInfo}`, and the names of the active ones.
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
    struct StateRecorder(Mutex<BTreeMap<String, Value>>);

    impl StateRecorder {
        fn take(&self, key: &str) -> Option<Value> {
            self.0.lock().unwrap().remove(key)
        }
    }

    impl StateSink for StateRecorder {
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
    fn a_tool_selection_is_visible_at_once_except_in_the_prompt_of_a_run() {
        let said = Arc::new(StateRecorder::default());
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
