//! Quota of session content added by extensions.
//!
//! Every realm holds a copy of the session, and every request contains it, so an extension that fills it takes memory from all
//! others. Users, the model and built-in tools add little and are not limited.

use super::AgentControl;
use pijs_protocol::wire::Size;
use pijs_protocol::{HostcallError, guard};
use serde_json::Value;

/// Bytes as JSON that extensions may add to a session, and up to which a session accepts additions: half of the message limit of
/// a realm.
pub const SESSION_BYTES: usize = 64 << 20;

/// Minimum size of a JSON value: its memory in a realm, however short its text is.
const MIN_VALUE_BYTES: usize = 64;

/// Sizes in a session, as computed by [`size_of_values`].
#[derive(Debug, Default)]
pub(crate) struct SessionSizes {
    /// Size of the session's entries.
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
    pub(crate) fn charge_session(&self, size: usize) -> Result<(), HostcallError> {
        self.with_sizes(|sizes| {
            let most = sizes.entries.max(sizes.added);
            if most.saturating_add(size) > SESSION_BYTES && guard!(SessionSize) {
                let message = format!(
                    "the session holds {most} bytes, each value counted as {MIN_VALUE_BYTES} at least; extensions may add to it up \
                     to {SESSION_BYTES}"
                );
                let error = HostcallError::denied("quota", message);
                return Err(error.with("quota", "session_bytes").with("limit", SESSION_BYTES));
            }
            sizes.added += size;
            Ok(())
        })
    }
}

/// Returns the size of values for the quota.
pub(crate) fn size_of_values<'a>(values: impl IntoIterator<Item = &'a Value>) -> usize {
    let mut size = Size::default();
    values.into_iter().for_each(|value| size.add(value));
    let of_values = if guard!(SessionValues) { size.values.saturating_mul(MIN_VALUE_BYTES) } else { 0 };
    size.bytes.max(of_values)
}
