//! How much extensions may put into a session.
//!
//! Every realm holds a copy of the session, and every request to the model is made of it: an extension that fills it
//! takes the memory of all others. People, the model and built-in tools are not counted against: they write little at a time.

use crate::control::AgentControl;
use pijs_protocol::wire::Size;
use pijs_protocol::{HostcallError, guard};
use serde_json::Value;

/// Bytes as JSON that extensions may add to a session, and that it may hold for them to add any: half of what a realm
/// takes in one message.
pub const SESSION_BYTES: usize = 64 << 20;

/// Bytes that a value takes of it at least: what it costs a realm that reads it, however short its text is.
const VALUE_ROOM: usize = 64;

/// What a session holds ([`room_of`]).
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// In its entries.
    pub(crate) entries: usize,
    /// What extensions have added, or have waiting in a queue.
    pub(crate) added: usize,
}

impl AgentControl {
    /// Counts what an extension adds to the session.
    ///
    /// # Errors
    ///
    /// `denied`, quota `session_bytes`: there is no room for it.
    pub(crate) fn take_in(&self, size: usize) -> Result<(), HostcallError> {
        self.with_held(|held| {
            let most = held.entries.max(held.added);
            if most.saturating_add(size) > SESSION_BYTES && guard!(SessionSize) {
                let message = format!(
                    "the session holds {most} bytes, each value counted as {VALUE_ROOM} at least; extensions may add to it up \
                     to {SESSION_BYTES}"
                );
                let error = HostcallError::denied("quota", message);
                return Err(error.with("quota", "session_bytes").with("limit", SESSION_BYTES));
            }
            held.added += size;
            Ok(())
        })
    }
}

/// What values take of a session.
pub(crate) fn room_of<'a>(values: impl IntoIterator<Item = &'a Value>) -> usize {
    let mut size = Size::default();
    values.into_iter().for_each(|value| size.add(value));
    let of_values = if guard!(SessionValues) { size.values.saturating_mul(VALUE_ROOM) } else { 0 };
    size.bytes.max(of_values)
}
