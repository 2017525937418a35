/** `node:zlib`: gzip, deflate and brotli: synchronous, with a callback, and as transform streams. Zstandard is not supported. */

import { crc32 as engineCrc32, importSync } from "pi:engine";
import { checkFunction, coded, invalidArgType } from "pi:node/errors";
import { refuse } from "pi:node/refuse";
import { Buffer } from "node:buffer";
import { Codec, isBrotli, runSync } from "pi:node/zlib/codec";
import type { Kind, Options } from "pi:node/zlib/codec";
import { constants } from "pi:node/zlib/constants";
import { Transform } from "pi:node/stream/duplex";
import { inherit, define } from "pi:node/stream/legacy";
import { queueTick } from "pi:web/ticks";

type Done = (error: Error | null, result?: Buffer) => void;

export { constants };

export const codes: Record<string, any> = {};
for (const name of ["Z_OK", "Z_STREAM_END", "Z_NEED_DICT", "Z_ERRNO", "Z_STREAM_ERROR", "Z_DATA_ERROR", "Z_MEM_ERROR", "Z_BUF_ERROR", "Z_VERSION_ERROR"] as const) {
  codes[name] = constants[name];
  codes[constants[name]] = name;
}
Object.freeze(codes);

// Streams

const CODEC = Symbol("codec");
/** Marks the empty chunk of a flush. */
const FLUSH = Symbol("flush");

/** Replaces the native half of Node's classes, as far as libraries use it: writes that fill the caller's buffer. */
class Handle {
  /** Output that has not fit into a buffer yet. */
  #left: Uint8Array = new Uint8Array(0);
  readonly #stream: any;

  constructor(stream: any) {
    this.#stream = stream;
  }

  /** Processes input, and reports the remaining output space and input in the stream's `_writeState`. */
  writeSync(flush: number, input: Uint8Array | null, inOffset: number, inLength: number, out: Uint8Array, outOffset: number, outLength: number): void {
    const stream = this.#stream;
    if (inLength > 0) {
      const fresh = [...stream[CODEC].run(input!.subarray(inOffset, inOffset + inLength), flush)];
      this.#left = this.#left.length === 0 && fresh.length === 1 ? fresh[0] : Buffer.concat([this.#left, ...fresh]);
    }
    const given = this.#left.subarray(0, outLength);
    out.set(given, outOffset);
    this.#left = this.#left.subarray(given.length);
    stream._writeState[0] = outLength - given.length;
    stream._writeState[1] = 0;
  }

  close(): void {}
}

/** Defines a member that is created on first read. */
function lazily(name: string, make: (stream: any) => unknown): void {
  Object.defineProperty(Zlib.prototype, name, {
    configurable: true,
    get(this: any) {
      const value = make(this);
      Object.defineProperty(this, name, { value, writable: true, configurable: true });
      return value;
    },
    set(this: any, value: unknown) {
      Object.defineProperty(this, name, { value, writable: true, configurable: true });
    },
  });
}

/** Common constructor of the classes: a transform that uses a codec. */
const Zlib: any = function Zlib(this: any, kind: Kind, options: Options = {}) {
  const codec = new Codec(kind, options ?? {});
  Transform.call(this, { autoDestroy: true, ...options });
  Object.defineProperty(this, CODEC, { value: codec });
  // Libraries that process one chunk at a time (`_processChunk`) use the native half.
  Object.defineProperty(this, "_handle", { value: new Handle(this), writable: true, enumerable: false, configurable: true });
  this._chunkSize = options?.chunkSize ?? constants.Z_DEFAULT_CHUNK;
  this._outOffset = 0;
  this._flushMode = options?.flush ?? 0;
  this._limit = options?.maxOutputLength ?? 2 ** 31 - 1;
  this._given = 0;
  this._closed = false;
};
inherit(Zlib, Transform);
define(Zlib.prototype, {
  get bytesWritten(): number {
    return (this as any)[CODEC].bytesWritten;
  },
  get bytesRead(): number {
    return (this as any)[CODEC].bytesWritten;
  },
  _run(this: any, input: Uint8Array, flush: number, done: (error?: unknown) => void): void {
    try {
      for (const piece of this[CODEC].run(input, flush)) {
        this._given += piece.length;
        if (this._given > this._limit) throw coded(RangeError, "ERR_BUFFER_TOO_LARGE", `Cannot create a Buffer larger than ${this._limit} bytes`);
        this.push(piece);
      }
    } catch (error) {
      return done(error);
    }
    done();
  },
  /** Processes one chunk synchronously, outside of the stream. With a callback, the output is pushed, as in Node. */
  _processChunk(this: any, chunk: Uint8Array, flush: number, done?: (error?: unknown) => void): Buffer | undefined {
    if (typeof done === "function") return void this._run(chunk, flush, done);
    const pieces = [...this[CODEC].run(chunk, flush)];
    this[CODEC].checkEnd(flush);
    this._handle?.close();
    this._handle = null;
    return pieces.length === 0 ? Buffer.alloc(0) : pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
  },
  _transform(this: any, chunk: any, _encoding: string, done: (error?: unknown) => void): void {
    this._run(chunk, chunk[FLUSH] ?? this._flushMode, done);
  },
  _flush(this: any, done: (error?: unknown) => void): void {
    const { finish } = this[CODEC];
    this._run(Buffer.alloc(0), finish, (error: unknown) => {
      if (error) return done(error);
      try {
        this[CODEC].checkEnd(finish);
      } catch (failure) {
        return done(failure);
      }
      done();
    });
  },
  /** Emits the data compressed so far. */
  flush(this: any, kind?: any, done?: any): void {
    if (typeof kind === "function" || (kind === undefined && !done)) [done, kind] = [kind, isBrotli(this[CODEC].kind) ? constants.BROTLI_OPERATION_FLUSH : constants.Z_FULL_FLUSH];
    if (this.writableEnded) {
      if (done) queueTick(done);
      return;
    }
    // The marker is in order with the data: earlier writes are flushed, later ones are not.
    const marker: any = Buffer.alloc(0);
    marker[FLUSH] = kind;
    this.write(marker, () => done?.());
  },
  close(this: any, done?: () => void): void {
    if (done) this.once("close", done);
    this.destroy();
  },
  reset(this: any): void {
    this[CODEC].reset();
  },
  params(this: any, _level: number, _strategy: number, done?: () => void): void {
    if (done) queueTick(done);
  },
});

