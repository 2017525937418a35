//! The index of a session: metadata of each entry without its content.
//!
//! A session of a million entries is a gigabyte of text and some hundred megabytes of index. The index serves listings, the tree
//! and searches for a branch; an entry itself is read again from its [`LinePosition`].

use super::entry::{Body, Entry, EntryId};
use pijs_llm::message::Message;
use std::collections::BTreeMap;

/// An entry id. One with pi's eight hexadecimal digits needs no allocation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CompactId {
    Short(u32),
    Long(Box<str>),
}

impl CompactId {
    pub(super) fn of(id: &str) -> Self {
        let is_pis = id.len() == 8 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match u32::from_str_radix(id, 16) {
            Ok(number) if is_pis => Self::Short(number),
            _ => Self::Long(id.into()),
        }
    }

    pub(super) fn id(&self) -> EntryId {
        match self {
            Self::Short(number) => EntryId(format!("{number:08x}")),
            Self::Long(text) => EntryId(text.to_string()),
        }
    }
}

/// Entry types that a walk along a branch distinguishes. Only a hint: a line of type `message` may be invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    Message,
    Compaction,
    Model,
    Thinking,
    Other,
}

impl EntryKind {
    /// Returns the kind for the type of a line.
    pub(super) fn named(kind: &str) -> Self {
        match kind {
            "message" => Self::Message,
            "compaction" => Self::Compaction,
            "model_change" => Self::Model,
            "thinking_level_change" => Self::Thinking,
            _ => Self::Other,
        }
    }

    fn of(body: &Body) -> Self {
        match body {
            Body::Message { .. } => Self::Message,
            Body::Compaction { .. } => Self::Compaction,
            Body::ModelChange { .. } => Self::Model,
            Body::ThinkingLevelChange { .. } => Self::Thinking,
            _ => Self::Other,
        }
    }
}

/// Position of an entry's line in the file, with a checksum that is verified when the line is read again. The checksum detects
/// accidental changes by other programs; it does not protect against forgery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinePosition {
    pub(super) offset: u64,
    pub(super) length: u32,
    checksum: u32,
}

impl LinePosition {
    pub(super) fn of(offset: u64, line: &[u8]) -> Self {
        let length = u32::try_from(line.len()).expect("the reader limits the length of a line");
        Self { offset, length, checksum: crc32fast::hash(line) }
    }

    /// Returns whether these bytes are the recorded line.
    pub(super) fn holds(&self, line: &[u8]) -> bool {
        line.len() == self.length as usize && crc32fast::hash(line) == self.checksum
    }
}

/// Metadata of an entry.
#[derive(Debug)]
pub(super) struct IndexNode {
    pub(super) name: CompactId,
    pub(super) parent: Option<CompactId>,
    pub(super) kind: EntryKind,
    /// Position in the file; `None` until the entry is written.
    pub(super) position: Option<LinePosition>,
    /// Whether another program wrote the entry.
    pub(super) is_foreign: bool,
}

impl IndexNode {
    /// Returns the metadata of a loaded entry.
    pub(super) fn of(entry: &Entry) -> Self {
        Self {
            name: CompactId::of(&entry.id.0),
            parent: entry.parent.as_ref().map(|parent| CompactId::of(&parent.0)),
            kind: EntryKind::of(&entry.body),
            position: None,
            is_foreign: entry.is_foreign(),
        }
    }
}

/// Metadata of all entries in file order.
#[derive(Debug, Default)]
pub(super) struct Index {
    nodes: Vec<IndexNode>,
    by_name: BTreeMap<CompactId, u32>,
    /// Labels by entry.
    pub(super) labels: BTreeMap<EntryId, String>,
    /// Name of the session from the last entry that sets it.
    pub(super) name: Option<String>,
    /// Whether the model has replied. Considers only loaded entries.
    pub(super) has_reply: bool,
    /// Total length of the written lines in bytes.
    pub(super) bytes: u64,
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn node(&self, at: usize) -> &IndexNode {
        &self.nodes[at]
    }

    pub(super) fn find(&self, name: &CompactId) -> Option<usize> {
        self.by_name.get(name).map(|at| *at as usize)
    }

    /// Adds a node. Returns `false` if its id is taken: the first entry with an id takes precedence, because later entries refer
    /// to it.
    pub(super) fn push(&mut self, node: IndexNode) -> bool {
        let at = u32::try_from(self.nodes.len()).expect("the number of entries fits into 32 bits");
        if self.by_name.contains_key(&node.name) {
            return false;
        }
        self.by_name.insert(node.name.clone(), at);
        self.bytes += node.position.map_or(0, |position| u64::from(position.length));
        self.nodes.push(node);
        true
    }

    /// Applies an entry that describes other entries or the session.
    pub(super) fn apply(&mut self, body: &Body) {
        match body {
            Body::Label { target_id, label } => {
                match label.as_deref().filter(|label| !label.is_empty()) {
                    Some(label) => self.labels.insert(target_id.clone(), label.to_owned()),
                    None => self.labels.remove(target_id),
                };
            }
            Body::SessionInfo { name } => self.name.clone_from(name),
            Body::Message { message: Message::Assistant(_) } => self.has_reply = true,
            _ => {}
        }
    }

    /// Records the position of a written entry.
    pub(super) fn set_position(&mut self, at: usize, position: LinePosition) {
        let before = self.nodes[at].position.replace(position);
        self.bytes -= before.map_or(0, |before| u64::from(before.length));
        self.bytes += u64::from(position.length);
    }

    /// Iterates from an entry up to its root. A file edited by hand may contain a cycle, which is walked once.
    pub(super) fn upwards(&self, from: Option<usize>) -> Upwards<'_> {
        Upwards { index: self, next: from, seen: vec![0; self.nodes.len().div_ceil(64)] }
    }
}

pub(super) struct Upwards<'a> {
    index: &'a Index,
    next: Option<usize>,
    /// One bit for each visited entry; a hash set would cost more than the walk.
    seen: Vec<u64>,
}

impl Iterator for Upwards<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let at = self.next.take()?;
        let (word, bit) = (&mut self.seen[at / 64], 1 << (at % 64));
        if *word & bit != 0 {
            return None;
        }
        *word |= bit;
        self.next = self.index.node(at).parent.as_ref().and_then(|parent| self.index.find(parent));
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compact_id_round_trips() {
        for id in ["01234567", "ffffffff", "FFFFFFFF", "+1234567", "0123456", "012345678", "", "ä", "1234567g"] {
            assert_eq!(CompactId::of(id).id().0, id);
        }
        assert_eq!(CompactId::of("0000000a"), CompactId::Short(10));
        assert_eq!(size_of::<CompactId>(), 16);
    }

    #[test]
    fn a_position_recognises_its_line() {
        let position = LinePosition::of(7, b"{}\n");
        assert!(position.holds(b"{}\n"));
        assert!(!position.holds(b"{}") && !position.holds(b"[]\n"));
    }
}
