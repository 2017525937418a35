//! Native functions: how JavaScript calls Rust.
//!
//! A panic in a native function is caught here and ends the realm as a host bug.

use crate::shared::{Shared, SharedHandle};
use crate::{panics, strings, values};
use rquickjs::function::{Params, RustFunction};
use rquickjs::{Class, Coerced, Ctx, Exception, FromJs, Function, Result, Value, qjs};
use smol_str::SmolStr;
use std::rc::Rc;

/// A native function.
pub(crate) type Native = for<'a, 'js> fn(&NativeCall<'a, 'js>) -> Result<Value<'js>>;

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
            return Ok(strings::lossy(string));
        }
        let Coerced(string) = Coerced::<rquickjs::String<'js>>::from_js(self.ctx(), self.arg(index))?;
        Ok(strings::lossy(&string))
    }

    /// Returns an argument as text through the string cache, for a text that the runtime passes in many calls.
    pub(crate) fn cached_text(&self, index: usize) -> Result<SmolStr> {
        let argument = self.arg(index);
        if let Some(cached_text) = self.shared.handles.strings.get(&argument) {
            return Ok(cached_text);
        }
        let cached_text = SmolStr::from(self.text(index)?);
        self.shared.handles.strings.insert(self.ctx(), argument, &cached_text);
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

    /// Returns a number truncated to an integer; 0 if it is negative or not a number.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates, which is meant")]
    pub(crate) fn integer(&self, index: usize) -> Result<u64> {
        Ok(self.arg(index).as_number().unwrap_or_default() as u64)
    }

    /// Returns whether an argument is `true`.
    pub(crate) fn flag(&self, index: usize) -> bool {
        self.arg(index).as_bool().unwrap_or(false)
    }
}

/// Creates a JavaScript function from a native one.
pub(crate) fn function<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>, name: &str, native: Native) -> Result<Function<'js>> {
    bind(ctx, Rc::clone(shared), name, native)
}

/// Creates a JavaScript function from a closure. The closure is freed with the function, so it must not contain JavaScript
/// values, which the garbage collector would not see.
pub(crate) fn closure<'js>(
    ctx: &Ctx<'js>,
    name: &str,
    native: impl for<'a> Fn(&NativeCall<'a, 'js>) -> Result<Value<'js>> + 'js,
) -> Result<Value<'js>> {
    Ok(bind(ctx, shared_of(ctx)?, name, native)?.into_value())
}

fn bind<'js>(
    ctx: &Ctx<'js>,
    shared: Rc<Shared>,
    name: &str,
    native: impl for<'a> Fn(&NativeCall<'a, 'js>) -> Result<Value<'js>> + 'js,
) -> Result<Function<'js>> {
    let body = move |params: Params<'_, 'js>| {
        let ctx = params.ctx().clone();
        catch_panics(&ctx, &shared, || native(&NativeCall { params, shared: &shared }))
    };
    let instance = Class::instance(ctx.clone(), RustFunction(Box::new(body)))?;
    let function = Function::from_value(instance.into_value())?;
    function.set_name(name)?;
    Ok(function)
}

/// Returns the state that the native functions of a realm share.
pub(crate) fn shared_of(ctx: &Ctx<'_>) -> Result<Rc<Shared>> {
    Ok(Rc::clone(&ctx.userdata::<SharedHandle>().ok_or(rquickjs::Error::Unknown)?.0))
}

/// Runs native code; a panic ends the realm, and the guest cannot catch it.
pub(crate) fn catch_panics<'js, T>(ctx: &Ctx<'js>, shared: &Shared, body: impl FnOnce() -> Result<T>) -> Result<T> {
    panics::catch(body).unwrap_or_else(|detail| {
        shared.meter.report_bug(detail);
        Err(throw_uncatchable(ctx))
    })
}

/// Ends the running code: neither `catch` nor `finally` of the guest runs.
pub(crate) fn throw_uncatchable(ctx: &Ctx<'_>) -> rquickjs::Error {
    let Ok(error) = Exception::from_message(ctx.clone(), "the realm has ended") else {
        return rquickjs::Error::Exception;
    };
    let error = error.into_object().into_value();
    // SAFETY: `error` is a live value of this context; the call only sets a flag on it.
    unsafe { qjs::JS_SetUncatchableError(ctx.as_raw().as_ptr(), error.as_raw()) };
    ctx.throw(error)
}
