//! Orders the calls of subscribers in several realms.
//!
//! Plugins of folders share the first realm, and each plugin of another package has its own. The subscribers of all realms are
//! called in a single order, by priority and then by realm. So a hook is delivered in segments of consecutive subscribers in one
//! realm.

use super::{ClientEvent, Fault};
use pijs_host::RegistrationOwner;
use pijs_protocol::Handle;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// A realm and its callable functions.
pub(super) struct RealmPart {
    pub(super) owner: RegistrationOwner,
    pub(super) handle: Handle,
    pub(super) order: RefCell<CallOrder>,
}

/// The callable functions of a realm, with their priorities.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct CallOrder {
    /// Priorities of the subscribers of each event.
    pub(super) events: BTreeMap<String, Vec<f64>>,
    /// Priorities of the subscribers of each filter.
    pub(super) filters: BTreeMap<String, Vec<f64>>,
    /// Priorities of the handlers of each scheme.
    pub(super) handlers: BTreeMap<String, Vec<f64>>,
    /// Schemes that have views.
    pub(super) views: BTreeSet<String>,
    /// Names of tools.
    pub(super) tools: Vec<String>,
    /// Tools that are listed for the model.
    pub(super) advertised: Vec<String>,
    /// Functions that plugins assigned to the hook tree.
    pub(super) calls: BTreeSet<String>,
}

/// The answer of a single realm.
#[derive(Deserialize)]
pub(super) struct Answer {
    #[serde(default)]
    pub(super) value: Value,
    #[serde(default)]
    pub(super) absent: bool,
    #[serde(default)]
    pub(super) faults: Vec<Fault>,
    #[serde(default)]
    pub(super) told: Vec<ClientEvent>,
    #[serde(default)]
    pub(super) order: Option<CallOrder>,
    #[serde(default)]
    pub(super) emitted: Vec<Emitted>,
}

/// An event that a plugin emitted and that other realms subscribe to.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Emitted {
    pub(super) hook: String,
    #[serde(default)]
    pub(super) args: Value,
}

/// Consecutive subscribers in one realm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CallSegment {
    /// Index of the realm.
    pub(super) part: usize,
    from: f64,
    to: f64,
}

impl CallSegment {
    /// Adds the segment's bounds to the members of a delivery.
    pub(super) fn bound(&self, members: &mut Map<String, Value>) {
        members.insert("from".to_owned(), self.from.into());
        members.insert("to".to_owned(), self.to.into());
    }
}

/// Merges the priorities of several realms into a single order.
pub(super) fn segments<'a>(priorities: impl IntoIterator<Item = (usize, &'a [f64])>) -> Vec<CallSegment> {
    let each = |(part, list): (usize, &'a [f64])| list.iter().map(move |priority| (*priority, part));
    let mut all: Vec<(f64, usize)> = priorities.into_iter().flat_map(each).collect();
    all.sort_by(|(one, part), (other, of)| one.total_cmp(other).then(part.cmp(of)));
    let mut found: Vec<CallSegment> = Vec::new();
    for (priority, part) in all {
        match found.last_mut() {
            Some(last) if last.part == part => last.to = priority,
            _ => found.push(CallSegment { part, from: priority, to: priority }),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows rummy's plugin guide, "core.filter(name, callback, priority?)": ascending priority over all realms.
    #[test]
    fn subscribers_of_several_realms_are_in_one_order() {
        let found = segments([(0, &[10.0, 30.0, 50.0][..]), (1, &[20.0, 30.0][..]), (2, &[][..])]);
        let told: Vec<(usize, f64, f64)> = found.iter().map(|one| (one.part, one.from, one.to)).collect();
        assert_eq!(told, [(0, 10.0, 10.0), (1, 20.0, 20.0), (0, 30.0, 30.0), (1, 30.0, 30.0), (0, 50.0, 50.0)]);
        let alone = segments([(3, &[1.0, 2.0, 3.0][..])]);
        assert_eq!(alone.iter().map(|one| (one.part, one.from, one.to)).collect::<Vec<_>>(), [(3, 1.0, 3.0)]);
    }
}
