/**
 * `pi:web/subtle`: `crypto.subtle`: digests, HMAC, AES-GCM, AES-CBC, AES-CTR, PBKDF2, HKDF; algorithms with key pairs are in
 * `pi:web/pairs`.
 *
 * Every method computes synchronously and returns a settled promise.
 */

import { cipher, deriveKey, digest, fillRandom } from "pi:engine";
import { decodeText, encodeText } from "pi:node/buffer/codec";
import type { Key } from "pi:engine";
import { viewOf } from "pi:web/encoding";
import { KEY } from "pi:web/keys";
import { PAIRS, agree, cryptPair, exportPair, generatePair, importPair, signPair, verifyPair } from "pi:web/pairs";
import type { Plan } from "pi:web/pairs";

/** Symbol under which a key holds its bytes, for Node's functions. */
const BYTES = Symbol.for("pijs.key.bytes");
const BUILD = Symbol("build");

type Source = ArrayBuffer | ArrayBufferView;
type Algorithm = string | { name: string; [member: string]: any };

const HASHES: Record<string, string> = { "SHA-1": "sha1", "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512" };
const HASH_BLOCKS: Record<string, number> = { "SHA-1": 512, "SHA-256": 512, "SHA-384": 1024, "SHA-512": 1024 };
const USAGES = ["encrypt", "decrypt", "sign", "verify", "deriveKey", "deriveBits", "wrapKey", "unwrapKey"];
const ALLOWED: Record<string, string[]> = {
  HMAC: ["sign", "verify"],
  "AES-GCM": ["encrypt", "decrypt", "wrapKey", "unwrapKey"],
  "AES-CBC": ["encrypt", "decrypt", "wrapKey", "unwrapKey"],
  "AES-CTR": ["encrypt", "decrypt", "wrapKey", "unwrapKey"],
  PBKDF2: ["deriveKey", "deriveBits"],
  HKDF: ["deriveKey", "deriveBits"],
};

const failure = (name: string, message: string): DOMException => new DOMException(message, name);
const plain = (source: Source): Uint8Array => {
  const view = viewOf(source);
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
};

export class CryptoKey {
  readonly type: string;
  readonly extractable: boolean;
  readonly algorithm: { name: string; [member: string]: any };
  readonly usages: string[];

  constructor(key?: unknown, type?: string, extractable?: boolean, algorithm?: any, usages?: string[], bytes?: Uint8Array, pair?: Key) {
    if (key !== BUILD) throw Object.assign(new TypeError("Illegal constructor"), { code: "ERR_ILLEGAL_CONSTRUCTOR" });
    this.type = type!;
    this.extractable = extractable!;
    this.algorithm = algorithm;
    this.usages = usages!;
    if (bytes) Object.defineProperty(this, BYTES, { value: bytes });
    if (pair) Object.defineProperty(this, KEY, { value: pair });
  }
  get [Symbol.toStringTag](): string {
    return "CryptoKey";
  }
}

const bytesOf = (key: CryptoKey): Uint8Array => (key as any)[BYTES];
const pairOf = (key: CryptoKey): Key => (key as any)[KEY];

function named(algorithm: Algorithm): { name: string; [member: string]: any } {
  const given = typeof algorithm === "string" ? { name: algorithm } : algorithm;
  const known = [...Object.keys(HASHES), ...Object.keys(ALLOWED), ...Object.keys(PAIRS)].find((name) => name.toLowerCase() === String(given?.name).toLowerCase());
  if (!known) throw failure("NotSupportedError", "Unrecognized algorithm name");
  return { ...given, name: known };
}

function hashOf(algorithm: Algorithm | undefined): { name: string; engine: string } {
  if (algorithm === undefined) throw new TypeError("The algorithm needs a hash");
  const { name } = named(algorithm);
  const engine = HASHES[name];
  if (!engine) throw failure("NotSupportedError", "Unrecognized algorithm name");
  return { name, engine };
}

function checkUse(key: CryptoKey, name: string, usage: string): void {
  if (!(key instanceof CryptoKey)) throw Object.assign(new TypeError(`Failed to execute '${usage}' on 'SubtleCrypto': 2nd argument is not of type CryptoKey.`), { code: "ERR_INVALID_ARG_TYPE" });
  if (key.algorithm.name !== name) throw failure("InvalidAccessError", "Key algorithm mismatch");
  if (!key.usages.includes(usage)) throw failure("InvalidAccessError", `Unable to use this key to ${usage}`);
}

