/**
 * `pi:web/atomics`: `SharedArrayBuffer` and `Atomics` of a realm with one thread.
 *
 * The engine's own are removed. With a single thread, memory is never shared and every access is atomic. `Atomics.wait` can only
 * time out, so it sleeps by a hostcall.
 */

import { callSync } from "pi:hostcall";

type Ints = Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array | BigInt64Array | BigUint64Array;

/** Returns the getter of an ArrayBuffer member. */
const getter = (name: string) => Object.getOwnPropertyDescriptor(ArrayBuffer.prototype, name)!.get!;
const [byteLength, maxByteLength] = [getter("byteLength"), getter("maxByteLength")];

export class SharedArrayBuffer extends ArrayBuffer {
  get growable(): boolean {
    return false;
  }
  // Own members, by which packages distinguish the kinds of buffers.
  override get byteLength(): number {
    return Reflect.apply(byteLength, this, []);
  }
  get maxByteLength(): number {
    return Reflect.apply(maxByteLength, this, []);
  }
  override slice(begin?: number, end?: number): SharedArrayBuffer {
    return super.slice(begin as number, end) as SharedArrayBuffer;
  }
}
Object.defineProperty(SharedArrayBuffer.prototype, Symbol.toStringTag, { value: "SharedArrayBuffer", configurable: true });

/** Validates the index of an access as the engine does, and returns it. */
function at(array: Ints, index: number): number {
  if (!ArrayBuffer.isView(array) || array instanceof DataView || !("BYTES_PER_ELEMENT" in array)) {
    throw new TypeError("[object Array] is not an integer typed array.");
  }
  const place = Math.trunc(Number(index)) || 0;
  if (place < 0 || place >= array.length) throw new RangeError("Invalid atomic access index");
  return place;
}

/** Replaces an element by `change` of it. Returns the previous value. */
function update(array: any, index: number, change: (before: any) => any): any {
  const place = at(array, index);
  const before = array[place];
  array[place] = change(before);
  return before;
}

function wait(array: Int32Array | BigInt64Array, index: number, value: number | bigint, timeout: number = Infinity) {
  if (!(array instanceof Int32Array || array instanceof BigInt64Array)) {
    throw new TypeError("[object Object] is not an int32 or BigInt64 typed array.");
  }
  if (array[at(array, index)] !== value) return "not-equal";
  const ms = Number.isNaN(timeout) ? Infinity : Math.max(0, Math.ceil(timeout));
  if (ms === Infinity) {
    throw Object.assign(new Error("Atomics.wait without a timeout would never end: a realm has one thread"), {
      code: "ERR_PIJS_UNSUPPORTED",
    });
  }
  callSync("timer", "timer", { op: "sleep", ms });
  return "timed-out";
}

const members = {
  load: (array: any, index: number) => array[at(array, index)],
  store: (array: any, index: number, value: any) => {
    array[at(array, index)] = value;
    return typeof value === "bigint" ? value : Math.trunc(Number(value)) || 0;
  },
  add: (array: any, index: number, value: any) => update(array, index, (before) => before + value),
  sub: (array: any, index: number, value: any) => update(array, index, (before) => before - value),
  and: (array: any, index: number, value: any) => update(array, index, (before) => before & value),
  or: (array: any, index: number, value: any) => update(array, index, (before) => before | value),
  xor: (array: any, index: number, value: any) => update(array, index, (before) => before ^ value),
  exchange: (array: any, index: number, value: any) => update(array, index, () => value),
  compareExchange: (array: any, index: number, expected: any, value: any) =>
    update(array, index, (before) => (before === expected ? value : before)),
  isLockFree: (size: number) => [1, 2, 4, 8].includes(size),
  /** Returns 0: no other thread can wait. */
  notify: (array: any, index: number) => {
    at(array, index);
    return 0;
  },
  wait,
};

export const Atomics: object = {};
for (const [name, value] of Object.entries(members)) {
  Object.defineProperty(Atomics, name, { value, writable: true, configurable: true });
}
Object.defineProperty(Atomics, Symbol.toStringTag, { value: "Atomics", configurable: true });
