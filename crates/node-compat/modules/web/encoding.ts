/** `pi:web/encoding`: TextEncoder and TextDecoder (Encoding standard), implemented by the engine. */

import { decode, decodeUtf8, encodeUtf8 } from "pi:engine";
import { coded, invalidArgType } from "pi:node/errors";

type Source = ArrayBuffer | ArrayBufferView;

/** Returns the bytes of a view or a buffer without copying. */
export function viewOf(source: Source): Uint8Array {
  if (source instanceof Uint8Array) return source;
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  throw coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "list" argument must be an instance of SharedArrayBuffer, ArrayBuffer or ArrayBufferView.');
}

export class TextEncoder {
  get encoding(): string {
    return "utf-8";
  }

  [Symbol.for("nodejs.util.inspect.custom")](_depth: number, options: object, inspect: (value: object, options: object) => string): string {
    return inspect({ encoding: this.encoding }, options);
  }

  encode(input: string = ""): Uint8Array {
    return encodeUtf8(String(input).toWellFormed());
  }

  /** Encodes whole characters only. `read` counts UTF-16 units. */
  encodeInto(input: string, target: Uint8Array): { read: number; written: number } {
    if (!(target instanceof Uint8Array)) throw invalidArgType("dest", "an instance of Uint8Array", target);
    let read = 0;
    let written = 0;
    for (const character of String(input)) {
      const code = character.codePointAt(0)!;
      const size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
      if (written + size > target.length) break;
      target.set(encodeUtf8(character.toWellFormed()), written);
      written += size;
      read += character.length;
    }
    return { read, written };
  }

  get [Symbol.toStringTag](): string {
    return "TextEncoder";
  }
}

const UTF8_LABELS = ["utf-8", "utf8", "unicode-1-1-utf-8", "unicode11utf8", "unicode20utf8", "x-unicode20utf8"];

/**
 * A streaming decoder. Calls with `{stream: true}` keep the bytes of an incomplete character. Only UTF-8 and UTF-16
 * detect the end of a character, so a stream in another multi-byte encoding is decoded at its end.
 */
export class TextDecoder {
  readonly encoding: string;
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  #held: Uint8Array = new Uint8Array(0);
  #started = false;

  constructor(label: string = "utf-8", options: { fatal?: boolean; ignoreBOM?: boolean } = {}) {
    const name = String(label).trim().toLowerCase();
    this.fatal = Boolean(options?.fatal);
    this.ignoreBOM = Boolean(options?.ignoreBOM);
    if (UTF8_LABELS.includes(name)) this.encoding = "utf-8";
    else if (["utf-16le", "utf-16", "ucs-2", "unicode", "iso-10646-ucs-2", "csunicode", "unicodefeff"].includes(name)) this.encoding = "utf-16le";
    else if (["latin1", "iso-8859-1", "ascii", "us-ascii", "windows-1252", "cp1252", "l1"].includes(name)) this.encoding = "windows-1252";
    else this.encoding = checkedLabel(name, label);
  }

  decode(input?: Source, options: { stream?: boolean } = {}): string {
    const more = Boolean(options?.stream);
    let bytes = input === undefined ? new Uint8Array(0) : viewOf(input);
    if (this.#held.length > 0) bytes = concat(this.#held, bytes);
    const end = more ? this.#complete(bytes) : bytes.length;
    const ignoreBOM = this.ignoreBOM || this.#started;
    // Keeps a copy of the bytes, since the caller may reuse its buffer.
    const held = more ? bytes.slice(end) : new Uint8Array(0);
    const ready = end === bytes.length ? bytes : bytes.subarray(0, end);
    const text = this.#decode(ready, ignoreBOM);
    this.#held = held;
    this.#started = more && (this.#started || ready.length > 0);
    return text;
  }

  get [Symbol.toStringTag](): string {
    return "TextDecoder";
  }

  #decode(bytes: Uint8Array, ignoreBOM: boolean): string {
    try {
      return this.encoding === "utf-8" ? decodeUtf8(bytes, this.fatal, ignoreBOM) : decode(this.encoding, bytes, this.fatal, ignoreBOM);
    } catch {
      this.#held = new Uint8Array(0);
      this.#started = false;
      throw Object.assign(new TypeError(`The encoded data was not valid for encoding ${this.encoding}`), {
        code: "ERR_ENCODING_INVALID_ENCODED_DATA",
      });
    }
  }

  /** Returns the number of leading bytes that form whole characters. */
  #complete(bytes: Uint8Array): number {
    if (this.encoding === "utf-8") return completeUtf8(bytes);
    if (this.encoding === "windows-1252") return bytes.length;
    if (this.encoding !== "utf-16le") return 0;
    const even = bytes.length & ~1;
    const last = even >= 2 ? bytes[even - 1]! & 0xfc : 0;
    return last === 0xd8 ? even - 2 : even;
  }
}

/** Returns the length of the prefix that ends on a character boundary, determined from the last three bytes. */
export function completeUtf8(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!;
    if (byte < 0x80) break;
    if (byte >= 0xc0) {
      const size = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      return size > back ? bytes.length - back : bytes.length;
    }
  }
  return bytes.length;
}

function checkedLabel(name: string, label: string): string {
  try {
    decode(name, new Uint8Array(0), false, false);
    return name;
  } catch {
    throw Object.assign(new RangeError(`The "${label}" encoding is not supported`), { code: "ERR_ENCODING_NOT_SUPPORTED" });
  }
}

function concat(first: Uint8Array, second: Uint8Array): Uint8Array {
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}
