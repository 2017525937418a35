//! Moves in the tree of a session, and extracts branches.

use super::entry::{ANOTHER_PROGRAM, Body, Entry, EntryId, SOME_EXTENSION};
use super::index::{CompactId, EntryKind};
use super::{Session, SessionError};
use pijs_llm::message::VERDICT_TYPE;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Model and thinking level of a branch; `None` for a branch without messages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BranchState {
    /// Provider and id of the model.
    pub model: Option<(String, String)>,
    /// The thinking level.
    pub thinking: Option<String>,
    /// Model of the latest entry that sets it, even on a branch without messages.
    pub last_model: Option<(String, String)>,
    /// Whether an extension made the change that set `last_model`.
    pub is_set_by_extension: bool,
    /// Thinking level of the latest entry that sets it, even on a branch without messages.
    pub last_thinking: Option<String>,
}

impl Session {
    /// Makes an entry the leaf, so that the next append follows it; `None` moves before the first entry. Returns `false` if the
    /// entry does not exist.
    pub fn go_to(&mut self, leaf: Option<&EntryId>) -> bool {
        if leaf.is_some_and(|leaf| self.index_of(leaf).is_none()) {
            return false;
        }
        self.leaf = leaf.cloned();
        true
    }

    /// Appends a summary of the abandoned branch below `leaf`.
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

    /// Iterates over indices from an entry, or from the leaf, up to the root.
    fn upwards(&self, from: Option<&EntryId>) -> impl Iterator<Item = usize> + '_ {
        self.entries.index.upwards(from.or(self.leaf.as_ref()).and_then(|id| self.index_of(id)))
    }

    /// Returns the entries from the root to `from`, or to the leaf. Loads all of them into memory, unlike [`Session::entries`]
    /// and [`Session::seen`].
    pub fn branch(&self, from: Option<&EntryId>) -> Result<Vec<Arc<Entry>>, SessionError> {
        let mut branch: Vec<_> = self.upwards(from).map(|at| self.at(at)).collect::<Result<_, _>>()?;
        branch.reverse();
        Ok(branch)
    }

    /// Iterates over the entries from the root to the leaf.
    pub fn along_branch(&self) -> impl DoubleEndedIterator<Item = Result<Arc<Entry>, SessionError>> + '_ {
        let branch: Vec<usize> = self.upwards(None).collect();
        branch.into_iter().rev().map(|at| self.read(at))
    }

    /// Returns the part of the branch that is visible to the model: from the first entry that the latest compaction kept, or the
    /// whole branch without a compaction.
    pub fn seen(&self) -> Result<Vec<Arc<Entry>>, SessionError> {
        let mut seen = Vec::new();
        let mut upwards = self.upwards(None);
        let kept = loop {
            let Some(at) = upwards.next() else { break None };
            let entry = self.at(at)?;
            let kept = match &entry.body {
                Body::Compaction { first_kept_entry_id, .. } => Some(CompactId::of(&first_kept_entry_id.0)),
                _ => None,
            };
            seen.push(entry);
            if kept.is_some() {
                break kept;
            }
        };
        // A compaction that kept no entry names one that is not on this branch.
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

    /// Returns the deepest entry that is an ancestor of both entries or one of them.
    pub fn common_ancestor(&self, a: &EntryId, b: &EntryId) -> Option<EntryId> {
        let a: BTreeSet<usize> = self.upwards(Some(a)).collect();
        self.upwards(Some(b)).find(|at| a.contains(at)).map(|at| self.id_at(at))
    }

    /// Returns the entries below `above` (`None`: below the root), down to and including `from`.
    pub fn below(&self, above: Option<&EntryId>, from: &EntryId) -> Result<Vec<Arc<Entry>>, SessionError> {
        let above = above.and_then(|id| self.index_of(id));
        let mut below = Vec::new();
        for at in self.upwards(Some(from)).take_while(|at| Some(*at) != above) {
            below.push(self.at(at)?);
        }
        below.reverse();
        Ok(below)
    }

    /// Returns model and thinking level of the current branch.
    pub fn branch_state(&self) -> Result<BranchState, SessionError> {
        let (mut last_model, mut last_thinking, mut began) = (None, None, false);
        let mut is_set_by_extension = false;
        for at in self.upwards(None) {
            let asked = match self.entries.index.node(at).kind {
                EntryKind::Model => last_model.is_none(),
                EntryKind::Thinking => last_thinking.is_none(),
                EntryKind::Message => !began,
                EntryKind::Compaction | EntryKind::Other => false,
            };
            if !asked {
                continue;
            }
            let entry = self.at(at)?;
            match &entry.body {
                Body::ModelChange { provider, model_id } => {
                    last_model = Some((provider.clone(), model_id.clone()));
                    is_set_by_extension = !entry.authors.is_empty();
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
        Ok(BranchState { model, thinking, last_model, is_set_by_extension, last_thinking })
    }

    /// Returns the authors of entries that the model has not replied to yet. `true`: the author added a message or a summary;
    /// `false`: it only edited one. Changes of a reply or a result, and verdicts, are not included. Lines of another program
    /// count as unread wherever they are in the session, because no user has seen them.
    pub fn pending_authors(&self) -> Result<BTreeMap<String, bool>, SessionError> {
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

    /// Returns the labels by entry.
    pub fn labels(&self) -> &BTreeMap<EntryId, String> {
        &self.entries.index.labels
    }

    /// Creates an empty session in the same folder; in memory if this one is.
    pub fn sibling(&self, parent_session: Option<String>) -> Self {
        let cwd = Path::new(&self.header.cwd);
        let mut session = match self.path().and_then(Path::parent) {
            Some(folder) => Self::create_in(folder, cwd, self.options.clone()),
            None => Self::in_memory(cwd, self.options.clone()),
        };
        session.header.parent_session = parent_session;
        session
    }

    /// Creates a session from the branch that ends at `leaf`. Labels are appended at the end.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
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
            if session.index_of(target_id).is_some() {
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
