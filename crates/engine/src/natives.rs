//! `pi:engine`: the native module through which TypeScript in the realm reaches the driver.
//!
//! Each export is a function of a [`NativeCall`]. A panic in one is caught here, ends the realm as a host
//! bug, and is never resumed in some later, unrelated exception.

use crate::shared::{Shared, SharedHandle};
use crate::{compute, dynamic_code, hostcall, loader, panics, text, text_code, trace, url, values, webassembly, zones};
use rquickjs::function::{Params, RustFunction};
use rquickjs::module::{Declarations, Exports, ModuleDef};
use rquickjs::promise::PromiseState;
use rquickjs::{Class, Coerced, Ctx, Exception, FromJs, Function, Object, Persistent, Result, Value, qjs};
use smol_str::SmolStr;
use std::rc::Rc;

/// A native function.
pub(crate) type Native = for<'a, 'js> fn(&NativeCall<'a, 'js>) -> Result<Value<'js>>;

/// Exports of `pi:engine`, without `facts`.
const EXPORTS: &[(&str, Native)] = &[
    ("afterJobs", after_jobs),
    ("bridgeModule", dynamic_code::bridge_module),
    ("buildKey", compute::build_key),
    ("call", hostcall::call),
    ("callPromise", hostcall::call_promise),
    ("callSync", hostcall::call_sync),
    ("cipher", compute::cipher),
    ("compileModule", dynamic_code::compile_module),
    ("compressor", compute::compressor),
    ("crc32", compute::crc32),
    ("decode", text::decode),
    ("decodeUtf8", text::decode_utf8),
    ("deriveKey", compute::derive_key),
    ("digest", compute::digest),
    ("elapsedMs", |call| Ok(Value::new_float(call.ctx().clone(), call.shared().clock.elapsed_ms()))),
    ("encodeUtf8", text::encode_utf8),
    ("enqueueJob", enqueue_job),
    ("epochMs", |call| Ok(Value::new_float(call.ctx().clone(), call.shared().clock.epoch_ms()))),
    ("fillRandom", fill_random),
    ("generateKey", compute::generate_key),
    ("importSync", loader::import_sync),
    // Compares strings by address; `===` compares their content, which takes time in proportion to their length.
    ("isSame", |call| Ok(Value::new_bool(call.ctx().clone(), call.arg(0) == call.arg(1)))),
    ("issued", trace::issued),
    #[cfg(all(target_os = "linux", feature = "test-hooks"))]
    ("misbehave", crate::hooks::misbehave),
    ("parseUrl", url::parse),
    ("prefilters", text::prefilters),
    ("promiseState", promise_state),
    ("proxyParts", proxy_parts),
    ("quoteText", text_code::quote),
    ("random", |call| Ok(Value::new_float(call.ctx().clone(), call.shared().random()))),
    ("readKey", compute::read_key),
    ("send", hostcall::send),
    ("setUrlPart", url::set_part),
    ("state", |call| Ok(call.shared().state.object(call.ctx())?.into_value())),
    ("timeZone", zones::time_zone),
    ("timeZones", zones::time_zones),
    ("toWellFormed", |call| values::string_to_js(call.ctx(), &call.text(0)?)),
    ("webAssembly", webassembly::functions),
];

/// One call of a native function.
pub(crate) struct NativeCall<'a, 'js> {
    params: Params<'a, 'js>,
    shared: &'a Shared,
}

