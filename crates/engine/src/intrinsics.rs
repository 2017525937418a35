//! Removes intrinsics from a fresh context, and replaces those that read the machine.
//!
//! Omitted when the context is created: the compiler, `performance`, `WeakRef`, `FinalizationRegistry` (`pi:web/weak` provides
//! versions that do not reveal garbage collections). Removed here, because they come with the typed arrays: `SharedArrayBuffer`
//! and `Atomics`. Replaced: `Date` without arguments, `Date.now`, `Math.random`, and the functions that compile text
//! (`text_code`). Adapted: the `stack` of errors begins with `Name: message`, as in Node.
//!
//! Local time is the process's, because the engine uses the C library. A driver that guarantees a time zone sets `TZ` before the
//! first thread starts.

use crate::native_call::{Native, NativeCall, function};
use crate::originals::Originals;
use crate::shared::Shared;
use crate::values::string_to_js;
use crate::{strings, text_code};
use rquickjs::context::intrinsic;
use rquickjs::function::This;
use rquickjs::{Ctx, Exception, Function, Object, Persistent, Result, Value, qjs};
use std::rc::Rc;

/// All intrinsics except those that compile source text or read the machine.
pub(crate) type Deterministic = (
    intrinsic::Date,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
    intrinsic::DOMException,
);

/// Methods of `ArrayBuffer.prototype` that move a buffer's bytes to another object.
const TRANSFERS: [(&str, Native); 3] = [
    ("transfer", |call| transfer(call, 0)),
    ("transferToFixedLength", |call| transfer(call, 1)),
    ("transferToImmutable", |call| transfer(call, 2)),
];

/// Adapts a fresh context, before any other code has run in it.
pub(crate) fn install(ctx: &Ctx<'_>, shared: &Rc<Shared>) -> Result<()> {
    let globals = ctx.globals();
    for name in ["SharedArrayBuffer", "Atomics", "performance", "WeakRef", "FinalizationRegistry"] {
        globals.remove(name)?;
    }
    let math: Object<'_> = globals.get("Math")?;
    define(&math, "random", function(ctx, shared, "random", random)?.into_value())?;

    text_code::install(ctx, shared)?;
    let date = install_date(ctx, shared, &globals)?;
    let error: Object<'_> = globals.get("Error")?;
    let prototype: Object<'_> = error.get("prototype")?;
    let descriptor: Object<'_> = {
        let class: Object<'_> = globals.get("Object")?;
        let describe: Function<'_> = class.get("getOwnPropertyDescriptor")?;
        describe.call((prototype.clone(), "stack"))?
    };
    let setter: Function<'_> = descriptor.get("set")?;
    let stack: Function<'_> = descriptor.get("get")?;
    let capture: Function<'_> = error.get("captureStackTrace")?;
    let to_string: Function<'_> = prototype.get("toString")?;
    shared.handles.set_originals(Originals {
        date: Persistent::save(ctx, date),
        stack: Persistent::save(ctx, stack),
        capture_stack_trace: Persistent::save(ctx, capture),
        error_to_string: Persistent::save(ctx, to_string),
        transfers: install_transfers(ctx, shared, &globals)?,
    });
    let getter = function(ctx, shared, "get stack", stack_with_header)?;
    redefine_accessor(ctx, &prototype, "stack", getter, setter)?;
    define(&error, "captureStackTrace", function(ctx, shared, "captureStackTrace", capture_stack_trace)?.into_value())
}

/// Replaces the methods that move bytes. The bytes of a WebAssembly memory belong to the memory, which may move them when it
/// grows and then must find every object that refers to them.
fn install_transfers<'js>(
    ctx: &Ctx<'js>,
    shared: &Rc<Shared>,
    globals: &Object<'js>,
) -> Result<[Persistent<Function<'static>>; 3]> {
    let class: Object<'js> = globals.get("ArrayBuffer")?;
    let prototype: Object<'js> = class.get("prototype")?;
    let replace = |(name, native): (&str, Native)| -> Result<Persistent<Function<'static>>> {
        let original: Function<'js> = prototype.get(name)?;
        define(&prototype, name, function(ctx, shared, name, native)?.into_value())?;
        Ok(Persistent::save(ctx, original))
    };
    let [transfer, fixed, immutable] = TRANSFERS;
    Ok([replace(transfer)?, replace(fixed)?, replace(immutable)?])
}

fn transfer<'js>(call: &NativeCall<'_, 'js>, which: usize) -> Result<Value<'js>> {
    let (ctx, this) = (call.ctx(), call.this());
    if call.shared().handles.webassembly.borrow().as_ref().is_some_and(|machine| machine.has_buffer(ctx, &this)) {
        return Err(Exception::throw_type(ctx, "ArrayBuffer is not detachable and could not be cloned."));
    }
    let original = call.shared().handles.originals().transfers[which].clone().restore(ctx)?;
    if call.len() == 0 { original.call((This(this),)) } else { original.call((This(this), call.arg(0))) }
}

/// Replaces `Date` and `Date.now`; returns the original constructor.
fn install_date<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>, globals: &Object<'js>) -> Result<Function<'js>> {
    let original: Function<'js> = globals.get("Date")?;
    let date = function(ctx, shared, "Date", date)?;
    date.set_constructor(true);
    date.set_length(7)?;
    let prototype: Object<'js> = original.get("prototype")?;
    date.prop("prototype", prototype.clone())?;
    for name in ["parse", "UTC"] {
        define(&date, name, original.get(name)?)?;
    }
    define(&date, "now", function(ctx, shared, "now", date_now)?.into_value())?;
    define(&prototype, "constructor", date.clone().into_value())?;
    define(globals, "Date", date.into_value())?;
    Ok(original)
}

