//! Converts between JSON values and JavaScript values.
//!
//! To JavaScript, objects and arrays are built natively. From JavaScript, the rules of `JSON.stringify` apply (`toJSON` is
//! called, undefined and function members are omitted, `NaN` is `null`), with two additions: a `Uint8Array` anywhere becomes an
//! attachment, `{"$bytes": i}`, and lone surrogates are either refused or replaced, depending on [`Surrogates`]. Reading may run
//! guest code (getters, `toJSON`, proxies), to which the turn's limits apply.

use crate::strings;
use pijs_protocol::guard;
use rquickjs::{Array, Coerced, Ctx, Exception, FromJs, Function, IntoJs, Object, TypedArray, Value, qjs};
use rquickjs::{atom::PredefinedAtom, function::This};
use serde_json::{Map, Number};
use std::cell::Cell;

/// Maximum nesting of a value that leaves a realm. `serde_json` can read 128 levels from a tape, and the enclosing message takes
/// a few of them. Deeper values are cycles or attacks, and recursion uses the host's stack.
const MAX_DEPTH: usize = 120;

/// Maximum number of values in one message, including lists and members: each takes some fifty bytes in the host, which the
/// realm's memory limit does not cover.
const MAX_VALUES: usize = 1 << 20;

/// Maximum number of bytes of text and attachments in one message: the payload limit of a frame. The gate's limit is lower.
const MAX_BYTES: usize = 128 << 20;

/// Treatment of lone surrogates in text that leaves the realm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surrogates {
    /// Fails with [`Unfit::LoneSurrogate`]; used for parameters of hostcalls.
    Refuse,
    /// Replaces each lone surrogate by U+FFFD; used for everything but parameters of hostcalls.
    Replace,
}

/// The reason why a JavaScript value has no JSON form.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// Guest code threw during the conversion; the exception is pending.
    Thrown(rquickjs::Error),
    /// A string with a lone surrogate, which is not valid Unicode.
    LoneSurrogate,
    /// A cycle, or nesting beyond [`MAX_DEPTH`].
    TooDeep,
    /// More than [`MAX_VALUES`] or [`MAX_BYTES`].
    TooLarge,
    /// A BigInt.
    BigInt,
    /// A value that is not of the expected shape.
    Shape(&'static str),
}

impl Unfit {
    /// Returns one sentence for the guest; `None` if the guest's own exception is pending.
    pub(crate) fn explain(&self) -> Option<&'static str> {
        match self {
            Self::Thrown(_) => None,
            Self::LoneSurrogate => {
                Some("a string contains half a surrogate pair, which is not valid Unicode; use toWellFormed() first")
            }
            Self::TooDeep => Some("a value is cyclic or nested more than 120 levels deep"),
            Self::TooLarge => Some("a value has more than a million members or 128 MB; send it in pieces"),
            Self::BigInt => Some("a BigInt has no JSON form; use a number or a string"),
            Self::Shape(what) => Some(what),
        }
    }

    /// Throws the guest's own exception, or a `TypeError`.
    pub(crate) fn throw(self, ctx: &Ctx<'_>) -> rquickjs::Error {
        match (self.explain(), self) {
            (_, Self::Thrown(error)) => error,
            (explained, _) => Exception::throw_type(ctx, explained.unwrap_or_default()),
        }
    }
}

impl From<rquickjs::Error> for Unfit {
    fn from(error: rquickjs::Error) -> Self {
        Self::Thrown(error)
    }
}

/// Builds the JavaScript form of a JSON value.
pub(crate) fn to_js<'js>(ctx: &Ctx<'js>, value: &serde_json::Value) -> rquickjs::Result<Value<'js>> {
    Ok(match value {
        serde_json::Value::Null => Value::new_null(ctx.clone()),
        serde_json::Value::Bool(value) => Value::new_bool(ctx.clone(), *value),
        serde_json::Value::Number(number) => number_to_js(ctx, number),
        serde_json::Value::String(text) => string_to_js(ctx, text)?,
        serde_json::Value::Array(items) => {
            let array = Array::new(ctx.clone())?;
            for (index, item) in items.iter().enumerate() {
                push(&array, index, to_js(ctx, item)?)?;
            }
            array.into_value()
        }
        serde_json::Value::Object(members) => map_to_js(ctx, members)?.into_value(),
    })
}

