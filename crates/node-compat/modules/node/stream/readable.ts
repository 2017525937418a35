/**
 * `pi:node/stream/readable`: the reading half of a stream.
 *
 * Three ways to read share one buffer: `data` events (flowing), `readable` events with `read()`, and
 * async iteration, which uses `read()`. `_read` is called while the buffer is below the high-water mark;
 * events caused by a `push` inside `_read` are emitted in a tick.
 */

import { coded, invalidArgType } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { StringDecoder } from "node:string_decoder";
import { Stream, define, inherit } from "pi:node/stream/legacy";
import { construct, destroy, destroyer, errorOrDestroy, markOf, undestroy } from "pi:node/stream/state";
import { importSync } from "pi:engine";
import { queueTick } from "pi:web/ticks";

/** Maximum to which `read(n)` raises the high-water mark. */
const LARGEST_MARK = 0x40000000;

export class ReadableState {
  objectMode: boolean;
  highWaterMark: number;
  emitClose: boolean;
  autoDestroy: boolean;
  defaultEncoding: string;
  buffer: any[] = [];
  length = 0;
  pipes: any[] = [];
  flowing: boolean | null = null;
  ended = false;
  endEmitted = false;
  reading = false;
  constructed = true;
  sync = true;
  needReadable = false;
  emittedReadable = false;
  readableListening = false;
  resumeScheduled = false;
  errorEmitted = false;
  destroyed = false;
  errored: any = null;
  closed = false;
  closeEmitted = false;
  awaitDrainWriters: Set<any> = new Set();
  multiAwaitDrain = false;
  readingMore = false;
  dataEmitted = false;
  decoder: StringDecoder | null = null;
  encoding: string | null = null;
  explicitlyPaused = false;
  declare readable: boolean | undefined;

  constructor(options: any, isDuplex: boolean) {
    this.objectMode = Boolean(options?.objectMode || (isDuplex && options?.readableObjectMode));
    this.highWaterMark = markOf(options, "readableHighWaterMark", isDuplex, this.objectMode);
    this.emitClose = options?.emitClose !== false;
    this.autoDestroy = options?.autoDestroy !== false;
    this.defaultEncoding = options?.defaultEncoding ?? "utf8";
    if (options?.encoding) {
      this.decoder = new StringDecoder(options.encoding);
      this.encoding = options.encoding;
    }
  }

  get pipesCount(): number {
    return this.pipes.length;
  }
}

export const Readable: any = function Readable(this: any, options?: any) {
  if (!new.target && !(this instanceof Readable)) return new (Readable as any)(options);
  this._readableState = new ReadableState(options, false);
  initReadable(this, options);
  Stream.call(this, options);
  construct(this, () => {
    if (this._readableState.needReadable) maybeReadMore(this, this._readableState);
  });
};
inherit(Readable, Stream);
Readable.ReadableState = ReadableState;

/** Takes methods from the options. */
export function initReadable(stream: any, options: any): void {
  if (!options) return;
  if (typeof options.read === "function") stream._read = options.read;
  if (typeof options.destroy === "function") stream._destroy = options.destroy;
  if (typeof options.construct === "function") stream._construct = options.construct;
  if (options.signal) importSync("pi:node/stream/finished").addAbortSignal(options.signal, stream);
}

// Adding to the buffer

