/** `pi:node/v8/serializer`: writes V8's serialisation format. */

import { Buffer } from "node:buffer";
import { inspect } from "node:util";
import { invalidArgType } from "pi:node/errors";
import { ERRORS, ErrorTag, FLAGS, HOST_BUFFER, HOST_VIEWS, Tag, VERSION, VIEWS } from "pi:node/v8/wire";
import { hasMembersOnly, refusal } from "pi:web/clone";

const INDEX = /^(?:0|[1-9]\d{0,9})$/;

/** Returns the index or number that a key represents in V8. */
function numberOf(key: string): number | undefined {
  return INDEX.test(key) && Number(key) < 2 ** 32 - 1 ? Number(key) : undefined;
}

/** Tests the internal kind of `value`; unlike `toString` it does not read `Symbol.toStringTag`. */
const isA = <T>(read: (this: T) => unknown) => (value: any): value is T => {
  try {
    read.call(value);
    return true;
  } catch {
    return false;
  }
};
const getter = (prototype: object, name: string): any => Object.getOwnPropertyDescriptor(prototype, name)!.get;
const isMap = isA<Map<unknown, unknown>>(getter(Map.prototype, "size"));
const isSet = isA<Set<unknown>>(getter(Set.prototype, "size"));
const isBuffer = isA<ArrayBuffer>(getter(ArrayBuffer.prototype, "byteLength"));
const isDate = isA<Date>(Date.prototype.getTime);

export class Serializer {
  #bytes = new Uint8Array(64);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;
  #known = new Map<object, number>();
  #transferred = new Map<object, number>();
  #viewsAreHostObjects = false;

  writeHeader(): void {
    this.#put(Tag.version);
    this.#put(VERSION);
  }

  /** Writes a value. Returns true, as in Node. Throws for unsupported values. */
  writeValue(value: unknown): boolean {
    this.#value(value);
    return true;
  }

