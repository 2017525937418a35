//! Encodes headers that are nested deeper than the JSON reader accepts.
//!
//! `serde_json` reads 128 levels. A realm sends no value deeper than 120, so its messages always fit. Messages of a host may
//! contain a provider's JSON, which alone can have up to 128 levels. In such a message every value at a multiple of [`STEP`]
//! levels is replaced by `{"$json": "its text"}`. An object that already has this form is replaced as well.

use super::{FrameError, Head, MAX_DEPTH, MAX_VALUES};
use pijs_protocol::guard;
use serde_json::{Map, Value};

/// Number of levels between two folds.
const STEP: usize = 100;

/// Maximum nesting of a header that is read without folding.
const PLAIN: usize = 120;

const MARK: &str = "$json";

/// Scans a header before it is parsed. Returns whether it has to be folded.
///
/// # Errors
///
/// Fails for a header that is too deep, or has too many values, for any reader.
pub(super) fn is_deep(head: &[u8]) -> Result<bool, FrameError> {
    let (mut depth, mut deepest, mut values) = (0_usize, 0_usize, 1_usize);
    let (mut in_text, mut is_escaped) = (false, false);
    for byte in head {
        if in_text {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
                values += 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
    }
    if guard!(RealmHeadSize) {
        if deepest > MAX_DEPTH {
            return Err(FrameError::TooDeep);
        }
        if values > MAX_VALUES {
            return Err(FrameError::TooMany);
        }
    }
    Ok(deepest > PLAIN)
}

/// Appends a folded header.
pub(super) fn write(out: &mut Vec<u8>, head: &impl Head) -> Result<(), FrameError> {
    let mut value = serde_json::to_value(head).map_err(bad)?;
    fold(&mut value, 0)?;
    serde_json::to_writer(out, &value).map_err(bad)
}

/// Parses a folded header.
pub(super) fn read<H: Head>(head: &[u8]) -> Result<H, FrameError> {
    let mut value = serde_json::from_slice(head).map_err(bad)?;
    unfold(&mut value, 0)?;
    serde_json::from_value(value).map_err(bad)
}

fn bad(error: serde_json::Error) -> FrameError {
    FrameError::Head(error.to_string())
}

fn looks_folded(members: &Map<String, Value>) -> bool {
    members.len() == 1 && members.get(MARK).is_some_and(Value::is_string)
}

fn fold(value: &mut Value, depth: usize) -> Result<(), FrameError> {
    let (below, hides) = match value {
        Value::Array(items) => {
            items.iter_mut().try_for_each(|item| fold(item, depth + 1))?;
            (!items.is_empty(), false)
        }
        Value::Object(members) => {
            members.values_mut().try_for_each(|member| fold(member, depth + 1))?;
            (!members.is_empty(), looks_folded(members))
        }
        _ => return Ok(()),
    };
    // Folds from the innermost value outwards, so that no text is deeper than one step.
    if (below && depth > 0 && depth.is_multiple_of(STEP)) || hides {
        let text = serde_json::to_string(value).map_err(bad)?;
        *value = Value::Object(Map::from_iter([(MARK.to_owned(), Value::String(text))]));
    }
    Ok(())
}

fn unfold(value: &mut Value, depth: usize) -> Result<(), FrameError> {
    if depth > MAX_DEPTH {
        return Err(FrameError::TooDeep);
    }
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(|item| unfold(item, depth + 1)),
        Value::Object(members) if looks_folded(members) => {
            let Some(Value::String(text)) = members.remove(MARK) else { return Ok(()) };
            *value = serde_json::from_str(&text).map_err(bad)?;
            match value {
                // The text of a fold contains the original value, with at most the folds inside it.
                Value::Object(members) if looks_folded(members) => Ok(()),
                Value::Array(items) => items.iter_mut().try_for_each(|item| unfold(item, depth + 1)),
                Value::Object(members) => members.values_mut().try_for_each(|member| unfold(member, depth + 1)),
                _ => Ok(()),
            }
        }
        Value::Object(members) => members.values_mut().try_for_each(|member| unfold(member, depth + 1)),
        _ => Ok(()),
    }
}
