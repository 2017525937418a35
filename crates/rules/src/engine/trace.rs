//! Records the outcomes of matches, for `pi rules explain`.

use super::firing::{Degraded, MatchSite};
use super::gate::Blocked;
use crate::rule::{RuleName, StreamKind};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The outcome of one match of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceEntry {
    /// The turn.
    pub turn: u64,
    /// The rule.
    pub rule: RuleName,
    /// The stream in which it matched.
    pub stream: StreamKind,
    /// The tool, on [`StreamKind::Tool`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Position of the match.
    pub site: MatchSite,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of a match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", rename_all_fields = "camelCase")]
pub enum Outcome {
    /// The rule fired.
    Fired {
        /// Whether the rule requested an interrupt.
        interrupts: bool,
        /// Cap that kept the rule from interrupting.
        degraded: Option<Degraded>,
    },
    /// The stream or the tool is not in the rule's scope.
    OutOfScope,
    /// The rule requires a path, and the call had none by its end.
    PathUnknown,
    /// The call's paths match none of the rule's globs.
    PathMismatch {
        /// The paths of the call.
        paths: Vec<String>,
    },
    /// The rule's repetition does not allow it.
    Repeat(Blocked),
    /// The rule has already fired in this message.
    AlreadyFired,
    /// The text was not complete enough; later text decides.
    Unsettled,
}

/// The latest entries.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    limit: usize,
    entries: VecDeque<TraceEntry>,
}

impl Trace {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, entries: VecDeque::new() }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.limit > 0
    }

    pub(crate) fn record(&mut self, entry: impl FnOnce() -> TraceEntry) {
        if self.limit == 0 {
            return;
        }
        if self.entries.len() == self.limit {
            self.entries.pop_front();
        }
        self.entries.push_back(entry());
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &TraceEntry> {
        self.entries.iter()
    }
}