  /** Returns the output and empties the serializer. */
  releaseBuffer(): Buffer {
    const written = Buffer.from(this.#bytes.subarray(0, this.#length));
    this.#length = 0;
    this.#known.clear();
    return written;
  }

  transferArrayBuffer(id: number, buffer: ArrayBuffer): void {
    this.#transferred.set(buffer, id);
  }

  writeUint32(value: number): void {
    this.#varint(value >>> 0);
  }

  writeUint64(high: number, low: number): void {
    let rest = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
    for (; rest > 0x7fn; rest >>= 7n) this.#put(Number(rest & 0x7fn) | 0x80);
    this.#put(Number(rest));
  }

  writeDouble(value: number): void {
    this.#room(8);
    this.#view.setFloat64(this.#length, value, true);
    this.#length += 8;
  }

  writeRawBytes(source: ArrayBufferView): void {
    if (!ArrayBuffer.isView(source)) throw invalidArgType("source", "an instance of Buffer, TypedArray, or DataView", source);
    this.#raw(new Uint8Array(source.buffer, source.byteOffset, source.byteLength));
  }

  _setTreatArrayBufferViewsAsHostObjects(flag: boolean): void {
    this.#viewsAreHostObjects = Boolean(flag);
  }

  // Bytes

  #room(count: number): void {
    if (this.#length + count <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(this.#bytes.length * 2, this.#length + count));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
  }
  #put(byte: number): void {
    this.#room(1);
    this.#bytes[this.#length++] = byte;
  }
  #raw(bytes: Uint8Array): void {
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }
  #varint(value: number): void {
    for (; value > 0x7f; value = Math.floor(value / 128)) this.#put((value % 128) | 0x80);
    this.#put(value);
  }

  // Values

  #number(value: number): void {
    if (Number.isInteger(value) && value === (value | 0) && !Object.is(value, -0)) {
      this.#put(Tag.int);
      this.#varint(((value << 1) ^ (value >> 31)) >>> 0);
    } else {
      this.#put(Tag.double);
      this.writeDouble(value);
    }
  }

  #text(text: string): void {
    let wide = false;
    for (let at = 0; at < text.length && !wide; at++) wide = text.charCodeAt(at) > 0xff;
    if (!wide) {
      this.#put(Tag.oneByte);
      this.#varint(text.length);
      this.#raw(Buffer.from(text, "latin1"));
      return;
    }
    const size = text.length * 2;
    // UTF-16 units are aligned to two bytes.
    let digits = 1;
    for (let rest = size; rest > 0x7f; rest = Math.floor(rest / 128)) digits++;
    if ((this.#length + 1 + digits) % 2 === 1) this.#put(Tag.padding);
    this.#put(Tag.twoByte);
    this.#varint(size);
    this.#raw(Buffer.from(text, "utf16le"));
  }

  #bigint(value: bigint): void {
    let rest = value < 0n ? -value : value;
    const digits: bigint[] = [];
    for (; rest > 0n; rest >>= 64n) digits.push(rest & 0xffff_ffff_ffff_ffffn);
    this.#varint(digits.length * 16 + (value < 0n ? 1 : 0));
    for (const digit of digits) {
      this.#room(8);
      this.#view.setBigUint64(this.#length, digit, true);
      this.#length += 8;
    }
  }

  #value(value: any): void {
    switch (typeof value) {
      case "undefined": return this.#put(Tag.undefined);
      case "boolean": return this.#put(value ? Tag.true : Tag.false);
      case "number": return this.#number(value);
      case "string": return this.#text(value);
      case "bigint":
        this.#put(Tag.bigint);
        return this.#bigint(value);
      case "object":
        if (value === null) return this.#put(Tag.null);
        if (ArrayBuffer.isView(value) && !this.#viewsAreHostObjects && !this.#known.has(value)) this.#object(value.buffer);
        return this.#object(value);
      default: this.#refuse(value);
    }
  }

  #refuse(value: unknown): never {
    const Failure = (this as any)._getDataCloneError;
    throw new Failure(refusal(value));
  }

  #object(value: any): void {
    const before = this.#known.get(value);
    if (before !== undefined) {
      this.#put(Tag.reference);
      return this.#varint(before);
    }
    this.#known.set(value, this.#known.size);
    if (Array.isArray(value)) return this.#array(value);
    if (ArrayBuffer.isView(value)) return this.#viewsAreHostObjects ? this.#host(value) : this.#viewOf(value);
    if (isBuffer(value)) return this.#buffer(value);
    if (isDate(value)) {
      this.#put(Tag.date);
      return this.writeDouble(Date.prototype.getTime.call(value));
    }
    if (isMap(value)) return this.#collection(Tag.map, Tag.mapEnd, [...value].flat());
    if (isSet(value)) return this.#collection(Tag.set, Tag.setEnd, [...value]);
    if (value instanceof RegExp) return this.#regexp(value);
    if (value instanceof Error) return this.#error(value);
    if (value instanceof Boolean) return this.#put(value.valueOf() ? Tag.trueObject : Tag.falseObject);
    if (value instanceof Number) {
      this.#put(Tag.numberObject);
      return this.writeDouble(value.valueOf());
    }
    if (value instanceof String) {
      this.#put(Tag.stringObject);
      return this.#text(value.valueOf());
    }
    if (value instanceof BigInt) {
      this.#put(Tag.bigintObject);
      return this.#bigint(value.valueOf() as bigint);
    }
    if (!hasMembersOnly(value)) this.#refuse(value);
    this.#put(Tag.object);
    const written = this.#members(value, Object.keys(value));
    this.#put(Tag.objectEnd);
    this.#varint(written);
  }

  /** Writes the remaining members. Returns their number. */
  #members(value: any, keys: string[]): number {
    let written = 0;
    for (const key of keys) {
      // A getter may have removed a later key.
      if (!Object.hasOwn(value, key)) continue;
      const number = numberOf(key);
      if (number === undefined) this.#text(key);
      else this.#number(number);
      this.#value(value[key]);
      written++;
    }
    return written;
  }

  #array(value: any[]): void {
    const { length } = value;
    const keys = Object.keys(value);
    const named = keys.filter((key) => numberOf(key) === undefined);
    const dense = keys.length - named.length === length;
    this.#put(dense ? Tag.dense : Tag.sparse);
    this.#varint(length);
    for (let at = 0; dense && at < length; at++) {
      if (at in value) this.#value(value[at]);
      else this.#put(Tag.hole);
    }
    const written = this.#members(value, dense ? named : keys);
    this.#put(dense ? Tag.denseEnd : Tag.sparseEnd);
    this.#varint(written);
    this.#varint(length);
  }

  #collection(begin: number, end: number, items: unknown[]): void {
    this.#put(begin);
    for (const item of items) this.#value(item);
    this.#put(end);
    this.#varint(items.length);
  }

  #regexp(value: RegExp): void {
    this.#put(Tag.regexp);
    this.#text(value.source);
    this.#varint(FLAGS.reduce((bits, [flag, bit]) => (value.flags.includes(flag) ? bits + bit : bits), 0));
  }

  #error(value: any): void {
    this.#put(Tag.error);
    const kind = ERRORS.find(([, Kind]) => Kind.prototype.name === value.name);
    if (kind) this.#put(kind[0]);
    if (Object.hasOwn(value, "message")) {
      this.#put(ErrorTag.message);
      this.#text(String(value.message));
    }
    if (typeof value.stack === "string") {
      this.#put(ErrorTag.stack);
      this.#text(value.stack);
    }
    if (Object.hasOwn(value, "cause")) {
      this.#put(ErrorTag.cause);
      this.#value(value.cause);
    }
    this.#put(ErrorTag.end);
  }

  #buffer(value: ArrayBuffer): void {
    const id = this.#transferred.get(value);
    if (id !== undefined) {
      this.#put("t".charCodeAt(0));
      return this.#varint(id);
    }
    if ((value as any).detached) throw new (this as any)._getDataCloneError("An ArrayBuffer is detached and could not be cloned.");
    this.#put(Tag.buffer);
    this.#varint(value.byteLength);
    this.#raw(new Uint8Array(value));
  }

  #viewOf(value: ArrayBufferView): void {
    this.#put(Tag.view);
    this.#put(VIEWS.find(([, Kind]) => value instanceof Kind)?.[0] ?? 0);
    this.#varint(value.byteOffset);
    this.#varint(value.byteLength);
    this.#varint(0);
  }

  #host(value: ArrayBufferView): void {
    this.#put(Tag.host);
    const write = (this as any)._writeHostObject;
    if (typeof write !== "function") this.#refuse(value);
    write.call(this, value);
  }
}
// The class of errors about unsupported values; subclasses may replace it.
(Serializer.prototype as any)._getDataCloneError = Error;

export class DefaultSerializer extends Serializer {
  constructor() {
    super();
    this._setTreatArrayBufferViewsAsHostObjects(true);
  }

  _writeHostObject(value: ArrayBufferView): void {
    const kind = value instanceof Buffer ? HOST_BUFFER : HOST_VIEWS.findIndex((Kind) => Kind !== undefined && value instanceof Kind);
    if (kind < 0) throw new (this as any)._getDataCloneError(`Unserializable host object: ${inspect(value)}`);
    this.writeUint32(kind);
    this.writeUint32(value.byteLength);
    this.writeRawBytes(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  }
}
