//! The functions of `pi:runtime` that the engine calls, kept between turns.
//!
//! `pi:runtime` exports one object by default:
//!
//! | function | receives |
//! |---|---|
//! | `message(message)` | a protocol message of the host |
//! | `result(callId, output, bytes, error, chunk)` | the result of an asynchronous hostcall, or a chunk of it |
//! | `failure(error)` | the error of a hostcall; returns the rejection reason of its promise |
//! | `stream(chunk, source, stream, attempt, toolName, filePaths)` | a delta; the last two are `undefined` if the delta does not have them |
//! | `streamResume()` | nothing; called when the microtask queue is drained after `stream` returned `false` |
//! | `unhandled(reason)` | a promise that was rejected and has no handler |
//!
//! `stream` and `streamResume` return `undefined` for *continue*, `false` for *drain the microtasks, then call `streamResume()`*,
//! or an object `{abort: {...}}`, `{late: handle}` or `{failed: {...}}`.

use crate::pending_promises::SettleFunctions;
use crate::shared::Shared;
use crate::values::{self, Surrogates, ValueReader, method, push, string_to_js};
use crate::{hostcall, message};
use pijs_protocol::wire::StreamAnswer;
use pijs_protocol::{Handle, HostResult, StreamDelta, StreamSource};
use rquickjs::{Array, Ctx, Exception, Function, Persistent, Result, Value, qjs};

type SavedFunction = Persistent<Function<'static>>;

/// The default export of `pi:runtime`, and the strings that each delta passes.
pub(crate) struct RuntimeExports {
    message: SavedFunction,
    result: SavedFunction,
    failure: SavedFunction,
    stream: SavedFunction,
    stream_resume: SavedFunction,
    unhandled: SavedFunction,
    sources: [Persistent<Value<'static>>; 3],
}

/// The result of `stream` or `streamResume`.
pub(crate) enum HandlerAnswer {
    /// Continue: no handler objects, and none is pending.
    Continue,
    /// A handler waits for microtasks: drain them and call `streamResume`.
    Drain,
    /// All handlers have answered.
    Final(StreamAnswer),
}

impl RuntimeExports {
    /// Reads the functions from the export; the outer error names a missing function.
    pub(crate) fn of<'js>(ctx: &Ctx<'js>, exports: &Value<'js>) -> std::result::Result<Result<Self>, &'static str> {
        let function = |name: &'static str| -> std::result::Result<SavedFunction, &'static str> {
            let found = exports.as_object().and_then(|object| method(object, name)).ok_or(name)?;
            Ok(Persistent::save(ctx, found))
        };
        let [message, result, failure] = ["message", "result", "failure"].map(function);
        let [stream, stream_resume, unhandled] = ["stream", "streamResume", "unhandled"].map(function);
        let (message, result, failure) = (message?, result?, failure?);
        let (stream, stream_resume, unhandled) = (stream?, stream_resume?, unhandled?);
        let source = |source: StreamSource| -> Result<Persistent<Value<'static>>> {
            Ok(Persistent::save(ctx, string_to_js(ctx, source.as_str())?))
        };
        let sources = || -> Result<_> {
            Ok([source(StreamSource::Text)?, source(StreamSource::Thinking)?, source(StreamSource::Tool)?])
        };
        Ok(sources().map(|sources| Self { message, result, failure, stream, stream_resume, unhandled, sources }))
    }