function add(stream: any, chunk: any, encoding: string | undefined, first: boolean): boolean {
  const state: ReadableState = stream._readableState;
  let error: any;
  if (!state.objectMode) {
    if (typeof chunk === "string") {
      encoding ??= state.defaultEncoding;
      if (state.encoding !== encoding) {
        if (first && state.encoding) chunk = Buffer.from(chunk, encoding).toString(state.encoding);
        else {
          chunk = Buffer.from(chunk, encoding);
          encoding = "";
        }
      }
    } else if (chunk instanceof Buffer) encoding = "";
    else if (ArrayBuffer.isView(chunk)) {
      chunk = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      encoding = "";
    } else if (chunk !== null && chunk !== undefined) {
      error = invalidArgType("chunk", "of type string or an instance of Buffer, TypedArray, or DataView", chunk);
    }
  }
  if (error) {
    errorOrDestroy(stream, error);
    return false;
  }
  if (chunk === null) {
    state.reading = false;
    onEnd(stream, state);
  } else if (state.objectMode || (chunk && chunk.length > 0)) {
    if (first) {
      if (state.endEmitted) errorOrDestroy(stream, coded(Error, "ERR_STREAM_UNSHIFT_AFTER_END_EVENT", "stream.unshift() after end event"));
      else if (state.destroyed || state.errored) return false;
      else addChunk(stream, state, chunk, true);
    } else if (state.ended) errorOrDestroy(stream, coded(Error, "ERR_STREAM_PUSH_AFTER_EOF", "stream.push() after EOF"));
    else if (state.destroyed || state.errored) return false;
    else {
      state.reading = false;
      if (state.decoder && !encoding) {
        chunk = state.decoder.write(chunk);
        if (state.objectMode || chunk.length !== 0) addChunk(stream, state, chunk, false);
        else maybeReadMore(stream, state);
      } else addChunk(stream, state, chunk, false);
    }
  } else if (!first) {
    state.reading = false;
    maybeReadMore(stream, state);
  }
  return !state.ended && (state.length < state.highWaterMark || state.length === 0);
}

function addChunk(stream: any, state: ReadableState, chunk: any, first: boolean): void {
  if (state.flowing && state.length === 0 && !state.sync && stream.listenerCount("data") > 0) {
    state.awaitDrainWriters.clear();
    state.dataEmitted = true;
    stream.emit("data", chunk);
  } else {
    state.length += state.objectMode ? 1 : chunk.length;
    if (first) state.buffer.unshift(chunk);
    else state.buffer.push(chunk);
    if (state.needReadable) emitReadable(stream);
  }
  maybeReadMore(stream, state);
}

function onEnd(stream: any, state: ReadableState): void {
  if (state.ended) return;
  const rest = state.decoder?.end();
  if (rest && rest.length > 0) {
    state.buffer.push(rest);
    state.length += state.objectMode ? 1 : rest.length;
  }
  state.ended = true;
  if (state.sync) emitReadable(stream);
  else {
    state.needReadable = false;
    state.emittedReadable = true;
    emitReadableNow(stream);
  }
}

function maybeReadMore(stream: any, state: ReadableState): void {
  if (state.readingMore || !state.constructed) return;
  state.readingMore = true;
  queueTick(() => {
    // One `read` may provide nothing yet; the loop stops when the stream waits for the source.
    while (!state.reading && !state.ended && (state.length < state.highWaterMark || (state.flowing && state.length === 0))) {
      const before = state.length;
      stream.read(0);
      if (before === state.length) break;
    }
    state.readingMore = false;
  });
}

// Reading from the buffer

function amount(n: number, state: ReadableState): number {
  if (n <= 0 || (state.length === 0 && state.ended)) return 0;
  if (state.objectMode) return 1;
  if (Number.isNaN(n)) return state.flowing && state.length > 0 ? state.buffer[0].length : state.length;
  if (n <= state.length) return n;
  return state.ended ? state.length : 0;
}

function take(n: number, state: ReadableState): any {
  if (state.length === 0) return null;
  const { buffer } = state;
  if (state.objectMode) return buffer.shift();
  if (!n || n >= state.length) {
    const all = state.decoder ? buffer.join("") : buffer.length === 1 ? buffer[0] : Buffer.concat(buffer);
    buffer.length = 0;
    return all;
  }
  const pieces: any[] = [];
  while (n > 0) {
    const head = buffer[0];
    if (head.length <= n) {
      pieces.push(buffer.shift());
      n -= head.length;
    } else {
      pieces.push(head.slice(0, n));
      buffer[0] = head.slice(n);
      n = 0;
    }
  }
  if (state.decoder) return pieces.join("");
  return pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
}

function powerAbove(n: number): number {
  if (n >= LARGEST_MARK) return LARGEST_MARK;
  return n <= 1 ? n : 2 ** Math.ceil(Math.log2(n));
}

