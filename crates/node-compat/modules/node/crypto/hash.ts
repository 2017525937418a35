/** `pi:node/crypto/hash`: digests and HMACs, also as streams. */

import { digest as createDigest } from "pi:engine";
import type { Digest } from "pi:engine";
import { checkString, coded, invalidArgType } from "pi:node/errors";
import { bytesOf, dataOf, given } from "pi:node/crypto/bytes";
import { keyOf } from "pi:node/crypto/keys";
import { lazyTransform } from "pi:node/stream/lazy";

/** Digests in Node's order, with the engine's names. */
const NAMES: Record<string, string> = {
  "RSA-MD5": "md5", "RSA-RIPEMD160": "ripemd160", "RSA-SHA1": "sha1", "RSA-SHA224": "sha224", "RSA-SHA256": "sha256", "RSA-SHA3-224": "sha3-224",
  "RSA-SHA3-256": "sha3-256", "RSA-SHA3-384": "sha3-384", "RSA-SHA3-512": "sha3-512", "RSA-SHA384": "sha384", "RSA-SHA512": "sha512",
  "RSA-SHA512/224": "sha512-224", "RSA-SHA512/256": "sha512-256", md5: "md5", ripemd: "ripemd160", ripemd160: "ripemd160", rmd160: "ripemd160",
  sha1: "sha1", sha224: "sha224", sha256: "sha256", "sha3-224": "sha3-224", "sha3-256": "sha3-256", "sha3-384": "sha3-384", "sha3-512": "sha3-512",
  sha384: "sha384", sha512: "sha512", "sha512-224": "sha512-224", "sha512-256": "sha512-256",
};

const ENGINE_NAMES = new Map(Object.entries(NAMES).map(([name, engine]) => [name.toLowerCase(), engine]));

export function getHashes(): string[] {
  return Object.keys(NAMES);
}

/** Returns the engine's name of a digest. Accepts Web Crypto names such as `SHA-256` too. */
export function engineName(name: string): string | undefined {
  const plain = name.toLowerCase();
  return ENGINE_NAMES.get(plain) ?? ENGINE_NAMES.get(plain.replace(/^sha-/, "sha"));
}

export class Hash {
  #state: Digest;
  #algorithm: string;
  #taken = false;
  _streamOptions: object | undefined;

  constructor(algorithm: string, options?: { outputLength?: number }, state?: Digest) {
    checkString("algorithm", algorithm);
    const name = engineName(algorithm);
    const created = state ?? (name === undefined ? undefined : createDigest(name));
    if (!created) throw new Error("Digest method not supported");
    this.#state = created;
    this.#algorithm = algorithm;
    Object.defineProperty(this, "_streamOptions", { value: options, enumerable: false });
  }

  update(data: string | ArrayBufferView, encoding?: string): this {
    if (this.#taken) throw finalized();
    this.#state(dataOf("data", data, encoding));
    return this;
  }
  digest(encoding?: string): any {
    if (this.#taken) throw finalized();
    this.#taken = true;
    return given(this.#result ?? this.#state(), encoding);
  }
  copy(options?: object): Hash {
    if (this.#taken) throw finalized();
    return new Hash(this.#algorithm, options, this.#state(true));
  }

  _transform(chunk: any, encoding: string, done: () => void): void {
    this.#state(dataOf("data", chunk, encoding));
    done();
  }
  /** Emits the digest at the end of the stream; `digest()` can return it again. */
  _flush(this: any, done: () => void): void {
    this.push(this._whole());
    done();
  }
  _whole(): any {
    const bytes = (this.#result ??= this.#state());
    return given(bytes.slice(), undefined);
  }
  #result: Uint8Array | undefined;
}

const finalized = (): Error => coded(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called");

export class Hmac {
  #state: Digest;
  #taken = false;
  _streamOptions: object | undefined;

  constructor(algorithm: string, key: unknown, options?: object) {
    checkString("hmac", algorithm);
    const bytes = keyOf("key", key);
    const name = engineName(algorithm);
    const state = name === undefined ? undefined : createDigest(name, plain(bytes));
    if (!state) throw coded(TypeError, "ERR_CRYPTO_INVALID_DIGEST", `Invalid digest: ${algorithm}`);
    this.#state = state;
    Object.defineProperty(this, "_streamOptions", { value: options, enumerable: false });
  }
  update(data: string | ArrayBufferView, encoding?: string): this {
    if (this.#taken) throw finalized();
    this.#state(dataOf("data", data, encoding));
    return this;
  }
  /** Returns the digest. A second call returns an empty one, as in Node. */
  digest(encoding?: string): any {
    if (this.#taken) return given(new Uint8Array(0), encoding);
    this.#taken = true;
    return given(this.#state(), encoding);
  }
  _transform(chunk: any, encoding: string, done: () => void): void {
    this.#state(dataOf("data", chunk, encoding));
    done();
  }
  _flush(this: any, done: () => void): void {
    this.push(this.digest());
    done();
  }
}

/** Returns a plain Uint8Array, the only kind of view that the engine accepts. */
function plain(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

lazyTransform(Hash);
lazyTransform(Hmac);

export function createHash(algorithm: string, options?: object): Hash {
  return new Hash(algorithm, options);
}
export function createHmac(algorithm: string, key: unknown, options?: object): Hmac {
  return new Hmac(algorithm, key, options);
}

/** Computes a digest in one call. */
export function hash(algorithm: string, data: string | ArrayBufferView, outputEncoding: string = "hex"): any {
  checkString("algorithm", algorithm);
  if (typeof data !== "string" && !ArrayBuffer.isView(data)) throw invalidArgType("input", "of type string or an instance of Buffer, TypedArray, or DataView", data);
  return new Hash(algorithm).update(bytesOf("input", data)).digest(outputEncoding);
}
