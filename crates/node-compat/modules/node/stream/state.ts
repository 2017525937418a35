/**
 * `pi:node/stream/state`: options, errors and the end of both halves of a stream.
 *
 * A stream has `_readableState`, `_writableState` or both. Each has the flags `constructed`, `destroyed`,
 * `errored`, `errorEmitted`, `closed`, `closeEmitted`, and the settings `autoDestroy` and `emitClose`;
 * the functions here keep both consistent. Packages read some of these flags, so the names are Node's.
 */

import { AbortError, coded, invalidArgType, outOfRange } from "pi:node/errors";
import { queueTick } from "pi:web/ticks";

const ON_CONSTRUCT = Symbol("constructed");
const ON_DESTROY = Symbol("destroyed before it was constructed");
/** Marks destroyed objects that have no state object. */
export const IS_DESTROYED = Symbol.for("nodejs.stream.destroyed");

let bytesMark = 64 * 1024;
let objectsMark = 16;

export function getDefaultHighWaterMark(objectMode: boolean): number {
  return objectMode ? objectsMark : bytesMark;
}

export function setDefaultHighWaterMark(objectMode: boolean, value: number): void {
  if (!Number.isInteger(value)) throw invalidArgType("value", "an integer", value);
  if (value < 0) throw outOfRange("value", ">= 0", value);
  if (objectMode) objectsMark = value;
  else bytesMark = value;
}