/// Defines a property with the attributes of built-ins: writable, configurable, not enumerable.
pub(crate) fn define<'js>(object: &Object<'js>, name: &str, value: Value<'js>) -> Result<()> {
    object.prop(name, rquickjs::object::Property::from(value).writable().configurable())
}

fn redefine_accessor<'js>(
    ctx: &Ctx<'js>,
    object: &Object<'js>,
    name: &str,
    getter: Function<'js>,
    setter: Function<'js>,
) -> Result<()> {
    let descriptor = Object::new(ctx.clone())?;
    descriptor.set("get", getter)?;
    descriptor.set("set", setter)?;
    descriptor.set("configurable", true)?;
    descriptor.set("enumerable", false)?;
    let class: Object<'js> = ctx.globals().get("Object")?;
    let define: Function<'js> = class.get("defineProperty")?;
    define.call::<_, Value<'js>>((object.clone(), name, descriptor))?;
    Ok(())
}

fn random<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    Ok(Value::new_float(call.ctx().clone(), call.shared().randomness.next_f64()))
}

fn date_now<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    Ok(Value::new_float(call.ctx().clone(), call.shared().clock.epoch_ms()))
}

/// `new Date()` and `Date()` with the driver's time; every other form calls the original.
fn date<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let original = call.shared().handles.originals().date.restore(call.ctx())?;
    if !call.is_constructor() {
        let now = construct(&original, original.as_value(), &[date_now(call)?])?;
        let now = now.into_object().expect("`new Date` returns an object");
        let to_string: Function<'js> = now.get("toString")?;
        return to_string.call((This(now),));
    }
    let arguments: Vec<Value<'js>> =
        if call.len() == 0 { vec![date_now(call)?] } else { (0..call.len()).map(|index| call.arg(index)).collect() };
    construct(&original, &call.this(), &arguments)
}

/// `Reflect.construct(class, arguments, newTarget)`.
fn construct<'js>(class: &Function<'js>, new_target: &Value<'js>, arguments: &[Value<'js>]) -> Result<Value<'js>> {
    let ctx = class.ctx();
    let mut raw: Vec<qjs::JSValue> = arguments.iter().map(Value::as_raw).collect();
    let count = i32::try_from(raw.len()).expect("the engine passes fewer than 2^31 arguments");
    // SAFETY: all values belong to this context and stay borrowed, so alive, during the call, which
    // takes no ownership of its arguments; the result is owned.
    let result = unsafe {
        qjs::JS_CallConstructor2(ctx.as_raw().as_ptr(), class.as_raw(), new_target.as_raw(), count, raw.as_mut_ptr())
    };
    // SAFETY: `result` was just returned to us with its reference.
    let result = unsafe { Value::from_raw(ctx.clone(), result) };
    if result.is_exception() { Err(rquickjs::Error::Exception) } else { Ok(result) }
}

/// `error.stack`: returns the engine's frames below the header line that Node adds.
fn stack_with_header<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let originals = call.shared().handles.originals();
    let frames: Value<'js> = originals.stack.restore(ctx)?.call((This(call.this()),))?;
    // Anything other than plain frames comes from the guest's own `Error.prepareStackTrace`.
    let Some(plain) = frames.as_string().map(strings::lossy).filter(|text| is_frames(text)) else {
        return Ok(frames);
    };
    let header: Value<'js> = originals.error_to_string.restore(ctx)?.call((This(call.this()),))?;
    let header = header.as_string().map(strings::lossy).unwrap_or_default();
    string_to_js(ctx, &with_header(&header, &plain))
}

/// `Error.captureStackTrace(target, above?)`, with the header line.
fn capture_stack_trace<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let originals = call.shared().handles.originals();
    let error: Value<'js> = ctx.globals().get("Error")?;
    let capture = originals.capture_stack_trace.restore(ctx)?;
    let above = call.arg(1);
    if above.is_undefined() {
        capture.call::<_, Value<'js>>((This(error), call.arg(0)))?;
    } else {
        capture.call::<_, Value<'js>>((This(error), call.arg(0), above))?;
    }
    let target = call.arg(0);
    let Some(object) = target.as_object() else { return Ok(Value::new_undefined(ctx.clone())) };
    let frames: Value<'js> = object.get("stack")?;
    if let Some(plain) = frames.as_string().map(strings::lossy).filter(|text| is_frames(text)) {
        // Without `above`, the first frame is this function itself.
        let plain = match plain.split_once('\n') {
            Some((first, rest)) if first.contains("captureStackTrace (native)") => rest.to_owned(),
            _ => plain,
        };
        let header: Value<'js> = originals.error_to_string.restore(ctx)?.call((This(target.clone()),))?;
        let header = header.as_string().map(strings::lossy).unwrap_or_default();
        define(object, "stack", string_to_js(ctx, &with_header(&header, &plain))?)?;
    }
    Ok(Value::new_undefined(ctx.clone()))
}

fn is_frames(text: &str) -> bool {
    text.is_empty() || text.starts_with("    at ")
}

fn with_header(header: &str, frames: &str) -> String {
    if frames.is_empty() { header.to_owned() } else { format!("{header}\n{}", frames.trim_end()) }
}
