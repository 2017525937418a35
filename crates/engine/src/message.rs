//! Messages of the host as JavaScript objects: `{type, payload}`.

use crate::values;
use rquickjs::{Ctx, Error, Result, Value};

/// Builds the object that `pi:runtime`'s `message` receives, and parts of other arguments: the JSON form of a value.
pub(crate) fn serialized<'js>(ctx: &Ctx<'js>, value: &impl serde::Serialize) -> Result<Value<'js>> {
    let json = serde_json::to_value(value)
        .map_err(|error| Error::new_into_js_message("message", "object", error.to_string()))?;
    values::to_js(ctx, &json)
}
