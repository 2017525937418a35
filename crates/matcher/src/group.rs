//! A group of automata that read the same text.

use crate::prefilter::{Prefilter, Reading};

/// Maximum size of all automata of a group, in bytes.
const MAX_GROUP: usize = 8 << 20;

/// Automata that read the same text, piece by piece.
///
/// ```
/// use pijs_matcher::{Group, Prefilter};
///
/// let mut group = Group::default();
/// group.add(Prefilter::new("abc", "").expect("it is simple enough"));
/// group.add(Prefilter::new("bcd", "").expect("it is simple enough"));
/// group.begin();
/// assert_eq!(group.may_match("ab").count(), 0);
/// assert_eq!(group.may_match("c").collect::<Vec<_>>(), [0]);
/// assert_eq!(group.may_match("d").collect::<Vec<_>>(), [0, 1]);
/// ```
#[derive(Debug, Default)]
pub struct Group {
    members: Vec<(Prefilter, Reading)>,
    bytes: usize,
}

impl Group {
    /// Adds an automaton, which reads from the next text on, and returns its number, counted from 0; `None` if the group would
    /// take too much memory.
    pub fn add(&mut self, filter: Prefilter) -> Option<usize> {
        self.bytes += filter.memory_usage();
        if self.bytes > MAX_GROUP {
            return None;
        }
        let reading = filter.start();
        self.members.push((filter, reading));
        Some(self.members.len() - 1)
    }

    /// Begins a text.
    pub fn begin(&mut self) {
        for (filter, reading) in &mut self.members {
            *reading = filter.start();
        }
    }

    /// Marks the rest of the text as unreadable: until the next text begins, every expression may match.
    pub fn abandon(&mut self) {
        for (_, reading) in &mut self.members {
            reading.has_matched = true;
        }
    }

    /// Reads the next piece of the text; returns the numbers of the automata whose expression may match somewhere in the text so
    /// far.
    pub fn may_match(&mut self, piece: &str) -> impl Iterator<Item = usize> {
        let read = |(number, (filter, reading)): (usize, &mut (Prefilter, Reading))| {
            filter.may_match(reading, piece).then_some(number)
        };
        self.members.iter_mut().enumerate().filter_map(read)
    }
}
