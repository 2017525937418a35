/**
 * `node:buffer`: Buffer, a Uint8Array with text and number methods.
 *
 * Buffers share memory exactly where Node's do: `Buffer.from(arrayBuffer)`, `slice` and `subarray` share,
 * `from(array)`, `from(buffer)` and `concat` copy. There is no pool, so `byteOffset` of a new buffer is 0.
 */

import { importSync } from "pi:engine";
import { coded, invalidArgType, outOfRange } from "pi:node/errors";
import { checkedEncoding, decodeText, encodeText, knownEncoding, textLength } from "pi:node/buffer/codec";
import { defineNumbers } from "pi:node/buffer/numbers";
import { atob as decodeBase64, btoa as encodeBase64 } from "pi:web/base64";
import { Blob as BlobClass, File as FileClass } from "pi:web/blob";

export const kMaxLength = 2 ** 31 - 1;
export const constants = { MAX_LENGTH: kMaxLength, MAX_STRING_LENGTH: 2 ** 29 - 24 };
export const INSPECT_MAX_BYTES = 50;
export const Blob = BlobClass;
export const File = FileClass;
export const atob = decodeBase64;
export const btoa = encodeBase64;

const BYTES = "an instance of Buffer or Uint8Array";

/** Returns a view of the same memory as a Buffer. */
function adopt(bytes: Uint8Array): Buffer {
  return Object.setPrototypeOf(bytes, Buffer.prototype);
}

function allocate(size: unknown, name: string = "size"): Buffer {
  if (typeof size !== "number") throw invalidArgType(name, "of type number", size);
  if (!(size >= 0 && size <= kMaxLength)) throw outOfRange(name, ">= 0 && <= 9007199254740991", size);
  return adopt(new Uint8Array(size));
}

function isBuffer(value: unknown): value is ArrayBuffer {
  return Object.prototype.toString.call(value) === "[object ArrayBuffer]";
}