/// Builds an object from JSON members, in their order.
///
/// Members are defined, not assigned: see [`put`].
pub(crate) fn map_to_js<'js>(
    ctx: &Ctx<'js>,
    members: &Map<String, serde_json::Value>,
) -> rquickjs::Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    for (name, member) in members {
        put(&object, name.as_str(), to_js(ctx, member)?)?;
    }
    Ok(object)
}

/// Defines a member as plain data.
///
/// It is not assigned: a member called `__proto__` is data, and setters that the guest has defined on `Object.prototype` or
/// `Array.prototype` do not run.
pub(crate) fn put<'js>(object: &Object<'js>, key: &str, value: impl IntoJs<'js>) -> rquickjs::Result<()> {
    let atom = new_atom(object.ctx(), key)?;
    let defined = define(object, atom, value);
    // SAFETY: created above and not shared.
    unsafe { qjs::JS_FreeAtom(object.ctx().as_raw().as_ptr(), atom) };
    defined
}

/// A frequently used property name, whose atom is created once.
#[derive(Debug)]
pub(crate) struct CachedName {
    text: &'static str,
    /// Null until the first use. The atom belongs to the realm's engine, which frees it when the engine is freed.
    atom: Cell<qjs::JSAtom>,
}

impl CachedName {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self { text, atom: Cell::new(qjs::JS_ATOM_NULL) }
    }

    /// Defines a member like [`put`]. All objects must belong to the same realm.
    pub(crate) fn put<'js>(&self, object: &Object<'js>, value: impl IntoJs<'js>) -> rquickjs::Result<()> {
        if self.atom.get() == qjs::JS_ATOM_NULL {
            self.atom.set(new_atom(object.ctx(), self.text)?);
        }
        define(object, self.atom.get(), value)
    }
}

fn new_atom(ctx: &Ctx<'_>, name: &str) -> rquickjs::Result<qjs::JSAtom> {
    // SAFETY: a live context; the name's bytes are read and not kept.
    match unsafe { qjs::JS_NewAtomLen(ctx.as_raw().as_ptr(), name.as_ptr().cast(), name.len() as _) } {
        qjs::JS_ATOM_NULL => Err(rquickjs::Error::Exception),
        atom => Ok(atom),
    }
}

fn define<'js>(object: &Object<'js>, name: qjs::JSAtom, value: impl IntoJs<'js>) -> rquickjs::Result<()> {
    let ctx = object.ctx();
    let value = value.into_js(ctx)?;
    // SAFETY: object, name and value belong to this context's runtime; the call takes over the reference to the value, also when
    // it fails.
    let status = unsafe {
        let raw = ctx.as_raw().as_ptr();
        let value = qjs::JS_DupValue(raw, value.as_raw());
        qjs::JS_DefinePropertyValue(raw, object.as_raw(), name, value, qjs::JS_PROP_C_W_E as _)
    };
    if status < 0 { Err(rquickjs::Error::Exception) } else { Ok(()) }
}

/// Defines an item of an array as plain data, like [`put`].
pub(crate) fn push<'js>(array: &Array<'js>, index: usize, value: impl IntoJs<'js>) -> rquickjs::Result<()> {
    let ctx = array.ctx();
    let value = value.into_js(ctx)?;
    // An array with more items than an index can express does not fit into memory.
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    // SAFETY: as in `define`; an index needs no atom.
    let status = unsafe {
        let raw = ctx.as_raw().as_ptr();
        let value = qjs::JS_DupValue(raw, value.as_raw());
        qjs::JS_DefinePropertyValueUint32(raw, array.as_raw(), index, value, qjs::JS_PROP_C_W_E as _)
    };
    if status < 0 { Err(rquickjs::Error::Exception) } else { Ok(()) }
}

