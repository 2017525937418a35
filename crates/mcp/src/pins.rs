//! The words of servers about their tools and prompts, and the files of their programs, as the user last agreed to them.
//!
//! A tool that says something else in a later session may be another tool: it is left out until the user has seen what it says now.
//! Pins belong to a server's key, which names its file and its program or address ([`ServerConfig::identity`](crate::config::ServerConfig)):
//! another program under the same name begins anew.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Name of the file, below the folder of PiJS's own state.
pub const FILE_NAME: &str = "mcp-tools.json";
/// Longest file that is read.
pub const MAX_FILE_BYTES: u64 = 16 << 20;
/// Lists that are kept, three of a server; the ones that were noted first go.
const MAX_LISTS: usize = 1536;
/// Problems that are kept.
const MAX_PROBLEMS: usize = 512;

/// Digests by tool, by prompt, or by file of a program.
pub type ToolDigests = BTreeMap<String, String>;

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// In the order they were noted.
    #[serde(default)]
    servers: Vec<(String, ToolDigests)>,
    /// The problems that servers had when they were last used, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    problems: BTreeMap<String, String>,
}

/// The changes of a server's tools since the last time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Tools that were not there.
    pub added: Vec<String>,
    /// Tools that say something else.
    pub changed: Vec<String>,
    /// Tools that are gone.
    pub removed: Vec<String>,
}

impl Changes {
    /// Whether a person has to see it: what is gone harms nobody.
    pub fn need_consent(&self) -> bool {
        !self.added.is_empty() || !self.changed.is_empty()
    }

    /// In words about tools or prompts: `changes the description of a, b; has new tools: c; has no more: d`.
    pub fn words(&self, kind: &str) -> String {
        let list = |names: &[String]| names.join(", ");
        let mut words = Vec::new();
        if !self.changed.is_empty() {
            words.push(format!("changes the description of {}", list(&self.changed)));
        }
        if !self.added.is_empty() {
            words.push(format!("has new {kind}: {}", list(&self.added)));
        }
        if !self.removed.is_empty() {
            words.push(format!("has no more: {}", list(&self.removed)));
        }
        words.join("; ")
    }
}

impl Pins {
    /// The digests under a key.
    pub fn digests(&self, key: &str) -> Option<&ToolDigests> {
        self.servers.iter().find(|(known, _)| known == key).map(|(_, digests)| digests)
    }

    /// Compares what a server says now. `None`: it was never seen.
    pub fn compare(&self, key: &str, now: &ToolDigests) -> Option<Changes> {
        let known = self.digests(key)?;
        let mut changes = Changes::default();
        for (name, digest) in now {
            match known.get(name) {
                None => changes.added.push(name.clone()),
                Some(pinned) if pinned != digest => changes.changed.push(name.clone()),
                Some(_) => {}
            }
        }
        changes.removed = known.keys().filter(|name| !now.contains_key(*name)).cloned().collect();
        Some(changes)
    }

    /// Takes what a server says now for what was agreed to.
    pub fn pin(&mut self, key: &str, now: ToolDigests) {
        self.servers.retain(|(known, _)| known != key);
        self.servers.push((key.to_owned(), now));
        let over = self.servers.len().saturating_sub(MAX_LISTS);
        self.servers.drain(..over);
    }

    /// Notes what went wrong with a server, or that nothing did. Answers whether that is news.
    pub fn note(&mut self, key: &str, problem: Option<&str>) -> bool {
        if self.problems.get(key).map(String::as_str) == problem {
            return false;
        }
        match problem {
            Some(problem) if self.problems.len() < MAX_PROBLEMS => {
                drop(self.problems.insert(key.to_owned(), problem.to_owned()))
            }
            _ => drop(self.problems.remove(key)),
        }
        true
    }

    /// Returns the problem that a server had when it was last used.
    pub fn problem(&self, key: &str) -> Option<&str> {
        self.problems.get(key).map(String::as_str)
    }

    /// Forgets a server, whatever program or address it was; answers whether it was known.
    pub fn forget(&mut self, key: &str) -> bool {
        let before = self.servers.len();
        let is_its = |known: &str| known.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        self.servers.retain(|(known, _)| !is_its(known));
        let had_problem = self.problems.remove(key).is_some();
        self.servers.len() < before || had_problem
    }
}

/// `sha256:HEX` over all that a server says of a tool.
pub fn digest(tool: &rmcp::model::Tool) -> String {
    digest_of(&serde_json::json!([
        tool.name,
        tool.title,
        tool.description,
        tool.input_schema,
        tool.output_schema,
        tool.annotations
    ]))
}

/// `sha256:HEX` over all that a server says of a prompt. Its text is told when it is used, and may be another each time.
pub fn digest_of_prompt(prompt: &rmcp::model::Prompt) -> String {
    digest_of(&serde_json::json!([prompt.name, prompt.title, prompt.description, prompt.arguments]))
}

fn digest_of(said: &serde_json::Value) -> String {
    let hex: String = Sha256::digest(said.to_string()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(tools: &[(&str, &str)]) -> ToolDigests {
        tools.iter().map(|(name, digest)| ((*name).to_owned(), (*digest).to_owned())).collect()
    }

    #[test]
    fn a_server_is_held_to_what_it_said() {
        let mut pins = Pins::default();
        let first = digests(&[("a", "1"), ("b", "1"), ("c", "1")]);
        assert_eq!(pins.compare("k", &first), None);
        pins.pin("k", first.clone());
        assert_eq!(pins.compare("k", &first), Some(Changes::default()));
        let later = digests(&[("a", "1"), ("b", "2"), ("d", "1")]);
        let changes = pins.compare("k", &later).expect("known");
        assert!(changes.need_consent());
        assert_eq!(changes.words("tools"), "changes the description of b; has new tools: d; has no more: c");
        assert!(!pins.compare("k", &digests(&[("a", "1")])).expect("known").need_consent());
        pins.pin("k prompts", first);
        assert!(pins.forget("k") && !pins.forget("k"));
        assert_eq!(pins.digests("k prompts"), None);
    }

    #[test]
    fn a_digest_covers_what_a_model_and_a_person_are_told() {
        let tool = |description: &str, schema: &str, hint: bool| -> rmcp::model::Tool {
            serde_json::from_value(serde_json::json!({
                "name": "a", "description": description, "annotations": {"readOnlyHint": hint},
                "inputSchema": {"type": "object", "properties": {"x": {"description": schema}}},
            }))
            .expect("a tool")
        };
        let digests = [tool("d", "s", true), tool("e", "s", true), tool("d", "t", true), tool("d", "s", false)]
            .map(|tool| digest(&tool));
        assert_eq!(digests[0], digest(&tool("d", "s", true)));
        assert!((1..4).all(|at| digests[at] != digests[0]), "{digests:?}");
    }
}