impl<'js> NativeCall<'_, 'js> {
    pub(crate) fn ctx(&self) -> &Ctx<'js> {
        self.params.ctx()
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.shared
    }

    /// Returns `this`, or `new.target` in a constructor call.
    pub(crate) fn this(&self) -> Value<'js> {
        self.params.this()
    }

    pub(crate) fn is_constructor(&self) -> bool {
        self.params.is_constructor()
    }

    pub(crate) fn len(&self) -> usize {
        self.params.len()
    }

    /// Returns an argument; `undefined` when it is missing.
    pub(crate) fn arg(&self, index: usize) -> Value<'js> {
        self.params.arg(index).unwrap_or_else(|| Value::new_undefined(self.ctx().clone()))
    }

    /// Returns an argument as text: coerced, with lone surrogates replaced.
    pub(crate) fn text(&self, index: usize) -> Result<String> {
        if let Some(string) = self.arg(index).as_string() {
            return Ok(text::lossy(string));
        }
        let Coerced(string) = Coerced::<rquickjs::String<'js>>::from_js(self.ctx(), self.arg(index))?;
        Ok(text::lossy(&string))
    }

    /// Returns an argument as text through the string cache, for one of the few texts that the runtime passes at every call.
    pub(crate) fn cached_text(&self, index: usize) -> Result<SmolStr> {
        let argument = self.arg(index);
        if let Some(cached_text) = self.shared.strings.get(&argument) {
            return Ok(cached_text);
        }
        let cached_text = SmolStr::from(self.text(index)?);
        self.shared.strings.insert(self.ctx(), argument, &cached_text);
        Ok(cached_text)
    }

    /// Returns an argument like [`NativeCall::text`]; `None` for `undefined`.
    pub(crate) fn optional_text(&self, index: usize) -> Result<Option<String>> {
        if self.arg(index).is_undefined() { Ok(None) } else { self.text(index).map(Some) }
    }

    /// Copies a `Uint8Array` argument.
    pub(crate) fn bytes(&self, index: usize) -> Result<Vec<u8>> {
        values::bytes_from_js(&self.arg(index))
            .ok_or_else(|| Exception::throw_type(self.ctx(), "expected a Uint8Array that is not detached"))
    }

    /// Returns a number truncated to an integer; 0 when it is negative or no number.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates, which is meant")]
    pub(crate) fn integer(&self, index: usize) -> Result<u64> {
        Ok(self.arg(index).as_number().unwrap_or_default() as u64)
    }

    /// Returns whether an argument is `true`.
    pub(crate) fn flag(&self, index: usize) -> bool {
        self.arg(index).as_bool().unwrap_or(false)
    }
}

/// Makes a JavaScript function of a native one.
pub(crate) fn function<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>, name: &str, native: Native) -> Result<Function<'js>> {
    let shared = Rc::clone(shared);
    let body = move |params: Params<'_, 'js>| {
        let ctx = params.ctx().clone();
        catch_panics(&ctx, &shared, || native(&NativeCall { params, shared: &shared }))
    };
    let instance = Class::instance(ctx.clone(), RustFunction(Box::new(body)))?;
    let function = Function::from_value(instance.into_value())?;
    function.set_name(name)?;
    Ok(function)
}

/// Makes a JavaScript function of a closure. What it owns is freed with the function, so it must not
/// hold JavaScript values: the garbage collector would not see them.
pub(crate) fn closure<'js>(
    ctx: &Ctx<'js>,
    name: &str,
    native: impl for<'a> Fn(&NativeCall<'a, 'js>) -> Result<Value<'js>> + 'js,
) -> Result<Value<'js>> {
    let shared = shared_of(ctx)?;
    let body = move |params: Params<'_, 'js>| {
        let ctx = params.ctx().clone();
        catch_panics(&ctx, &shared, || native(&NativeCall { params, shared: &shared }))
    };
    let instance = Class::instance(ctx.clone(), RustFunction(Box::new(body)))?;
    let function = Function::from_value(instance.into_value())?;
    function.set_name(name)?;
    Ok(function.into_value())
}

/// Returns what the native functions of a realm share.
pub(crate) fn shared_of(ctx: &Ctx<'_>) -> Result<Rc<Shared>> {
    Ok(Rc::clone(&ctx.userdata::<SharedHandle>().ok_or(rquickjs::Error::Unknown)?.0))
}

/// Runs native code; a panic ends the realm and cannot be caught by the guest.
pub(crate) fn catch_panics<'js, T>(ctx: &Ctx<'js>, shared: &Shared, body: impl FnOnce() -> Result<T>) -> Result<T> {
    panics::catch(body).unwrap_or_else(|detail| {
        shared.meter.report_bug(detail);
        Err(throw_uncatchable(ctx))
    })
}

/// Ends the running code: neither `catch` nor `finally` of the guest sees it.
pub(crate) fn throw_uncatchable(ctx: &Ctx<'_>) -> rquickjs::Error {
    let Ok(error) = Exception::from_message(ctx.clone(), "the realm has ended") else {
        return rquickjs::Error::Exception;
    };
    let error = error.into_object().into_value();
    // SAFETY: `error` is a live value of this context; the call only sets a flag on it.
    unsafe { qjs::JS_SetUncatchableError(ctx.as_raw().as_ptr(), error.as_raw()) };
    ctx.throw(error)
}

