/**
 * `pi:node/stream/pipeline`: connects streams, iterables and generator functions, each of which feeds the next.
 *
 * The first error destroys every stream of the pipeline and goes to the callback; the value of a final async function is the
 * callback's second argument.
 */

import { checkFunction, coded, invalidArgType } from "pi:node/errors";
import { Duplex, PassThrough } from "pi:node/stream/duplex";
import { finished } from "pi:node/stream/finished";
import { Readable } from "pi:node/stream/readable";
import {
  abortError, destroyedError, destroyer, isIterable, isNodeStream, isReadable, isReadableFinished, isReadableNode, isReadableStream,
  isTransformStream, isWebStream,
} from "pi:node/stream/state";
import { importSync } from "pi:engine";
import { queueTick } from "pi:web/ticks";

type Done = (error?: any, value?: any) => void;

interface Options {
  signal?: any;
  end?: boolean;
}

export function pipeline(...args: any[]): any {
  const callback = args.pop();
  checkFunction("streams[stream.length - 1]", callback);
  return pipelineImpl(args, once(callback), {});
}

function once(callback: Done): Done {
  let called = false;
  return (...args) => {
    if (called) return;
    called = true;
    callback(...args);
  };
}

export function pipelinePromise(...args: any[]): Promise<any> {
  return new Promise((resolve, reject) => {
    const last = args.at(-1);
    const options: Options = last && typeof last === "object" && !isNodeStream(last) && !isIterable(last) && !isWebStream(last) ? args.pop() : {};
    pipelineImpl(args, once((error, value) => (error ? reject(error) : resolve(value))), options);
  });
}

/** Destroys the stream with the pipeline, unless it has already ended. */
function watched(stream: any, reading: boolean, writing: boolean): { destroy(error: any): void; cleanup(): void } {
  let over = false;
  stream.on("close", () => (over = true));
  const cleanup = finished(stream, { readable: reading, writable: writing }, (error) => (over = !error));
  return {
    destroy(error) {
      if (over) return;
      over = true;
      destroyer(stream, error ?? destroyedError("pipe"));
    },
    cleanup,
  };
}

/** Writes the items of an iterable. Settles when the target has finished. */
async function pump(source: any, target: any, done: Done, { end }: { end: boolean }): Promise<void> {
  let failure: any;
  let wake: (() => void) | null = null;
  const resume = (error?: any) => {
    if (error) failure = error;
    wake?.();
    wake = null;
  };
  const wait = () =>
    new Promise<void>((resolve, reject) => {
      if (failure) reject(failure);
      else wake = () => (failure ? reject(failure) : resolve());
    });
  target.on("drain", resume);
  const cleanup = finished(target, { readable: false }, resume);
  try {
    if (target.writableNeedDrain) await wait();
    for await (const chunk of source) if (!target.write(chunk)) await wait();
    if (end) {
      target.end();
      await wait();
    }
    done();
  } catch (error) {
    done(failure !== error && failure ? failure : error);
  } finally {
    cleanup();
    target.off("drain", resume);
  }
}

async function pumpWeb(source: any, target: any, done: Done, { end }: { end: boolean }): Promise<void> {
  const writable = isTransformStream(target) ? target.writable : target;
  const writer = writable.getWriter();
  try {
    for await (const chunk of source) {
      await writer.ready;
      writer.write(chunk).catch(() => {});
    }
    await writer.ready;
    if (end) await writer.close();
    done();
  } catch (error) {
    try {
      await writer.abort(error);
      done(error);
    } catch (late) {
      done(late);
    }
  }
}

const iterateReadable = (stream: any): AsyncIterable<any> => Readable.prototype[Symbol.asyncIterator].call(stream);

function iterableOf(value: any): any {
  if (isIterable(value)) return value;
  if (isReadableNode(value)) return { [Symbol.asyncIterator]: () => iterateReadable(value)[Symbol.asyncIterator]() };
  throw invalidArgType("val", "of type Readable, Iterable, or AsyncIterable", value);
}