function make(algorithm: { name: string; [member: string]: any }, bytes: Uint8Array, extractable: boolean, usages: string[]): CryptoKey {
  const allowed = ALLOWED[algorithm.name]!;
  for (const usage of usages) {
    if (!USAGES.includes(usage)) throw new TypeError(`'${usage}' is not a valid enum value of type KeyUsage.`);
    if (!allowed.includes(usage)) throw failure("SyntaxError", `Unsupported key usage for ${algorithm.name === "HMAC" ? "an HMAC" : `an ${algorithm.name}`} key`);
  }
  const { name } = algorithm;
  if (usages.length === 0) throw failure("SyntaxError", "Usages cannot be empty when importing a secret key.");
  if ((name === "PBKDF2" || name === "HKDF") && extractable) throw failure("SyntaxError", `${name} keys are not extractable`);
  const shown =
    name === "HMAC" ? { name, hash: { name: hashOf(algorithm.hash).name }, length: bytes.length * 8 } : name.startsWith("AES") ? { name, length: bytes.length * 8 } : { name };
  if (name.startsWith("AES") && ![16, 24, 32].includes(bytes.length)) throw failure("DataError", "Invalid key length");
  if (name === "HMAC" && bytes.length === 0) throw failure("DataError", "Zero-length key is not supported");
  return new CryptoKey(BUILD, "secret", extractable, shown, USAGES.filter((usage) => usages.includes(usage)), bytes);
}

/** Makes one part of a key. */
function part(plan: Plan, extractable: boolean): CryptoKey {
  const isPrivate = plan.key("private");
  for (const usage of plan.usages) {
    if (!USAGES.includes(usage)) throw new TypeError(`'${usage}' is not a valid enum value of type KeyUsage.`);
  }
  const usages = USAGES.filter((usage) => plan.usages.includes(usage));
  return new CryptoKey(BUILD, isPrivate ? "private" : "public", extractable || !isPrivate, plan.algorithm, usages, undefined, plan.key);
}

/** Returns the settings of an algorithm with key pairs, with its hash resolved. */
function paired(algorithm: Algorithm): { name: string; [member: string]: any } {
  const settings = named(algorithm);
  return settings.hash === undefined ? settings : { ...settings, hash: { name: hashOf(settings.hash).name } };
}

/** Creates the `CryptoKey` of a `KeyObject`. */
export function cryptoKey(algorithm: Algorithm, secret: Uint8Array | undefined, pair: Key | undefined, extractable: boolean, usages: string[]): CryptoKey {
  const settings = named(algorithm);
  if (secret) return make(settings, secret, extractable, usages);
  const form = pair!("private") ? "pkcs8" : "spki";
  return part(importPair(form, pair!("der", form), paired(algorithm), usages, extractable), extractable);
}

const digestOf = (data: Source) => (hash: string): Uint8Array => {
  const running = digest(hash)!;
  running(plain(data));
  return running();
};

function lengthOf(algorithm: { name: string; [member: string]: any }): number {
  if (algorithm.name === "HMAC") return algorithm.length ?? HASH_BLOCKS[hashOf(algorithm.hash).name]!;
  if (![128, 192, 256].includes(algorithm.length)) throw failure("OperationError", "Invalid key length");
  return algorithm.length;
}

function mac(key: CryptoKey, data: Source): Uint8Array {
  const running = digest(hashOf(key.algorithm.hash).engine, bytesOf(key))!;
  running(plain(data));
  return running();
}

