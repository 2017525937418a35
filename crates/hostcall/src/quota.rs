//! Limits the calls of one extension: their number in flight, and their sizes.

use crate::output::Output;
use pijs_protocol::wire::{MESSAGE_BYTES, MESSAGE_VALUES, Size};
use pijs_protocol::{HostcallError, guard};
use serde_json::{Map, Value};

/// Limits of one extension, far above the needs of an honest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Maximum number of calls in flight.
    pub in_flight: usize,
    /// Maximum number of bytes of parameters and attachments of all calls in flight.
    pub in_flight_bytes: usize,
    /// Maximum number of dialogs per minute; more than a user can answer.
    pub dialogs_per_minute: usize,
    /// Maximum size of a call's JSON parameters in bytes, approximately as text.
    pub params_bytes: usize,
    /// Maximum size of a call's attachments in bytes.
    pub attachment_bytes: usize,
    /// Maximum nesting depth of a call's parameters.
    pub depth: usize,
    /// Maximum size of one call's results in bytes, attachments included.
    pub result_bytes: usize,
    /// Maximum size of one result or chunk in bytes, JSON and attachments. See [`MESSAGE_BYTES`].
    pub piece_bytes: usize,
    /// Maximum number of values in one result or chunk. See [`MESSAGE_VALUES`].
    pub piece_values: usize,
    /// Number of bytes of undelivered results at which streams pause.
    pub stream_bytes: usize,
    /// Number of bytes of undelivered results at which further calls wait until the realm has taken some.
    pub untaken_bytes: usize,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            in_flight: 4096,
            in_flight_bytes: 256 << 20,
            dialogs_per_minute: 60,
            params_bytes: 16 << 20,
            attachment_bytes: 128 << 20,
            depth: 128,
            result_bytes: 256 << 20,
            piece_bytes: MESSAGE_BYTES,
            piece_values: MESSAGE_VALUES,
            stream_bytes: 16 << 20,
            // The memory of a realm, more than an honest extension needs at once.
            untaken_bytes: 256 << 20,
        }
    }
}

impl Quotas {
    /// Measures a call, before any other check, up to the first exceeded limit; returns its size in bytes.
    pub(crate) fn check(&self, params: &Map<String, Value>, bytes: &[Vec<u8>]) -> Result<usize, HostcallError> {
        let attached: usize = bytes.iter().map(Vec::len).sum();
        if !guard!(QuotaSize) {
            return Ok(attached);
        }
        if attached > self.attachment_bytes {
            return Err(too_large("attachment_bytes", self.attachment_bytes));
        }
        let mut left = self.params_bytes;
        self.members(params, 1, &mut left)?;
        Ok(attached + (self.params_bytes - left))
    }

    /// Measures an output of a connector; `sent` is the number of bytes already sent for the same call. Returns the size of its
    /// attachments in bytes.
    pub(crate) fn check_answer(&self, output: &Output, sent: usize) -> Result<usize, HostcallError> {
        let attached: usize = output.bytes.iter().map(Vec::len).sum();
        if sent.saturating_add(attached) > self.result_bytes {
            return Err(used_up("result_bytes", self.result_bytes));
        }
        let size = Size::of(&output.value);
        if guard!(QuotaAnswer) {
            if size.bytes.saturating_add(attached) > self.piece_bytes {
                return Err(used_up("piece_bytes", self.piece_bytes));
            }
            if size.values > self.piece_values {
                return Err(used_up("piece_values", self.piece_values));
            }
        }
        Ok(attached)
    }

    fn members(&self, members: &Map<String, Value>, depth: usize, left: &mut usize) -> Result<(), HostcallError> {
        for (key, value) in members {
            self.take(key.len() + 4, left)?;
            self.value(value, depth, left)?;
        }
        Ok(())
    }

    fn value(&self, value: &Value, depth: usize, left: &mut usize) -> Result<(), HostcallError> {
        if depth > self.depth {
            return Err(too_large("depth", self.depth));
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => self.take(5, left),
            Value::String(text) => self.take(text.len() + 3, left),
            Value::Array(items) => {
                self.take(2, left)?;
                items.iter().try_for_each(|item| self.value(item, depth + 1, left))
            }
            Value::Object(members) => {
                self.take(2, left)?;
                self.members(members, depth + 1, left)
            }
        }
    }

    fn take(&self, bytes: usize, left: &mut usize) -> Result<(), HostcallError> {
        *left = left.checked_sub(bytes).ok_or_else(|| too_large("params_bytes", self.params_bytes))?;
        Ok(())
    }
}

fn too_large(quota: &str, limit: usize) -> HostcallError {
    HostcallError::invalid("too_large", format!("the call exceeds its limit: {quota} {limit}"))
        .with("quota", quota)
        .with("limit", limit)
}

/// Returns the error of an exhausted quota.
pub(crate) fn used_up(quota: &str, limit: usize) -> HostcallError {
    HostcallError::denied("quota", format!("quota used up: {quota} {limit}"))
        .with("quota", quota)
        .with("limit", limit)
        .retryable()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> Map<String, Value> {
        let value = (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        Map::from_iter([("x".to_owned(), value)])
    }

    #[test]
    fn the_size_of_a_call_is_about_its_text_plus_attachments() {
        let all = serde_json::json!({"a": [null, true, 1.5], "bc": {"d": "efg"}});
        let size = Quotas::default().check(all.as_object().expect("an object"), &[vec![0; 7], vec![0; 3]]);
        // Keys with quotes, colon and comma: 5, 6, 5; containers 2 each; plain values 5 each; the text 6.
        assert_eq!(size.expect("small"), 5 + 2 + 15 + 6 + 2 + 5 + 6 + 10);
        let exact = Quotas { params_bytes: 41, attachment_bytes: 10, depth: 2, ..Quotas::default() };
        assert!(exact.check(all.as_object().expect("an object"), &[vec![0; 10]]).is_ok());
        for tight in [
            Quotas { params_bytes: 40, ..exact },
            Quotas { attachment_bytes: 9, ..exact },
            Quotas { depth: 1, ..exact },
        ] {
            assert!(tight.check(all.as_object().expect("an object"), &[vec![0; 10]]).is_err(), "{tight:?}");
        }
    }

    #[test]
    fn size_depth_and_attachments_are_limited_each_by_its_own_name() {
        let quotas = Quotas { params_bytes: 100, attachment_bytes: 10, depth: 5, ..Quotas::default() };
        let reason = |result: Result<usize, HostcallError>| result.unwrap_err().details["quota"].clone();
        let text = |len| Map::from_iter([("x".to_owned(), Value::from("y".repeat(len)))]);
        assert!(quotas.check(&text(80), &[vec![0; 10]]).is_ok());
        assert_eq!(reason(quotas.check(&text(200), &[])), "params_bytes");
        assert_eq!(reason(quotas.check(&text(1), &[vec![0; 6], vec![0; 6]])), "attachment_bytes");
        assert!(quotas.check(&nested(4), &[]).is_ok());
        assert_eq!(reason(quotas.check(&nested(6), &[])), "depth");
    }
}
