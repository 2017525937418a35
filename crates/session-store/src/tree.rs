//! Moving in the tree of a session, and taking one branch of it out.

use super::entry::{ANOTHER_PROGRAM, Body, Entry, EntryId, SOME_EXTENSION};
use super::index::{Kind, Name};
use super::{Session, SessionError};
use pijs_llm::message::VERDICT_TYPE;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What a session was left with. A session in which nobody has said anything was left with nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Left {
    /// Provider and id.
    pub model: Option<(String, String)>,
    /// Level.
    pub thinking: Option<String>,
    /// The latest entry for a model, whether anybody has said anything or not.
    pub last_model: Option<(String, String)>,
    /// Whether an extension chose that one.
    pub is_imposed: bool,
    /// The latest entry for a level.
    pub last_thinking: Option<String>,
}

impl Session {
    /// Makes an entry the leaf: what is appended next follows it. `None` goes before the first entry.
    /// Answers whether the entry exists.
    pub fn go_to(&mut self, leaf: Option<&EntryId>) -> bool {
        if leaf.is_some_and(|leaf| self.place(leaf).is_none()) {
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
        authors: BTreeSet<String>,
    ) -> Result<Arc<Entry>, SessionError> {
        let from_id = self.leaf.as_ref().map_or_else(|| "root".to_owned(), |leaf| leaf.0.clone());
        self.go_to(leaf);
        self.append_by(authors, Body::BranchSummary { from_id, summary, extra })
    }

    /// Numbers from an entry, or from the leaf, up to the root.
    fn upwards(&self, from: Option<&EntryId>) -> impl Iterator<Item = usize> + '_ {
        self.entries.index.upwards(from.or(self.leaf.as_ref()).and_then(|id| self.place(id)))
    }

    /// Entries from the root to `from`, or to the leaf: all of them at once, in memory. [`Session::entries`] and
    /// [`Session::seen`] need less.
    pub fn branch(&self, from: Option<&EntryId>) -> Result<Vec<Arc<Entry>>, SessionError> {
        let mut branch: Vec<_> = self.upwards(from).map(|at| self.at(at)).collect::<Result<_, _>>()?;
        branch.reverse();
        Ok(branch)
    }

