//! Stores digests of the tools, prompts and program files of servers, as the user last agreed to them.
//!
//! A tool whose description has changed since then may be a different tool, and is withheld until the user agrees. Pins are
//! stored under a key of the server, which contains its source and its identity
//! ([`ServerConfig::identity`](crate::config::ServerConfig)): another program with the same name has no pins.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Name of the file in the folder of PiJS's own state.
pub const FILE_NAME: &str = "mcp-tools.json";
/// Maximum size of the file in bytes.
pub const MAX_FILE_BYTES: u64 = 16 << 20;
/// Maximum number of stored lists, up to three for each server. The oldest lists are evicted.
const MAX_LISTS: usize = 1536;
/// Maximum number of stored problems.
const MAX_PROBLEMS: usize = 512;

/// Digests by the name of a tool or prompt, or by the path of a program's file.
pub type ToolDigests = BTreeMap<String, String>;

/// The contents of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// Digests by key, oldest first.
    #[serde(default)]
    servers: Vec<(String, ToolDigests)>,
    /// The problem of each server's last use, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    problems: BTreeMap<String, String>,
}

/// The differences between a server's pinned and current tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Tools without a pin.
    pub added: Vec<String>,
    /// Tools whose digest has changed.
    pub changed: Vec<String>,
    /// Pinned tools that the server no longer has.
    pub removed: Vec<String>,
}

impl Changes {
    /// Returns whether the changes require consent. Removed tools do not, because they cannot cause harm.
    pub fn need_consent(&self) -> bool {
        !self.added.is_empty() || !self.changed.is_empty()
    }

    /// Describes the changes of tools or prompts: `changes the description of a, b; has new tools: c; no longer has: d`.
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
            words.push(format!("no longer has: {}", list(&self.removed)));
        }
        words.join("; ")
    }
}

impl Pins {
    /// Returns the digests of a key.
    pub fn digests(&self, key: &str) -> Option<&ToolDigests> {
        self.servers.iter().find(|(known, _)| known == key).map(|(_, digests)| digests)
    }

    /// Compares the current digests of a server with the pinned ones. Returns `None` for a server without pins.
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

    /// Pins the current digests of a server.
    pub fn pin(&mut self, key: &str, now: ToolDigests) {
        self.servers.retain(|(known, _)| known != key);
        self.servers.push((key.to_owned(), now));
        let over = self.servers.len().saturating_sub(MAX_LISTS);
        self.servers.drain(..over);
    }

    /// Records the problem of a server, or that it has none. Returns whether this differs from the recorded state.
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

    /// Returns the problem of a server's last use.
    pub fn problem(&self, key: &str) -> Option<&str> {
        self.problems.get(key).map(String::as_str)
    }

    /// Removes all pins and the problem of a server, for any identity. Returns whether there were any.
    pub fn forget(&mut self, key: &str) -> bool {
        let before = self.servers.len();
        let is_its = |known: &str| known.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        self.servers.retain(|(known, _)| !is_its(known));
        let had_problem = self.problems.remove(key).is_some();
        self.servers.len() < before || had_problem
    }
}

/// Returns `sha256:HEX` over the whole description of a tool.
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

/// Returns `sha256:HEX` over the description of a prompt. The messages of the prompt are not included, because a server may
/// generate them for each use.
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
        assert_eq!(changes.words("tools"), "changes the description of b; has new tools: d; no longer has: c");
        assert!(!pins.compare("k", &digests(&[("a", "1")])).expect("known").need_consent());
        pins.pin("k prompts", first);
        assert!(pins.forget("k") && !pins.forget("k"));
        assert_eq!(pins.digests("k prompts"), None);
    }

    #[test]
    fn a_digest_covers_the_whole_description() {
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
