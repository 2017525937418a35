//! Stacks behind the output of a turn, for a replay that says where in the source two runs part.
//!
//! A realm keeps none of this unless [`EngineRealm::trace`] was called. To take a stack costs fuel and calls the hook that an
//! extension may have set, so the usage of a traced turn is not that of the turn alone.

use crate::EngineRealm;
use crate::natives::Call;
use crate::shared::Shared;
use pijs_protocol::Handle;
use rquickjs::function::Constructor;
use rquickjs::{Ctx, Object, Result, Value};

/// The stacks of one turn, innermost frame first, with positions of linked modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// One for each synchronous hostcall, in order.
    pub calls: Vec<String>,
    /// One for each message of the yield, in order.
    pub messages: Vec<String>,
    /// One for each function that was given a number for the host.
    pub functions: Vec<(Handle, String)>,
}

impl EngineRealm {
    /// Keeps stacks from now on.
    pub fn trace(&mut self) {
        self.shared.trace.borrow_mut().get_or_insert_default();
    }

    /// Takes the stacks since the last time; none unless [`trace`](Self::trace) was called.
    pub fn take_trace(&mut self) -> Trace {
        self.shared.trace.borrow_mut().as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// The list of a [`Trace`] that a stack belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Traced {
    Call,
    Message,
    Function(Handle),
}

/// `issued(handle)`: a function of the extension was given a number.
pub(crate) fn issued<'js>(call: &Call<'_, 'js>) -> Result<Value<'js>> {
    let handle = Handle(u32::try_from(call.whole(0)?).unwrap_or(u32::MAX));
    keep(call.ctx(), call.shared(), Traced::Function(handle));
    Ok(Value::new_undefined(call.ctx().clone()))
}

/// Keeps the stack of the running code, where stacks are kept.
pub(crate) fn keep(ctx: &Ctx<'_>, shared: &Shared, traced: Traced) {
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

/// The stack of the running code; empty when there is no memory or fuel for it. The constructor takes it: what native code
/// throws has none before it leaves that code.
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
