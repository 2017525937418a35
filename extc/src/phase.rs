//! Spans of the phases of a compilation, also of one in a sealed child.
//!
//! A child has no log. It notifies its parent where a phase begins and ends, and the parent opens the spans: their times are those
//! of the child.

use serde::{Deserialize, Serialize};
use tracing::span::EnteredSpan;
use tracing::{Span, debug_span};

/// A phase of a compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// Resolves, parses, scans and rewrites each module, and links each entry.
    Link,
    /// Checks imports, names and contracts over all modules.
    Check,
    /// Makes bytecode.
    Emit,
}

/// The begin or the end of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PhaseNotice {
    Begin(Phase),
    End,
}

impl Phase {
    pub(crate) fn span(self) -> Span {
        match self {
            Self::Link => debug_span!("build.link"),
            Self::Check => debug_span!("build.check"),
            Self::Emit => debug_span!("build.emit"),
        }
    }
}

/// The open spans of a child's phases; dropping it closes them.
#[derive(Default)]
pub(crate) struct PhaseSpans(Vec<EnteredSpan>);

impl PhaseSpans {
    /// Phases nest no deeper; a compromised child may claim more.
    const DEEPEST: usize = 4;

    pub(crate) fn take(&mut self, notice: PhaseNotice) {
        match notice {
            PhaseNotice::Begin(phase) if self.0.len() < Self::DEEPEST => self.0.push(phase.span().entered()),
            PhaseNotice::Begin(_) => {}
            PhaseNotice::End => drop(self.0.pop()),
        }
    }
}

impl Drop for PhaseSpans {
    fn drop(&mut self) {
        // The innermost span is left first.
        while self.0.pop().is_some() {}
    }
}
