//! Moving in the tree of a session, and taking one branch of it out.

use super::entry::{Body, Entry, EntryId};
use super::{Session, SessionError};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// What a session was left with. A session in which nobody has said anything was left with nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Left {
    /// Provider and id.
    pub model: Option<(String, String)>,
    /// Level.
    pub thinking: Option<String>,
    /// The latest entry for a model, whether anybody has said anything or not.
    pub(crate) last_model: Option<(String, String)>,
    /// The latest entry for a level.
    pub(crate) last_thinking: Option<String>,
}

impl Session {
    /// Makes an entry the leaf: what is appended next follows it. `None` goes before the first entry.
    /// Answers whether the entry exists.
    pub fn go_to(&mut self, leaf: Option<&EntryId>) -> bool {
        if leaf.is_some_and(|leaf| self.entry(leaf).is_none()) {
            return false;
        }
        self.leaf = leaf.cloned();
        true
    }

    /// Appends a summary of the branch that is left below `leaf`.
    pub fn branch_with_summary(
        &mut self,
        leaf: Option<&EntryId>,
        summary: String,
        extra: Map<String, Value>,
    ) -> Result<&Entry, SessionError> {
        let from_id = self.leaf.as_ref().map_or_else(|| "root".to_owned(), |leaf| leaf.0.clone());
        self.go_to(leaf);
        self.append(Body::BranchSummary { from_id, summary, extra })
    }

    /// The deepest entry that two entries have above them, or are.
    pub fn common_ancestor(&self, a: &EntryId, b: &EntryId) -> Option<EntryId> {
        let a = self.branch(Some(a));
        let of_both = |entry: &&&Entry| a.iter().any(|other| other.id == entry.id);
        self.branch(Some(b)).iter().rev().find(of_both).map(|entry| entry.id.clone())
    }

    /// The model and the thinking level of the branch that goes on.
    pub fn left_with(&self) -> Left {
        let branch = self.branch(None);
        let (mut last_model, mut last_thinking) = (None, None);
        for entry in &branch {
            match &entry.body {
                Body::ModelChange { provider, model_id } => last_model = Some((provider.clone(), model_id.clone())),
                Body::ThinkingLevelChange { thinking_level } => last_thinking = Some(thinking_level.clone()),
                _ => {}
            }
        }
        let began = branch.iter().any(|entry| matches!(entry.body, Body::Message { .. }));
        let (model, thinking) = (last_model.clone().filter(|_| began), last_thinking.clone().filter(|_| began));
        Left { model, thinking, last_model, last_thinking }
    }

    /// The labels that hold, by entry.
    pub fn labels(&self) -> BTreeMap<&EntryId, &str> {
        let mut labels = BTreeMap::new();
        for entry in &self.entries {
            if let Body::Label { target_id, label } = &entry.body {
                match label.as_deref().filter(|label| !label.is_empty()) {
                    Some(label) => labels.insert(target_id, label),
                    None => labels.remove(target_id),
                };
            }
        }
        labels
    }

    /// A new, empty session beside this one: in the same folder, or in memory.
    pub fn sibling(&self, parent_session: Option<String>) -> Self {
        let cwd = Path::new(&self.header.cwd);
        let mut session = match self.path().and_then(Path::parent) {
            Some(folder) => Self::create_in(folder, cwd, self.ambient.clone()),
            None => Self::in_memory(cwd, self.ambient.clone()),
        };
        session.header.parent_session = parent_session;
        session
    }

    /// A new session with the branch that ends at `leaf`. Labels are given again at the end.
    ///
    /// # Errors
    ///
    /// When its file cannot be written.
    pub fn branched(&self, leaf: &EntryId) -> Result<Self, SessionError> {
        let mut session = self.sibling(self.path().map(|path| path.display().to_string()));
        let mut replaced: BTreeMap<EntryId, EntryId> = BTreeMap::new();
        let mut open: Vec<EntryId> = Vec::new();
        for entry in self.branch(Some(leaf)) {
            if matches!(entry.body, Body::Label { .. }) {
                open.push(entry.id.clone());
                continue;
            }
            replaced.extend(open.drain(..).map(|label| (label, entry.id.clone())));
            let mut entry = Entry { parent: session.leaf.clone(), ..entry.clone() };
            if let Body::Compaction { first_kept_entry_id, .. } = &mut entry.body
                && let Some(kept) = replaced.get(first_kept_entry_id)
            {
                *first_kept_entry_id = kept.clone();
            }
            session.insert(entry);
        }
        let labels: Vec<(EntryId, String)> =
            self.labels().into_iter().map(|(target, label)| (target.clone(), label.to_owned())).collect();
        for (target_id, label) in labels {
            if session.entry(&target_id).is_some() {
                let body = Body::Label { target_id, label: Some(label) };
                let entry = Entry {
                    id: session.fresh_id(),
                    parent: session.leaf.clone(),
                    timestamp: session.ambient.now_iso(),
                    body,
                };
                session.insert(entry);
            }
        }
        if session.entries.iter().any(Entry::is_assistant) {
            session.storage.write_all(&session.header, &session.entries)?;
        }
        Ok(session)
    }
}
