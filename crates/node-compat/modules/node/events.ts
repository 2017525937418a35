/** `node:events`: EventEmitter and related functions. Listeners run in the order of addition, on a copy of the list. */

import { abortError, coded, checkFunction, invalidArgType, outOfRange } from "pi:node/errors";
import { guarded, queueTick } from "pi:web/ticks";
import { importSync } from "pi:engine";
import type { AbortSignal } from "pi:web/abort";

type Name = string | symbol;
type Listener = (...args: any[]) => void;

export const errorMonitor: unique symbol = Symbol("events.errorMonitor") as any;
export const captureRejectionSymbol: unique symbol = Symbol.for("nodejs.rejection") as any;

let defaultMax = 10;

/** Marks an emitter whose listeners' rejections become its `error` events. */
const CAPTURES = Symbol("kCapture");

interface Wrapped extends Listener {
  listener?: Listener;
}

class Emitter {
  static get defaultMaxListeners(): number {
    return defaultMax;
  }
  static set defaultMaxListeners(count: number) {
    defaultMax = checkedMax("defaultMaxListeners", count);
  }
  static readonly errorMonitor = errorMonitor;
  static readonly captureRejectionSymbol = captureRejectionSymbol;
  static captureRejections = false;
  static usingDomains = false;
  static EventEmitter: typeof Emitter;
  static EventEmitterAsyncResource: unknown;
  static once: typeof once;
  static on: typeof on;
  static listenerCount: typeof listenerCount;
  static getEventListeners: typeof getEventListeners;
  static getMaxListeners: typeof getMaxListeners;
  static setMaxListeners: typeof setMaxListeners;
  static addAbortListener: typeof addAbortListener;

  // Declared, not initialised: an emitter made by `EventEmitter.call(this)` has no fields.
  declare _events: Map<Name, Wrapped[]> | undefined;
  declare _maxListeners: number | undefined;

  // The names of each pair share a function, as in Node: a class that overrides one name must not change the other.
  declare on: (name: Name, listener: Listener) => this;
  declare off: (name: Name, listener: Listener) => this;

  addListener(name: Name, listener: Listener): this {
    return add(this, name, listener, false);
  }
  prependListener(name: Name, listener: Listener): this {
    return add(this, name, listener, true);
  }
  once(name: Name, listener: Listener): this {
    return this.on(name, onceWrapper(this, name, listener));
  }
  prependOnceListener(name: Name, listener: Listener): this {
    return this.prependListener(name, onceWrapper(this, name, listener));
  }

  /** Removes the listener's latest addition. */
  removeListener(name: Name, listener: Listener): this {
    checkFunction("listener", listener);
    const list = this._events?.get(name);
    const at = list?.findLastIndex((entry) => entry === listener || entry.listener === listener) ?? -1;
    if (!list || at < 0) return this;
    const [removed] = list.splice(at, 1);
    if (list.length === 0) this._events!.delete(name);
    if (this._events!.has("removeListener")) this.emit("removeListener", name, removed!.listener ?? removed);
    return this;
  }

  removeAllListeners(name?: Name): this {
    const events = this._events;
    if (!events) return this;
    if (!events.has("removeListener")) {
      if (arguments.length === 0) events.clear();
      else events.delete(name!);
      return this;
    }
    if (arguments.length === 0) {
      for (const key of [...events.keys()]) if (key !== "removeListener") this.removeAllListeners(key);
      this.removeAllListeners("removeListener");
      events.clear();
      return this;
    }
    for (const listener of [...(events.get(name!) ?? [])].reverse()) this.removeListener(name!, listener);
    return this;
  }

  emit(name: Name, ...args: any[]): boolean {
    const events = this._events;
    if (name === "error") {
      if (events?.has(errorMonitor)) this.emit(errorMonitor, ...args);
      if (!events?.has("error")) throw unhandled(args[0]);
    }
    const list = events?.get(name);
    if (!list) return false;
    if ((this as any)[CAPTURES]) for (const listener of [...list]) capture(this, Reflect.apply(listener, this, args), name, args);
    else if (list.length === 1) Reflect.apply(list[0]!, this, args);
    else for (const listener of [...list]) Reflect.apply(listener, this, args);
    return true;
  }

  listenerCount(name: Name, listener?: Listener): number {
    const list = this._events?.get(name) ?? [];
    return listener ? list.filter((entry) => entry === listener || entry.listener === listener).length : list.length;
  }
  listeners(name: Name): Listener[] {
    return (this._events?.get(name) ?? []).map((entry) => entry.listener ?? entry);
  }
  rawListeners(name: Name): Listener[] {
    return [...(this._events?.get(name) ?? [])];
  }
  eventNames(): Name[] {
    const names = [...(this._events?.keys() ?? [])];
    return [...names.filter((name) => typeof name === "string"), ...names.filter((name) => typeof name === "symbol")];
  }
  setMaxListeners(count: number): this {
    this._maxListeners = checkedMax("setMaxListeners", count);
    return this;
  }
  getMaxListeners(): number {
    return this._maxListeners ?? defaultMax;
  }
}

