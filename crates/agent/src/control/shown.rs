//! The entries that extensions read without asking, and the others.
//!
//! Every realm keeps a copy of what is shown. A session up to [`MOST_SHOWN`] is shown whole; of a longer one the part is
//! that the model sees, and a realm asks for the others when its extension does.
//!
//! `pi:pi/session` requests the missing entries (`session.read_entry`, `read_entries`) up to the limit `session_bytes`. Past it
//! `getEntries`, `getBranch`, `getTree` and similar calls throw a refusal that says so; `getEntry`, `getSessionName` and
//! `buildSessionContext` still answer. Handlers of `session_before_compact` then get the part that the model sees.

use super::{AgentControl, Inner};
use crate::room::{SESSION_BYTES, room_of};
use pijs_protocol::wire::{MESSAGE_VALUES, Size};
use pijs_protocol::{ErrorCode, HostcallError, guard};
use pijs_session_store::{Entry, EntryId, Session, SessionError};
use serde_json::{Value, json};
use std::sync::Arc;

/// Bytes of a session up to which all of it is shown.
pub(super) const MOST_SHOWN: u64 = 16 << 20;
/// Bytes of entries in one answer.
const PAGE: usize = 4 << 20;

/// Values of a page after which it ends: one more entry than that fits, too.
const PAGE_VALUES: usize = MESSAGE_VALUES / 4;

/// What extensions are shown of the session.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// Entries that they have.
    pub(super) count: usize,
    /// Entries that they do not have.
    pub(super) absent: usize,
    /// Some of those are of the conversation that the model sees.
    pub(super) is_partial: bool,
}

/// The entries that are shown of a session, and whether some are missing that the model sees.
fn shown(session: &Session) -> Result<(Vec<Arc<Entry>>, bool), SessionError> {
    if session.bytes() <= MOST_SHOWN || !guard!(SessionVisibleBytes) {
        return Ok((session.entries().collect::<Result<_, _>>()?, false));
    }
    let mut seen = session.seen()?;
    // A conversation that was never compacted may be as long as the session; the newest of it stays.
    let mut room = usize::try_from(MOST_SHOWN).unwrap_or(usize::MAX);
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
    /// Shows extensions the session anew.
    pub(super) fn show_entries(&self, inner: &mut Inner) {
        // A file that cannot be read any more is told of when somebody needs what is in it.
        let (entries, is_partial) = shown(&inner.session).unwrap_or_default();
        let entries: Vec<Value> = entries.iter().map(|entry| entry.to_value()).collect();
        inner.held.entries = room_of(&entries);
        let absent = inner.session.len() - entries.len();
        inner.shown = Shown { count: entries.len(), absent, is_partial };
        self.0.state.change_entries(0, entries);
    }

    /// Shows them entries that were appended.
    pub(super) fn show_new(&self, inner: &mut Inner, before: usize) {
        let new: Result<Vec<Value>, _> =
            (before..inner.session.len()).map(|at| inner.session.at(at).map(|entry| entry.to_value())).collect();
        // They are held, as what was just appended.
        let new = new.unwrap_or_default();
        if !new.is_empty() {
            inner.held.entries += room_of(&new);
            let count = new.len();
            self.0.state.change_entries(inner.shown.count, new);
            inner.shown.count += count;
        }
    }

    /// The branch as a handler is given it: all of it, or of a long session the part that the model sees.
    pub(crate) fn branch_for_extensions(&self) -> Result<Vec<Value>, SessionError> {
        let branch =
            self.with_session(
                |session| {
                    if session.bytes() <= MOST_SHOWN { session.branch(None) } else { session.seen() }
                },
            )?;
        Ok(branch.iter().map(|entry| entry.to_value()).collect())
    }

    /// `read_entry`: one entry, or null.
    pub(crate) fn read_entry(&self, id: &str) -> Result<Value, HostcallError> {
        let found = self.with_session(|session| session.entry(&EntryId(id.to_owned()))).map_err(unreadable)?;
        Ok(json!({"entry": found.map(|entry| entry.to_value())}))
    }

    /// `read_entries`: entries in file order from a number on, as many as fit into an answer.
    ///
    /// # Errors
    ///
    /// `denied`, quota `session_bytes`: all of them are more than a realm takes.
    pub(crate) fn read_entries(&self, from: usize) -> Result<Value, HostcallError> {
        self.with_session(|session| {
            let (bytes, most) = (session.bytes(), SESSION_BYTES as u64);
            if bytes > most && guard!(SessionAnswerSize) {
                let message = format!(
                    "the session holds {bytes} bytes, and an extension is given all of it up to {most}; \
                     buildSessionContext() has what the model sees, getEntry() any one entry"
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
