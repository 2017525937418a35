//! Time zones by name, from tables that are compiled into this program.
//!
//! A realm does not read files of the machine, and a zone must not depend on the machine's tables. The local zone of `Date` is
//! separate: it is the zone of the process.

use crate::native_call::NativeCall;
use crate::values::{put, string_to_js};
use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;
use rquickjs::{Array, Object, Result, Value};

/// `timeZone(name, epochMs)`: returns `{name, offset, dst, abbreviation}` at a moment, the offset in seconds east of UTC and the
/// name in the tables' spelling; `undefined` for an unknown zone.
pub(crate) fn time_zone<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let name = call.text(0)?;
    let Ok(zone) = TimeZoneDatabase::bundled().get(&name) else { return Ok(Value::new_undefined(ctx.clone())) };
    // A moment outside of the tables' years gets the offset of the nearest moment inside.
    let millis = call.arg(1).as_number().unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which is meant")]
    let moment = Timestamp::from_millisecond(millis as i64).unwrap_or(Timestamp::MAX);
    let info = zone.to_offset_info(moment);
    let answer = Object::new(ctx.clone())?;
    put(&answer, "name", string_to_js(ctx, zone.iana_name().unwrap_or(&name))?)?;
    put(&answer, "offset", info.offset().seconds())?;
    put(&answer, "dst", info.dst().is_dst())?;
    put(&answer, "abbreviation", string_to_js(ctx, info.abbreviation())?)?;
    Ok(answer.into_value())
}

/// `timeZones()`: returns all names of the tables, sorted.
pub(crate) fn time_zones<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let mut names: Vec<String> = TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect();
    names.sort();
    let answer = Array::new(ctx.clone())?;
    for (index, name) in names.iter().enumerate() {
        answer.set(index, string_to_js(ctx, name)?)?;
    }
    Ok(answer.into_value())
}
