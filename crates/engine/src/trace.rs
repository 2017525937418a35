//! Records the stacks at which a turn produces its outputs, so that a replay can name the source position at which two runs
//! differ.
//!
//! A realm records nothing unless [`EngineRealm::trace`](crate::EngineRealm::trace) was called. Capturing a stack costs fuel and
//! calls a hook that an extension may have set, so the usage of a traced turn differs from that of an untraced one.

use crate::native_call::NativeCall;
use crate::shared::Shared;
use pijs_protocol::Handle;
use rquickjs::function::Constructor;
use rquickjs::{Ctx, Object, Result, Value};

/// The stacks of one turn, innermost frame first, with positions of linked modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// One stack for each synchronous hostcall, in order.
    pub calls: Vec<String>,
    /// One stack for each message of the yield, in order.
    pub messages: Vec<String>,
    /// One stack for each function that got a handle for the host.
    pub functions: Vec<(Handle, String)>,
}

/// The list of a [`Trace`] to which a stack belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Traced {
    Call,
    Message,
    Function(Handle),
}

/// `issued(handle)`: records that a function of the extension got a handle.
pub(crate) fn issued<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let handle = Handle(u32::try_from(call.integer(0)?).unwrap_or(u32::MAX));
    record(call.ctx(), call.shared(), Traced::Function(handle));
    Ok(Value::new_undefined(call.ctx().clone()))
}

/// Records the stack of the running code, if stacks are recorded.
pub(crate) fn record(ctx: &Ctx<'_>, shared: &Shared, traced: Traced) {
    if shared.trace.borrow().is_none() {
        return;
    }
    let stack = stack(ctx);
    if let Some(trace) = shared.trace.borrow_mut().as_mut() {
        match traced {
            Traced::Call => trace.calls.push(stack),
            Traced::Message => trace.messages.push(stack),
            Traced::Function(handle) => trace.functions.push((handle, stack)),
        }
    }
}

/// Captures the stack of the running code; empty if there is no memory or fuel for it. Calls the constructor of an error, which
/// captures the stack: an error that native code throws gets its stack only after it leaves that code.
fn stack(ctx: &Ctx<'_>) -> String {
    let taken = || {
        let error: Constructor<'_> = ctx.globals().get("Error")?;
        error.construct::<_, Object<'_>>(())?.get::<_, String>("stack")
    };
    taken().unwrap_or_else(|_: rquickjs::Error| {
        ctx.catch();
        String::new()
    })
}
