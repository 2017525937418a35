/** `pi:node/crypto/cipher`: AES in the modes CBC, CTR, ECB and GCM, also as streams. */

import { cipher as createEngineCipher } from "pi:engine";
import type { Cipher as EngineCipher } from "pi:engine";
import { checkString, coded, invalidArgType } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { bytesOf, dataOf, given } from "pi:node/crypto/bytes";
import { keyOf } from "pi:node/crypto/keys";
import { lazyTransform } from "pi:node/stream/lazy";
import { StringDecoder } from "node:string_decoder";

const MODES = ["cbc", "ctr", "ecb", "gcm"];
const SIZES = [128, 192, 256];

export function getCiphers(): string[] {
  const names = SIZES.flatMap((size) => MODES.map((mode) => `aes-${size}-${mode}`));
  return [...names, ...SIZES.map((size) => `aes${size}`), ...SIZES.map((size) => `id-aes${size}-GCM`)].sort();
}

function parse(name: string): { mode: string; keyBytes: number } | undefined {
  const plain = name.toLowerCase();
  const match = /^aes-?(128|192|256)(?:-(cbc|ctr|ecb|gcm))?$/.exec(plain) ?? /^id-aes(128|192|256)-(gcm)$/.exec(plain);
  return match ? { mode: match[2] ?? "cbc", keyBytes: Number(match[1]) / 8 } : undefined;
}

export function getCipherInfo(name: string): object | undefined {
  const parts = parse(String(name));
  if (!parts) return undefined;
  const { mode, keyBytes } = parts;
  return {
    mode, name: `aes-${keyBytes * 8}-${mode}`, nid: 0, ...(mode === "cbc" || mode === "ecb" ? { blockSize: 16 } : {}),
    ...(mode === "ecb" ? {} : { ivLength: mode === "gcm" ? 12 : 16 }), keyLength: keyBytes,
  };
}

const FAILURES: Record<string, [string, string]> = {
  decrypt: ["bad decrypt", "error:1C800064:Provider routines::bad decrypt"],
  length: ["wrong final block length", "error:1C80006B:Provider routines::wrong final block length"],
};

abstract class Cipher {
  #engine: EngineCipher;
  #mode: string;
  #encrypt: boolean;
  #over = false;
  #tag: Buffer | undefined;
  #decoder: StringDecoder | undefined;
  #tagLength: number | undefined;
  _streamOptions: object | undefined;

  constructor(encrypt: boolean, algorithm: string, key: unknown, iv: unknown, options: { authTagLength?: number } | undefined) {
    checkString("cipher", algorithm);
    const bytes = keyOf("key", key);
    const vector = iv === null ? new Uint8Array(0) : bytesOf("iv", iv);
    const parts = parse(algorithm);
    if (!parts) throw coded(Error, "ERR_CRYPTO_UNKNOWN_CIPHER", "Unknown cipher");
    if (bytes.length !== parts.keyBytes) throw coded(RangeError, "ERR_CRYPTO_INVALID_KEYLEN", "Invalid key length");
    const plain = (view: Uint8Array) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    const engine = createEngineCipher(parts.mode, encrypt, plain(bytes), plain(vector));
    if (!engine) throw coded(TypeError, "ERR_CRYPTO_INVALID_IV", "Invalid initialization vector");
    this.#engine = engine;
    this.#mode = parts.mode;
    this.#encrypt = encrypt;
    this.#tagLength = options?.authTagLength;
    Object.defineProperty(this, "_streamOptions", { value: options, enumerable: false });
  }

  update(data: string | ArrayBufferView, inputEncoding?: string, outputEncoding?: string): any {
    const bytes = dataOf("data", data, inputEncoding);
    if (this.#over) throw coded(Error, "ERR_CRYPTO_INVALID_STATE", "Invalid state for operation update");
    return this.#shown(this.#engine("update", bytes), outputEncoding);
  }

  final(outputEncoding?: string): any {
    if (this.#over) throw coded(Error, "ERR_CRYPTO_INVALID_STATE", "Invalid state");
    this.#over = true;
    if (!this.#encrypt && this.#tag) this.#engine("expect", this.#tag as unknown as Uint8Array);
    const last = this.#engine("final");
    if (last === "auth") throw new Error("Unsupported state or unable to authenticate data");
    if (typeof last === "string") {
      const [reason, message] = FAILURES[last]!;
      throw Object.assign(new Error(message), { library: "Provider routines", reason, code: `ERR_OSSL_${reason.toUpperCase().replaceAll(" ", "_")}` });
    }
    const shown = this.#shown(last, outputEncoding);
    return this.#decoder ? shown + this.#decoder.end() : shown;
  }

  setAutoPadding(padding: boolean = true): this {
    if (!padding) this.#engine("unpadded");
    return this;
  }
  setAAD(data: unknown, _options?: object): this {
    this.#engine("aad", bytesOf("buffer", data));
    return this;
  }
  getAuthTag(): Buffer {
    const tag = this.#mode === "gcm" && this.#encrypt && this.#over ? this.#engine("tag") : undefined;
    if (!tag) throw coded(Error, "ERR_CRYPTO_INVALID_STATE", "Invalid state for operation getAuthTag");
    return Buffer.from(tag.subarray(0, this.#tagLength ?? 16));
  }
  setAuthTag(tag: unknown, encoding?: string): this {
    const bytes = typeof tag === "string" ? Buffer.from(tag, encoding) : Buffer.from(bytesOf("buffer", tag) as any);
    if (this.#mode !== "gcm" || this.#encrypt || this.#over || this.#tag) throw coded(Error, "ERR_CRYPTO_INVALID_STATE", "Invalid state for operation setAuthTag");
    const valid = this.#tagLength === undefined ? [4, 8, 12, 13, 14, 15, 16].includes(bytes.length) : bytes.length === this.#tagLength;
    if (!valid) throw coded(TypeError, "ERR_CRYPTO_INVALID_AUTH_TAG", `Invalid authentication tag length: ${bytes.length}`);
    this.#tag = bytes;
    return this;
  }

  _transform(this: any, chunk: any, encoding: string, done: (error?: unknown) => void): void {
    this.push(this.update(chunk, encoding));
    done();
  }
  _flush(this: any, done: (error?: unknown) => void): void {
    try {
      this.push(this.final());
    } catch (error) {
      return done(error);
    }
    done();
  }

  #shown(bytes: Uint8Array, encoding: string | undefined): any {
    if (!encoding || encoding === "buffer") return given(bytes, undefined);
    if (typeof encoding !== "string") throw invalidArgType("outputEncoding", "of type string", encoding);
    this.#decoder ??= new StringDecoder(encoding);
    return this.#decoder.write(bytes);
  }
}

export class Cipheriv extends Cipher {
  constructor(algorithm: string, key: unknown, iv: unknown, options?: object) {
    super(true, algorithm, key, iv, options);
  }
}
export class Decipheriv extends Cipher {
  constructor(algorithm: string, key: unknown, iv: unknown, options?: object) {
    super(false, algorithm, key, iv, options);
  }
}
lazyTransform(Cipher);

export function createCipheriv(algorithm: string, key: unknown, iv: unknown, options?: object): Cipheriv {
  return new Cipheriv(algorithm, key, iv, options);
}
export function createDecipheriv(algorithm: string, key: unknown, iv: unknown, options?: object): Decipheriv {
  return new Decipheriv(algorithm, key, iv, options);
}
