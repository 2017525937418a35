/** `pi:node/stream/finished`: detects the end of a stream and its outcome. */

import { coded, checkFunction, invalidArgType } from "pi:node/errors";
import {
  abortError, isClosed, isErrored, isNodeStream, isReadable, isReadableFinished, isReadableNode, isReadableStream, isWebStream, isWritable,
  isWritableFinished, isWritableNode, isWritableStream, prematureClose,
} from "pi:node/stream/state";
import { queueTick } from "pi:web/ticks";

type Done = (error?: any) => void;

interface Options {
  error?: boolean;
  readable?: boolean;
  writable?: boolean;
  signal?: any;
  cleanup?: boolean;
}

/** Calls back once, when a promise of the web stream settles or the signal fires. */
function finishedWeb(stream: any, options: Options, done: Done): () => void {
  let isAborted = false;
  let over = false;
  const settle = (error?: any) => {
    if (over) return;
    over = true;
    options.signal?.removeEventListener("abort", abort);
    if (!isAborted) queueTick(() => done.call(stream, error));
  };
  const abort = () => {
    isAborted = true;
    over = true;
    done.call(stream, abortError(options.signal.reason));
  };
  if (options.signal?.aborted) queueTick(abort);
  else options.signal?.addEventListener("abort", abort, { once: true });
  const closed: Promise<void> = stream[Symbol.for("nodejs.webstream.isClosedPromise")]?.promise ?? Promise.resolve();
  closed.then(
    () => settle(),
    (error) => settle(error),
  );
  return () => {};
}

/** Calls back when the stream has ended, finished, failed or closed early. Returns a function that removes the listeners. */
export function finished(stream: any, options: Options | Done, callback?: Done): () => void {
  if (typeof options === "function") [callback, options] = [options, {}];
  else if (options === null || options === undefined) options = {};
  else if (typeof options !== "object") throw invalidArgType("options", "of type object", options);
  checkFunction("callback", callback);
  let called = false;
  const done: Done = (...args) => {
    if (called) return;
    called = true;
    callback!.apply(stream, args);
  };
  if (isReadableStream(stream) || isWritableStream(stream)) return finishedWeb(stream, options, done);
  if (!isNodeStream(stream)) throw invalidArgType("stream", "an instance of ReadableStream, WritableStream, or Stream", stream);

  const wantsRead = options.readable ?? isReadableNode(stream);
  const wantsWrite = options.writable ?? isWritableNode(stream);
  const writableState = stream._writableState;
  const readableState = stream._readableState;
  const closes =
    Boolean(stream._closed === undefined && (writableState ?? readableState)?.autoDestroy && (writableState ?? readableState)?.emitClose && (writableState ?? readableState)?.closed === false) &&
    isReadableNode(stream) === Boolean(wantsRead) &&
    isWritableNode(stream) === Boolean(wantsWrite);
  let writeOver = isWritableFinished(stream, false);
  let readOver = isReadableFinished(stream, false);

  const onFinish = () => {
    writeOver = true;
    if (stream.destroyed && !closes) return;
    if (closes && (!stream.readable || wantsRead)) return;
    if (!wantsRead || readOver) done();
  };
  const onEnd = () => {
    readOver = true;
    if (stream.destroyed && !closes) return;
    if (closes && (!stream.writable || wantsWrite)) return;
    if (!wantsWrite || writeOver) done();
  };
  const onError = (error: any) => done(error);
  let closed = isClosed(stream);
  const onClose = () => {
    closed = true;
    const errored = writableState?.errored ?? readableState?.errored;
    if (errored && typeof errored !== "boolean") return done(errored);
    if (wantsRead && !readOver && isReadableNode(stream) && !isReadableFinished(stream, false)) return done(prematureClose());
    if (wantsWrite && !writeOver && !isWritableFinished(stream, false)) return done(prematureClose());
    done();
  };
  const onClosed = () => {
    closed = true;
    const errored = writableState?.errored ?? readableState?.errored;
    if (errored && typeof errored !== "boolean") return done(errored);
    done();
  };
  const onRequest = () => stream.req.on("finish", onFinish);
  const isRequest = typeof stream.setHeader === "function" && typeof stream.abort === "function";
  if (isRequest) {
    stream.on("complete", onFinish);
    if (!closes) stream.on("abort", onClose);
    if (stream.req) onRequest();
    else stream.on("request", onRequest);
  } else if (wantsWrite && !writableState) {
    stream.on("end", onFinish);
    stream.on("close", onFinish);
  }
  if (!closes && typeof stream.aborted === "boolean") stream.on("aborted", onClose);
  stream.on("end", onEnd);
  stream.on("finish", onFinish);
  if (options.error !== false) stream.on("error", onError);
  stream.on("close", onClose);

  if (closed) queueTick(onClose);
  else if (writableState?.errorEmitted || readableState?.errorEmitted) {
    if (!closes) queueTick(onClosed);
  } else if (!wantsRead && (!closes || isReadable(stream)) && (writeOver || isWritable(stream) === false)) queueTick(onClosed);
  else if (!wantsWrite && (!closes || isWritable(stream)) && (readOver || isReadable(stream) === false)) queueTick(onClosed);
  else if (readableState && stream.req && stream.aborted) queueTick(onClosed);

  const cleanup = () => {
    called = true;
    for (const [name, listener] of [
      ["aborted", onClose], ["complete", onFinish], ["abort", onClose], ["request", onRequest], ["end", onFinish], ["close", onFinish],
      ["finish", onFinish], ["end", onEnd], ["error", onError], ["close", onClose],
    ] as const) stream.removeListener(name, listener);
    stream.req?.removeListener?.("finish", onFinish);
  };
  const { signal } = options;
  if (signal && !closed) {
    const abort = () => {
      const final = callback!;
      cleanup();
      final.call(stream, abortError(signal.reason));
    };
    if (signal.aborted) queueTick(abort);
    else {
      signal.addEventListener("abort", abort, { once: true });
      const original = callback!;
      callback = (...args) => {
        signal.removeEventListener("abort", abort);
        original.apply(stream, args);
      };
    }
  }
  return cleanup;
}

/** Returns the promise form. */
export function finishedPromise(stream: any, options?: Options): Promise<void> {
  return new Promise((resolve, reject) => {
    const cleanup = finished(stream, options ?? {}, (error) => {
      if (options?.cleanup) cleanup();
      if (error) reject(error);
      else resolve();
    });
  });
}

/** Destroys the stream with an AbortError when the signal fires. */
export function addAbortSignal(signal: any, stream: any): any {
  if (typeof signal !== "object" || signal === null || !("aborted" in signal)) throw invalidArgType("signal", "an instance of AbortSignal", signal);
  if (!isNodeStream(stream) && !isWebStream(stream)) throw invalidArgType("stream", "an instance of ReadableStream, WritableStream, or Stream", stream);
  const abort = () => {
    if (isNodeStream(stream)) stream.destroy(abortError(signal.reason));
    else stream[Symbol.for("nodejs.webstream.controllerErrorFunction")]?.(abortError(signal.reason));
  };
  if (signal.aborted) abort();
  else {
    signal.addEventListener("abort", abort, { once: true });
    finished(stream, () => signal.removeEventListener("abort", abort));
  }
  return stream;
}

export function checkNotErrored(stream: any): void {
  if (isErrored(stream)) throw coded(Error, "ERR_STREAM_UNABLE_TO_PIPE", "Cannot pipe to a closed or destroyed stream");
}
