//! Quota of session content added by extensions.
//!
//! Every realm holds a copy of the session, and every request contains it, so an extension that fills it takes memory from all
//! others. Users, the model and built-in tools add little and are not limited.

use crate::control::AgentControl;
use pijs_protocol::wire::Size;
use pijs_protocol::{HostcallError, guard};
use serde_json::Value;

/// Bytes as JSON that extensions may add to a session, and up to which a session accepts additions: half of the message limit of
/// a realm.
pub const SESSION_BYTES: usize = 64 << 20;

/// Minimum size of a JSON value: its memory in a realm, however short its text is.
const VALUE_ROOM: usize = 64;

/// Sizes in a session, as computed by [`room_of`].
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Size of its entries.
    pub(crate) entries: usize,
    /// Size of the entries and queued messages of extensions.
    pub(crate) added: usize,
}

impl AgentControl {
    /// Charges an addition of an extension.
    ///
    /// # Errors
    ///
    /// `denied`, quota `session_bytes`: the session has no space for it.
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

/// Returns the size of values for the quota.
pub(crate) fn room_of<'a>(values: impl IntoIterator<Item = &'a Value>) -> usize {
    let mut size = Size::default();
    values.into_iter().for_each(|value| size.add(value));
    let of_values = if guard!(SessionValues) { size.values.saturating_mul(VALUE_ROOM) } else { 0 };
    size.bytes.max(of_values)
}