/// Returns a frozen empty array.
pub(crate) fn frozen_list<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Value<'js>> {
    let list = Array::new(ctx.clone())?;
    // SAFETY: a live context and an object of it.
    let status = unsafe { qjs::JS_FreezeObject(ctx.as_raw().as_ptr(), list.as_raw()) };
    if status < 0 { Err(rquickjs::Error::Exception) } else { Ok(list.into_value()) }
}

/// Builds a string.
pub(crate) fn string_to_js<'js>(ctx: &Ctx<'js>, text: &str) -> rquickjs::Result<Value<'js>> {
    Ok(rquickjs::String::from_str(ctx.clone(), text)?.into_value())
}

fn number_to_js<'js>(ctx: &Ctx<'js>, number: &Number) -> Value<'js> {
    match number.as_i64().and_then(|integer| i32::try_from(integer).ok()) {
        Some(integer) => Value::new_int(ctx.clone(), integer),
        None => Value::new_float(ctx.clone(), number.as_f64().unwrap_or(f64::NAN)),
    }
}

/// Returns an array of `Uint8Array`s with copies of the attachments.
pub(crate) fn bytes_to_js<'js>(ctx: &Ctx<'js>, attachments: &[Vec<u8>]) -> rquickjs::Result<Array<'js>> {
    let array = Array::new(ctx.clone())?;
    for (index, bytes) in attachments.iter().enumerate() {
        push(&array, index, TypedArray::<u8>::new_copy(ctx.clone(), bytes)?)?;
    }
    Ok(array)
}

/// Copies the content of a `Uint8Array`; `None` for another value or a detached array.
pub(crate) fn bytes_from_js(value: &Value<'_>) -> Option<Vec<u8>> {
    let array = value.as_object()?.as_typed_array::<u8>()?;
    // SAFETY: the slice is copied at once; no JavaScript runs during its life.
    unsafe { array.as_bytes() }.map(<[u8]>::to_vec)
}

/// Converts values of the realm to JSON, and collects their attachments.
pub(crate) struct ValueReader {
    surrogates: Surrogates,
    values_left: usize,
    bytes_left: usize,
    /// Attachments so far; `{"$bytes": i}` is an index into them.
    pub(crate) bytes: Vec<Vec<u8>>,
}

impl ValueReader {
    pub(crate) fn new(surrogates: Surrogates) -> Self {
        Self { surrogates, values_left: MAX_VALUES, bytes_left: MAX_BYTES, bytes: Vec::new() }
    }

    /// Returns the JSON form of a value; `None` for values that `JSON.stringify` leaves out.
    pub(crate) fn read(&mut self, value: &Value<'_>) -> Result<Option<serde_json::Value>, Unfit> {
        self.read_at(value, 0)
    }

    /// Reads the members of an object; `undefined` is read as an empty object.
    pub(crate) fn read_map(&mut self, value: &Value<'_>) -> Result<Map<String, serde_json::Value>, Unfit> {
        if value.is_undefined() {
            return Ok(Map::new());
        }
        match self.read(value)? {
            Some(serde_json::Value::Object(members)) => Ok(members),
            _ => Err(Unfit::Shape("params must be an object")),
        }
    }

    /// Reads an array of `Uint8Array`s as attachments; `undefined` is read as an empty array.
    pub(crate) fn attach(&mut self, value: &Value<'_>) -> Result<(), Unfit> {
        if value.is_undefined() {
            return Ok(());
        }
        let array = value.as_array().ok_or(Unfit::Shape("bytes must be an array of Uint8Array"))?;
        for index in 0..length(array.as_object())? {
            take(&mut self.values_left, 1)?;
            let item: Value<'_> = array.as_object().get(index)?;
            self.keep(bytes_from_js(&item).ok_or(Unfit::Shape("bytes must be an array of Uint8Array"))?)?;
        }
        Ok(())
    }

    fn text(&mut self, string: &rquickjs::String<'_>) -> Result<String, Unfit> {
        let text = match self.surrogates {
            Surrogates::Refuse => strings::strict(string).ok_or(Unfit::LoneSurrogate)?,
            Surrogates::Replace => strings::lossy(string),
        };
        take(&mut self.bytes_left, text.len())?;
        Ok(text)
    }

