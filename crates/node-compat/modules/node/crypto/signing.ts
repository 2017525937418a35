/** `pi:node/crypto/signing`: `sign`, `verify`, and their incremental forms. */

import { digest as createDigest } from "pi:engine";
import type { Digest, Key } from "pi:engine";
import { checkFunction, checkString, coded, invalidArgType } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { bytesOf, dataOf, given } from "pi:node/crypto/bytes";
import { invalidProperty, opensslError, tooLarge, wrongOperation } from "pi:node/crypto/encodings";
import { engineName } from "pi:node/crypto/hash";
import { asymmetric, wholeOption } from "pi:node/crypto/keys";
import { lazyTransform } from "pi:node/stream/lazy";
import { EDWARDS, plain, signWith, verifyWith } from "pi:web/keys";
import type { Scheme } from "pi:web/keys";
import { queueTick } from "pi:web/ticks";

const PSS = 6;
const SIZES: Record<string, number> = { sha1: 20, sha224: 28, sha256: 32, sha384: 48, sha512: 64, "sha512-224": 28, "sha512-256": 32 };

const keyRequired = (): Error => coded(Error, "ERR_CRYPTO_SIGN_KEY_REQUIRED", "No key provided to sign");
const badDigest = (): Error => opensslError("1C80007A", "Provider routines", "invalid digest", "ERR_OSSL_INVALID_DIGEST");

interface Options {
  padding: number | undefined;
  saltLength: number | undefined;
  numbers: boolean;
}

/** Returns the options that accompany the key. */
function optionsOf(key: any): Options {
  const options = typeof key === "object" ? key : undefined;
  const padding = wholeOption(options, "padding");
  const saltLength = wholeOption(options, "saltLength");
  const encoding = options?.dsaEncoding;
  if (encoding !== undefined && encoding !== "der" && encoding !== "ieee-p1363") throw invalidProperty("options.dsaEncoding", encoding);
  return { padding, saltLength, numbers: encoding === "ieee-p1363" };
}

/** Returns the signature scheme for a key, with symbolic salt lengths resolved. */
function schemeOf(key: Key, digest: string, { padding, saltLength, numbers }: Options, verifying: boolean): Scheme {
  if (key("kind") !== "rsa") return { padding: numbers ? "numbers" : "der", digest };
  if (padding !== PSS) return { padding: "pkcs1", digest };
  const size = SIZES[digest] ?? 0;
  const modulus = key("numbers")[0]!;
  const most = Math.ceil((modulus.length * 8 - Math.clz32(modulus[0]!) + 23) / 8) - size - 2;
  const salt = saltLength === -1 ? size : saltLength === undefined || saltLength === -2 ? (verifying ? -1 : most) : saltLength;
  if (!verifying && salt > most) {
    throw Object.assign(tooLarge(), { opensslErrorStack: ["error:1C880004:Provider routines::RSA lib"] });
  }
  return { padding: "pss", digest, salt };
}

function signDigest(key: Key, name: string, digest: Uint8Array, options: Options): Uint8Array {
  const signature = signWith(key, schemeOf(key, name, options, false), digest);
  if (!signature) throw badDigest();
  return signature;
}

/** Returns the engine's name of the digest, and the digest of the data. */
function digestOf(algorithm: string | null | undefined, data: Uint8Array): [string, Uint8Array] {
  const name = engineName(algorithm ?? "sha256");
  const digest = name === undefined ? undefined : createDigest(name);
  if (!digest) throw coded(TypeError, "ERR_CRYPTO_INVALID_DIGEST", `Invalid digest: ${algorithm}`);
  digest(plain(data));
  return [name!, digest()];
}

function checkEdwards(key: Key, algorithm: string | null | undefined): boolean {
  const kind = key("kind");
  if (!EDWARDS[kind]) return false;
  if (kind !== "ed25519") throw wrongOperation();
  if (algorithm !== null && algorithm !== undefined) {
    if (engineName(algorithm) === undefined) throw coded(TypeError, "ERR_CRYPTO_INVALID_DIGEST", `Invalid digest: ${algorithm}`);
    throw badDigest();
  }
  return true;
}

/** Calls back with the result. Errors in the arguments are thrown; errors of the computation go to the callback. */
function answer<T>(done: unknown, compute: () => T): T | void {
  if (done === undefined) return compute();
  let outcome: [unknown, T?];
  try {
    outcome = [null, compute()];
  } catch (error) {
    outcome = [error];
  }
  queueTick(() => (done as (...args: unknown[]) => void)(...outcome));
}