    /// The same, one after the other.
    pub fn along_branch(&self) -> impl DoubleEndedIterator<Item = Result<Arc<Entry>, SessionError>> + '_ {
        let branch: Vec<usize> = self.upwards(None).collect();
        branch.into_iter().rev().map(|at| self.read(at))
    }

    /// The end of the branch that the model sees: from the first entry that the latest compaction kept. Without a
    /// compaction it is all of the branch.
    pub fn seen(&self) -> Result<Vec<Arc<Entry>>, SessionError> {
        let mut seen = Vec::new();
        let mut upwards = self.upwards(None);
        let kept = loop {
            let Some(at) = upwards.next() else { break None };
            let entry = self.at(at)?;
            let kept = match &entry.body {
                Body::Compaction { first_kept_entry_id, .. } => Some(Name::of(&first_kept_entry_id.0)),
                _ => None,
            };
            seen.push(entry);
            if kept.is_some() {
                break kept;
            }
        };
        // What a compaction keeps may be nothing: then it names an entry that is not above it.
        if let Some(kept) = kept.and_then(|kept| self.entries.index.find(&kept)) {
            let mut above = Vec::new();
            let mut is_above = false;
            for at in upwards {
                above.push(at);
                if at == kept {
                    is_above = true;
                    break;
                }
            }
            for at in above.into_iter().filter(|_| is_above) {
                seen.push(self.at(at)?);
            }
        }
        seen.reverse();
        Ok(seen)
    }

    /// The deepest entry that two entries have above them, or are.
    pub fn common_ancestor(&self, a: &EntryId, b: &EntryId) -> Option<EntryId> {
        let a: BTreeSet<usize> = self.upwards(Some(a)).collect();
        self.upwards(Some(b)).find(|at| a.contains(at)).map(|at| self.id_at(at))
    }

    /// The entries below `above`, or below the root, up to and with `from`.
    pub fn below(&self, above: Option<&EntryId>, from: &EntryId) -> Result<Vec<Arc<Entry>>, SessionError> {
        let above = above.and_then(|id| self.place(id));
        let mut below = Vec::new();
        for at in self.upwards(Some(from)).take_while(|at| Some(*at) != above) {
            below.push(self.at(at)?);
        }
        below.reverse();
        Ok(below)
    }

    /// The model and the thinking level of the branch that goes on.
    pub fn left_with(&self) -> Result<Left, SessionError> {
        let (mut last_model, mut last_thinking, mut began) = (None, None, false);
        let mut is_imposed = false;
        for at in self.upwards(None) {
            let asked = match self.entries.index.node(at).kind {
                Kind::Model => last_model.is_none(),
                Kind::Thinking => last_thinking.is_none(),
                Kind::Message => !began,
                Kind::Compaction | Kind::Other => false,
            };
            if !asked {
                continue;
            }
            let entry = self.at(at)?;
            match &entry.body {
                Body::ModelChange { provider, model_id } => {
                    last_model = Some((provider.clone(), model_id.clone()));
                    is_imposed = !entry.authors.is_empty();
                }
                Body::ThinkingLevelChange { thinking_level } => last_thinking = Some(thinking_level.clone()),
                Body::Message { .. } => began = true,
                _ => {}
            }
            if last_model.is_some() && last_thinking.is_some() && began {
                break;
            }
        }
        let (model, thinking) = (last_model.clone().filter(|_| began), last_thinking.clone().filter(|_| began));
        Ok(Left { model, thinking, last_model, is_imposed, last_thinking })
    }

    /// The extensions whose words no reply has followed, whatever the user said after them, and whether they wrote a
    /// message or a summary: not where they only changed a reply, or what a tool or a command came to, and not in a verdict. Another
    /// program counts as one that holds nothing, wherever in the session it wrote: until the model has answered, nobody has
    /// seen it.
    pub fn waiting_words(&self) -> Result<BTreeMap<String, bool>, SessionError> {
        let mut found = BTreeMap::new();
        if !self.entries.unanswered.is_empty() {
            found.insert(ANOTHER_PROGRAM.to_owned(), true);
            return Ok(found);
        }
        for at in self.upwards(None) {
            let entry = self.at(at)?;
            if entry.is_foreign() && entry.body.is_heard() {
                found.insert(ANOTHER_PROGRAM.to_owned(), true);
                break;
            }
            match &entry.body {
                body if !body.is_heard() => {}
                Body::CustomMessage { custom_type, .. } if entry.authors.is_empty() && custom_type != VERDICT_TYPE => {
                    found.insert(SOME_EXTENSION.to_owned(), true);
                }
                body => {
                    let is_verdict =
                        matches!(body, Body::CustomMessage { custom_type, .. } if custom_type == VERDICT_TYPE);
                    for author in &entry.authors {
                        *found.entry(author.clone()).or_default() |= !entry.is_edited && !is_verdict;
                    }
                }
            }
            if entry.is_reply() {
                break;
            }
        }
        Ok(found)
    }

    /// The labels that hold, by entry.
    pub fn labels(&self) -> &BTreeMap<EntryId, String> {
        &self.entries.index.labels
    }

    /// A new, empty session beside this one: in the same folder, or in memory.
    pub fn sibling(&self, parent_session: Option<String>) -> Self {
        let cwd = Path::new(&self.header.cwd);
        let mut session = match self.path().and_then(Path::parent) {
            Some(folder) => Self::create_in(folder, cwd, self.options.clone()),
            None => Self::in_memory(cwd, self.options.clone()),
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
        for entry in self.branch(Some(leaf))? {
            if matches!(entry.body, Body::Label { .. }) {
                open.push(entry.id.clone());
                continue;
            }
            replaced.extend(open.drain(..).map(|label| (label, entry.id.clone())));
            let mut entry = Entry { parent: session.leaf.clone(), ..Entry::clone(&entry) };
            if let Body::Compaction { first_kept_entry_id, .. } = &mut entry.body
                && let Some(kept) = replaced.get(first_kept_entry_id)
            {
                *first_kept_entry_id = kept.clone();
            }
            session.insert(entry);
        }
        session.entries.unanswered.clone_from(&self.entries.unanswered);
        for (target_id, label) in self.labels() {
            if session.place(target_id).is_some() {
                let body = Body::Label { target_id: target_id.clone(), label: Some(label.clone()) };
                let entry = Entry {
                    id: session.fresh_id(),
                    parent: session.leaf.clone(),
                    timestamp: session.options.ambient.now_iso(),
                    body,
                    authors: BTreeSet::new(),
                    is_edited: false,
                };
                session.insert(entry);
            }
        }
        if session.entries.index.has_reply {
            session.storage.write_all(&session.header, &mut session.entries)?;
        }
        Ok(session)
    }
}