    /// Adds the content of a `Uint8Array` as the next attachment.
    fn keep(&mut self, bytes: Vec<u8>) -> Result<(), Unfit> {
        take(&mut self.bytes_left, bytes.len())?;
        self.bytes.push(bytes);
        Ok(())
    }

    fn read_at(&mut self, value: &Value<'_>, depth: usize) -> Result<Option<serde_json::Value>, Unfit> {
        if depth > MAX_DEPTH {
            return Err(Unfit::TooDeep);
        }
        take(&mut self.values_left, 1)?;
        if let Some(string) = value.as_string() {
            return Ok(Some(self.text(string)?.into()));
        }
        if let Some(integer) = value.as_int() {
            return Ok(Some(integer.into()));
        }
        if let Some(float) = value.as_float() {
            return Ok(Some(number_from_js(float)));
        }
        if let Some(flag) = value.as_bool() {
            return Ok(Some(flag.into()));
        }
        if value.is_null() {
            return Ok(Some(serde_json::Value::Null));
        }
        if value.is_big_int() {
            return Err(Unfit::BigInt);
        }
        if value.is_function() {
            return Ok(None);
        }
        match value.as_object() {
            Some(object) => self.read_object(object, depth),
            // undefined and symbols
            None => Ok(None),
        }
    }

    fn read_object(&mut self, object: &Object<'_>, depth: usize) -> Result<Option<serde_json::Value>, Unfit> {
        if object.is_typed_array::<u8>() {
            let bytes = bytes_from_js(object.as_value()).ok_or(Unfit::Shape("a Uint8Array is detached"))?;
            let index = self.bytes.len();
            self.keep(bytes)?;
            return Ok(Some(serde_json::json!({ "$bytes": index })));
        }
        let to_json: Value<'_> = object.get(PredefinedAtom::ToJSON)?;
        if let Some(to_json) = to_json.as_function() {
            let replaced: Value<'_> = to_json.call((This(object.clone()),))?;
            // `toJSON` is called only once, as in `JSON.stringify`: its result is read as plain data.
            return match replaced.as_object() {
                Some(plain) if !replaced.is_function() => self.read_members(plain, depth),
                _ => self.read_at(&replaced, depth + 1),
            };
        }
        self.read_members(object, depth)
    }

    fn read_members(&mut self, object: &Object<'_>, depth: usize) -> Result<Option<serde_json::Value>, Unfit> {
        if is_list(object) {
            let mut items = Vec::new();
            for index in 0..length(object)? {
                let item: Value<'_> = object.get(index)?;
                items.push(self.read_at(&item, depth + 1)?.unwrap_or_default());
            }
            return Ok(Some(items.into()));
        }
        let mut members = Map::new();
        let keys = MemberNames::of(object)?;
        for name in keys.names() {
            let (name, member) = (self.name(object.ctx(), name.atom)?, keys.value(name.atom)?);
            if let Some(member) = self.read_at(&member, depth + 1)? {
                members.insert(name, member);
            }
        }
        Ok(Some(members.into()))
    }

    fn name(&mut self, ctx: &Ctx<'_>, atom: qjs::JSAtom) -> Result<String, Unfit> {
        let name = strings::of_atom(ctx, atom, self.surrogates == Surrogates::Replace)?.ok_or(Unfit::LoneSurrogate)?;
        take(&mut self.bytes_left, name.len())?;
        Ok(name)
    }
}

/// The names of an object's own enumerable members, as returned by `Object.keys`. Replaces rquickjs's iterator, which creates a
/// value for each name and is too slow for reading every outgoing message.
struct MemberNames<'a, 'js> {
    object: &'a Object<'js>,
    names: *mut qjs::JSPropertyEnum,
    count: u32,
}

impl<'a, 'js> MemberNames<'a, 'js> {
    /// Lists the names; may run a trap of a proxy.
    fn of(object: &'a Object<'js>) -> rquickjs::Result<Self> {
        let mut keys = Self { object, names: std::ptr::null_mut(), count: 0 };
        let wanted = qjs::JS_GPN_STRING_MASK | qjs::JS_GPN_ENUM_ONLY;
        // SAFETY: context and object live; list and count are written together on success.
        let status = unsafe {
            qjs::JS_GetOwnPropertyNames(keys.context(), &mut keys.names, &mut keys.count, object.as_raw(), wanted as _)
        };
        if status < 0 { Err(rquickjs::Error::Exception) } else { Ok(keys) }
    }