/** Passes an async listener's rejection to the emitter's own method for it, or emits it as `error`. */
function capture(emitter: Emitter, result: any, name: Name, args: any[]): void {
  if (typeof result?.then !== "function") return;
  const told = (error: unknown) => {
    const own = (emitter as any)[captureRejectionSymbol];
    if (typeof own === "function") return own.call(emitter, error, name, ...args);
    // A listener of `error` that rejects must not be called with its own rejection.
    const before = (emitter as any)[CAPTURES];
    try {
      (emitter as any)[CAPTURES] = false;
      emitter.emit("error", error);
    } finally {
      (emitter as any)[CAPTURES] = before;
    }
  };
  result.then(undefined, (error: unknown) => queueTick(() => told(error)));
}

/**
 * The constructor is a function, since old code calls it on its own object (`EventEmitter.call(this)`),
 * and its methods are enumerable, since old code copies them.
 */
export const EventEmitter: typeof Emitter = function EventEmitter(this: Emitter, options?: { captureRejections?: boolean }) {
  // The table is created with the first listener.
  if (options?.captureRejections ?? (EventEmitter as unknown as typeof Emitter).captureRejections) Object.defineProperty(this, CAPTURES, { value: true, writable: true, enumerable: false, configurable: true });
} as unknown as typeof Emitter;
export type EventEmitter = Emitter;

for (const name of Object.getOwnPropertyNames(Emitter)) {
  if (name !== "prototype" && name !== "length" && name !== "name") {
    Object.defineProperty(EventEmitter, name, Object.getOwnPropertyDescriptor(Emitter, name)!);
  }
}
Object.assign(Emitter.prototype, { on: Emitter.prototype.addListener, off: Emitter.prototype.removeListener });
for (const name of Object.getOwnPropertyNames(Emitter.prototype)) {
  Object.defineProperty(Emitter.prototype, name, { enumerable: name !== "constructor" });
}
Object.defineProperty(Emitter.prototype, "constructor", { value: EventEmitter, writable: true, configurable: true });
EventEmitter.prototype = Emitter.prototype;

function checkedMax(name: string, count: unknown): number {
  if (typeof count !== "number") throw invalidArgType(name, "of type number", count);
  if (count < 0 || Number.isNaN(count)) throw outOfRange(name, ">= 0", count);
  return count;
}

function add(emitter: EventEmitter, name: Name, listener: Wrapped, first: boolean): EventEmitter & any {
  checkFunction("listener", listener);
  const events = (emitter._events ??= hidden(emitter, "_events", new Map()));
  if (events.has("newListener")) emitter.emit("newListener", name, listener.listener ?? listener);
  let list = events.get(name);
  if (!list) events.set(name, (list = []));
  if (first) list.unshift(listener);
  else list.push(listener);
  const max = emitter.getMaxListeners();
  if (max > 0 && list.length > max && !(list as any).warned) {
    (list as any).warned = true;
    const words = `Possible EventEmitter memory leak detected. ${list.length} ${String(name)} listeners added to [${emitter.constructor?.name ?? "EventEmitter"}]. MaxListeners is ${max}. Use emitter.setMaxListeners() to increase limit`;
    const warning = Object.assign(new Error(words), { name: "MaxListenersExceededWarning", emitter, type: name, count: list.length });
    importSync("node:process").default.emitWarning(warning);
  }
  return emitter;
}

/** Defines a property that Object.keys and inspect do not show. */
function hidden<T>(target: object, name: string, value: T): T {
  Object.defineProperty(target, name, { value, writable: true, enumerable: false, configurable: true });
  return value;
}

function onceWrapper(emitter: EventEmitter, name: Name, listener: Listener): Wrapped {
  checkFunction("listener", listener);
  let fired = false;
  const wrapper: Wrapped = function (this: unknown, ...args) {
    if (fired) return;
    emitter.removeListener(name, wrapper);
    fired = true;
    return listener.apply(emitter, args);
  };
  wrapper.listener = listener;
  return wrapper;
}

function unhandled(error: unknown): unknown {
  if (error instanceof Error) return error;
  const shown = importSync("pi:node/util/inspect").inspect(error);
  const wrapped = coded(Error, "ERR_UNHANDLED_ERROR", `Unhandled error. (${shown})`);
  return Object.assign(wrapped, { context: error });
}

interface WaitOptions {
  signal?: AbortSignal;
}

function isTarget(value: any): boolean {
  return typeof value?.on !== "function" && typeof value?.addEventListener === "function";
}

