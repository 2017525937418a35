/**
 * `pi:node/zlib/codec`: the engine's codecs, run over whole buffers and as streams.
 *
 * A codec works in steps of bounded output. Gzip input may have several members, and data after them that begins with a zero is
 * padding, as in Node. Every error has Node's code and zlib's message.
 */

import { compressor } from "pi:engine";
import { coded, invalidArgType, outOfRange } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { constants } from "pi:node/zlib/constants";

/** Maximum output of one step, in bytes. */
const STEP = 64 * 1024;

export interface Options {
  flush?: number;
  finishFlush?: number;
  chunkSize?: number;
  windowBits?: number;
  level?: number;
  memLevel?: number;
  strategy?: number;
  dictionary?: ArrayBufferView | ArrayBuffer;
  params?: Record<number, number>;
  maxOutputLength?: number;
}

export type Kind = "gzip" | "deflate" | "deflateRaw" | "gunzip" | "inflate" | "inflateRaw" | "unzip" | "brotliCompress" | "brotliDecompress";

const ERRNO: Record<string, number> = { Z_NEED_DICT: 2, Z_DATA_ERROR: -3, Z_BUF_ERROR: -5, Z_STREAM_ERROR: -2 };

export function zlibError(message: string, code: string): Error {
  return Object.assign(new Error(message), { errno: ERRNO[code] ?? -3, code });
}

function checkRange(name: string, value: unknown, least: number, most: number): void {
  if (value === undefined || Number.isNaN(value)) return;
  if (typeof value !== "number") throw invalidArgType(name, "of type number", value);
  if (!(value >= least && value <= most)) throw outOfRange(name, `>= ${least} and <= ${most}`, value);
}

export const isBrotli = (kind: Kind): boolean => kind.startsWith("brotli");
export const compresses = (kind: Kind): boolean => ["gzip", "deflate", "deflateRaw", "brotliCompress"].includes(kind);

/** A codec for one direction of one format. */
export class Codec {
  readonly kind: Kind;
  readonly finish: number;
  #options: Options;
  #step: ReturnType<typeof compressor> | undefined;
  #ended = false;
  /** Whether padding has begun, so that no member can follow. */
  #padded = false;
  #written = 0;
  #detected: Kind | undefined;
  #head: Uint8Array = new Uint8Array(0);

  constructor(kind: Kind, options: Options = {}) {
    this.kind = kind;
    this.#options = options;
    if (isBrotli(kind)) {
      for (const [key, value] of Object.entries(options.params ?? {})) {
        if (typeof value !== "number" && typeof value !== "boolean") throw invalidArgType("options.params[key]", "of type number", value);
        if (!(Number(key) >= 0 && Number(key) <= 9)) throw coded(RangeError, "ERR_BROTLI_INVALID_PARAM", `${key} is not a valid Brotli parameter`);
      }
      this.finish = options.finishFlush ?? constants.BROTLI_OPERATION_FINISH;
    } else {
      checkRange("options.windowBits", options.windowBits, kind === "gunzip" || kind === "inflate" || kind === "unzip" ? 0 : kind === "gzip" ? 9 : 8, 15);
      checkRange("options.level", options.level, -1, 9);
      checkRange("options.memLevel", options.memLevel, 1, 9);
      checkRange("options.strategy", options.strategy, 0, 4);
      this.finish = options.finishFlush ?? constants.Z_FINISH;
    }
    checkRange("options.chunkSize", options.chunkSize, 64, Infinity);
    checkRange("options.maxOutputLength", options.maxOutputLength, 1, 2 ** 31);
  }

  get bytesWritten(): number {
    return this.#written;
  }

  reset(): void {
    this.#step = undefined;
    this.#ended = false;
    this.#padded = false;
    this.#detected = undefined;
    this.#head = new Uint8Array(0);
  }

