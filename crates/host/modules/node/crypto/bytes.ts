/** `pi:node/crypto/bytes`: what the functions of crypto take as data, and how they give it back. */

import { coded, invalidArgType } from "pi:node/errors";
import { Buffer } from "node:buffer";

export const DATA = "of type string or an instance of Buffer, TypedArray, or DataView";
const KEY = "of type string or an instance of ArrayBuffer, Buffer, TypedArray, DataView, KeyObject, or CryptoKey";

/** Text or a view as bytes; nothing else. */
export function dataOf(name: string, value: unknown, encoding?: string): Uint8Array {
  if (typeof value === "string") return Buffer.from(value, encoding === "buffer" ? "utf8" : encoding);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  throw invalidArgType(name, DATA, value);
}

/** The same, and buffers. */
export function bytesOf(name: string, value: unknown, expected: string = "of type string or an instance of ArrayBuffer, Buffer, TypedArray, or DataView"): Uint8Array {
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (typeof value === "string") return Buffer.from(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  throw invalidArgType(name, expected, value);
}

/** A secret key. */
export class KeyObject {
  readonly type: string;
  #bytes: Uint8Array;

  constructor(type: string, bytes: Uint8Array) {
    if (type !== "secret") throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'type' is invalid. Received '${type}'`);
    this.type = type;
    this.#bytes = bytes;
  }
  static from(key: any): KeyObject {
    const bytes = key?.[Symbol.for("pijs.key.bytes")];
    if (!bytes) throw invalidArgType("key", "an instance of CryptoKey", key);
    return new KeyObject("secret", bytes);
  }
  get symmetricKeySize(): number {
    return this.#bytes.length;
  }
  export(options?: { format?: string }): any {
    const copy = Buffer.from(this.#bytes);
    return options?.format === "jwk" ? { kty: "oct", k: copy.toString("base64url") } : copy;
  }
  equals(other: KeyObject): boolean {
    return other instanceof KeyObject && Buffer.compare(this.export(), other.export()) === 0;
  }
  get [Symbol.toStringTag](): string {
    return "KeyObject";
  }
}

export function keyOf(name: string, value: unknown): Uint8Array {
  if (value instanceof KeyObject) return value.export();
  const web = (value as any)?.[Symbol.for("pijs.key.bytes")];
  return web ?? bytesOf(name, value, KEY);
}

/** A buffer, or text when an encoding is named. */
export function given(bytes: Uint8Array, encoding: string | undefined | null): any {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return encoding && encoding !== "buffer" ? buffer.toString(encoding) : buffer;
}