/** Returns the arguments of the next emission. Rejects if `error` is emitted first. */
export function once(emitter: any, name: Name, options: WaitOptions = {}): Promise<any[]> {
  return new Promise((resolve, reject) => {
    const { signal } = options;
    if (signal?.aborted) return reject(abortError(signal));
    if (isTarget(emitter)) {
      const heard = (event: unknown) => {
        signal?.removeEventListener("abort", aborted);
        resolve([event]);
      };
      const aborted = () => {
        emitter.removeEventListener(name, heard);
        reject(abortError(signal!));
      };
      signal?.addEventListener("abort", aborted, { once: true });
      emitter.addEventListener(name, heard, { once: true });
      return;
    }
    const release = () => {
      emitter.removeListener(name, heard);
      emitter.removeListener("error", failed);
      signal?.removeEventListener("abort", aborted);
    };
    const heard = (...args: any[]) => {
      release();
      resolve(args);
    };
    const failed = (error: unknown) => {
      release();
      reject(error);
    };
    const aborted = () => {
      release();
      reject(abortError(signal!));
    };
    emitter.once(name, heard);
    if (name !== "error") emitter.once("error", failed);
    signal?.addEventListener("abort", aborted, { once: true });
  });
}

/** Returns all following emissions as an async iterator. */
export function on(emitter: any, name: Name, options: WaitOptions & { close?: Name[] } = {}): AsyncIterableIterator<any[]> {
  const { signal } = options;
  if (signal?.aborted) throw abortError(signal);
  const ready: any[][] = [];
  const waiting: { resolve(result: IteratorResult<any[]>): void; reject(error: unknown): void }[] = [];
  let failure: { error: unknown } | undefined;
  let ended = false;
  const heard = (...args: any[]) => {
    const next = waiting.shift();
    if (next) next.resolve({ value: args, done: false });
    else ready.push(args);
  };
  const fail = (error: unknown) => {
    const next = waiting.shift();
    if (next) next.reject(error);
    else failure = { error };
    finish();
  };
  const aborted = () => fail(abortError(signal!));
  const finish = () => {
    if (ended) return;
    ended = true;
    emitter.removeListener("error", fail);
    emitter.removeListener(name, heard);
    for (const closing of options.close ?? []) emitter.removeListener(closing, finish);
    signal?.removeEventListener("abort", aborted);
    for (const next of waiting.splice(0)) next.resolve({ value: undefined, done: true });
  };
  emitter.on(name, heard);
  if (name !== "error") emitter.on("error", fail);
  for (const closing of options.close ?? []) emitter.on(closing, finish);
  signal?.addEventListener("abort", aborted, { once: true });
  return {
    next() {
      const value = ready.shift();
      if (value) return Promise.resolve({ value, done: false });
      if (failure) {
        const { error } = failure;
        failure = undefined;
        return Promise.reject(error);
      }
      if (ended) return Promise.resolve({ value: undefined, done: true });
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    return() {
      finish();
      return Promise.resolve({ value: undefined, done: true });
    },
    throw(error: unknown) {
      fail(error);
      return Promise.reject(error);
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  } as AsyncIterableIterator<any[]>;
}

export function listenerCount(emitter: EventEmitter, name: Name): number {
  return emitter.listenerCount(name);
}
export function getEventListeners(emitter: EventEmitter, name: Name): Listener[] {
  return typeof emitter.listeners === "function" ? emitter.listeners(name) : [];
}
export function getMaxListeners(emitter: EventEmitter): number {
  return typeof emitter.getMaxListeners === "function" ? emitter.getMaxListeners() : defaultMax;
}
export function setMaxListeners(count: number = defaultMax, ...emitters: EventEmitter[]): void {
  if (emitters.length === 0) defaultMax = checkedMax("n", count);
  for (const emitter of emitters) emitter.setMaxListeners?.(count);
}

/** Calls the listener when the signal fires, or in a tick if it has already fired. */
export function addAbortListener(signal: AbortSignal, listener: Listener): object {
  if (signal.aborted) void Promise.resolve().then(() => guarded(() => listener()));
  else signal.addEventListener("abort", listener, { once: true });
  return { [Symbol.dispose ?? Symbol.for("dispose")]: () => signal.removeEventListener("abort", listener) };
}

/** Behaves like EventEmitter: a realm has no async resources to follow. */
export class EventEmitterAsyncResource extends EventEmitter {}

export const captureRejections = false;
export const usingDomains = false;
/** Does the work of the constructor, for code that calls it as a function. */
export function init(): void {}

Object.assign(EventEmitter, {
  captureRejections, usingDomains, init, EventEmitter, EventEmitterAsyncResource, once, on, listenerCount, getEventListeners, getMaxListeners, setMaxListeners, addAbortListener,
});

export const defaultMaxListeners: number = 10;
export default EventEmitter;