export function pipelineImpl(given: any[], callback: Done, options: Options): any {
  const streams = given.length === 1 && Array.isArray(given[0]) ? given[0] : given;
  if (streams.length < 2) throw coded(TypeError, "ERR_MISSING_ARGS", 'The "streams" argument must be specified');
  const { AbortController } = importSync("pi:web/abort");
  const controller = new AbortController();
  const { signal } = controller;
  const outer = options.signal;
  const closers: (() => void)[] = [];
  const destroys: ((error: any) => void)[] = [];
  let failure: any;
  let value: any;
  let pending = 0;

  const abort = () => finishOne(abortError(outer?.reason));
  if (outer?.aborted) queueTick(abort);
  else outer?.addEventListener("abort", abort, { once: true });

  const settle = (error: any, final: boolean) => {
    if (error && (!failure || failure.code === "ERR_STREAM_PREMATURE_CLOSE")) failure = error;
    if (!failure && !final) return;
    while (destroys.length > 0) destroys.shift()!(failure);
    outer?.removeEventListener("abort", abort);
    controller.abort();
    if (final) {
      if (!failure) for (const close of closers) close();
      queueTick(() => callback(failure, value));
    }
  };
  const finish: Done = (error) => settle(error, --pending === 0);
  const finishOne: Done = (error) => {
    pending = 0;
    settle(error, true);
  };
  let result: any;
  for (const [index, stream] of streams.entries()) {
    const reading = index < streams.length - 1;
    const writing = index > 0;
    const end = reading || options.end !== false;
    const isLast = index === streams.length - 1;
    if (isNodeStream(stream)) {
      if (end) {
        const { destroy, cleanup } = watched(stream, reading, writing);
        destroys.push(destroy);
        if (isReadable(stream) && isLast) closers.push(cleanup);
      }
      const onError = (error: any) => {
        if (error && error.name !== "AbortError" && error.code !== "ERR_STREAM_PREMATURE_CLOSE") {
          pending = Math.max(pending, 1);
          settle(error, false);
        }
      };
      stream.on("error", onError);
      if (isReadable(stream) && isLast) closers.push(() => stream.removeListener("error", onError));
    }
    if (index === 0) {
      if (typeof stream === "function") {
        result = stream({ signal });
        if (!isIterable(result)) throw coded(TypeError, "ERR_INVALID_RETURN_VALUE", `Expected Iterable, AsyncIterable or Stream to be returned from the "source" function but got ${describe(result)}.`);
      } else result = isIterable(stream) || isReadableNode(stream) || isTransformStream(stream) ? stream : Duplex.from(stream);
    } else if (typeof stream === "function") {
      result = isTransformStream(result) ? iterableOf(result.readable) : iterableOf(result);
      result = stream(result, { signal });
      if (reading) {
        if (!isIterable(result, true)) throw coded(TypeError, "ERR_INVALID_RETURN_VALUE", `Expected AsyncIterable to be returned from the "transform[${index - 1}]" function but got ${describe(result)}.`);
      } else {
        const through = new PassThrough({ objectMode: true });
        if (typeof result?.then === "function") {
          pending++;
          result.then(
            (given: any) => {
              value = given;
              if (given !== null && given !== undefined) through.write(given);
              if (end) through.end();
              queueTick(() => finish());
            },
            (error: any) => {
              through.destroy(error);
              queueTick(() => finish(error));
            },
          );
        } else if (isIterable(result, true)) {
          pending++;
          void pump(result, through, finish, { end });
        } else throw coded(TypeError, "ERR_INVALID_RETURN_VALUE", `Expected AsyncIterable or Promise to be returned from the "destination" function but got ${describe(result)}.`);
        result = through;
        const { destroy, cleanup } = watched(result, false, true);
        destroys.push(destroy);
        if (isLast) closers.push(cleanup);
      }
    } else if (isNodeStream(stream)) {
      if (isReadableNode(result)) {
        pending += 2;
        const unlisten = pipe(result, stream, finish, finishOne, { end });
        if (isReadable(stream) && isLast) closers.push(unlisten);
      } else if (isTransformStream(result) || isReadableStream(result)) {
        pending++;
        void pump(result.readable ?? result, stream, finish, { end });
      } else if (isIterable(result)) {
        pending++;
        void pump(result, stream, finish, { end });
      } else throw invalidArgType("val", "of type Readable, Iterable, AsyncIterable, ReadableStream, or TransformStream", result);
      result = stream;
    } else if (isWebStream(stream)) {
      if (isReadableNode(result)) {
        pending++;
        void pumpWeb(iterableOf(result), stream, finish, { end });
      } else {
        pending++;
        void pumpWeb(isTransformStream(result) ? result.readable : result, stream, finish, { end });
      }
      result = stream;
    } else result = Duplex.from(stream);
  }
  if (signal.aborted || outer?.aborted) queueTick(abort);
  return result;
}

function describe(value: any): string {
  return value === null || value === undefined ? String(value) : typeof value === "object" ? `an instance of ${value.constructor?.name}` : `type ${typeof value}`;
}

function pipe(source: any, target: any, finish: Done, finishOne: Done, { end }: { end: boolean }): () => void {
  let ended = false;
  target.on("close", () => {
    if (!ended) finishOne(coded(Error, "ERR_STREAM_PREMATURE_CLOSE", "Premature close"));
  });
  source.pipe(target, { end: false });
  if (end) {
    const onEnd = () => {
      ended = true;
      target.end();
    };
    if (isReadableFinished(source)) queueTick(onEnd);
    else source.once("end", onEnd);
  } else finish();
  finished(source, { readable: true, writable: false }, (error) => {
    const state = source._readableState;
    if (error && error.code === "ERR_STREAM_PREMATURE_CLOSE" && state?.ended && !state.errored && !state.errorEmitted) {
      // After an early close with everything read, waits for the end or the failure.
      source.once("end", finish).once("error", finish);
    } else finish(error);
  });
  return finished(target, { readable: false, writable: true }, finish);
}