    pub(crate) fn message<'js>(&self, ctx: &Ctx<'js>, message: Value<'js>) -> Result<()> {
        self.message.clone().restore(ctx)?.call::<_, Value<'js>>((message,)).map(drop)
    }

    /// Delivers the result of an asynchronous hostcall, or a chunk of it: settles the promise of a call that has one, and
    /// otherwise calls `result(callId, output, bytes, error, chunk)`; the last two are `undefined` if they are absent.
    pub(crate) fn result(&self, ctx: &Ctx<'_>, shared: &Shared, result: &HostResult) -> Result<()> {
        if !result.is_final() {
            // A call with a promise drops its chunks.
            if shared.promises.pending.has(&result.call_id) {
                return Ok(());
            }
        } else if let Some(SettleFunctions { resolve, reject }) = shared.promises.pending.take(ctx, &result.call_id)? {
            return match &result.error {
                None => resolve.call((hostcall::answer(ctx, &shared.handles.names, result)?,)),
                Some(error) => {
                    let make = self.failure.clone().restore(ctx)?;
                    let failure = match make.call((message::serialized(ctx, error)?,)) {
                        // The guest can make the construction of an error throw; the call is then rejected with that exception.
                        Err(rquickjs::Error::Exception) if !shared.meter.must_stop() => ctx.catch(),
                        made => made?,
                    };
                    reject.call((failure,))
                }
            };
        }
        let id = string_to_js(ctx, result.call_id.as_str())?;
        let output = values::to_js(ctx, &result.output)?;
        let bytes = values::bytes_to_js(ctx, &result.bytes)?;
        let error = result.error.as_ref().map(|error| message::serialized(ctx, error)).transpose()?;
        let chunk = result.chunk.as_ref().map(|chunk| message::serialized(ctx, chunk)).transpose()?;
        let function = self.result.clone().restore(ctx)?;
        function.call::<_, Value<'_>>((id, output, bytes, error, chunk)).map(drop)
    }

    pub(crate) fn unhandled<'js>(&self, ctx: &Ctx<'js>, reason: Value<'js>) -> Result<()> {
        self.unhandled.clone().restore(ctx)?.call::<_, Value<'js>>((reason,)).map(drop)
    }

    pub(crate) fn stream_resume(&self, ctx: &Ctx<'_>) -> Result<HandlerAnswer> {
        let answer: Value<'_> = self.stream_resume.clone().restore(ctx)?.call(())?;
        read_answer(&answer)
    }

    /// `stream(chunk, source, stream, attempt, toolName, filePaths)`; the last two are `undefined` if the delta does not have
    /// them. Allocates only the chunk's JavaScript string.
    pub(crate) fn stream(&self, ctx: &Ctx<'_>, delta: &StreamDelta) -> Result<HandlerAnswer> {
        let function = self.stream.clone().restore(ctx)?;
        let chunk = string_to_js(ctx, &delta.chunk)?;
        let source = self.sources[source_index(delta.source)].clone().restore(ctx)?;
        let undefined = || Value::new_undefined(ctx.clone());
        let tool_name = match &delta.tool_name {
            Some(name) => string_to_js(ctx, name)?,
            None => undefined(),
        };
        let file_paths = if delta.file_paths.is_empty() { undefined() } else { string_array(ctx, &delta.file_paths)? };
        let number = |number: u32| Value::new_number(ctx.clone(), f64::from(number));
        let arguments = [chunk, source, number(delta.stream), number(delta.attempt), tool_name, file_paths];
        let mut raw = [0; 6].map(|_: u8| qjs::JS_UNDEFINED);
        for (slot, argument) in raw.iter_mut().zip(&arguments) {
            *slot = argument.as_raw();
        }
        // SAFETY: function and arguments belong to this context and `arguments` keeps them alive during the call, which takes no
        // ownership of them; the result is owned by this function.
        let answer = unsafe {
            let result = qjs::JS_Call(ctx.as_raw().as_ptr(), function.as_raw(), qjs::JS_UNDEFINED, 6, raw.as_mut_ptr());
            Value::from_raw(ctx.clone(), result)
        };
        if answer.is_exception() {
            return Err(rquickjs::Error::Exception);
        }
        read_answer(&answer)
    }
}

fn source_index(source: StreamSource) -> usize {
    match source {
        StreamSource::Text => 0,
        StreamSource::Thinking => 1,
        StreamSource::Tool => 2,
    }
}

fn string_array<'js>(ctx: &Ctx<'js>, texts: &[String]) -> Result<Value<'js>> {
    let array = Array::new(ctx.clone())?;
    for (index, text) in texts.iter().enumerate() {
        push(&array, index, string_to_js(ctx, text)?)?;
    }
    Ok(array.into_value())
}

fn read_answer(answer: &Value<'_>) -> Result<HandlerAnswer> {
    if answer.is_undefined() {
        return Ok(HandlerAnswer::Continue);
    }
    if answer.as_bool() == Some(false) {
        return Ok(HandlerAnswer::Drain);
    }
    let ctx = answer.ctx();
    let json =
        ValueReader::new(Surrogates::Replace).read(answer).map_err(|unfit| unfit.throw(ctx))?.unwrap_or_default();
    if let Some(handler) = json.get("late").and_then(serde_json::Value::as_u64).and_then(|n| u32::try_from(n).ok()) {
        return Ok(HandlerAnswer::Final(StreamAnswer::Late { handler: Handle(handler) }));
    }
    serde_json::from_value(json).map(HandlerAnswer::Final).map_err(|error| {
        Exception::throw_type(ctx, &format!("stream: expected undefined, false, abort, late or failed: {error}"))
    })
}