function read(stream: any, wanted: any): any {
  let n = wanted === undefined ? NaN : Number.isInteger(wanted) ? wanted : Number.parseInt(wanted, 10);
  const state: ReadableState = stream._readableState;
  const asked = n;
  if (n > state.highWaterMark) state.highWaterMark = powerAbove(n);
  if (n !== 0) state.emittedReadable = false;
  if (n === 0 && state.needReadable && ((state.highWaterMark !== 0 ? state.length >= state.highWaterMark : state.length > 0) || state.ended)) {
    if (state.length === 0 && state.ended) endReadable(stream);
    else emitReadable(stream);
    return null;
  }
  n = amount(n, state);
  if (n === 0 && state.ended) {
    if (state.length === 0) endReadable(stream);
    return null;
  }
  let fetch = state.needReadable;
  if (state.length === 0 || state.length - n < state.highWaterMark) fetch = true;
  if (state.ended || state.reading || state.destroyed || state.errored || !state.constructed) fetch = false;
  if (fetch) {
    state.reading = true;
    state.sync = true;
    if (state.length === 0) state.needReadable = true;
    try {
      stream._read(state.highWaterMark);
    } catch (error) {
      errorOrDestroy(stream, error);
    }
    state.sync = false;
    if (!state.reading) n = amount(asked, state);
  }
  const chunk = n > 0 ? take(n, state) : null;
  if (chunk === null) {
    state.needReadable = state.length <= state.highWaterMark;
    n = 0;
  } else {
    state.length -= n;
    state.awaitDrainWriters.clear();
  }
  if (state.length === 0) {
    if (!state.ended) state.needReadable = true;
    if (asked !== n && state.ended) endReadable(stream);
  }
  if (chunk !== null && !state.errored && !state.closeEmitted) {
    state.dataEmitted = true;
    stream.emit("data", chunk);
  }
  return chunk;
}

// Events

function emitReadable(stream: any): void {
  const state: ReadableState = stream._readableState;
  state.needReadable = false;
  if (state.emittedReadable) return;
  state.emittedReadable = true;
  queueTick(() => emitReadableNow(stream));
}

function emitReadableNow(stream: any): void {
  const state: ReadableState = stream._readableState;
  if (!state.destroyed && !state.errored && (state.length || state.ended)) {
    stream.emit("readable");
    state.emittedReadable = false;
  }
  state.needReadable = !state.flowing && !state.ended && state.length <= state.highWaterMark;
  flow(stream);
}

function flow(stream: any): void {
  const state: ReadableState = stream._readableState;
  while (state.flowing && stream.read() !== null);
}

function endReadable(stream: any): void {
  const state: ReadableState = stream._readableState;
  if (state.endEmitted) return;
  state.ended = true;
  queueTick(() => {
    if (state.errored || state.closeEmitted || state.endEmitted || state.length !== 0) return;
    state.endEmitted = true;
    stream.emit("end");
    if (stream.writable && stream.allowHalfOpen === false) {
      queueTick(() => {
        if (stream.writable && !stream.writableEnded && !stream.destroyed) stream.end();
      });
    } else if (state.autoDestroy) {
      const writable = stream._writableState;
      const done = !writable || (writable.autoDestroy && (writable.finished || writable.writable === false));
      if (done) stream.destroy();
    }
  });
}

function scheduleResume(stream: any, state: ReadableState): void {
  if (state.resumeScheduled) return;
  state.resumeScheduled = true;
  queueTick(() => {
    if (!state.reading) stream.read(0);
    state.resumeScheduled = false;
    stream.emit("resume");
    flow(stream);
    if (state.flowing && !state.reading) stream.read(0);
  });
}

function updateListening(stream: any): void {
  const state: ReadableState = stream._readableState;
  state.readableListening = stream.listenerCount("readable") > 0;
  if (state.resumeScheduled && !state.explicitlyPaused) state.flowing = true;
  else if (stream.listenerCount("data") > 0) stream.resume();
  else if (!state.readableListening) state.flowing = null;
}

function drained(source: any, target: any): void {
  const state: ReadableState = source._readableState;
  state.awaitDrainWriters.delete(target);
  if (state.awaitDrainWriters.size === 0 && source.listenerCount("data") > 0) source.resume();
}

