//! Messages of the host as JavaScript objects: `{type, payload}`.

use crate::values::{self, bytes_to_js, put, string_to_js};
use pijs_protocol::Message;
use rquickjs::{Ctx, Error, Object, Result, Value};

/// Builds the object that `pi:runtime`'s `message` receives. A `host_result` has its attachments in
/// `payload.bytes`, an array of `Uint8Array`.
pub(crate) fn to_js<'js>(ctx: &Ctx<'js>, message: &Message) -> Result<Value<'js>> {
    match message {
        Message::HostResult(result) => {
            let payload = Object::new(ctx.clone())?;
            put(&payload, "call_id", string_to_js(ctx, result.call_id.as_str())?)?;
            put(&payload, "output", values::to_js(ctx, &result.output)?)?;
            put(&payload, "is_error", result.is_error)?;
            if let Some(error) = &result.error {
                put(&payload, "error", serialized(ctx, error)?)?;
            }
            if let Some(chunk) = &result.chunk {
                put(&payload, "chunk", serialized(ctx, chunk)?)?;
            }
            put(&payload, "bytes", bytes_to_js(ctx, &result.bytes)?)?;
            let whole = Object::new(ctx.clone())?;
            put(&whole, "type", "host_result")?;
            put(&whole, "payload", payload)?;
            Ok(whole.into_value())
        }
        other => serialized(ctx, other),
    }
}

fn serialized<'js>(ctx: &Ctx<'js>, value: &impl serde::Serialize) -> Result<Value<'js>> {
    let json = serde_json::to_value(value)
        .map_err(|error| Error::new_into_js_message("message", "object", error.to_string()))?;
    values::to_js(ctx, &json)
}
