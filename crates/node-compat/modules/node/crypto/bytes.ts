/** `pi:node/crypto/bytes`: conversion of the inputs and outputs of crypto functions. */

import { invalidArgType } from "pi:node/errors";
import { Buffer } from "node:buffer";

export const DATA = "of type string or an instance of Buffer, TypedArray, or DataView";

/** Returns the bytes of a text or a view. Throws for other values. */
export function dataOf(name: string, value: unknown, encoding?: string): Uint8Array {
  if (typeof value === "string") return Buffer.from(value, encoding === "buffer" ? "utf8" : encoding);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  throw invalidArgType(name, DATA, value);
}

/** Returns the bytes of a text, a view or a buffer. */
export function bytesOf(name: string, value: unknown, expected: string = "of type string or an instance of ArrayBuffer, Buffer, TypedArray, or DataView"): Uint8Array {
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (typeof value === "string") return Buffer.from(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  throw invalidArgType(name, expected, value);
}

/** Returns a buffer, or text if an encoding is given. */
export function given(bytes: Uint8Array, encoding: string | undefined | null): any {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return encoding && encoding !== "buffer" ? buffer.toString(encoding) : buffer;
}
