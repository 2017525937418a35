/**
 * `pi:node/stream/writable`: the writing half of a stream.
 *
 * Chunks that arrive during a write wait in `buffered`. `write` returns whether the amount is below the high-water mark, and
 * `drain` is emitted when it is again. Callbacks and events of a synchronous `_write` follow in a tick, so that no caller is
 * called back before its call returns.
 */

import { coded, invalidArgType } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { Stream, define, inherit } from "pi:node/stream/legacy";
import { abortError, construct, destroy, destroyedError, errorOrDestroy, markOf, undestroy } from "pi:node/stream/state";
import { importSync } from "pi:engine";
import { queueTick } from "pi:web/ticks";

type Done = (error?: any) => void;

interface Waiting {
  chunk: any;
  encoding: string;
  callback: Done;
}

const nothing: Done = () => {};

export class WritableState {
  objectMode: boolean;
  highWaterMark: number;
  decodeStrings: boolean;
  defaultEncoding: string;
  emitClose: boolean;
  autoDestroy: boolean;
  length = 0;
  writing = false;
  corked = 0;
  sync = true;
  needDrain = false;
  bufferProcessing = false;
  ending = false;
  ended = false;
  finished = false;
  finalCalled = false;
  prefinished = false;
  destroyed = false;
  constructed = true;
  errored: any = null;
  errorEmitted = false;
  closed = false;
  closeEmitted = false;
  pendingcb = 0;
  writelen = 0;
  writecb: Done | null = null;
  buffered: Waiting[] = [];
  afterWriteTick: { count: number; callback: Done } | null = null;
  endCallbacks: Done[] = [];
  declare writable: boolean | undefined;

  constructor(options: any, isDuplex: boolean) {
    this.objectMode = Boolean(options?.objectMode || (isDuplex && options?.writableObjectMode));
    this.highWaterMark = markOf(options, "writableHighWaterMark", isDuplex, this.objectMode);
    this.decodeStrings = options?.decodeStrings !== false;
    this.defaultEncoding = options?.defaultEncoding ?? "utf8";
    this.emitClose = options?.emitClose !== false;
    this.autoDestroy = options?.autoDestroy !== false;
  }

  getBuffer(): Waiting[] {
    return this.buffered.slice();
  }
  get bufferedRequestCount(): number {
    return this.buffered.length;
  }
}

export const Writable: any = function Writable(this: any, options?: any) {
  if (!new.target && !(this instanceof Writable)) return new (Writable as any)(options);
  this._writableState = new WritableState(options, false);
  initWritable(this, options);
  Stream.call(this, options);
  construct(this, () => ready(this));
};
inherit(Writable, Stream);
Writable.WritableState = WritableState;


/** Takes methods from the options. */
export function initWritable(stream: any, options: any): void {
  if (!options) return;
  if (typeof options.write === "function") stream._write = options.write;
  if (typeof options.writev === "function") stream._writev = options.writev;
  if (typeof options.destroy === "function") stream._destroy = options.destroy;
  if (typeof options.final === "function") stream._final = options.final;
  if (typeof options.construct === "function") stream._construct = options.construct;
  if (options.signal) importSync("pi:node/stream/finished").addAbortSignal(options.signal, stream);
}

/** Writes the buffered chunks after construction. */
export function ready(stream: any): void {
  const state = stream._writableState;
  if (!state.writing) clearBuffer(stream, state);
  finishMaybe(stream, state);
}

