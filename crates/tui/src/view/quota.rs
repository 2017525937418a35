//! Limits on the elements of one extension on the screen, and the errors of exhausted limits.

use pijs_protocol::HostcallError;

/// Maximum number per extension of widgets, of statuses, of open dialogs, and of layers.
pub(crate) const MAX_KEPT: usize = 64;

/// Returns the error of an exhausted quota.
pub(crate) fn used_up(quota: &str, limit: usize) -> HostcallError {
    HostcallError::denied("quota", format!("quota used up: {quota} {limit}")).with("quota", quota).with("limit", limit)
}

/// Returns the error of a text that is too large.
pub(crate) fn too_large(quota: &str, limit: usize) -> HostcallError {
    HostcallError::invalid("too_large", format!("the text is over its limit: {quota} {limit}"))
        .with("quota", quota)
        .with("limit", limit)
}