define(Readable.prototype, {
  destroy,
  _undestroy: undestroy,
  _destroy(error: any, done: (error?: any) => void): void {
    done(error);
  },
  push(this: any, chunk: any, encoding?: string): boolean {
    return add(this, chunk, encoding, false);
  },
  unshift(this: any, chunk: any, encoding?: string): boolean {
    return add(this, chunk, encoding, true);
  },
  isPaused(this: any): boolean {
    return this._readableState.explicitlyPaused || this._readableState.flowing === false;
  },
  setEncoding(this: any, encoding: string): any {
    const state: ReadableState = this._readableState;
    const decoder = new StringDecoder(encoding);
    state.decoder = decoder;
    state.encoding = decoder.encoding;
    let text = "";
    for (const piece of state.buffer) text += decoder.write(piece);
    state.buffer = text === "" ? [] : [text];
    state.length = text.length;
    return this;
  },
  read(this: any, n?: number): any {
    return read(this, n);
  },
  _read(): void {
    throw coded(Error, "ERR_METHOD_NOT_IMPLEMENTED", "The _read() method is not implemented");
  },

  pipe(this: any, target: any, options?: { end?: boolean }): any {
    const source = this;
    const state: ReadableState = this._readableState;
    state.pipes.push(target);
    const ends = options?.end !== false && !target._isStdio;
    const onEnd = () => target.end();
    const unpipe = () => source.unpipe(target);
    const finishing = ends ? onEnd : unpipe;
    if (state.endEmitted) queueTick(finishing);
    else source.once("end", finishing);
    let onDrain: (() => void) | undefined;
    let cleaned = false;
    const cleanup = () => {
      target.removeListener("close", onClose);
      target.removeListener("finish", onFinish);
      if (onDrain) target.removeListener("drain", onDrain);
      target.removeListener("error", onError);
      target.removeListener("unpipe", onUnpipe);
      source.removeListener("end", onEnd);
      source.removeListener("end", unpipe);
      source.removeListener("data", onData);
      cleaned = true;
      if (onDrain && state.awaitDrainWriters.size > 0 && (!target._writableState || target._writableState.needDrain)) onDrain();
    };
    const onUnpipe = (from: any, info: any) => {
      if (from === source && info && info.hasUnpiped === false) {
        info.hasUnpiped = true;
        cleanup();
      }
    };
    const pause = () => {
      if (!cleaned) {
        if (state.pipes.includes(target)) state.awaitDrainWriters.add(target);
        source.pause();
      }
      if (!onDrain) {
        onDrain = () => drained(source, target);
        target.on("drain", onDrain);
      }
    };
    const onData = (chunk: any) => {
      if (target.write(chunk) === false) pause();
    };
    const onError = (error: any) => {
      unpipe();
      target.removeListener("error", onError);
      if (target.listenerCount("error") === 0) {
        const side = target._writableState ?? target._readableState;
        if (side && !side.errorEmitted) errorOrDestroy(target, error);
        else target.emit("error", error);
      }
    };
    const onClose = () => {
      target.removeListener("finish", onFinish);
      unpipe();
    };
    const onFinish = () => {
      target.removeListener("close", onClose);
      unpipe();
    };
    target.on("unpipe", onUnpipe);
    source.on("data", onData);
    target.prependListener("error", onError);
    target.once("close", onClose);
    target.once("finish", onFinish);
    target.emit("pipe", source);
    if (target.writableNeedDrain === true) pause();
    else if (!state.flowing) source.resume();
    return target;
  },
  unpipe(this: any, target?: any): any {
    const state: ReadableState = this._readableState;
    if (state.pipes.length === 0) return this;
    if (!target) {
      const all = state.pipes.splice(0);
      this.pause();
      for (const each of all) each.emit("unpipe", this, { hasUnpiped: false });
      return this;
    }
    const at = state.pipes.indexOf(target);
    if (at < 0) return this;
    state.pipes.splice(at, 1);
    if (state.pipes.length === 0) this.pause();
    target.emit("unpipe", this, { hasUnpiped: false });
    return this;
  },

  on(this: any, name: string | symbol, listener: (...args: any[]) => void): any {
    Stream.prototype.on.call(this, name, listener);
    const state: ReadableState = this._readableState;
    if (name === "data") {
      state.readableListening = this.listenerCount("readable") > 0;
      if (state.flowing !== false) this.resume();
    } else if (name === "readable" && !state.endEmitted && !state.readableListening) {
      state.readableListening = state.needReadable = true;
      state.flowing = false;
      state.emittedReadable = false;
      if (state.length) emitReadable(this);
      else if (!state.reading) queueTick(() => this.read(0));
    }
    return this;
  },
  removeListener(this: any, name: string | symbol, listener: (...args: any[]) => void): any {
    Stream.prototype.removeListener.call(this, name, listener);
    if (name === "readable") queueTick(() => updateListening(this));
    return this;
  },
  removeAllListeners(this: any, ...names: (string | symbol)[]): any {
    Stream.prototype.removeAllListeners.apply(this, names);
    if (names[0] === "readable" || names[0] === undefined) queueTick(() => updateListening(this));
    return this;
  },
  resume(this: any): any {
    const state: ReadableState = this._readableState;
    if (!state.flowing) {
      state.flowing = !state.readableListening;
      scheduleResume(this, state);
    }
    state.explicitlyPaused = false;
    return this;
  },
  pause(this: any): any {
    const state: ReadableState = this._readableState;
    if (state.flowing !== false) {
      state.flowing = false;
      this.emit("pause");
    }
    state.explicitlyPaused = true;
    return this;
  },

  /** Reads an old-style emitter through this stream. */
  wrap(this: any, source: any): any {
    let paused = false;
    source.on("data", (chunk: any) => {
      if (!this.push(chunk) && source.pause) {
        paused = true;
        source.pause();
      }
    });
    source.on("end", () => this.push(null));
    source.on("error", (error: any) => errorOrDestroy(this, error));
    source.on("close", () => destroyer(this));
    source.on("destroy", () => destroyer(this));
    this._read = () => {
      if (paused && source.resume) {
        paused = false;
        source.resume();
      }
    };
    for (const name of Object.keys(source)) {
      if (this[name] === undefined && typeof source[name] === "function") this[name] = source[name].bind(source);
    }
    return this;
  },

  [Symbol.asyncIterator](this: any): AsyncGenerator<any> {
    return iterate(this, { destroyOnReturn: true });
  },
  iterator(this: any, options: { destroyOnReturn?: boolean } = {}): AsyncGenerator<any> {
    if (options !== undefined && (typeof options !== "object" || options === null)) throw invalidArgType("options", "of type object", options);
    return iterate(this, options);
  },
  async [Symbol.asyncDispose ?? Symbol.for("asyncDispose")](this: any): Promise<void> {
    const { abortError } = importSync("pi:node/stream/state");
    if (!this.destroyed) this.destroy(this.readableEnded ? null : abortError());
    await new Promise<void>((resolve, reject) =>
      importSync("pi:node/stream/finished").finished(this, (error: any) => (error && error.name !== "AbortError" ? reject(error) : resolve())),
    );
  },

  get readable(): boolean {
    const state = (this as any)._readableState;
    return Boolean(state) && state.readable !== false && !state.destroyed && !state.errorEmitted && !state.endEmitted;
  },
  set readable(value: boolean) {
    if ((this as any)._readableState) (this as any)._readableState.readable = Boolean(value);
  },
  get readableDidRead(): boolean {
    return (this as any)._readableState.dataEmitted;
  },
  get readableAborted(): boolean {
    const state = (this as any)._readableState;
    return Boolean(state.readable !== false && (state.destroyed || state.errored) && !state.endEmitted);
  },
  get readableHighWaterMark(): number {
    return (this as any)._readableState.highWaterMark;
  },
  get readableBuffer(): any {
    return (this as any)._readableState?.buffer;
  },
  get readableFlowing(): boolean | null {
    return (this as any)._readableState.flowing;
  },
  set readableFlowing(value: boolean | null) {
    if ((this as any)._readableState) (this as any)._readableState.flowing = value;
  },
  get readableLength(): number {
    return (this as any)._readableState.length;
  },
  get readableObjectMode(): boolean {
    return Boolean((this as any)._readableState?.objectMode);
  },
  get readableEncoding(): string | null {
    return (this as any)._readableState?.encoding ?? null;
  },
  get errored(): any {
    return (this as any)._readableState?.errored ?? null;
  },
  get closed(): boolean {
    return Boolean((this as any)._readableState?.closed);
  },
  get destroyed(): boolean {
    return Boolean((this as any)._readableState?.destroyed);
  },
  set destroyed(value: boolean) {
    if ((this as any)._readableState) (this as any)._readableState.destroyed = value;
  },
  get readableEnded(): boolean {
    return Boolean((this as any)._readableState?.endEmitted);
  },
});
define(Readable.prototype, { addListener: Readable.prototype.on, off: Readable.prototype.removeListener });

