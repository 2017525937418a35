/** `pi:web/streams/queue`: parts that stream classes share: queues with sizes, strategies, deferred promises. */

/** Key under which an instance of a stream class stores its state, for other modules of the standard. */
export const STATE: unique symbol = Symbol("state");

export const INSPECT = Symbol.for("nodejs.util.inspect.custom");

export interface Deferred<T = void> {
  promise: Promise<T>;
  resolve(value: T): void;
  reject(reason: unknown): void;
}

export function deferred<T = void>(): Deferred<T> {
  let resolve!: (value: T) => void;
  let reject!: (reason: unknown) => void;
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/** Returns a promise whose rejection is not reported as unhandled. */
export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

/** Calls a function of the user. An exception becomes a rejection. */
export function attempt<T>(call: () => T | PromiseLike<T>): Promise<T> {
  try {
    return Promise.resolve(call());
  } catch (error) {
    return Promise.reject(error);
  }
}

export interface Strategy {
  highWaterMark?: number;
  size?: (chunk: any) => number;
}

export function markOf(strategy: Strategy | undefined, fallback: number): number {
  const given = strategy?.highWaterMark;
  if (given === undefined) return fallback;
  const mark = Number(given);
  if (Number.isNaN(mark) || mark < 0) throw coded(RangeError, "ERR_INVALID_ARG_VALUE", `The property 'strategy.highWaterMark' is invalid. Received ${String(given)}`);
  return mark;
}

export function sizeOf(strategy: Strategy | undefined): (chunk: any) => number {
  const size = strategy?.size;
  if (size === undefined) return () => 1;
  if (typeof size !== "function") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "strategy.size" property must be of type function.');
  return (chunk) => size(chunk);
}

export function coded(Type: new (message: string) => Error, code: string, message: string): Error {
  return Object.assign(new Type(message), { code });
}
export const invalidState = (message: string): Error => coded(TypeError, "ERR_INVALID_STATE", `Invalid state: ${message}`);
export const illegalConstructor = (): Error => coded(TypeError, "ERR_ILLEGAL_CONSTRUCTOR", "Illegal constructor");

/** A queue of chunks with sizes. */
export class SizedQueue<T> {
  items: { value: T; size: number }[] = [];
  total = 0;

  add(value: T, size: number): void {
    const amount = Number(size);
    if (!(amount >= 0) || amount === Infinity) throw coded(RangeError, "ERR_INVALID_ARG_VALUE", `The argument 'size' is invalid. Received ${size}`);
    this.items.push({ value, size: amount });
    this.total += amount;
  }
  take(): T {
    const { value, size } = this.items.shift()!;
    this.total = Math.max(0, this.total - size);
    return value;
  }
  clear(): void {
    this.items = [];
    this.total = 0;
  }
}

const countSize = Object.defineProperty(() => 1, "name", { value: "size" });
const byteSize = Object.defineProperty((chunk: any) => chunk.byteLength, "name", { value: "size" });

function checkedMark(init: any): number {
  if (init === null || typeof init !== "object") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "init" argument must be of type object.');
  if (init.highWaterMark === undefined) throw coded(TypeError, "ERR_MISSING_OPTION", "init.highWaterMark is required");
  return Number(init.highWaterMark);
}

export class CountQueuingStrategy {
  #mark: number;
  constructor(init: { highWaterMark: number }) {
    this.#mark = checkedMark(init);
  }
  get highWaterMark(): number {
    return this.#mark;
  }
  get size(): (chunk: any) => number {
    return countSize;
  }
}

export class ByteLengthQueuingStrategy {
  #mark: number;
  constructor(init: { highWaterMark: number }) {
    this.#mark = checkedMark(init);
  }
  get highWaterMark(): number {
    return this.#mark;
  }
  get size(): (chunk: any) => number {
    return byteSize;
  }
}