function fromAny(value: any, second?: any, length?: number): Buffer {
  if (typeof value === "string") return adopt(encodeText(value, checkedEncoding(second)));
  if (typeof value === "object" && value !== null) {
    if (isBuffer(value)) {
      const offset = second === undefined ? 0 : Number(second) || 0;
      if (offset > value.byteLength) throw coded(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", '"offset" is outside of buffer bounds');
      const size = length === undefined ? value.byteLength - offset : Math.max(0, Number(length) || 0);
      if (offset + size > value.byteLength) throw coded(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", '"length" is outside of buffer bounds');
      return adopt(new Uint8Array(value, offset, size));
    }
    if (value instanceof Uint8Array) return adopt(Uint8Array.prototype.slice.call(new Uint8Array(value.buffer, value.byteOffset, value.byteLength)));
    const primitive = value.valueOf?.();
    if (primitive !== undefined && primitive !== null && primitive !== value && (typeof primitive === "string" || typeof primitive === "object")) {
      return fromAny(primitive, second, length);
    }
    if (value.length !== undefined) return adopt(Uint8Array.from(typeof value.length === "number" && value.length > 0 ? (value as ArrayLike<number>) : []));
    if (value.type === "Buffer" && Array.isArray(value.data)) return adopt(Uint8Array.from(value.data as number[]));
    const toPrimitive = value[Symbol.toPrimitive];
    if (typeof toPrimitive === "function") {
      const text = toPrimitive.call(value, "string");
      if (typeof text === "string") return fromAny(text, second);
    }
  }
  throw invalidArgType("first argument", "of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object", value);
}

function bytesOf(value: unknown, name: string): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw invalidArgType(name, BYTES, value);
}

function compareBytes(a: Uint8Array, b: Uint8Array): -1 | 0 | 1 {
  const shared = Math.min(a.length, b.length);
  for (let at = 0; at < shared; at++) if (a[at] !== b[at]) return a[at]! < b[at]! ? -1 : 1;
  return a.length === b.length ? 0 : a.length < b.length ? -1 : 1;
}

class BufferClass extends Uint8Array {
  static poolSize = 8192;

  static override from(value: any, second?: any, length?: any): any {
    return fromAny(value, second, length);
  }
  static override of(...items: number[]): any {
    return adopt(Uint8Array.of(...items));
  }
  static alloc(size: number, fill?: string | number | Uint8Array, encoding?: string): Buffer {
    const buffer = allocate(size);
    return fill === undefined || fill === 0 ? buffer : buffer.fill(fill as any, encoding as any);
  }
  static allocUnsafe(size: number): Buffer {
    return allocate(size);
  }
  static allocUnsafeSlow(size: number): Buffer {
    return allocate(size);
  }
  static isBuffer(value: unknown): value is Buffer {
    return value instanceof Buffer;
  }
  static isEncoding(name: unknown): boolean {
    return typeof name === "string" && name !== "" && knownEncoding(name) !== undefined;
  }
  static byteLength(value: any, encoding?: string): number {
    if (typeof value === "string") return textLength(value, knownEncoding(encoding) ?? "utf8");
    if (ArrayBuffer.isView(value) || isBuffer(value)) return value.byteLength;
    throw invalidArgType("string", "of type string or an instance of Buffer or ArrayBuffer", value);
  }
  static compare(a: Uint8Array, b: Uint8Array): -1 | 0 | 1 {
    return compareBytes(bytesOf(a, "buf1"), bytesOf(b, "buf2"));
  }
  static concat(list: readonly Uint8Array[], total?: number): Buffer {
    if (!Array.isArray(list)) throw invalidArgType("list", "an instance of Array", list);
    const size = total ?? list.reduce((sum, item, index) => sum + bytesOf(item, `list[${index}]`).length, 0);
    const all = allocate(size, "length");
    let at = 0;
    for (const [index, item] of list.entries()) {
      const bytes = bytesOf(item, `list[${index}]`);
      if (at + bytes.length > all.length) {
        all.set(bytes.subarray(0, all.length - at), at);
        break;
      }
      all.set(bytes, at);
      at += bytes.length;
    }
    return all;
  }
  static copyBytesFrom(view: ArrayBufferView, offset: number = 0, length?: number): Buffer {
    const size = (view as Uint8Array).BYTES_PER_ELEMENT ?? 1;
    const end = length === undefined ? undefined : (offset + length) * size;
    return adopt(new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice(offset * size, end));
  }

  get parent(): ArrayBufferLike {
    return this.buffer;
  }
  get offset(): number {
    return this.byteOffset;
  }

  override toString(encoding?: any, start: number = 0, end: number = this.length): string {
    const name = checkedEncoding(encoding);
    const from = Math.max(0, Math.trunc(start) || 0);
    const to = Math.min(this.length, Math.trunc(end) || 0);
    if (to <= from) return "";
    return decodeText(from === 0 && to === this.length ? this : Uint8Array.prototype.subarray.call(this, from, to), name);
  }
  override toLocaleString(encoding?: any): string {
    return this.toString(encoding);
  }
  toJSON(): { type: "Buffer"; data: number[] } {
    return { type: "Buffer", data: Array.from(this) };
  }
  equals(other: Uint8Array): boolean {
    return this === other || compareBytes(this, bytesOf(other, "otherBuffer")) === 0;
  }
  compare(target: Uint8Array, targetStart: number = 0, targetEnd: number = target.length, start: number = 0, end: number = this.length): -1 | 0 | 1 {
    bytesOf(target, "target");
    return compareBytes(this.subarray(start, end), new Uint8Array(target.buffer, target.byteOffset, target.length).subarray(targetStart, targetEnd));
  }

  /** Writes whole characters: `(text[, encoding])`, `(text, offset[, encoding])`, `(text, offset, length[, encoding])`. */
  write(text: string, offset?: any, length?: any, encoding?: any): number {
    if (typeof text !== "string") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", "argument must be a string");
    if (typeof offset === "string") [encoding, offset, length] = [offset, undefined, undefined];
    else if (typeof length === "string") [encoding, length] = [length, undefined];
    const at = offset ?? 0;
    if (at < 0 || at > this.length) throw outOfRange("offset", `>= 0 && <= ${this.length}`, at);
    const room = Math.min(length ?? this.length - at, this.length - at);
    const name = checkedEncoding(encoding);
    let bytes = encodeText(text, name);
    if (bytes.length > room) {
      let end = room;
      if (name === "utf8") while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--;
      if (name === "utf16le") end &= ~1;
      bytes = bytes.subarray(0, end);
    }
    this.set(bytes, at);
    return bytes.length;
  }

  copy(target: Uint8Array, targetStart: number = 0, start: number = 0, end: number = this.length): number {
    bytesOf(target, "target");
    if (targetStart < 0) throw outOfRange("targetStart", ">= 0", targetStart);
    if (start < 0 || start > this.length) throw outOfRange("sourceStart", `>= 0 && <= ${this.length}`, start);
    if (targetStart >= target.length || start >= end) return 0;
    const count = Math.min(end - start, this.length - start, target.length - targetStart);
    target.set(Uint8Array.prototype.subarray.call(this, start, start + count), targetStart);
    return count;
  }

  override slice(start?: number, end?: number): any {
    return this.subarray(start, end);
  }
  override subarray(start?: number, end?: number): any {
    const part = Uint8Array.prototype.subarray.call(new Uint8Array(this.buffer, this.byteOffset, this.byteLength), start, end);
    return adopt(part);
  }

  override fill(value: any, start?: any, end?: any, encoding?: any): this {
    if (typeof start === "string") [encoding, start, end] = [start, undefined, undefined];
    else if (typeof end === "string") [encoding, end] = [end, undefined];
    const from = start ?? 0;
    const to = end ?? this.length;
    if (from < 0 || from > this.length) throw outOfRange("offset", `>= 0 && <= ${this.length}`, from);
    if (to < 0 || to > this.length) throw outOfRange("end", `>= 0 && <= ${this.length}`, to);
    if (typeof value === "number" || typeof value === "boolean") {
      Uint8Array.prototype.fill.call(this, Number(value) & 255, from, to);
      return this;
    }
    const pattern = typeof value === "string" ? encodeText(value, checkedEncoding(encoding)) : value instanceof Uint8Array ? value : new Uint8Array(1);
    if (pattern.length === 0) {
      if (typeof value !== "string" || value.length > 0) throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'value' is invalid. Received '${String(value)}'`);
      Uint8Array.prototype.fill.call(this, 0, from, to);
      return this;
    }
    for (let at = from; at < to; at++) this[at] = pattern[(at - from) % pattern.length]!;
    return this;
  }

  override indexOf(value: any, offset?: any, encoding?: any): number {
    return find(this, value, offset, encoding, true);
  }
  override lastIndexOf(value: any, offset?: any, encoding?: any): number {
    return find(this, value, offset, encoding, false);
  }
  override includes(value: any, offset?: any, encoding?: any): boolean {
    return find(this, value, offset, encoding, true) >= 0;
  }

  swap16(): this {
    return swap(this, 2);
  }
  swap32(): this {
    return swap(this, 4);
  }
  swap64(): this {
    return swap(this, 8);
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    const shown = Array.from(Uint8Array.prototype.subarray.call(this, 0, INSPECT_MAX_BYTES), (byte) => (byte + 0x100).toString(16).slice(1)).join(" ");
    const more = this.length - INSPECT_MAX_BYTES;
    const tail = more > 0 ? ` ... ${more} more byte${more > 1 ? "s" : ""}` : "";
    // Shows own properties too.
    const names = Object.keys(this).filter((name) => !/^\d+$/.test(name));
    const { inspect } = names.length > 0 ? importSync("pi:node/util/inspect") : { inspect: undefined };
    const extras = names.map((name) => `, ${name}: ${inspect((this as any)[name])}`).join("");
    return `<${this.constructor.name} ${shown}${tail}${shown === "" ? extras.slice(2) : extras}>`;
  }
  inspect(): string {
    return (this as any)[Symbol.for("nodejs.util.inspect.custom")]();
  }
}

function swap<B extends Uint8Array>(buffer: B, size: number): B {
  if (buffer.length % size !== 0) throw coded(RangeError, "ERR_INVALID_BUFFER_SIZE", `Buffer size must be a multiple of ${size * 8}-bits`);
  for (let at = 0; at < buffer.length; at += size) Uint8Array.prototype.subarray.call(buffer, at, at + size).reverse();
  return buffer;
}

/** Returns the position of a byte, a text or bytes in `buffer`, searching from `offset` in the given direction. */
function find(buffer: Uint8Array, value: any, offset: any, encoding: any, forwards: boolean): number {
  if (typeof offset === "string") [encoding, offset] = [offset, undefined];
  let start = offset === undefined ? Number.NaN : Math.trunc(Number(offset));
  if (Number.isNaN(start)) start = forwards ? 0 : buffer.length;
  if (start < 0) start += buffer.length;
  if (typeof value === "number") {
    const byte = value & 255;
    if (forwards) return Uint8Array.prototype.indexOf.call(buffer, byte, Math.max(0, start));
    return start < 0 ? -1 : Uint8Array.prototype.lastIndexOf.call(buffer, byte, start);
  }
  const needle = typeof value === "string" ? encodeText(value, checkedEncoding(encoding)) : value;
  if (!(needle instanceof Uint8Array)) throw invalidArgType("value", "one of type number or string or an instance of Buffer or Uint8Array", value);
  const last = buffer.length - needle.length;
  if (forwards) {
    start = Math.max(0, start);
    if (needle.length === 0) return Math.min(start, buffer.length);
    for (let at = start; at <= last; at++) {
      at = Uint8Array.prototype.indexOf.call(buffer, needle[0]!, at);
      if (at < 0 || at > last) return -1;
      if (matches(buffer, needle, at)) return at;
    }
    return -1;
  }
  for (let at = Math.min(start, last); at >= 0; at--) if (matches(buffer, needle, at)) return at;
  return -1;
}

function matches(buffer: Uint8Array, needle: Uint8Array, at: number): boolean {
  for (let step = 0; step < needle.length; step++) if (buffer[at + step] !== needle[step]) return false;
  return true;
}

defineNumbers(BufferClass.prototype);
for (const encoding of ["utf8", "latin1", "ascii", "ucs2", "base64", "base64url", "hex"]) {
  Object.defineProperty(BufferClass.prototype, `${encoding}Slice`, {
    value(this: Buffer, start?: number, end?: number) {
      return this.toString(encoding, start, end);
    },
  });
  Object.defineProperty(BufferClass.prototype, `${encoding}Write`, {
    value(this: Buffer, text: string, offset?: number, length?: number) {
      return this.write(text, offset, length, encoding);
    },
  });
}

/** The number methods, which the table in `numbers.ts` defines. */
interface Numbers {
  [method: `read${string}`]: (offset?: number, byteLength?: number) => any;
  [method: `write${"Int" | "UInt" | "Uint" | "Big" | "Float" | "Double"}${string}`]: (value: any, offset?: number, byteLength?: number) => number;
}

export type Buffer = BufferClass & Numbers;

/** Old code calls `Buffer(...)` without `new`, so the constructor is a function. */
export const Buffer = function Buffer(value: any, second?: any, length?: any): Buffer {
  return typeof value === "number" ? allocate(value) : fromAny(value, second, length);
} as unknown as Omit<typeof BufferClass, "prototype"> & { prototype: Buffer } & ((value: any, second?: any, length?: any) => Buffer);

/** Old code calls `new Buffer.alloc(0)`, which fails for a class method. */
function constructible(name: string, method: (...args: any[]) => unknown): unknown {
  const made = { [name]: function (...args: any[]) { return method(...args); } }[name]!;
  return Object.defineProperty(made, "length", { value: method.length, configurable: true });
}

for (const name of Object.getOwnPropertyNames(BufferClass)) {
  if (!["prototype", "length", "name"].includes(name)) {
    const descriptor = Object.getOwnPropertyDescriptor(BufferClass, name)!;
    if (typeof descriptor.value === "function") descriptor.value = constructible(name, descriptor.value);
    Object.defineProperty(Buffer, name, { ...descriptor, enumerable: true });
  }
}
Object.setPrototypeOf(Buffer, Uint8Array);
(Buffer as any).prototype = BufferClass.prototype;
Object.defineProperty(BufferClass.prototype, "constructor", { value: Buffer, writable: true, configurable: true });
// Makes Uint8Array's own methods (map, filter) return a Buffer.
Object.defineProperty(Buffer, Symbol.species, { get: () => Buffer, configurable: true });

export const SlowBuffer = Buffer;

export function isUtf8(bytes: ArrayBuffer | ArrayBufferView): boolean {
  const buffer = ArrayBuffer.isView(bytes) ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) : Buffer.from(bytes);
  return buffer.equals(Buffer.from(buffer.toString("utf8")));
}
export function isAscii(bytes: ArrayBuffer | ArrayBufferView): boolean {
  const buffer = ArrayBuffer.isView(bytes) ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) : Buffer.from(bytes);
  return buffer.every((byte: number) => byte < 0x80);
}
export function transcode(source: Uint8Array, from: string, to: string): Buffer {
  const text = decodeText(source, checkedEncoding(from));
  // Replaces a character without a byte with a question mark.
  return Buffer.from(/^(?:latin1|binary|ascii)$/i.test(to) ? text.replace(to.toLowerCase() === "ascii" ? /[^\0-\x7f]/gu : /[^\0-\xff]/gu, "?") : text, to);
}

export const kStringMaxLength: number = constants.MAX_STRING_LENGTH;
/** Returns undefined: a realm has no object URLs. */
export function resolveObjectURL(): undefined {
  return undefined;
}

export default { kStringMaxLength, resolveObjectURL, Buffer, SlowBuffer, Blob, File, atob, btoa, constants, kMaxLength, INSPECT_MAX_BYTES, isUtf8, isAscii, transcode };