    fn context(&self) -> *mut qjs::JSContext {
        self.object.ctx().as_raw().as_ptr()
    }

    fn names(&self) -> &[qjs::JSPropertyEnum] {
        if self.names.is_null() {
            return &[];
        }
        // SAFETY: the engine allocated a list of `count` entries, unchanged until `drop` frees it.
        unsafe { std::slice::from_raw_parts(self.names, self.count as usize) }
    }

    /// Reads a member; may run a getter.
    fn value(&self, atom: qjs::JSAtom) -> rquickjs::Result<Value<'js>> {
        // SAFETY: context and object live, and `self` keeps the atom alive; the value is owned.
        let value = unsafe {
            Value::from_raw(self.object.ctx().clone(), qjs::JS_GetProperty(self.context(), self.object.as_raw(), atom))
        };
        if value.is_exception() { Err(rquickjs::Error::Exception) } else { Ok(value) }
    }
}

impl Drop for MemberNames<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: the list and its atoms are owned and freed once; the list is null with count 0 where the engine returned none.
        unsafe { qjs::JS_FreePropertyEnum(self.context(), self.names, self.count) };
    }
}

/// Returns whether `JSON.stringify` writes an object as a list, because it is an array or a proxy of one.
fn is_list(object: &Object<'_>) -> bool {
    if !object.is_proxy() {
        return object.is_array();
    }
    let mut object = object.clone();
    for _ in 0..MAX_DEPTH {
        let Some(target) = object.as_proxy().and_then(|proxy| proxy.target().ok()) else { return object.is_array() };
        object = target;
    }
    false
}

/// Returns the length of an array, or of a proxy of one, which may return anything.
///
/// rquickjs's own function panics when the length is not a small integer.
fn length(array: &Object<'_>) -> Result<u32, Unfit> {
    let length: Value<'_> = array.get(PredefinedAtom::Length)?;
    match length.as_number() {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as longer lists may")]
        Some(number) => Ok(number as u32),
        None => Err(Unfit::Shape("the length of a list is not a number")),
    }
}

/// Subtracts from the remaining budget of a message.
fn take(left: &mut usize, much: usize) -> Result<(), Unfit> {
    match left.checked_sub(much) {
        Some(rest) => *left = rest,
        None if guard!(EngineSize) => return Err(Unfit::TooLarge),
        None => {}
    }
    Ok(())
}

/// Converts a number: exact integers stay integers; numbers without a JSON form, such as `NaN`, become `null`.
fn number_from_js(float: f64) -> serde_json::Value {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    if float.trunc() == float && float.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 53 bits")]
        return serde_json::Value::from(float as i64);
    }
    Number::from_f64(float).map_or(serde_json::Value::Null, serde_json::Value::Number)
}

/// Formats a thrown value for reports of host bugs: its stack, or else its message or text.
pub(crate) fn describe(value: &Value<'_>) -> String {
    let ctx = value.ctx();
    let member = |name: &str| {
        let found: Option<Value<'_>> = value.as_object().and_then(|object| object.get(name).ok());
        found.and_then(Value::into_string).map(|string| strings::lossy(&string)).filter(|text| !text.is_empty())
    };
    let described = member("stack").or_else(|| member("message")).or_else(|| {
        let Coerced(string) = Coerced::<rquickjs::String<'_>>::from_js(ctx, value.clone()).ok()?;
        Some(strings::lossy(&string))
    });
    // An exception that a getter throws is dropped.
    let _ = ctx.catch();
    described.unwrap_or_else(|| "a value without a text form".to_owned()).trim_end().to_owned()
}

/// Returns a member that is a function.
pub(crate) fn method<'js>(object: &Object<'js>, name: &str) -> Option<Function<'js>> {
    let value: Value<'js> = object.get(name).ok()?;
    value.into_function()
}