  /** Consumes the input and yields the output piece by piece. */
  *run(given: Uint8Array, flush: number): Generator<Buffer> {
    let input = new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
    this.#written += input.length;
    const finishing = flush === constants.Z_FINISH && !isBrotli(this.kind);
    if (this.kind === "unzip" && !this.#detected) {
      // One byte is not enough to distinguish the two formats.
      input = joined(this.#head, input);
      if (input.length < 2 && !finishing) {
        this.#head = input;
        return;
      }
      this.#detected = input[0] === 0x1f && (input.length < 2 || input[1] === 0x8b) ? "gunzip" : "inflate";
    }
    const kind = this.#detected ?? this.kind;
    for (;;) {
      if (this.#ended) {
        if (kind !== "gunzip" || input.length === 0 || this.#padded) return;
        this.#padded = input[0] === 0;
        if (this.#padded) return;
        this.#step = undefined;
        this.#ended = false;
      }
      this.#step ??= this.#open(kind);
      const { output, read, end, failure, code, number } = this.#step(input, flush, STEP);
      input = input.subarray(read);
      if (output.length > 0) yield Buffer.from(output.buffer, output.byteOffset, output.byteLength);
      if (failure !== undefined) throw this.#error(failure, code, number);
      if (end) this.#ended = true;
      else if (output.length === 0 && (input.length === 0 || read === 0)) return;
      else if (output.length < STEP && input.length === 0 && !this.#flushing(flush)) return;
    }
  }

  /** Checks after the last input that the data is complete. */
  checkEnd(flush: number): void {
    if (this.#ended || compresses(this.kind)) return;
    const strict = isBrotli(this.kind) ? flush === constants.BROTLI_OPERATION_FINISH : flush === constants.Z_FINISH;
    if (!strict) return;
    throw zlibError("unexpected end of file", "Z_BUF_ERROR");
  }

  #flushing(flush: number): boolean {
    return compresses(this.kind) && flush !== 0;
  }

  #open(kind: Kind): ReturnType<typeof compressor> {
    const { level, windowBits, dictionary, params } = this.#options;
    if (isBrotli(kind)) {
      const quality = params?.[constants.BROTLI_PARAM_QUALITY] ?? constants.BROTLI_DEFAULT_QUALITY;
      const window = params?.[constants.BROTLI_PARAM_LGWIN] ?? constants.BROTLI_DEFAULT_WINDOW;
      return compressor(kind, Number(quality), Number(window));
    }
    const bytes = dictionary === undefined ? undefined : dictionary instanceof ArrayBuffer ? new Uint8Array(dictionary) : new Uint8Array(dictionary.buffer, dictionary.byteOffset, dictionary.byteLength);
    return compressor(kind, level === undefined || level < 0 ? 6 : level, windowBits || 15, bytes);
  }

  #error(failure: string, code: string | undefined, number: number | undefined): Error {
    if (isBrotli(this.kind)) {
      return Object.assign(new Error(failure), compresses(this.kind) ? { code: "ERR_BROTLI_COMPRESSION_FAILED" } : { errno: number, code });
    }
    if (failure === "Missing dictionary") return zlibError(failure, "Z_NEED_DICT");
    return zlibError(failure, "Z_DATA_ERROR");
  }
}

function joined(first: Uint8Array<any>, second: Uint8Array<any>): Uint8Array<any> {
  if (first.length === 0) return second;
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}

const INPUT = "of type string or an instance of Buffer, TypedArray, DataView, or ArrayBuffer";

/** Processes a whole buffer at once. */
export function runSync(kind: Kind, input: unknown, options: Options = {}): Buffer {
  const bytes =
    typeof input === "string" ? Buffer.from(input) : ArrayBuffer.isView(input) ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength) : input instanceof ArrayBuffer ? new Uint8Array(input) : undefined;
  if (!bytes) throw invalidArgType("buffer", INPUT, input);
  const codec = new Codec(kind, options);
  const limit = options.maxOutputLength ?? 2 ** 31 - 1;
  const pieces: Buffer[] = [];
  let size = 0;
  for (const piece of codec.run(bytes as Uint8Array, codec.finish)) {
    size += piece.length;
    if (size > limit) throw coded(RangeError, "ERR_BUFFER_TOO_LARGE", `Cannot create a Buffer larger than ${limit} bytes`);
    pieces.push(piece);
  }
  codec.checkEnd(codec.finish);
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
}