lazily("_outBuffer", (stream) => Buffer.alloc(stream._chunkSize));
lazily("_writeState", () => new Uint32Array(2));

function streamClass(name: string, kind: Kind): any {
  const Class: any = {
    [name]: function (this: any, options?: Options) {
      if (!new.target && !(this instanceof Class)) return new Class(options);
      Zlib.call(this, kind, options);
    },
  }[name];
  inherit(Class, Zlib);
  return Class;
}

export const Gzip: any = streamClass("Gzip", "gzip");
export const Gunzip: any = streamClass("Gunzip", "gunzip");
export const Deflate: any = streamClass("Deflate", "deflate");
export const Inflate: any = streamClass("Inflate", "inflate");
export const DeflateRaw: any = streamClass("DeflateRaw", "deflateRaw");
export const InflateRaw: any = streamClass("InflateRaw", "inflateRaw");
export const Unzip: any = streamClass("Unzip", "unzip");
export const BrotliCompress: any = streamClass("BrotliCompress", "brotliCompress");
export const BrotliDecompress: any = streamClass("BrotliDecompress", "brotliDecompress");

const create = (Class: any) => (options?: Options) => {
  // Users of a codec also need the stream operators.
  importSync("node:stream");
  return new Class(options);
};
export const createGzip = create(Gzip);
export const createGunzip = create(Gunzip);
export const createDeflate = create(Deflate);
export const createInflate = create(Inflate);
export const createDeflateRaw = create(DeflateRaw);
export const createInflateRaw = create(InflateRaw);
export const createUnzip = create(Unzip);
export const createBrotliCompress = create(BrotliCompress);
export const createBrotliDecompress = create(BrotliDecompress);

// Synchronous forms

const sync = (kind: Kind) => (input: unknown, options?: Options) => runSync(kind, input, options);
export const gzipSync = sync("gzip");
export const gunzipSync = sync("gunzip");
export const deflateSync = sync("deflate");
export const inflateSync = sync("inflate");
export const deflateRawSync = sync("deflateRaw");
export const inflateRawSync = sync("inflateRaw");
export const unzipSync = sync("unzip");
export const brotliCompressSync = sync("brotliCompress");
export const brotliDecompressSync = sync("brotliDecompress");

const called = (kind: Kind) => (input: unknown, options: Options | Done | undefined, done?: Done) => {
  const [settings, callback] = typeof options === "function" ? [{}, options] : [options, done];
  checkFunction("callback", callback);
  if (typeof input !== "string" && !ArrayBuffer.isView(input) && !(input instanceof ArrayBuffer)) {
    throw invalidArgType("buffer", "of type string or an instance of Buffer, TypedArray, DataView, or ArrayBuffer", input);
  }
  let outcome: [Error | null, Buffer | undefined];
  try {
    outcome = [null, runSync(kind, input, settings)];
  } catch (error) {
    outcome = [error as Error, undefined];
  }
  queueTick(() => (outcome[0] ? callback(outcome[0]) : callback(null, outcome[1])));
};
export const gzip = called("gzip");
export const gunzip = called("gunzip");
export const deflate = called("deflate");
export const inflate = called("inflate");
export const deflateRaw = called("deflateRaw");
export const inflateRaw = called("inflateRaw");
export const unzip = called("unzip");
export const brotliCompress = called("brotliCompress");
export const brotliDecompress = called("brotliDecompress");

export function crc32(data: string | ArrayBufferView, value: number = 0): number {
  const bytes = typeof data === "string" ? Buffer.from(data) : ArrayBuffer.isView(data) ? data : undefined;
  if (!bytes) throw invalidArgType("data", "of type string or an instance of Buffer, TypedArray, or DataView", data);
  return engineCrc32(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength), value);
}

const zstd = refuse("zlib", "use gzip, deflate or brotli", [
  "zstdCompress", "zstdCompressSync", "zstdDecompress", "zstdDecompressSync", "createZstdCompress", "createZstdDecompress",
]);
export const { zstdCompress, zstdCompressSync, zstdDecompress, zstdDecompressSync, createZstdCompress, createZstdDecompress } = zstd;

const zlib = {
  constants, codes, crc32, Gzip, Gunzip, Deflate, Inflate, DeflateRaw, InflateRaw, Unzip, BrotliCompress, BrotliDecompress, createGzip, createGunzip,
  createDeflate, createInflate, createDeflateRaw, createInflateRaw, createUnzip, createBrotliCompress, createBrotliDecompress, gzipSync, gunzipSync,
  deflateSync, inflateSync, deflateRawSync, inflateRawSync, unzipSync, brotliCompressSync, brotliDecompressSync, gzip, gunzip, deflate, inflate,
  deflateRaw, inflateRaw, unzip, brotliCompress, brotliDecompress, zstdCompress, zstdCompressSync, zstdDecompress, zstdDecompressSync,
  createZstdCompress, createZstdDecompress,
};
// Old code reads the constants from the module itself.
for (const [name, value] of Object.entries(constants)) {
  if (!name.startsWith("BROTLI")) Object.defineProperty(zlib, name, { value, configurable: true });
}
export default zlib;
