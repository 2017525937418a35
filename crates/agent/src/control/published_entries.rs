//! Session entries in the state that extensions read without a call.
//!
//! Every realm keeps a copy of these entries. A session up to [`MAX_PUBLISHED`] is copied whole; of a longer one, only the part
//! visible to the model is copied, and a realm requests other entries on demand.
//!
//! `pi:pi/session` requests missing entries (`session.read_entry`, `read_entries`) up to the limit `session_bytes`. Beyond it
//! `getEntries`, `getBranch`, `getTree` and similar calls throw an error that says so; `getEntry`, `getSessionName` and
//! `buildSessionContext` still work. Handlers of `session_before_compact` then get the part visible to the model.

use super::session_quota::{SESSION_BYTES, size_of_values};
use super::{AgentControl, ControlState};
use pijs_protocol::wire::{MESSAGE_VALUES, Size};
use pijs_protocol::{ErrorCode, HostcallError, guard};
use pijs_session_store::{Entry, EntryId, Session, SessionError};
use serde_json::{Value, json};
use std::sync::Arc;

/// Size of a session in bytes up to which all entries are published.
pub(super) const MAX_PUBLISHED: u64 = 16 << 20;
/// Maximum size in bytes of the entries in one response.
const PAGE: usize = 4 << 20;

/// JSON values after which a page ends, with a margin for one more entry.
const PAGE_VALUES: usize = MESSAGE_VALUES / 4;

/// State of the published entries.
#[derive(Debug, Default)]
pub(super) struct PublishedEntries {
    /// Number of published entries.
    pub(super) count: usize,
    /// Number of entries that are not published.
    pub(super) absent: usize,
    /// Whether unpublished entries are visible to the model.
    pub(super) is_partial: bool,
}

/// Returns the entries to publish, and whether the model sees others.
fn shown(session: &Session) -> Result<(Vec<Arc<Entry>>, bool), SessionError> {
    if session.bytes() <= MAX_PUBLISHED || !guard!(SessionVisibleBytes) {
        return Ok((session.entries().collect::<Result<_, _>>()?, false));
    }
    let mut seen = session.seen()?;
    // A conversation without a compaction may be as long as the session; its newest entries are published.
    let mut room = usize::try_from(MAX_PUBLISHED).unwrap_or(usize::MAX);
    let fits = |entry: &&Arc<Entry>| {
        let size = entry.to_value().to_string().len();
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    };
    let kept = seen.iter().rev().take_while(fits).count();
    let rest = seen.split_off(seen.len() - kept);
    Ok((rest, !seen.is_empty()))
}

impl AgentControl {
    /// Publishes the entries of the session again.
    pub(super) fn show_entries(&self, inner: &mut ControlState) {
        // An unreadable file is reported when its content is needed.
        let (entries, is_partial) = shown(&inner.session).unwrap_or_default();
        let entries: Vec<Value> = entries.iter().map(|entry| entry.to_value()).collect();
        inner.sizes.entries = size_of_values(&entries);
        let absent = inner.session.len() - entries.len();
        inner.shown = PublishedEntries { count: entries.len(), absent, is_partial };
        self.0.state.change_entries(0, entries);
    }

    /// Publishes appended entries.
    pub(super) fn show_new(&self, inner: &mut ControlState, before: usize) {
        let new: Result<Vec<Value>, _> =
            (before..inner.session.len()).map(|at| inner.session.at(at).map(|entry| entry.to_value())).collect();
        // Appended entries are cached, so this does not fail.
        let new = new.unwrap_or_default();
        if !new.is_empty() {
            inner.sizes.entries += size_of_values(&new);
            let count = new.len();
            self.0.state.change_entries(inner.shown.count, new);
            inner.shown.count += count;
        }
    }

    /// Returns the branch for handlers: all of it, or the part visible to the model for a long session.
    pub(crate) fn branch_for_extensions(&self) -> Result<Vec<Value>, SessionError> {
        let branch =
            self.with_session(
                |session| {
                    if session.bytes() <= MAX_PUBLISHED { session.branch(None) } else { session.seen() }
                },
            )?;
        Ok(branch.iter().map(|entry| entry.to_value()).collect())
    }

    /// Handles `read_entry`: returns an entry or null.
    pub(crate) fn read_entry(&self, id: &str) -> Result<Value, HostcallError> {
        let found = self.with_session(|session| session.entry(&EntryId(id.to_owned()))).map_err(unreadable)?;
        Ok(json!({"entry": found.map(|entry| entry.to_value())}))
    }

    /// Handles `read_entries`: returns entries in file order from an index on, as many as fit into a response.
    ///
    /// # Errors
    ///
    /// `denied`, quota `session_bytes`: the session is larger than a realm may hold.
    pub(crate) fn read_entries(&self, from: usize) -> Result<Value, HostcallError> {
        self.with_session(|session| {
            let (bytes, most) = (session.bytes(), SESSION_BYTES as u64);
            if bytes > most && guard!(SessionAnswerSize) {
                let message = format!(
                    "the session has {bytes} bytes, more than the {most} that getEntries() may return: \
                     buildSessionContext() returns what the model sees, getEntry() a single entry"
                );
                let error = HostcallError::denied("quota", message);
                return Err(error.with("quota", "session_bytes").with("limit", most));
            }
            let mut size = Size::default();
            let mut page = Vec::new();
            for entry in session.entries_from(from) {
                let value = entry.map_err(unreadable)?.to_value();
                size.add(&value);
                page.push(value);
                if size.bytes >= PAGE || size.values >= PAGE_VALUES {
                    break;
                }
            }
            Ok(json!({"entries": page}))
        })
    }
}

fn unreadable(error: SessionError) -> HostcallError {
    HostcallError::new(ErrorCode::Io, error.to_string())
}
