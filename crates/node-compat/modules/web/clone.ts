/**
 * `pi:web/clone`: structuredClone (HTML standard).
 *
 * Copies primitives and their wrappers, Date, RegExp, Map, Set, Error, ArrayBuffer and its views,
 * arrays and plain objects, with shared and cyclic references kept. Functions, symbols, promises,
 * proxies of them and weak collections cannot be cloned: `DataCloneError`. An instance of a class
 * becomes a plain object with its own enumerable properties.
 */

import { proxyParts } from "pi:engine";

const ERROR_TYPES: Record<string, ErrorConstructor> = {
  Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError,
} as any;

/** Returns whether the members of an object are all that has to be cloned. */
export function hasMembersOnly(value: object): boolean {
  return proxyParts(value) === undefined && !UNCLONABLE.some((Kind) => value instanceof Kind) && Object.prototype.toString.call(value) !== "[object Arguments]";
}

/** Returns the message for a value that cannot be cloned. */
export function refusal(value: any): string {
  const shown = typeof value === "symbol" ? String(value) : typeof value === "function" ? Function.prototype.toString.call(value) : `#<${value?.constructor?.name ?? "Object"}>`;
  return `${shown} could not be cloned.`;
}

const UNCLONABLE: any[] = [Promise, WeakMap, WeakSet, WeakRef, Symbol, globalThis.SharedArrayBuffer].filter(Boolean);

function refuse(value: unknown): never {
  throw new DOMException(refusal(value), "DataCloneError");
}

export function structuredClone<T>(value: T, options?: { transfer?: ArrayBuffer[] }): T {
  if (arguments.length === 0) throw Object.assign(new TypeError('The "value" argument must be specified'), { code: "ERR_MISSING_ARGS" });
  const seen = new Map<object, object>();
  const transferred = [...(options?.transfer ?? [])];
  for (const buffer of transferred) {
    if (!(buffer instanceof ArrayBuffer)) throw new DOMException("Found invalid value in transferList", "DataCloneError");
    if ((buffer as any).detached) throw new DOMException("An ArrayBuffer is detached and could not be cloned.", "DataCloneError");
  }
  const result = clone(value, seen) as T;
  // Buffers are detached only after the whole value is cloned, so that a failed clone changes nothing.
  for (const buffer of transferred) {
    try {
      (buffer as ArrayBuffer & { transfer(size: number): void }).transfer(0);
    } catch {
      throw new DOMException("Cannot transfer object of unsupported type.", "DataCloneError");
    }
  }
  return result;
}

function clone(value: any, seen: Map<object, object>): unknown {
  if (typeof value === "symbol" || typeof value === "function") refuse(value);
  if (typeof value !== "object" || value === null) return value;
  const known = seen.get(value);
  if (known) return known;
  const copy = shellOf(value, seen);
  seen.set(value, copy);
  if (copy instanceof Map && value instanceof Map) {
    for (const [key, item] of [...value]) copy.set(clone(key, seen), clone(item, seen));
  } else if (copy instanceof Set && value instanceof Set) {
    for (const item of [...value]) copy.add(clone(item, seen));
  } else if (copy instanceof Error) {
    if (Object.hasOwn(value, "cause")) define(copy, "cause", clone(value.cause, seen));
  } else if (Array.isArray(copy) || Object.getPrototypeOf(copy) === Object.prototype) {
    for (const key of Object.keys(value)) {
      // A getter may have removed a later key.
      if (Object.hasOwn(value, key)) (copy as any)[key] = clone(value[key], seen);
    }
  }
  return copy;
}

/** Returns an empty copy, to which the caller adds members. */
function shellOf(value: any, seen: Map<object, object>): object {
  if (Array.isArray(value)) return new Array(value.length);
  if (ArrayBuffer.isView(value)) {
    const buffer = clone(value.buffer, seen) as ArrayBuffer;
    const name = Object.prototype.toString.call(value).slice(8, -1);
    const View = value instanceof DataView ? DataView : ((globalThis as any)[name] ?? Uint8Array);
    return new View(buffer, value.byteOffset, value instanceof DataView ? value.byteLength : (value as Uint8Array).length);
  }
  if (value instanceof ArrayBuffer) return value.slice(0);
  if (value instanceof Date) return new Date(value.getTime());
  if (value instanceof RegExp) return new RegExp(value.source, value.flags);
  if (value instanceof Map) return new Map();
  if (value instanceof Set) return new Set();
  if (value instanceof DOMException) return new DOMException(value.message, value.name);
  if (value instanceof Error) {
    const copy = new (ERROR_TYPES[value.name] ?? Error)(String(value.message));
    define(copy, "stack", value.stack);
    return copy;
  }
  if (value instanceof Number || value instanceof String || value instanceof Boolean || value instanceof BigInt) {
    return Object(value.valueOf());
  }
  if (!hasMembersOnly(value)) refuse(value);
  return {};
}

function define(target: object, name: string, value: unknown): void {
  Object.defineProperty(target, name, { value, writable: true, enumerable: false, configurable: true });
}
