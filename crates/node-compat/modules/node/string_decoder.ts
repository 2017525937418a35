/** `node:string_decoder`: decodes a byte stream to text, and buffers incomplete characters. */

import { checkedEncoding, decodeText } from "pi:node/buffer/codec";
import type { Encoding } from "pi:node/buffer/codec";
import { invalidArgType } from "pi:node/errors";
import { completeUtf8 } from "pi:web/encoding";

export class StringDecoder {
  readonly encoding: Encoding;
  #held: Uint8Array = new Uint8Array(0);

  constructor(encoding?: string) {
    this.encoding = checkedEncoding(encoding);
  }

  write(chunk: string | ArrayBufferView): string {
    if (typeof chunk === "string") return chunk;
    if (!ArrayBuffer.isView(chunk)) throw invalidArgType("buf", "an instance of Buffer, TypedArray, or DataView", chunk);
    const fresh = new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const bytes = new Uint8Array(this.#held.length + fresh.length);
    bytes.set(this.#held);
    bytes.set(fresh, this.#held.length);
    const end = this.#complete(bytes);
    this.#held = bytes.slice(end);
    return decodeText(bytes.subarray(0, end), this.encoding);
  }

  end(chunk?: string | ArrayBufferView): string {
    const text = chunk === undefined ? "" : this.write(chunk);
    const rest = this.#held.length > 0 ? decodeText(this.#held, this.encoding) : "";
    this.#held = new Uint8Array(0);
    return text + rest;
  }

  #complete(bytes: Uint8Array): number {
    switch (this.encoding) {
      case "utf8":
        return completeUtf8(bytes);
      case "utf16le": {
        const even = bytes.length & ~1;
        return even >= 2 && (bytes[even - 1]! & 0xfc) === 0xd8 ? even - 2 : even;
      }
      case "base64":
      case "base64url":
        return bytes.length - (bytes.length % 3);
      default:
        return bytes.length;
    }
  }
}

export default { StringDecoder };
