/** `pi:web/compression`: CompressionStream and DecompressionStream over `node:zlib`. */

import { importSync } from "pi:engine";
import { coded } from "pi:web/streams/queue";
import type { ReadableStream } from "pi:web/streams/readable";
import type { WritableStream } from "pi:web/streams/writable";

const FORMATS: Record<string, [string, string]> = {
  gzip: ["createGzip", "createGunzip"],
  deflate: ["createDeflate", "createInflate"],
  "deflate-raw": ["createDeflateRaw", "createInflateRaw"],
};

abstract class Coding {
  #pair: { readable: ReadableStream; writable: WritableStream };

  constructor(format: string, direction: 0 | 1) {
    const names = FORMATS[String(format)];
    if (!names) throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `Failed to construct '${direction === 0 ? "Compression" : "Decompression"}Stream': 1st argument value '${String(format)}' is not a valid enum value of type CompressionFormat.`);
    const zlib = importSync("node:zlib");
    this.#pair = importSync("pi:node/stream/adapters").duplexToWeb(zlib[names[direction]]());
  }
  get readable(): ReadableStream {
    return this.#pair.readable;
  }
  get writable(): WritableStream {
    return this.#pair.writable;
  }
}

export class CompressionStream extends Coding {
  constructor(format: string) {
    super(format, 0);
  }
  get [Symbol.toStringTag](): string {
    return "CompressionStream";
  }
}

export class DecompressionStream extends Coding {
  constructor(format: string) {
    super(format, 1);
  }
  get [Symbol.toStringTag](): string {
    return "DecompressionStream";
  }
}
