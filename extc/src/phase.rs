//! Tracing spans for the phases of a compilation, including one in a sandboxed child.
//!
//! A child has no log. It notifies its parent when a phase begins and ends, and the parent opens the spans, so that their times
//! are the child's.

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
    /// Generates bytecode.
    Emit,
}

/// Reports that a phase begins or ends.
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
    /// Maximum number of open phases. Phases nest no deeper, but a compromised child may claim more.
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
        // Closes the innermost span first.
        while self.0.pop().is_some() {}
    }
}
