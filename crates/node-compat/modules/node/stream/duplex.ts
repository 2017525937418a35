/** `pi:node/stream/duplex`: Duplex (both halves), Transform (the output is computed from the input) and PassThrough. */

import { coded } from "pi:node/errors";
import { Stream, define, inherit } from "pi:node/stream/legacy";
import { Readable, ReadableState, initReadable } from "pi:node/stream/readable";
import { construct } from "pi:node/stream/state";
import { Writable, WritableState, initWritable, ready } from "pi:node/stream/writable";

type Done = (error?: any, chunk?: any) => void;

export const Duplex: any = function Duplex(this: any, options?: any) {
  if (!new.target && !(this instanceof Duplex)) return new (Duplex as any)(options);
  this._readableState = new ReadableState(options, true);
  this._writableState = new WritableState(options, true);
  this.allowHalfOpen = options?.allowHalfOpen !== false;
  if (options?.readable === false) Object.assign(this._readableState, { readable: false, ended: true, endEmitted: true });
  if (options?.writable === false) Object.assign(this._writableState, { writable: false, ending: true, ended: true, finished: true });
  initReadable(this, options);
  if (options) initWritable(this, { ...options, signal: undefined });
  Stream.call(this, options);
  construct(this, () => {
    if (this._readableState.needReadable) this.read(0);
    ready(this);
  });
};
inherit(Duplex, Readable);

// Members of the writing half that the reading half does not define.
for (const name of Reflect.ownKeys(Writable.prototype)) {
  if (name !== "constructor" && !(name in Readable.prototype)) {
    Object.defineProperty(Duplex.prototype, name, Object.getOwnPropertyDescriptor(Writable.prototype, name)!);
  }
}
Object.defineProperty(Duplex.prototype, "writable", Object.getOwnPropertyDescriptor(Writable.prototype, "writable")!);
define(Duplex.prototype, {
  get closed(): boolean {
    const { _readableState: readable, _writableState: writable } = this as any;
    return Boolean(readable?.closed && writable?.closed);
  },
  get errored(): any {
    const { _readableState: readable, _writableState: writable } = this as any;
    return readable?.errored ?? writable?.errored ?? null;
  },
  get destroyed(): boolean {
    const { _readableState: readable, _writableState: writable } = this as any;
    return Boolean(readable && writable && readable.destroyed && writable.destroyed);
  },
  set destroyed(value: boolean) {
    const { _readableState: readable, _writableState: writable } = this as any;
    if (readable && writable) readable.destroyed = writable.destroyed = value;
  },
  destroy: Writable.prototype.destroy,
});

const CALLBACK = Symbol("the writer that waits for room");

export const Transform: any = function Transform(this: any, options?: any) {
  if (!new.target && !(this instanceof Transform)) return new (Transform as any)(options);
  // If the reading half may hold nothing, a transform would hold one chunk in the writing half instead.
  const readableMark = options?.readableHighWaterMark ?? options?.highWaterMark;
  const settings = readableMark === 0 ? { ...options, highWaterMark: null, readableHighWaterMark: 0, writableHighWaterMark: options.writableHighWaterMark || 0 } : options;
  Duplex.call(this, settings);
  this._readableState.sync = false;
  this[CALLBACK] = null;
  if (options) {
    if (typeof options.transform === "function") this._transform = options.transform;
    if (typeof options.flush === "function") this._flush = options.flush;
  }
  this.on("prefinish", () => {
    if (this._final !== Transform.prototype._final) flush.call(this);
  });
};
inherit(Transform, Duplex);

/** Ends the writing half: emits the output of `_flush`, then the end of the reading half. */
function flush(this: any, done?: Done): void {
  if (typeof this._flush === "function" && !this.destroyed) {
    this._flush((error?: any, chunk?: any) => {
      if (error) {
        if (done) done(error);
        else this.destroy(error);
        return;
      }
      if (chunk !== null && chunk !== undefined) this.push(chunk);
      this.push(null);
      done?.();
    });
  } else {
    this.push(null);
    done?.();
  }
}

define(Transform.prototype, {
  _final: flush,
  _transform(): void {
    throw coded(Error, "ERR_METHOD_NOT_IMPLEMENTED", "The _transform() method is not implemented");
  },
  _write(this: any, chunk: any, encoding: string, done: Done): void {
    const readable = this._readableState;
    const writable = this._writableState;
    const before = readable.length;
    this._transform(chunk, encoding, (error?: any, result?: any) => {
      if (error) return done(error);
      if (result !== null && result !== undefined) this.push(result);
      if (writable.ended || before === readable.length || readable.length < readable.highWaterMark) done();
      else this[CALLBACK] = done;
    });
  },
  _read(this: any): void {
    const done = this[CALLBACK];
    if (!done) return;
    this[CALLBACK] = null;
    done();
  },
});

export const PassThrough: any = function PassThrough(this: any, options?: any) {
  if (!new.target && !(this instanceof PassThrough)) return new (PassThrough as any)(options);
  Transform.call(this, options);
};
inherit(PassThrough, Transform);
define(PassThrough.prototype, {
  _transform(chunk: any, _encoding: string, done: Done): void {
    done(null, chunk);
  },
});
