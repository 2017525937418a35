//! Reads the text of a call's values: passes it to the lanes, and keeps it for AST conditions.

use super::call_matches::Owner;
use super::compiled::StreamRules;
use super::fallback::Search;
use super::history::History;
use super::lane::{Lane, Match};
use std::sync::Arc;

/// Maximum size in bytes at which the buffer for a delta's text is kept.
const MAX_PENDING: usize = 64 * 1024;
/// Maximum number of bytes of a call's texts that are kept for AST conditions.
const MAX_KEPT: usize = 2 * crate::ast::MAX_TEXT;

/// A text of a call, for AST conditions.
#[derive(Debug)]
pub(crate) struct CallText {
    pub(crate) text: String,
    pub(crate) owner: Owner,
}

/// The lanes of a call, and the text of the current value.
#[derive(Debug)]
pub(crate) struct ValueLanes {
    lanes: Vec<Lane>,
    pub(crate) history: History,
    /// Matches of the current value, in the order in which the lanes reported them.
    pub(crate) matches: Vec<Match>,
    /// Text of this delta that was not passed to the lanes yet. Escapes cut it into pieces of a few characters.
    pending: String,
    has_ast_conditions: bool,
    /// The current text, for AST conditions.
    text: String,
    /// Complete texts, for AST conditions.
    pub(crate) texts: Vec<CallText>,
    /// Bytes of all kept texts.
    kept: usize,
}

impl ValueLanes {
    pub(crate) fn new(rules: &StreamRules, is_traced: bool) -> Self {
        Self {
            lanes: rules.lanes.iter().map(|lane| Lane::new(Arc::clone(lane), is_traced)).collect(),
            history: History::default(),
            matches: Vec::new(),
            pending: String::new(),
            has_ast_conditions: !rules.ast.is_empty(),
            text: String::new(),
            texts: Vec::new(),
            kept: 0,
        }
    }

    /// Begins a call.
    pub(crate) fn restart(&mut self) {
        self.texts.clear();
        self.kept = 0;
        self.begin_text();
        self.lanes.iter_mut().for_each(Lane::restart);
    }

    /// Returns the number of bytes that automata read.
    pub(crate) fn scanned(&self) -> u64 {
        self.lanes.iter().map(Lane::scanned).sum()
    }

    /// Discards the previous text.
    pub(crate) fn begin_text(&mut self) {
        self.history.restart();
        self.matches.clear();
        self.pending.clear();
        self.text.clear();
    }

    /// Begins a value, which is judged separately.
    pub(crate) fn begin_value(&mut self) {
        for lane in &mut self.lanes {
            lane.begin_value(&mut self.matches);
        }
    }

    /// Resets which matches were reported.
    pub(crate) fn forget(&mut self) {
        self.lanes.iter_mut().for_each(Lane::forget);
    }

    #[inline]
    pub(crate) fn push(&mut self, text: &str) {
        self.pending.push_str(text);
    }

    /// Passes the text of this delta to the lanes.
    fn flush(&mut self, is_kept: bool, search: &mut dyn Search) {
        if self.pending.is_empty() {
            return;
        }
        let at = self.history.len();
        self.history.push(&self.pending);
        for lane in &mut self.lanes {
            lane.push(at, &self.pending, search, &mut self.matches);
        }
        if self.has_ast_conditions && is_kept && self.kept + self.pending.len() <= MAX_KEPT {
            self.kept += self.pending.len();
            self.text.push_str(&self.pending);
        }
        self.pending.clear();
        self.pending.shrink_to(MAX_PENDING);
    }

    /// Reads the text of a delta. `is_kept` is set if AST conditions read the text.
    #[inline]
    pub(crate) fn end_delta(&mut self, is_kept: bool, search: &mut dyn Search) {
        self.flush(is_kept, search);
        for lane in &mut self.lanes {
            lane.end_delta(search, &mut self.matches);
        }
    }

    /// Reads the rest of a text, which is then complete.
    pub(crate) fn close(&mut self, is_kept: bool, search: &mut dyn Search) {
        self.flush(is_kept, search);
        for lane in &mut self.lanes {
            lane.close(search, &mut self.matches);
        }
    }

    /// Keeps the complete text for AST conditions.
    pub(crate) fn keep_text(&mut self, owner: impl FnOnce() -> Owner) {
        if !self.text.is_empty() {
            self.texts.push(CallText { text: std::mem::take(&mut self.text), owner: owner() });
        }
    }
}
