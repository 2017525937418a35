/** `pi:node/v8/deserializer`: reads V8's serialisation format. */

import { Buffer } from "node:buffer";
import { coded } from "pi:node/errors";
import { ERRORS, ErrorTag, FLAGS, HOST_BUFFER, HOST_VIEWS, OLDEST, Tag, VERSION, VIEWS } from "pi:node/v8/wire";

const broken = (more: string = "") => new Error(`Unable to deserialize cloned data${more}.`);

export class Deserializer {
  /** The serialised input. */
  buffer: ArrayBufferView;
  #bytes: Uint8Array;
  #view: DataView;
  #at = 0;
  #version = 0;
  #known: unknown[] = [];
  #transferred = new Map<number, ArrayBuffer>();

  constructor(buffer: ArrayBufferView) {
    if (!ArrayBuffer.isView(buffer)) throw coded(TypeError, "ERR_INVALID_ARG_TYPE", "buffer must be a TypedArray or a DataView");
    this.buffer = buffer;
    this.#bytes = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
    this.#view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  }

  readHeader(): boolean {
    const version = this.#bytes[0] === Tag.version ? this.#bytes[1] : undefined;
    if (version !== undefined && version >= OLDEST && version <= VERSION) {
      this.#at = 2;
      this.#version = version;
      return true;
    }
    throw broken(" due to invalid or unsupported version");
  }

  readValue(): any {
    return this.#value();
  }

  getWireFormatVersion(): number {
    return this.#version;
  }

  transferArrayBuffer(id: number, buffer: ArrayBuffer): void {
    this.#transferred.set(id, buffer);
  }

  readUint32(): number {
    return this.#varint() >>> 0;
  }

  readUint64(): [number, number] {
    let value = 0n;
    let byte = 0x80;
    for (let shift = 0n; byte & 0x80; shift += 7n) {
      byte = this.#byte();
      value |= BigInt(byte & 0x7f) << shift;
    }
    return [Number((value >> 32n) & 0xffff_ffffn), Number(value & 0xffff_ffffn)];
  }

  readDouble(): number {
    const at = this.#take(8);
    return this.#view.getFloat64(at, true);
  }

  /** Consumes the next `length` bytes. Returns their position. */
  _readRawBytes(length: number): number {
    return this.#take(length);
  }

  readRawBytes(length: number): Buffer {
    const at = this._readRawBytes(length);
    return Buffer.from(this.buffer.buffer as ArrayBuffer, this.buffer.byteOffset + at, length);
  }

  // Bytes

  #take(count: number): number {
    if (!(count >= 0) || this.#at + count > this.#bytes.length) throw broken();
    const at = this.#at;
    this.#at += count;
    return at;
  }
  #byte(): number {
    return this.#bytes[this.#take(1)]!;
  }
  #varint(): number {
    let value = 0;
    let byte = 0x80;
    for (let scale = 1; byte & 0x80; scale *= 128) {
      byte = this.#byte();
      // Digits beyond 32 bits are read and ignored, as in V8.
      if (scale < 2 ** 35) value += (byte & 0x7f) * scale;
    }
    return value % 2 ** 32;
  }
  #slice(length: number): Uint8Array {
    const at = this.#take(length);
    return this.#bytes.subarray(at, at + length);
  }
  #tag(): number {
    let tag: number = Tag.padding;
    while (tag === Tag.padding) tag = this.#byte();
    return tag;
  }
  #peek(): number | undefined {
    while (this.#bytes[this.#at] === Tag.padding) this.#at++;
    return this.#bytes[this.#at];
  }

  // Values

  /** Registers an object for later references before its members are read. */
  #keep<T>(value: T): T {
    this.#known.push(value);
    return value;
  }

  #value(): any {
    return this.#tagged(this.#tag());
  }

  #tagged(tag: number): any {
    switch (tag) {
      case Tag.undefined: return undefined;
      case Tag.null: return null;
      case Tag.true: return true;
      case Tag.false: return false;
      case Tag.int: {
        const value = this.#varint();
        return (value >>> 1) ^ -(value & 1);
      }
      case Tag.unsigned: return this.#varint();
      case Tag.double: return this.readDouble();
      case Tag.bigint: return this.#bigint();
      case Tag.utf8: case Tag.oneByte: case Tag.twoByte: return this.#textOf(tag);
      case Tag.reference: {
        const id = this.#varint();
        if (id >= this.#known.length) throw broken();
        return this.#known[id];
      }
      case Tag.object: {
        const object = this.#keep({});
        if (this.#members(object, Tag.objectEnd) !== this.#varint()) throw broken();
        return object;
      }
      case Tag.dense: return this.#dense();
      case Tag.sparse: return this.#sparse();
      case Tag.date: return this.#keep(new Date(this.readDouble()));
      case Tag.trueObject: return this.#keep(Object(true));
      case Tag.falseObject: return this.#keep(Object(false));
      case Tag.numberObject: return this.#keep(Object(this.readDouble()));
      case Tag.bigintObject: return this.#keep(Object(this.#bigint()));
      case Tag.stringObject: return this.#keep(Object(this.#text()));
      case Tag.regexp: {
        const source = this.#text();
        const bits = this.#varint();
        return this.#keep(new RegExp(source, FLAGS.map(([flag, bit]) => (bits & bit ? flag : "")).join("")));
      }
      case Tag.map: {
        const map = this.#keep(new Map());
        const read = this.#items(Tag.mapEnd, () => map.set(this.#value(), this.#value())) * 2;
        if (read !== this.#varint()) throw broken();
        return map;
      }
      case Tag.set: {
        const set = this.#keep(new Set());
        const read = this.#items(Tag.setEnd, () => set.add(this.#value()));
        if (read !== this.#varint()) throw broken();
        return set;
      }
      case Tag.buffer: {
        const bytes = this.#slice(this.#varint());
        return this.#afterBuffer(this.#keep(bytes.slice().buffer));
      }
      case "t".charCodeAt(0): {
        const buffer = this.#transferred.get(this.#varint());
        if (!buffer) throw broken();
        return this.#afterBuffer(this.#keep(buffer));
      }
      case Tag.error: return this.#error();
      case Tag.host: {
        const id = this.#known.length;
        this.#keep(undefined);
        const read = (this as any)._readHostObject;
        if (typeof read !== "function") throw broken();
        return (this.#known[id] = read.call(this));
      }
      default: throw broken();
    }
  }

  #bigint(): bigint {
    const bits = this.#varint();
    const at = this.#take(Math.floor(bits / 2));
    let value = 0n;
    for (let next = this.#at - 1; next >= at; next--) value = (value << 8n) | BigInt(this.#bytes[next]!);
    return bits % 2 ? -value : value;
  }

  #textOf(tag: number): string {
    const bytes = this.#slice(this.#varint());
    if (tag === Tag.twoByte && bytes.length % 2) throw broken();
    const text = Buffer.from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length);
    return text.toString(tag === Tag.utf8 ? "utf8" : tag === Tag.oneByte ? "latin1" : "utf16le");
  }

  #text(): string {
    const tag = this.#tag();
    if (tag !== Tag.utf8 && tag !== Tag.oneByte && tag !== Tag.twoByte) throw broken();
    return this.#textOf(tag);
  }

  #items(end: number, read: () => void): number {
    let count = 0;
    for (; this.#peek() !== end; count++) read();
    this.#at++;
    return count;
  }

  #members(object: any, end: number): number {
    return this.#items(end, () => {
      const key = this.#value();
      if (typeof key !== "string" && typeof key !== "number") throw broken();
      // Defines a property without calling a setter or changing the prototype.
      Object.defineProperty(object, key, { value: this.#value(), writable: true, enumerable: true, configurable: true });
    });
  }

  #dense(): unknown[] {
    const length = this.#varint();
    // Each element takes at least one byte.
    if (length > this.#bytes.length - this.#at) throw broken();
    const array: unknown[] = this.#keep(new Array(length));
    for (let at = 0; at < length; at++) {
      if (this.#peek() === Tag.hole) this.#at++;
      else array[at] = this.#value();
    }
    return this.#arrayEnd(array, Tag.denseEnd, length);
  }

  #sparse(): unknown[] {
    const length = this.#varint();
    return this.#arrayEnd(this.#keep(new Array(length)), Tag.sparseEnd, length);
  }

  #arrayEnd(array: unknown[], end: number, length: number): unknown[] {
    const read = this.#members(array, end);
    if (read !== this.#varint() || length !== this.#varint()) throw broken();
    return array;
  }

  /** Returns the buffer, or the view of it if one follows. */
  #afterBuffer(buffer: ArrayBuffer): unknown {
    if (this.#peek() !== Tag.view) return buffer;
    this.#at++;
    const kind = this.#byte();
    const Kind = VIEWS.find(([letter]) => letter === kind)?.[1];
    const [offset, length] = [this.#varint(), this.#varint()];
    if (this.#version >= 14) this.#varint();
    const size = Kind?.BYTES_PER_ELEMENT ?? 1;
    if (!Kind || offset % size || length % size || offset + length > buffer.byteLength) throw broken();
    return this.#keep(new Kind(buffer, offset, length / size));
  }

  #error(): Error {
    const id = this.#known.length;
    this.#keep(undefined);
    let Kind: ErrorConstructor = Error;
    const values: Record<string, unknown> = {};
    for (let tag = this.#byte(); tag !== ErrorTag.end; tag = this.#byte()) {
      if (tag === ErrorTag.message) values["message"] = this.#text();
      else if (tag === ErrorTag.stack) values["stack"] = this.#text();
      else if (tag === ErrorTag.cause) values["cause"] = this.#value();
      else {
        const named = ERRORS.find(([letter]) => letter === tag);
        if (!named) throw broken();
        Kind = named[1];
      }
    }
    const error = new Kind();
    for (const name of ["message", "stack", "cause"]) {
      if (name in values) Object.defineProperty(error, name, { value: values[name], writable: true, enumerable: false, configurable: true });
    }
    this.#known[id] = error;
    return error;
  }
}

export class DefaultDeserializer extends Deserializer {
  _readHostObject(): ArrayBufferView {
    const kind = this.readUint32();
    const length = this.readUint32();
    const bytes = this.readRawBytes(length);
    if (kind === HOST_BUFFER) return bytes;
    const Kind = HOST_VIEWS[kind];
    if (!Kind) throw broken();
    const size = Kind.BYTES_PER_ELEMENT ?? 1;
    if (bytes.byteOffset % size === 0) return new Kind(bytes.buffer, bytes.byteOffset, length / size);
    // Copied to an offset with the alignment of the elements.
    return new Kind(new Uint8Array(bytes).buffer, 0, length / size);
  }
}