/// Defines the module `pi:engine`.
pub(crate) struct EngineModule;

impl ModuleDef for EngineModule {
    fn declare<'js>(declarations: &Declarations<'js>) -> Result<()> {
        for (name, _) in EXPORTS {
            declarations.declare(*name)?;
        }
        declarations.declare("facts")?;
        Ok(())
    }

    fn evaluate<'js>(ctx: &Ctx<'js>, exports: &Exports<'js>) -> Result<()> {
        let shared = shared_of(ctx)?;
        for (name, native) in EXPORTS {
            exports.export(*name, function(ctx, &shared, name, *native)?)?;
        }
        let facts = values::map_to_js(ctx, &shared.facts)?.into_value();
        freeze(ctx, &facts)?;
        exports.export("facts", facts)?;
        Ok(())
    }
}

/// Freezes a value that was built from JSON, and everything inside it.
fn freeze<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> Result<()> {
    let Some(object) = value.as_object() else { return Ok(()) };
    for member in object.values::<Value<'js>>() {
        freeze(ctx, &member?)?;
    }
    let class: Object<'js> = ctx.globals().get("Object")?;
    let freeze: Function<'js> = class.get("freeze")?;
    freeze.call((value.clone(),))
}

fn enqueue_job<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let Some(job) = call.arg(0).into_function() else {
        return Err(Exception::throw_type(call.ctx(), "enqueueJob: expected a function"));
    };
    job.defer(())?;
    Ok(Value::new_undefined(call.ctx().clone()))
}

/// `afterJobs(fn)`: calls it once, when the microtask queue is empty; a later call replaces an earlier one.
fn after_jobs<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let Some(job) = call.arg(0).into_function() else {
        return Err(Exception::throw_type(call.ctx(), "afterJobs: expected a function"));
    };
    *call.shared().after_jobs.borrow_mut() = Some(Persistent::save(call.ctx(), job));
    Ok(Value::new_undefined(call.ctx().clone()))
}

fn fill_random<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let target = call.arg(0);
    let raw = target.as_object().and_then(|object| object.as_typed_array::<u8>()).and_then(|array| array.as_raw());
    let Some(mut raw) = raw else {
        return Err(Exception::throw_type(call.ctx(), "expected a Uint8Array that is not detached"));
    };
    // SAFETY: the pointer covers the array's live buffer and no JavaScript runs before the slice is dropped, so the buffer is
    // neither moved nor aliased.
    call.shared().fill_random(unsafe { raw.as_mut() });
    Ok(target)
}

/// `proxyParts(value)`: returns `[target, handler]` of a proxy, `[null, null]` of a revoked one, `undefined` of anything else. No
/// trap runs.
fn proxy_parts<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let value = call.arg(0);
    let Some(proxy) = value.as_object().and_then(|object| object.as_proxy()) else {
        return Ok(Value::new_undefined(ctx.clone()));
    };
    let parts = rquickjs::Array::new(ctx.clone())?;
    match (proxy.target(), proxy.handler()) {
        (Ok(target), Ok(handler)) => {
            parts.set(0, target)?;
            parts.set(1, handler)?;
        }
        _ => {
            // The engine throws for a revoked proxy.
            ctx.catch();
            parts.set(0, Value::new_null(ctx.clone()))?;
            parts.set(1, Value::new_null(ctx.clone()))?;
        }
    }
    Ok(parts.into_value())
}

/// `promiseState(p)`: returns `{state, value}`; a value that is no promise counts as fulfilled with itself.
fn promise_state<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let answer = Object::new(ctx.clone())?;
    let subject = call.arg(0);
    let (state, value) = match subject.as_promise() {
        None => ("fulfilled", subject.clone()),
        Some(promise) => match promise.state() {
            PromiseState::Pending => ("pending", Value::new_undefined(ctx.clone())),
            PromiseState::Resolved => {
                ("fulfilled", promise.result().unwrap_or_else(|| Ok(Value::new_undefined(ctx.clone())))?)
            }
            PromiseState::Rejected => {
                // `result` throws the reason, which is returned as data here.
                let _ = promise.result::<Value<'js>>();
                ("rejected", ctx.catch())
            }
        },
    };
    values::put(&answer, "state", state)?;
    values::put(&answer, "value", value)?;
    Ok(answer.into_value())
}