function write(stream: any, chunk: any, encodingOrDone: any, done: any): any {
  const state = stream._writableState;
  let encoding = encodingOrDone;
  if (typeof encoding === "function") {
    done = encoding;
    encoding = state.defaultEncoding;
  } else {
    if (!encoding) encoding = state.defaultEncoding;
    else if (encoding !== "buffer" && !Buffer.isEncoding(encoding)) throw coded(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${encoding}`);
    if (typeof done !== "function") done = nothing;
  }
  if (chunk === null) throw coded(TypeError, "ERR_STREAM_NULL_VALUES", "May not write null values to stream");
  if (!state.objectMode) {
    if (typeof chunk === "string") {
      if (state.decodeStrings) {
        chunk = Buffer.from(chunk, encoding);
        encoding = "buffer";
      }
    } else if (chunk instanceof Buffer) encoding = "buffer";
    else if (ArrayBuffer.isView(chunk)) {
      chunk = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      encoding = "buffer";
    } else throw invalidArgType("chunk", "of type string or an instance of Buffer, TypedArray, or DataView", chunk);
  }
  let error: any;
  if (state.ending) error = coded(Error, "ERR_STREAM_WRITE_AFTER_END", "write after end");
  else if (state.destroyed) error = destroyedError("write");
  if (error) {
    queueTick(() => done(error));
    errorOrDestroy(stream, error, true);
    return error;
  }
  state.pendingcb++;
  return enqueue(stream, state, chunk, encoding, done);
}

function enqueue(stream: any, state: WritableState, chunk: any, encoding: string, callback: Done): boolean {
  const size = state.objectMode ? 1 : chunk.length;
  state.length += size;
  const below = state.length < state.highWaterMark;
  if (!below) state.needDrain = true;
  if (state.writing || state.corked || state.errored || !state.constructed) state.buffered.push({ chunk, encoding, callback });
  else {
    state.writelen = size;
    state.writecb = callback;
    state.writing = true;
    state.sync = true;
    stream._write(chunk, encoding, (error?: any) => written(stream, error));
    state.sync = false;
  }
  // A writer must not wait for a drain that a failed or destroyed stream never emits.
  return below && !state.errored && !state.destroyed;
}

function writeMany(stream: any, state: WritableState, size: number, chunks: any, callback: Done): void {
  state.writelen = size;
  state.writecb = callback;
  state.writing = true;
  state.sync = true;
  if (state.destroyed) written(stream, destroyedError("write"));
  else stream._writev(chunks, (error?: any) => written(stream, error));
  state.sync = false;
}

function writeOne(stream: any, state: WritableState, size: number, { chunk, encoding, callback }: Waiting): void {
  state.writelen = size;
  state.writecb = callback;
  state.writing = true;
  state.sync = true;
  if (state.destroyed) written(stream, destroyedError("write"));
  else stream._write(chunk, encoding, (error?: any) => written(stream, error));
  state.sync = false;
}

/** Handles the completion of `_write`. */
function written(stream: any, error?: any): void {
  const state: WritableState = stream._writableState;
  const { sync, writecb: callback } = state;
  if (typeof callback !== "function") return errorOrDestroy(stream, coded(Error, "ERR_MULTIPLE_CALLBACK", "Callback called multiple times"));
  state.writing = false;
  state.writecb = null;
  state.length -= state.writelen;
  state.writelen = 0;
  if (error) {
    state.errored ??= error;
    if (stream._readableState) stream._readableState.errored ??= error;
    if (sync) queueTick(() => failedWrite(stream, state, error, callback));
    else failedWrite(stream, state, error, callback);
    return;
  }
  if (state.buffered.length > 0) clearBuffer(stream, state);
  if (!sync) return afterWrite(stream, state, 1, callback);
  if (state.afterWriteTick && state.afterWriteTick.callback === callback) state.afterWriteTick.count++;
  else {
    const tick = (state.afterWriteTick = { count: 1, callback });
    queueTick(() => {
      if (state.afterWriteTick === tick) state.afterWriteTick = null;
      afterWrite(stream, state, tick.count, tick.callback);
    });
  }
}

function failedWrite(stream: any, state: WritableState, error: any, callback: Done): void {
  state.pendingcb--;
  callback(error);
  dropBuffer(state);
  errorOrDestroy(stream, error);
}

function afterWrite(stream: any, state: WritableState, count: number, callback: Done): void {
  if (!state.ending && !stream.destroyed && state.length === 0 && state.needDrain) {
    state.needDrain = false;
    stream.emit("drain");
  }
  while (count-- > 0) {
    state.pendingcb--;
    callback(null);
  }
  if (state.destroyed) dropBuffer(state);
  finishMaybe(stream, state);
}

/** Fails the callbacks of all chunks that will not be written. */
function dropBuffer(state: WritableState): void {
  if (state.writing) return;
  for (const { chunk, callback } of state.buffered.splice(0)) {
    state.length -= state.objectMode ? 1 : chunk.length;
    callback(state.errored ?? destroyedError("write"));
  }
  for (const callback of state.endCallbacks.splice(0)) callback(state.errored ?? destroyedError("end"));
}

function clearBuffer(stream: any, state: WritableState): void {
  if (state.corked || state.bufferProcessing || state.destroyed || !state.constructed) return;
  const { buffered } = state;
  if (buffered.length === 0) return;
  state.bufferProcessing = true;
  if (buffered.length > 1 && stream._writev) {
    const all = buffered.splice(0);
    state.pendingcb -= all.length - 1;
    const chunks: any = all;
    chunks.allBuffers = all.every(({ chunk }) => chunk instanceof Buffer);
    writeMany(stream, state, state.length, chunks, (error) => {
      for (const { callback } of all) callback(error);
    });
  } else {
    while (buffered.length > 0 && !state.writing) {
      const next = buffered.shift()!;
      writeOne(stream, state, state.objectMode ? 1 : next.chunk.length, next);
    }
  }
  state.bufferProcessing = false;
}

// Finishing

function needFinish(state: WritableState): boolean {
  return (
    state.ending && !state.destroyed && state.constructed && state.length === 0 && !state.errored && state.buffered.length === 0 &&
    !state.finished && !state.writing && !state.errorEmitted && !state.closeEmitted
  );
}

function callFinal(stream: any, state: WritableState): void {
  let called = false;
  const done = (error?: any) => {
    if (called) return errorOrDestroy(stream, error ?? coded(Error, "ERR_MULTIPLE_CALLBACK", "Callback called multiple times"));
    called = true;
    state.pendingcb--;
    if (error) {
      for (const callback of state.endCallbacks.splice(0)) callback(error);
      errorOrDestroy(stream, error, state.sync);
    } else if (needFinish(state)) {
      state.prefinished = true;
      stream.emit("prefinish");
      // The reading side of a transform may still be writing, so `finish` is emitted a tick later.
      state.pendingcb++;
      queueTick(() => finish(stream, state));
    }
  };
  state.sync = true;
  state.pendingcb++;
  try {
    stream._final(done);
  } catch (error) {
    done(error);
  }
  state.sync = false;
}

export function finishMaybe(stream: any, state: WritableState, sync: boolean = false): void {
  if (!needFinish(state)) return;
  if (!state.prefinished && !state.finalCalled) {
    if (typeof stream._final === "function" && !state.destroyed) {
      state.finalCalled = true;
      callFinal(stream, state);
    } else {
      state.prefinished = true;
      stream.emit("prefinish");
    }
  }
  if (state.pendingcb !== 0) return;
  if (sync) {
    state.pendingcb++;
    queueTick(() => {
      if (needFinish(state)) finish(stream, state);
      else state.pendingcb--;
    });
  } else if (needFinish(state)) {
    state.pendingcb++;
    finish(stream, state);
  }
}

function finish(stream: any, state: WritableState): void {
  state.pendingcb--;
  state.finished = true;
  for (const callback of state.endCallbacks.splice(0)) callback(null);
  stream.emit("finish");
  if (!state.autoDestroy) return;
  const readable = stream._readableState;
  const done = !readable || (readable.autoDestroy && (readable.endEmitted || readable.readable === false));
  if (done) stream.destroy();
}

define(Writable.prototype, {
  pipe(this: any): void {
    errorOrDestroy(this, coded(Error, "ERR_STREAM_CANNOT_PIPE", "Cannot pipe, not readable"));
  },
  write(this: any, chunk: any, encoding?: any, done?: any): boolean {
    return write(this, chunk, encoding, done) === true;
  },
  cork(this: any): void {
    this._writableState.corked++;
  },
  uncork(this: any): void {
    const state = this._writableState;
    if (!state.corked) return;
    state.corked--;
    if (!state.writing) clearBuffer(this, state);
  },
  setDefaultEncoding(this: any, encoding: string): any {
    const name = typeof encoding === "string" ? encoding.toLowerCase() : encoding;
    if (!Buffer.isEncoding(name)) throw coded(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${encoding}`);
    this._writableState.defaultEncoding = name;
    return this;
  },
  _write(this: any, chunk: any, encoding: string, done: Done): void {
    if (this._writev) this._writev([{ chunk, encoding }], done);
    else throw coded(Error, "ERR_METHOD_NOT_IMPLEMENTED", "The _write() method is not implemented");
  },
  _writev: null,
  end(this: any, chunk?: any, encoding?: any, done?: any): any {
    const state: WritableState = this._writableState;
    if (typeof chunk === "function") [done, chunk, encoding] = [chunk, null, null];
    else if (typeof encoding === "function") [done, encoding] = [encoding, null];
    let error: any;
    if (chunk !== null && chunk !== undefined) {
      const outcome = write(this, chunk, encoding, undefined);
      if (outcome instanceof Error) error = outcome;
    }
    if (state.corked) {
      state.corked = 1;
      this.uncork();
    }
    if (!error) {
      if (!state.errored && !state.ending) {
        state.ending = true;
        finishMaybe(this, state, true);
        state.ended = true;
      } else if (state.finished) error = coded(Error, "ERR_STREAM_ALREADY_FINISHED", "Cannot call end after a stream was finished");
      else if (state.destroyed) error = destroyedError("end");
    }
    if (typeof done === "function") {
      if (error) queueTick(() => done(error));
      else if (state.finished) queueTick(() => done());
      else if (state.errored) queueTick(() => done(state.errored));
      else state.endCallbacks.push(done);
    }
    return this;
  },
  destroy(this: any, error?: any, done?: Done): any {
    const state: WritableState = this._writableState;
    if (!state.destroyed && (state.buffered.length > 0 || state.endCallbacks.length > 0)) queueTick(() => dropBuffer(state));
    destroy.call(this, error, done);
    return this;
  },
  _undestroy: undestroy,
  _destroy(_error: any, done: Done): void {
    done(_error);
  },

  get closed(): boolean {
    return Boolean((this as any)._writableState?.closed);
  },
  get destroyed(): boolean {
    return Boolean((this as any)._writableState?.destroyed);
  },
  set destroyed(value: boolean) {
    if ((this as any)._writableState) (this as any)._writableState.destroyed = value;
  },
  get writable(): boolean {
    const state = (this as any)._writableState;
    return Boolean(state) && state.writable !== false && !state.destroyed && !state.errored && !state.ending && !state.ended;
  },
  set writable(value: boolean) {
    if ((this as any)._writableState) (this as any)._writableState.writable = Boolean(value);
  },
  get writableFinished(): boolean {
    return Boolean((this as any)._writableState?.finished);
  },
  get writableObjectMode(): boolean {
    return Boolean((this as any)._writableState?.objectMode);
  },
  get writableBuffer(): any {
    return (this as any)._writableState?.getBuffer();
  },
  get writableEnded(): boolean {
    return Boolean((this as any)._writableState?.ending);
  },
  get writableNeedDrain(): boolean {
    const state = (this as any)._writableState;
    return Boolean(state) && !state.destroyed && !state.ending && state.needDrain;
  },
  get writableHighWaterMark(): number | undefined {
    return (this as any)._writableState?.highWaterMark;
  },
  get writableCorked(): number {
    return (this as any)._writableState?.corked ?? 0;
  },
  get writableLength(): number | undefined {
    return (this as any)._writableState?.length;
  },
  get errored(): any {
    return (this as any)._writableState?.errored ?? null;
  },
  get writableErrored(): any {
    return (this as any)._writableState?.errored ?? null;
  },
  get writableAborted(): boolean {
    const state = (this as any)._writableState;
    return Boolean(state.writable !== false && (state.destroyed || state.errored) && !state.finished);
  },
  async [Symbol.asyncDispose ?? Symbol.for("asyncDispose")](this: any): Promise<void> {
    const early = this.destroyed;
    if (!early) this.destroy(this.writableFinished ? null : abortError());
    await new Promise<void>((resolve, reject) =>
      importSync("pi:node/stream/finished").finished(this, (error: any) => (error && error.name !== "AbortError" ? reject(error) : resolve())),
    );
  },
});

// A duplex counts as a writable too, although it does not inherit from it.
Object.defineProperty(Writable, Symbol.hasInstance, {
  value(this: any, value: any): boolean {
    if (Function.prototype[Symbol.hasInstance].call(this, value)) return true;
    return this === Writable && Boolean(value) && value._writableState instanceof WritableState;
  },
});
