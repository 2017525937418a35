/**
 * `pi:web/crypto`: `crypto.getRandomValues` and `crypto.randomUUID` with the driver's entropy; `crypto.subtle`
 * loads when it is read.
 */

import { fillRandom, importSync } from "pi:engine";
import type { SubtleCrypto } from "pi:web/subtle";

const QUOTA = 65536;

/** Returns a random UUID of version 4. */
export function randomUUID(): string {
  const bytes = new Uint8Array(16);
  fillRandom(bytes);
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  let text = "";
  for (let at = 0; at < 16; at++) {
    if (at === 4 || at === 6 || at === 8 || at === 10) text += "-";
    text += (bytes[at]! + 0x100).toString(16).slice(1);
  }
  return text;
}

export function getRandomValues<T extends ArrayBufferView>(array: T): T {
  const integer = ArrayBuffer.isView(array) && !(array instanceof DataView) && !(array instanceof Float32Array) && !(array instanceof Float64Array);
  if (!integer) throw new DOMException("The data argument must be an integer-type TypedArray", "TypeMismatchError");
  if (array.byteLength > QUOTA) {
    throw new DOMException(`The requested length exceeds ${QUOTA} bytes`, "QuotaExceededError");
  }
  fillRandom(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
  return array;
}

class Crypto {
  #subtle: SubtleCrypto | undefined;
  get subtle(): SubtleCrypto {
    return (this.#subtle ??= new (importSync("pi:web/subtle").SubtleCrypto)() as SubtleCrypto);
  }
  getRandomValues<T extends ArrayBufferView>(array: T): T {
    return getRandomValues(array);
  }
  randomUUID(): string {
    return randomUUID();
  }
  get [Symbol.toStringTag](): string {
    return "Crypto";
  }
}

export const crypto = new Crypto();
export { Crypto };
