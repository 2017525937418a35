/**
 * `pi:node/util/equal`: deep equality, strict (`isDeepStrictEqual`, `assert.deepStrictEqual`) and loose.
 *
 * Strict equality uses Object.is and compares prototypes and tags; loose equality uses `==` for primitives. A pair
 * that is already being compared counts as equal, so cycles terminate.
 */

type Mode = { strict: boolean; open: Map<object, object> };

export function deepEqual(a: unknown, b: unknown, strict: boolean): boolean {
  return equal(a, b, { strict, open: new Map() });
}

function equal(a: any, b: any, mode: Mode): boolean {
  if (Object.is(a, b)) return true;
  const objects = typeof a === "object" && typeof b === "object" && a !== null && b !== null;
  if (!objects) {
    if (mode.strict) return false;
    if (typeof a === "object" || typeof b === "object") return (a === null || b === null) && a == b;
    return a == b || (Number.isNaN(a) && Number.isNaN(b));
  }
  if (mode.strict && Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (tag(a) !== tag(b) || Array.isArray(a) !== Array.isArray(b)) return false;
  if (mode.open.get(a) === b) return true;
  mode.open.set(a, b);
  const same = contents(a, b, mode) && members(a, b, mode);
  mode.open.delete(a);
  return same;
}

const tag = (value: object) => Object.prototype.toString.call(value);

/** Compares the internal state of built-in objects, which their properties do not show. */
function contents(a: any, b: any, mode: Mode): boolean {
  if (Array.isArray(a)) return a.length === b.length;
  if (a instanceof Date) return b instanceof Date && Object.is(a.getTime(), b.getTime());
  if (a instanceof RegExp) return b instanceof RegExp && a.source === b.source && a.flags === b.flags && a.lastIndex === b.lastIndex;
  if (a instanceof Error) {
    return b instanceof Error && a.message === b.message && a.name === b.name && equal((a as any).cause, (b as any).cause, mode) && equal((a as any).errors, (b as any).errors, mode);
  }
  if (ArrayBuffer.isView(a)) return sameBytes(bytes(a), bytes(b), a, b, mode);
  if (a instanceof ArrayBuffer) return b instanceof ArrayBuffer && sameBytes(new Uint8Array(a), new Uint8Array(b));
  if (a instanceof Set) return b instanceof Set && a.size === b.size && sameSet(a, b, mode);
  if (a instanceof Map) return b instanceof Map && a.size === b.size && sameMap(a, b, mode);
  for (const Boxed of [Number, String, Boolean, BigInt, Symbol]) {
    if (a instanceof Boxed) return b instanceof Boxed && Object.is(a.valueOf(), b.valueOf());
  }
  if (a instanceof Promise || a instanceof WeakMap || a instanceof WeakSet) return false;
  return true;
}

function bytes(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

function sameBytes(a: Uint8Array, b: Uint8Array, left?: unknown, right?: unknown, mode?: Mode): boolean {
  if (a.length !== b.length) return false;
  if (mode && !mode.strict && (left instanceof Float32Array || left instanceof Float64Array)) {
    return left.every((item, at) => item === (right as Float64Array)[at]);
  }
  return a.every((byte, at) => byte === b[at]);
}

function sameSet(a: Set<unknown>, b: Set<unknown>, mode: Mode): boolean {
  const rest: unknown[] = [];
  for (const item of a) if (!b.has(item)) rest.push(item);
  if (rest.length === 0) return true;
  if (mode.strict && rest.some((item) => typeof item !== "object" || item === null)) return false;
  const candidates = [...b].filter((item) => !a.has(item));
  return rest.every((item) => {
    const at = candidates.findIndex((candidate) => equal(item, candidate, mode));
    if (at < 0) return false;
    candidates.splice(at, 1);
    return true;
  });
}

function sameMap(a: Map<unknown, unknown>, b: Map<unknown, unknown>, mode: Mode): boolean {
  const rest: [unknown, unknown][] = [];
  for (const [key, item] of a) {
    if (!b.has(key)) rest.push([key, item]);
    else if (!equal(item, b.get(key), mode)) return false;
  }
  if (rest.length === 0) return true;
  if (mode.strict && rest.some(([key]) => typeof key !== "object" || key === null)) return false;
  const candidates = [...b].filter(([key]) => !a.has(key));
  return rest.every(([key, item]) => {
    const at = candidates.findIndex(([other, value]) => equal(key, other, mode) && equal(item, value, mode));
    if (at < 0) return false;
    candidates.splice(at, 1);
    return true;
  });
}

function members(a: any, b: any, mode: Mode): boolean {
  const typedArray = ArrayBuffer.isView(a) && !(a instanceof DataView);
  const keys = (value: object) => (typedArray ? Object.keys(value).filter((key) => !/^\d+$/.test(key)) : Object.keys(value));
  const names = keys(a);
  if (names.length !== keys(b).length) return false;
  if (!names.every((name) => Object.prototype.propertyIsEnumerable.call(b, name))) return false;
  if (mode.strict) {
    const symbols = (value: object) => Object.getOwnPropertySymbols(value).filter((key) => Object.prototype.propertyIsEnumerable.call(value, key));
    const own = symbols(a);
    if (own.length !== symbols(b).length) return false;
    if (!own.every((key) => Object.prototype.propertyIsEnumerable.call(b, key) && equal(a[key], b[key], mode))) return false;
  }
  return names.every((name) => equal(a[name], b[name], mode));
}
