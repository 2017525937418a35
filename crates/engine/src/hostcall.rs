//! `callSync`, `tryCallSync`, `call`, `callPromise` and `send`: the functions that send data out of a realm.
//!
//! A synchronous call returns its result at once; an asynchronous call and every other message wait in the outbox for the end of
//! the turn. Parameters of hostcalls must be well-formed Unicode; in every other text lone surrogates are replaced.

use crate::native_call::NativeCall;
use crate::shared::ResultNames;
use crate::trace::{self, Traced};
use crate::values::{Surrogates, Unfit, ValueReader, bytes_to_js, put, string_to_js, to_js};
use pijs_protocol::{Capability, ErrorCode, HostCall, HostResult, HostcallError, Message, Method};
use rquickjs::{Ctx, Exception, Object, Result, Value};

/// Converts the arguments `(method, capability, params, bytes?)` to a request, or throws.
fn request(call: &NativeCall<'_, '_>) -> Result<HostCall> {
    read_request(call)?.map_err(|refusal| throw_hostcall_error(call.ctx(), &refusal))
}

/// Converts the arguments `(method, capability, params, bytes?)` to a request, or to the refusal of a parameter. Fails only if
/// code of the realm throws.
fn read_request(call: &NativeCall<'_, '_>) -> Result<std::result::Result<HostCall, HostcallError>> {
    let mut reader = ValueReader::new(Surrogates::Refuse);
    let params = reader.attach(&call.arg(3)).and_then(|()| reader.read_map(&call.arg(2)));
    let params = match params {
        Ok(params) => params,
        Err(Unfit::Thrown(error)) => return Err(error),
        Err(unfit) => return Ok(Err(refusal(&unfit))),
    };
    Ok(Ok(HostCall {
        capability: Capability::new(call.cached_text(1)?),
        method: Method::new(call.cached_text(0)?),
        call_id: call.shared().outbox.next_call_id(),
        params,
        timeout_ms: None,
        cancel_token: None,
        context: None,
        bytes: reader.bytes,
    }))
}

/// `call(method, capability, params, bytes?, timeoutMs?)`: queues the request for the end of the turn and returns its id,
/// or throws.
pub(crate) fn call<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let request = request_with_limit(call)?;
    let id = string_to_js(call.ctx(), request.call_id.as_str())?;
    call.shared().send(call.ctx(), Message::HostCall(request));
    Ok(id)
}

/// `callPromise(method, capability, params, bytes?, timeoutMs?)`: queues the request for the end of the turn and returns a
/// promise of `{output, bytes}`, or throws. The call cannot be cancelled, and its chunks are dropped.
pub(crate) fn call_promise<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let request = request_with_limit(call)?;
    let promise = call.shared().promises.pending.promise(call.ctx(), &request.call_id)?;
    call.shared().send(call.ctx(), Message::HostCall(request));
    Ok(promise)
}

fn request_with_limit(call: &NativeCall<'_, '_>) -> Result<HostCall> {
    let mut request = request(call)?;
    if !call.arg(4).is_undefined() {
        request.timeout_ms = Some(call.integer(4)?);
    }
    Ok(request)
}

/// Builds `{output, bytes}`, the result of a call.
pub(crate) fn answer<'js>(ctx: &Ctx<'js>, names: &ResultNames, result: &HostResult) -> Result<Value<'js>> {
    let answer = Object::new(ctx.clone())?;
    names.output.put(&answer, to_js(ctx, &result.output)?)?;
    let bytes = if result.bytes.is_empty() {
        names.no_attachments(ctx)?
    } else {
        bytes_to_js(ctx, &result.bytes)?.into_value()
    };
    names.bytes.put(&answer, bytes)?;
    Ok(answer.into_value())
}

/// `callSync(method, capability, params, bytes?)`: returns `{output, bytes}`, or throws.
pub(crate) fn call_sync<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let result = answer_now(call, request(call)?)?;
    answer(call.ctx(), &call.shared().handles.names, &result)
}

