//! `pi:engine`: the native module through which TypeScript in the realm reaches the driver.
//!
//! Each export is a function of a [`NativeCall`].

use crate::native_call::{Native, NativeCall, function, shared_of};
use crate::{compute, dynamic_code, hostcall, loader, text, text_code, trace, url, values, webassembly, zones};
use rquickjs::module::{Declarations, Exports, ModuleDef};
use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Exception, Function, Object, Persistent, Result, Value};

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
    // Compares strings by address; `===` compares their content, which takes time proportional to their length.
    ("isSame", |call| Ok(Value::new_bool(call.ctx().clone(), call.arg(0) == call.arg(1)))),
    ("issued", trace::issued),
    #[cfg(all(target_os = "linux", feature = "test-hooks"))]
    ("misbehave", crate::hooks::misbehave),
    ("parseUrl", url::parse),
    ("prefilters", text::prefilters),
    ("promiseState", promise_state),
    ("proxyParts", proxy_parts),
    ("quoteText", text_code::quote),
    ("random", |call| Ok(Value::new_float(call.ctx().clone(), call.shared().randomness.next_f64()))),
    ("readKey", compute::read_key),
    ("send", hostcall::send),
    ("setUrlPart", url::set_part),
    ("state", |call| Ok(call.shared().state.object(call.ctx())?.into_value())),
    ("timeZone", zones::time_zone),
    ("timeZones", zones::time_zones),
    ("toWellFormed", |call| values::string_to_js(call.ctx(), &call.text(0)?)),
    ("tryCallSync", hostcall::try_call_sync),
    ("webAssembly", webassembly::functions),
];

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

/// `afterJobs(fn)`: calls `fn` once, when the microtask queue is empty; a later call replaces an earlier function.
fn after_jobs<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let Some(job) = call.arg(0).into_function() else {
        return Err(Exception::throw_type(call.ctx(), "afterJobs: expected a function"));
    };
    *call.shared().handles.after_jobs.borrow_mut() = Some(Persistent::save(call.ctx(), job));
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
    call.shared().randomness.fill(unsafe { raw.as_mut() });
    Ok(target)
}

/// `proxyParts(value)`: returns `[target, handler]` for a proxy, `[null, null]` for a revoked proxy, and `undefined` for any
/// other value. Does not run a trap.
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

/// `promiseState(p)`: returns `{state, value}`; a value that is not a promise is treated as fulfilled with itself.
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
                // `result` throws the reason, which this function returns as data.
                let _ = promise.result::<Value<'js>>();
                ("rejected", ctx.catch())
            }
        },
    };
    values::put(&answer, "state", state)?;
    values::put(&answer, "value", value)?;
    Ok(answer.into_value())
}
