//! Converts messages of the host to JavaScript objects: `{type, payload}`.

use crate::values;
use rquickjs::{Ctx, Error, Result, Value};

/// Converts a value to JavaScript by its JSON form: the argument of `pi:runtime`'s `message`, and parts of other arguments.
pub(crate) fn serialized<'js>(ctx: &Ctx<'js>, value: &impl serde::Serialize) -> Result<Value<'js>> {
    let json = serde_json::to_value(value)
        .map_err(|error| Error::new_into_js_message("message", "object", error.to_string()))?;
    values::to_js(ctx, &json)
}