function crypt(encrypt: boolean, algorithm: Algorithm, key: CryptoKey, data: Source, usage: string = encrypt ? "encrypt" : "decrypt"): ArrayBuffer {
  const settings = named(algorithm);
  if (!(key instanceof CryptoKey)) checkUse(key, settings.name, usage);
  if (key.algorithm.name !== settings.name || !key.usages.includes(usage)) throw failure("InvalidAccessError", "The requested operation is not valid for the provided key");
  if (settings.name === "RSA-OAEP") return cryptPair(encrypt, pairOf(key), key.algorithm, settings, plain(data)).buffer as ArrayBuffer;
  const mode = settings.name.slice(4).toLowerCase();
  const tagBytes = (settings.tagLength ?? 128) / 8;
  const vector = settings.name === "AES-CTR" ? settings.counter : settings.iv;
  if (vector === undefined) throw new TypeError("Failed to normalize algorithm: 'iv' is required.");
  const engine = cipher(mode, encrypt, bytesOf(key), plain(vector));
  if (!engine) throw failure("OperationError", "algorithm.iv must contain exactly 16 bytes");
  let input = plain(data);
  if (mode === "gcm") {
    if (settings.additionalData !== undefined) engine("aad", plain(settings.additionalData));
    if (!encrypt) {
      if (input.length < tagBytes) throw failure("OperationError", "The provided data is too small.");
      engine("expect", input.slice(input.length - tagBytes));
      input = input.slice(0, input.length - tagBytes);
    }
  }
  const body = engine("update", input);
  const last = engine("final");
  if (typeof last === "string") throw failure("OperationError", "The operation failed for an operation-specific reason");
  const tag = mode === "gcm" && encrypt ? engine("tag")!.slice(0, tagBytes) : new Uint8Array(0);
  const all = new Uint8Array(body.length + last.length + tag.length);
  all.set(body);
  all.set(last, body.length);
  all.set(tag, body.length + last.length);
  return all.buffer as ArrayBuffer;
}

function bits(algorithm: Algorithm, key: CryptoKey, length: number | null): Uint8Array {
  const settings = named(algorithm);
  if (settings.name === "ECDH" || settings.name === "X25519") {
    if (!(settings.public instanceof CryptoKey)) throw Object.assign(new TypeError("algorithm.public must be a public key"), { code: "ERR_INVALID_ARG_TYPE" });
    if (settings.public.type !== "public") throw failure("InvalidAccessError", "algorithm.public must be a public key");
    if (settings.public.algorithm.name !== key.algorithm.name) throw failure("InvalidAccessError", `algorithm.public must be an ${key.algorithm.name} key`);
    if (settings.public.algorithm.namedCurve !== key.algorithm.namedCurve) throw failure("InvalidAccessError", "Named curve mismatch");
    const secret = agree(pairOf(key), pairOf(settings.public));
    if (length === null || length === undefined) return secret;
    if (length > secret.length * 8) throw failure("OperationError", "derived bit length is too small");
    const cut = secret.slice(0, Math.ceil(length / 8));
    if (length % 8) cut[cut.length - 1]! &= 0xff << (8 - (length % 8));
    return cut;
  }
  if (length === null || length === undefined || length % 8 !== 0) throw failure("OperationError", "length must be a multiple of 8");
  if (key.algorithm.name !== settings.name) throw failure("InvalidAccessError", "Key algorithm mismatch");
  const { engine } = hashOf(settings.hash);
  const info = settings.name === "HKDF" ? plain(settings.info) : new Uint8Array(0);
  const derived = deriveKey(settings.name.toLowerCase(), engine, bytesOf(key), plain(settings.salt), info, settings.iterations ?? 0, 0, 0, length / 8);
  if (!derived) throw failure("OperationError", "The operation failed for an operation-specific reason");
  return derived;
}

