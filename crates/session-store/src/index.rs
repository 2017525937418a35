//! Where the entries of a session are: what is known of each without holding it.
//!
//! A session of a million entries is a gigabyte of text and some hundred megabytes of index. The index answers what
//! listings, the tree and the search for a branch need; an entry itself is read again from its [`Place`].

use super::entry::{Body, Entry, EntryId};
use pijs_llm::message::Message;
use std::collections::BTreeMap;

/// An id without a text of its own where it is one of pi's: eight hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Short(u32),
    Long(Box<str>),
}

impl Name {
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

/// What an entry is, as far as a walk along a branch asks. A hint: a line may say `message` and hold none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    Compaction,
    Model,
    Thinking,
    Other,
}

impl Kind {
    /// By the type that a line says.
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

/// Where the line of an entry is in the file, and a checksum of it: what is read there later has to be what it was. It finds
/// what another program did by mistake; whoever wants to deceive writes the file beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) length: u32,
    checksum: u32,
}

impl Place {
    pub(super) fn of(offset: u64, line: &[u8]) -> Self {
        let length = u32::try_from(line.len()).expect("a line is shorter than the longest that is read");
        Self { offset, length, checksum: crc32fast::hash(line) }
    }

    /// Whether these bytes are the line.
    pub(super) fn holds(&self, line: &[u8]) -> bool {
        line.len() == self.length as usize && crc32fast::hash(line) == self.checksum
    }
}

/// One entry.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: Name,
    pub(super) parent: Option<Name>,
    pub(super) kind: Kind,
    /// `None`: not written yet.
    pub(super) place: Option<Place>,
    /// Another program wrote it.
    pub(super) is_foreign: bool,
}

impl Node {
    /// Of an entry that is held.
    pub(super) fn of(entry: &Entry) -> Self {
        Self {
            name: Name::of(&entry.id.0),
            parent: entry.parent.as_ref().map(|parent| Name::of(&parent.0)),
            kind: Kind::of(&entry.body),
            place: None,
            is_foreign: entry.is_foreign(),
        }
    }
}

/// All entries in file order.
#[derive(Debug, Default)]
pub(super) struct Index {
    nodes: Vec<Node>,
    by_name: BTreeMap<Name, u32>,
    /// What entries are called.
    pub(super) labels: BTreeMap<EntryId, String>,
    /// What the session is called, as the last entry says that gives it a name.
    pub(super) name: Option<String>,
    /// Whether the model has said anything. Known of entries that were held.
    pub(super) has_reply: bool,
    /// Bytes of all lines that have a place.
    pub(super) bytes: u64,
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn node(&self, at: usize) -> &Node {
        &self.nodes[at]
    }

    pub(super) fn find(&self, name: &Name) -> Option<usize> {
        self.by_name.get(name).map(|at| *at as usize)
    }

    /// Adds a node; `false` when its name is taken: of two entries of one name the first counts, since what follows it
    /// was said about that one.
    pub(super) fn push(&mut self, node: Node) -> bool {
        let at = u32::try_from(self.nodes.len()).expect("fewer entries than bytes that memory can hold of them");
        if self.by_name.contains_key(&node.name) {
            return false;
        }
        self.by_name.insert(node.name.clone(), at);
        self.bytes += node.place.map_or(0, |place| u64::from(place.length));
        self.nodes.push(node);
        true
    }

    /// Takes over what an entry says about others.
    pub(super) fn heed(&mut self, body: &Body) {
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

    /// An entry was written.
    pub(super) fn put(&mut self, at: usize, place: Place) {
        let before = self.nodes[at].place.replace(place);
        self.bytes -= before.map_or(0, |before| u64::from(before.length));
        self.bytes += u64::from(place.length);
    }

    /// From an entry up to its root. A file made by hand may hold a circle: it is walked once.
    pub(super) fn upwards(&self, from: Option<usize>) -> Upwards<'_> {
        Upwards { index: self, next: from, seen: vec![0; self.nodes.len().div_ceil(64)] }
    }
}

pub(super) struct Upwards<'a> {
    index: &'a Index,
    next: Option<usize>,
    /// A bit for each entry: a set would cost more than the walk.
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
    fn a_name_is_the_id_it_was_made_of() {
        for id in ["01234567", "ffffffff", "FFFFFFFF", "+1234567", "0123456", "012345678", "", "ä", "1234567g"] {
            assert_eq!(Name::of(id).id().0, id);
        }
        assert_eq!(Name::of("0000000a"), Name::Short(10));
        assert_eq!(size_of::<Name>(), 16);
    }

    #[test]
    fn a_place_knows_its_line() {
        let place = Place::of(7, b"{}\n");
        assert!(place.holds(b"{}\n"));
        assert!(!place.holds(b"{}") && !place.holds(b"[]\n"));
    }
}