/// `tryCallSync(method, capability, params, bytes?)`: returns `{output, bytes}`, or `{error}` with the members of the taxonomy.
/// Unlike an exception, such a failure captures no stack, and most callers of a call that fails discard the stack.
pub(crate) fn try_call_sync<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let result = match read_request(call)? {
        Ok(request) => result_now(call, request)?,
        Err(refusal) => return failed_answer(call.ctx(), &refusal),
    };
    match &result.error {
        Some(error) => failed_answer(call.ctx(), error),
        None => answer(call.ctx(), &call.shared().handles.names, &result),
    }
}

/// Builds `{error}`, the result of a call that failed.
fn failed_answer<'js>(ctx: &Ctx<'js>, error: &HostcallError) -> Result<Value<'js>> {
    let members = Object::new(ctx.clone())?;
    put(&members, "message", string_to_js(ctx, &error.message)?)?;
    put_taxonomy(&members, error)?;
    let answer = Object::new(ctx.clone())?;
    put(&answer, "error", members)?;
    Ok(answer.into_value())
}

/// Waits for the result of a request, or throws its error.
pub(crate) fn answer_now(call: &NativeCall<'_, '_>, request: HostCall) -> Result<HostResult> {
    let result = result_now(call, request)?;
    match &result.error {
        Some(error) => Err(throw_hostcall_error(call.ctx(), error)),
        None => Ok(result),
    }
}

/// Waits for the result of a request, which may be an error.
pub(crate) fn result_now(call: &NativeCall<'_, '_>, request: HostCall) -> Result<HostResult> {
    let (ctx, shared) = (call.ctx(), call.shared());
    let call_id = request.call_id.clone();
    trace::record(ctx, shared, Traced::Call);
    let reply = shared.host.call(request).expect("code runs only inside a turn, which provides the host");
    assert_eq!(reply.result.call_id, call_id, "a synchronous call was answered with the result of another");
    shared.clock.set(reply.now);
    if let Some(delta) = &reply.state {
        shared.state.apply(ctx, delta)?;
    }
    Ok(reply.result)
}

/// `send(message)`: queues `{type, payload}` for the end of the turn.
pub(crate) fn send<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let message = call.arg(0);
    let Some(object) = message.as_object() else {
        return Err(Exception::throw_type(ctx, "send: expected {type, payload}"));
    };
    let value = ValueReader::new(Surrogates::Replace).read(object.as_value()).map_err(|unfit| unfit.throw(ctx))?;
    let message = serde_json::from_value(value.unwrap_or_default());
    let message: Message =
        message.map_err(|error| Exception::throw_type(ctx, &format!("send: not a protocol message: {error}")))?;
    call.shared().send(ctx, message);
    Ok(Value::new_undefined(ctx.clone()))
}

/// Returns the error that the gate would return for an invalid parameter value.
fn refusal(unfit: &Unfit) -> HostcallError {
    let reason = match unfit {
        Unfit::LoneSurrogate => "surrogate",
        Unfit::TooLarge => "too_large",
        _ => "schema",
    };
    HostcallError::invalid(reason, unfit.explain().unwrap_or("unreadable parameters"))
}

/// Throws an `Error` with the members of the taxonomy: `code`, `retryable`, `details`.
pub(crate) fn throw_hostcall_error(ctx: &Ctx<'_>, error: &HostcallError) -> rquickjs::Error {
    match hostcall_error(ctx, error) {
        Ok(thrown) => ctx.throw(thrown),
        Err(error) => error,
    }
}

fn hostcall_error<'js>(ctx: &Ctx<'js>, error: &HostcallError) -> Result<Value<'js>> {
    let thrown = Exception::from_message(ctx.clone(), &error.message)?.into_object();
    put_taxonomy(&thrown, error)?;
    Ok(thrown.into_value())
}

/// Defines the members of the taxonomy: `code`, `retryable`, `details`.
fn put_taxonomy<'js>(target: &Object<'js>, error: &HostcallError) -> Result<()> {
    let ctx = target.ctx();
    let code: ErrorCode = error.code;
    put(target, "code", string_to_js(ctx, code.as_str())?)?;
    put(target, "retryable", error.retryable)?;
    put(target, "details", crate::values::map_to_js(ctx, &error.details)?)
}