export class SubtleCrypto {
  async digest(algorithm: Algorithm, data: Source): Promise<ArrayBuffer> {
    const running = digest(hashOf(algorithm).engine)!;
    running(plain(data));
    return running().buffer as ArrayBuffer;
  }
  async importKey(format: string, data: any, algorithm: Algorithm, extractable: boolean, usages: string[]): Promise<CryptoKey> {
    if (named(algorithm).name in PAIRS) {
      return part(importPair(format, format === "jwk" ? data : plain(data), paired(algorithm), [...usages], Boolean(extractable)), Boolean(extractable));
    }
    if (format !== "raw" && format !== "jwk") throw failure("NotSupportedError", `Unable to import a key in ${format} format: only raw and jwk are available in a PiJS realm`);
    const bytes = format === "raw" ? plain(data).slice() : encodeText(String(data?.k), "base64url");
    return make(named(algorithm), bytes, Boolean(extractable), usages);
  }
  async exportKey(format: string, key: CryptoKey): Promise<any> {
    if (!key.extractable) throw failure("InvalidAccessException", "key is not extractable");
    if (pairOf(key)) return exportPair(format, pairOf(key), key.algorithm, key.usages, key.extractable);
    if (format === "raw") return bytesOf(key).slice().buffer;
    if (format !== "jwk") throw failure("NotSupportedError", `Unable to export a raw key in ${format} format`);
    const { name, hash } = key.algorithm;
    const alg = name === "HMAC" ? `HS${hash.name.slice(4)}` : `A${bytesOf(key).length * 8}${name.slice(4)}`;
    return { key_ops: key.usages, ext: key.extractable, alg, kty: "oct", k: decodeText(bytesOf(key), "base64url") };
  }
  async generateKey(algorithm: Algorithm, extractable: boolean, usages: string[]): Promise<CryptoKey | { publicKey: CryptoKey; privateKey: CryptoKey }> {
    const settings = named(algorithm);
    if (settings.name in PAIRS) {
      const { publicKey, privateKey } = generatePair(paired(algorithm), [...usages]);
      return { publicKey: part(publicKey, true), privateKey: part(privateKey, Boolean(extractable)) };
    }
    const bytes = new Uint8Array(lengthOf(settings) / 8);
    fillRandom(bytes);
    return make(settings, bytes, Boolean(extractable), usages);
  }
  async sign(algorithm: Algorithm, key: CryptoKey, data: Source): Promise<ArrayBuffer> {
    checkUse(key, named(algorithm).name, "sign");
    if (pairOf(key)) return signPair(pairOf(key), key.algorithm, paired(algorithm), digestOf(data), plain(data)).buffer as ArrayBuffer;
    return mac(key, data).buffer as ArrayBuffer;
  }
  async verify(algorithm: Algorithm, key: CryptoKey, signature: Source, data: Source): Promise<boolean> {
    checkUse(key, named(algorithm).name, "verify");
    if (pairOf(key)) return verifyPair(pairOf(key), key.algorithm, paired(algorithm), digestOf(data), plain(data), plain(signature));
    const [expected, claimed] = [mac(key, data), plain(signature)];
    let difference = expected.length ^ claimed.length;
    for (let at = 0; at < expected.length; at++) difference |= expected[at]! ^ (claimed[at] ?? 0);
    return difference === 0;
  }
  async encrypt(algorithm: Algorithm, key: CryptoKey, data: Source): Promise<ArrayBuffer> {
    return crypt(true, algorithm, key, data);
  }
  async decrypt(algorithm: Algorithm, key: CryptoKey, data: Source): Promise<ArrayBuffer> {
    return crypt(false, algorithm, key, data);
  }
  async deriveBits(algorithm: Algorithm, key: CryptoKey, length: number): Promise<ArrayBuffer> {
    checkUse(key, named(algorithm).name, "deriveBits");
    return bits(algorithm, key, length).buffer as ArrayBuffer;
  }
  async deriveKey(algorithm: Algorithm, key: CryptoKey, derived: Algorithm, extractable: boolean, usages: string[]): Promise<CryptoKey> {
    checkUse(key, named(algorithm).name, "deriveKey");
    const target = named(derived);
    return make(target, bits(algorithm, key, lengthOf(target)), Boolean(extractable), usages);
  }
  async wrapKey(format: string, key: CryptoKey, wrapping: CryptoKey, algorithm: Algorithm): Promise<ArrayBuffer> {
    const exported = await this.exportKey(format, key);
    const data = format === "jwk" ? encodeText(JSON.stringify(exported), "utf8") : exported;
    return crypt(true, algorithm, wrapping, data, "wrapKey");
  }
  async unwrapKey(format: string, wrapped: Source, wrapping: CryptoKey, algorithm: Algorithm, of: Algorithm, extractable: boolean, usages: string[]): Promise<CryptoKey> {
    const data = crypt(false, algorithm, wrapping, wrapped, "unwrapKey");
    const given = format === "jwk" ? JSON.parse(decodeText(new Uint8Array(data), "utf8")) : data;
    return this.importKey(format, given, of, extractable, usages);
  }
  get [Symbol.toStringTag](): string {
    return "SubtleCrypto";
  }
}