/** Returns the high-water mark in the options of one side. */
export function markOf(options: any, specific: string, isDuplex: boolean, objectMode: boolean): number {
  const given = options?.highWaterMark ?? (isDuplex ? options?.[specific] : undefined);
  if (given === undefined || given === null) return getDefaultHighWaterMark(objectMode);
  if (!Number.isInteger(given) || given < 0) {
    const name = options.highWaterMark !== undefined && options.highWaterMark !== null ? "options.highWaterMark" : `options.${specific}`;
    throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The property '${name}' is invalid. Received ${String(given)}`);
  }
  return Math.floor(given);
}

export const abortError = (reason?: unknown): AbortError => new AbortError(reason === undefined ? undefined : { cause: reason });

export const prematureClose = (): Error => coded(Error, "ERR_STREAM_PREMATURE_CLOSE", "Premature close");
export const destroyedError = (what: string): Error => coded(Error, "ERR_STREAM_DESTROYED", `Cannot call ${what} after a stream was destroyed`);
const multipleCallback = (): Error => coded(Error, "ERR_MULTIPLE_CALLBACK", "Callback called multiple times");

function note(stream: any, error: unknown): void {
  if (!error) return;
  const { _writableState: writable, _readableState: readable } = stream;
  if (writable && !writable.errored) writable.errored = error;
  if (readable && !readable.errored) readable.errored = error;
}

function each(stream: any, change: (state: any) => void): void {
  if (stream._writableState) change(stream._writableState);
  if (stream._readableState) change(stream._readableState);
}

/** Implements `destroy` of all streams, once. `_destroy` decides about the error; `error` and `close` come in a tick. */
export function destroy(this: any, error?: any, done?: (error?: any) => void): any {
  const { _readableState: readable, _writableState: writable } = this;
  const state = writable ?? readable;
  if (writable?.destroyed || readable?.destroyed) {
    done?.();
    return this;
  }
  note(this, error);
  each(this, (side) => (side.destroyed = true));
  if (state && !state.constructed) this.once(ON_DESTROY, (late: any) => runDestroy(this, late ?? error, done));
  else runDestroy(this, error, done);
  return this;
}

function runDestroy(stream: any, error: any, done?: (error?: any) => void): void {
  let called = false;
  const finished = (failure?: any) => {
    if (called) return;
    called = true;
    note(stream, failure);
    each(stream, (side) => (side.closed = true));
    done?.(failure);
    queueTick(() => {
      if (failure) emitError(stream, failure);
      emitClose(stream);
    });
  };
  try {
    stream._destroy(error ?? null, finished);
  } catch (failure) {
    finished(failure);
  }
}

function emitClose(stream: any): void {
  const { _readableState: readable, _writableState: writable } = stream;
  each(stream, (side) => (side.closeEmitted = true));
  if (writable?.emitClose || readable?.emitClose) stream.emit("close");
}

function emitError(stream: any, error: any): void {
  const { _readableState: readable, _writableState: writable } = stream;
  if (writable?.errorEmitted || readable?.errorEmitted) return;
  each(stream, (side) => (side.errorEmitted = true));
  stream.emit("error", error);
}

/** Resets a destroyed stream, as reused sockets need. */
export function undestroy(this: any): void {
  const { _readableState: readable, _writableState: writable } = this;
  each(this, (side) => Object.assign(side, { constructed: true, closed: false, closeEmitted: false, destroyed: false, errored: null, errorEmitted: false }));
  if (readable) Object.assign(readable, { reading: false, ended: readable.readable === false, endEmitted: readable.readable === false });
  if (writable) {
    const never = writable.writable === false;
    Object.assign(writable, { finalCalled: false, prefinished: false, ended: never, ending: never, finished: never });
  }
}

/** Handles an error of the stream itself: destroys the stream, or emits the error if the stream must not be destroyed. */
export function errorOrDestroy(stream: any, error: any, sync: boolean = false): void {
  const { _readableState: readable, _writableState: writable } = stream;
  if (writable?.destroyed || readable?.destroyed) return;
  if (readable?.autoDestroy || writable?.autoDestroy) stream.destroy(error);
  else if (error) {
    note(stream, error);
    if (sync) queueTick(() => emitError(stream, error));
    else emitError(stream, error);
  }
}

/** Runs `_construct`, if it exists, before any other operation of the stream, then calls `ready`. */
export function construct(stream: any, ready: () => void): void {
  if (typeof stream._construct !== "function") return;
  each(stream, (side) => (side.constructed = false));
  stream.once(ON_CONSTRUCT, ready);
  if (stream.listenerCount(ON_CONSTRUCT) > 1) return;
  queueTick(() => {
    let called = false;
    const constructed = (error?: any) => {
      if (called) return errorOrDestroy(stream, error ?? multipleCallback());
      called = true;
      const state = stream._writableState ?? stream._readableState;
      each(stream, (side) => (side.constructed = true));
      if (state.destroyed) stream.emit(ON_DESTROY, error);
      else if (error) errorOrDestroy(stream, error, true);
      else stream.emit(ON_CONSTRUCT);
    };
    try {
      stream._construct((error?: any) => queueTick(() => constructed(error)));
    } catch (error) {
      queueTick(() => constructed(error));
    }
  });
}

/** Destroys any closable object: a stream, a request, or an object with `close`. */
export function destroyer(stream: any, error?: any): void {
  if (!stream || isDestroyed(stream)) return;
  const reason = error ?? (isFinished(stream) ? undefined : abortError());
  if (typeof stream.abort === "function" && typeof stream.setHeader === "function") stream.abort();
  else if (typeof stream.destroy === "function") stream.destroy(reason);
  else if (typeof stream.close === "function") stream.close();
  if (!stream.destroyed) stream[IS_DESTROYED] = true;
}

// State queries

export function isReadableNode(value: any, strict: boolean = false): boolean {
  return Boolean(
    value &&
      typeof value.pipe === "function" &&
      typeof value.on === "function" &&
      (!strict || (typeof value.pause === "function" && typeof value.resume === "function")) &&
      (!value._writableState || value._readableState?.readable !== false) &&
      (!value._writableState || value._readableState),
  );
}
export function isWritableNode(value: any): boolean {
  return Boolean(value && typeof value.write === "function" && typeof value.on === "function" && (!value._readableState || value._writableState?.writable !== false));
}
export function isNodeStream(value: any): boolean {
  return Boolean(
    value &&
      (value._readableState || value._writableState || (typeof value.write === "function" && typeof value.on === "function") || (typeof value.pipe === "function" && typeof value.on === "function")),
  );
}
export function isReadableStream(value: any): boolean {
  return Boolean(value && !isNodeStream(value) && typeof value.pipeThrough === "function" && typeof value.getReader === "function" && typeof value.cancel === "function");
}
export function isWritableStream(value: any): boolean {
  return Boolean(value && !isNodeStream(value) && typeof value.getWriter === "function" && typeof value.abort === "function");
}
export function isTransformStream(value: any): boolean {
  return Boolean(value && !isNodeStream(value) && typeof value.readable === "object" && typeof value.writable === "object");
}
export function isWebStream(value: any): boolean {
  return isReadableStream(value) || isWritableStream(value) || isTransformStream(value);
}
export function isIterable(value: any, isAsync?: boolean): boolean {
  if (value === null || value === undefined) return false;
  if (isAsync === true) return typeof value[Symbol.asyncIterator] === "function";
  if (isAsync === false) return typeof value[Symbol.iterator] === "function";
  return typeof value[Symbol.asyncIterator] === "function" || typeof value[Symbol.iterator] === "function";
}

export function isDestroyed(stream: any): boolean | null {
  if (!isNodeStream(stream)) return null;
  return Boolean(stream.destroyed || stream[IS_DESTROYED] || (stream._writableState ?? stream._readableState)?.destroyed);
}
export function isReadableFinished(stream: any, strict?: boolean): boolean | null {
  if (!isReadableNode(stream)) return null;
  const state = stream._readableState;
  if (state?.errored) return false;
  if (typeof state?.endEmitted !== "boolean") return null;
  return Boolean(state.endEmitted || (strict === false && state.ended && state.length === 0));
}
export function isWritableEnded(stream: any): boolean | null {
  if (!isWritableNode(stream)) return null;
  if (stream.writableEnded === true) return true;
  const state = stream._writableState;
  if (state?.errored) return false;
  return typeof state?.ended === "boolean" ? state.ended : null;
}
export function isWritableFinished(stream: any, strict?: boolean): boolean | null {
  if (!isWritableNode(stream)) return null;
  if (stream.writableFinished === true) return true;
  const state = stream._writableState;
  if (state?.errored) return false;
  if (typeof state?.finished !== "boolean") return null;
  return Boolean(state.finished || (strict === false && state.ended && state.length === 0));
}
export function isFinished(stream: any, options: { readable?: boolean; writable?: boolean } = {}): boolean | null {
  if (!isNodeStream(stream)) return null;
  if (isDestroyed(stream)) return true;
  if (options.readable !== false && isReadable(stream)) return false;
  return !(options.writable !== false && isWritable(stream));
}
export function isReadable(stream: any): boolean | null {
  if (stream && typeof stream[IS_READABLE] === "boolean") return stream[IS_READABLE];
  if (typeof stream?.readable !== "boolean") return null;
  return isDestroyed(stream) ? false : Boolean(isReadableNode(stream) && stream.readable && !isReadableFinished(stream));
}
export function isWritable(stream: any): boolean | null {
  if (typeof stream?.writable !== "boolean") return null;
  return isDestroyed(stream) ? false : Boolean(isWritableNode(stream) && stream.writable && !isWritableEnded(stream));
}
export function isErrored(stream: any): boolean {
  return Boolean(stream && (stream[IS_ERRORED] || stream.readableErrored || stream.writableErrored || stream._readableState?.errored || stream._writableState?.errored));
}
export function isDisturbed(stream: any): boolean {
  return Boolean(stream && (stream[IS_DISTURBED] ?? (stream.readableDidRead || stream.readableAborted)));
}
export function isClosed(stream: any): boolean | null {
  if (!isNodeStream(stream)) return null;
  if (typeof stream.closed === "boolean") return stream.closed;
  const { _writableState: writable, _readableState: readable } = stream;
  if (typeof writable?.closed === "boolean" || typeof readable?.closed === "boolean") return Boolean(writable?.closed || readable?.closed);
  return typeof stream._closed === "boolean" ? stream._closed : null;
}

/** Key by which web streams answer these queries. */
export const IS_READABLE = Symbol.for("nodejs.stream.readable");
export const IS_ERRORED = Symbol.for("nodejs.stream.errored");
export const IS_DISTURBED = Symbol.for("nodejs.stream.disturbed");