async function* iterate(given: any, options: { destroyOnReturn?: boolean | undefined }): AsyncGenerator<any> {
  const stream = typeof given.read === "function" ? given : new Readable({ objectMode: true }).wrap(given);
  const { finished } = importSync("pi:node/stream/finished");
  let wake: () => void = () => {};
  const onReadable = () => wake();
  stream.on("readable", onReadable);
  let ended: { error: any } | undefined;
  const release = finished(stream, { writable: false }, (error: any) => {
    ended = { error };
    wake();
  });
  let complete = false;
  try {
    for (;;) {
      const chunk = stream.destroyed ? null : stream.read();
      if (chunk !== null) yield chunk;
      else if (ended) {
        if (ended.error) throw ended.error;
        complete = true;
        return;
      } else {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        wake = () => {};
      }
    }
  } catch (error) {
    ended = { error };
    throw error;
  } finally {
    if ((ended?.error || options.destroyOnReturn !== false) && (!complete || ended?.error || stream._readableState?.autoDestroy)) {
      destroyer(stream, ended?.error ?? null);
    } else {
      stream.removeListener("readable", onReadable);
      release();
    }
  }
}

// From other things

/** A readable over an iterable; strings and buffers are one chunk. */
Readable.from = function from(source: any, options?: any): any {
  if (typeof source === "string" || source instanceof Buffer) {
    return new Readable({
      objectMode: true,
      ...options,
      read(this: any) {
        this.push(source);
        this.push(null);
      },
    });
  }
  const isAsync = typeof source?.[Symbol.asyncIterator] === "function";
  if (!isAsync && typeof source?.[Symbol.iterator] !== "function") throw invalidArgType("iterable", "an instance of Iterable", source);
  const iterator = isAsync ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
  const readable = new Readable({ objectMode: true, highWaterMark: 1, ...options });
  let reading = false;
  readable._read = () => {
    if (reading) return;
    reading = true;
    void next();
  };
  readable._destroy = (error: any, done: (error?: any) => void) => {
    close(error).then(
      () => queueTick(() => done(error)),
      (late) => queueTick(() => done(late ?? error)),
    );
  };
  async function close(error: any): Promise<void> {
    if (error !== undefined && error !== null && typeof iterator.throw === "function") {
      const { value, done } = await iterator.throw(error);
      await value;
      if (done) return;
    }
    if (typeof iterator.return === "function") await (await iterator.return()).value;
  }
  async function next(): Promise<void> {
    for (;;) {
      try {
        const { value, done } = isAsync ? await iterator.next() : iterator.next();
        if (done) {
          readable.push(null);
          return;
        }
        const chunk = value && typeof value.then === "function" ? await value : value;
        if (chunk === null) {
          reading = false;
          throw coded(TypeError, "ERR_STREAM_NULL_VALUES", "May not write null values to stream");
        }
        if (readable.push(chunk)) continue;
        reading = false;
      } catch (error) {
        readable.destroy(error);
      }
      return;
    }
  }
  return readable;
};

Readable.wrap = (source: any, options?: any): any =>
  new Readable({
    objectMode: source.readableObjectMode ?? source.objectMode ?? true,
    ...options,
    destroy(error: any, done: (error?: any) => void) {
      destroyer(source, error);
      done(error);
    },
  }).wrap(source);

Readable._fromList = take;