export function sign(algorithm: string | null | undefined, data: any, key: any, done?: unknown): any {
  if (algorithm !== null && algorithm !== undefined) checkString("algorithm", algorithm);
  if (done !== undefined) checkFunction("callback", done);
  const bytes = bytesOf("data", data);
  if (!key) throw keyRequired();
  const options = optionsOf(key);
  const engine = asymmetric(key, { part: "private" });
  return answer(done, () => {
    if (checkEdwards(engine, algorithm)) return given(signWith(engine, { padding: "", digest: "" }, bytes)!, undefined);
    return given(signDigest(engine, ...digestOf(algorithm, bytes), options), undefined);
  });
}

export function verify(algorithm: string | null | undefined, data: any, key: any, signature: any, done?: unknown): any {
  if (algorithm !== null && algorithm !== undefined) checkString("algorithm", algorithm);
  if (done !== undefined) checkFunction("callback", done);
  const bytes = bytesOf("data", data);
  const options = optionsOf(key);
  if (!ArrayBuffer.isView(signature) && !(signature instanceof ArrayBuffer)) throw invalidArgType("signature", "an instance of Buffer, TypedArray, or DataView", signature);
  const engine = asymmetric(key, { part: "public" });
  const claimed = bytesOf("signature", signature);
  return answer(done, () => {
    if (checkEdwards(engine, algorithm)) return verifyWith(engine, { padding: "", digest: "" }, bytes, claimed);
    const [name, digest] = digestOf(algorithm, bytes);
    return verifyWith(engine, schemeOf(engine, name, options, true), digest, claimed);
  });
}

/** Base of `Sign` and `Verify`: an incremental digest. */
abstract class Signature {
  #digest: Digest | undefined;
  #name: string;
  _streamOptions: object | undefined;

  constructor(algorithm: string, options?: object) {
    checkString("algorithm", algorithm);
    const name = engineName(algorithm);
    const digest = name === undefined ? undefined : createDigest(name);
    if (!digest) throw coded(TypeError, "ERR_CRYPTO_INVALID_DIGEST", "Invalid digest");
    this.#digest = digest;
    this.#name = name!;
    Object.defineProperty(this, "_streamOptions", { value: options, enumerable: false });
  }
  update(data: string | ArrayBufferView, encoding?: string): this {
    const bytes = dataOf("data", data, encoding);
    if (!this.#digest) throw coded(Error, "ERR_CRYPTO_INVALID_STATE", "Not initialised");
    this.#digest(plain(bytes));
    return this;
  }
  /** Finishes the digest. Returns its name and value. */
  _end(key: Key): [string, Uint8Array] {
    if (!this.#digest) throw coded(Error, "ERR_CRYPTO_INVALID_STATE", "Not initialised");
    if (EDWARDS[key("kind")]) throw coded(Error, "ERR_CRYPTO_UNSUPPORTED_OPERATION", "Unsupported crypto operation");
    const digest = this.#digest();
    this.#digest = undefined;
    return [this.#name, digest];
  }
  _transform(chunk: any, encoding: string, done: () => void): void {
    this.update(chunk, encoding);
    done();
  }
  _flush(done: () => void): void {
    done();
  }
}
lazyTransform(Signature);

export class Sign extends Signature {
  sign(key: any, encoding?: string): any {
    if (!key) throw keyRequired();
    const options = optionsOf(key);
    const engine = asymmetric(key, { part: "private" });
    return given(signDigest(engine, ...this._end(engine), options), encoding);
  }
}

export class Verify extends Signature {
  verify(key: any, signature: any, encoding?: string): boolean {
    const options = optionsOf(key);
    const engine = asymmetric(key, { part: "public" });
    const claimed = typeof signature === "string" ? (Buffer.from(signature, encoding) as unknown as Uint8Array) : bytesOf("signature", signature);
    const [name, digest] = this._end(engine);
    return verifyWith(engine, schemeOf(engine, name, options, true), digest, claimed);
  }
}

export function createSign(algorithm: string, options?: object): Sign {
  return new Sign(algorithm, options);
}
export function createVerify(algorithm: string, options?: object): Verify {
  return new Verify(algorithm, options);
}
