/** `pi:node/crypto/exchange`: RSA encryption, shared secrets, `ECDH`. */

import { buildKey, generateKey } from "pi:engine";
import type { Key } from "pi:engine";
import { checkFunction, checkString, coded, invalidArgType } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { bytesOf, given } from "pi:node/crypto/bytes";
import { invalidProperty, opensslError, tooLarge, wrongOperation } from "pi:node/crypto/encodings";
import { engineName } from "pi:node/crypto/hash";
import { KeyObject, asymmetric, engineKey, wholeOption } from "pi:node/crypto/keys";
import { curveOf } from "pi:node/crypto/pairs";
import { cryptWith, plain, seed, signWith } from "pi:web/keys";
import { queueTick } from "pi:web/ticks";

const PKCS1 = 1;
const OAEP = 4;
const EMPTY = new Uint8Array(0);

/** Encrypts or decrypts text or bytes. `options` may contain padding, digest and label in addition to the key. */
function crypt(operation: "encrypt" | "decrypt", options: any, buffer: unknown): Buffer {
  const key = asymmetric(options, { part: operation === "encrypt" ? "public" : "private" });
  const given = typeof options === "object" ? options : undefined;
  const padding = wholeOption(given, "padding") ?? OAEP;
  const { oaepHash, oaepLabel, encoding } = given ?? {};
  if (oaepHash !== undefined) checkString("key.oaepHash", oaepHash);
  const label = oaepLabel === undefined ? EMPTY : typeof oaepLabel === "string" ? Buffer.from(oaepLabel, encoding) : bytesOf("key.oaepLabel", oaepLabel);
  const data = typeof buffer === "string" ? Buffer.from(buffer, encoding) : bytesOf("buffer", buffer);
  if (key("kind") !== "rsa") throw wrongOperation();
  const digest = engineName(oaepHash ?? "sha1");
  if (padding === OAEP && digest === undefined) {
    throw Object.assign(new Error("Invalid digest used"), { code: "ERR_OSSL_EVP_INVALID_DIGEST" });
  }
  if (padding !== OAEP && padding !== PKCS1) throw opensslError("1C8000A5", "Provider routines", "illegal or unsupported padding mode", "ERR_OSSL_ILLEGAL_OR_UNSUPPORTED_PADDING_MODE");
  const result = cryptWith(operation, key, padding === OAEP ? "oaep" : "pkcs1", digest ?? "", label as Uint8Array, data as unknown as Uint8Array);
  if (result) return Buffer.from(result.buffer);
  if (operation === "encrypt") throw tooLarge();
  throw opensslError("02000079", "rsa routines", "oaep decoding error", "ERR_OSSL_RSA_OAEP_DECODING_ERROR");
}

export function publicEncrypt(key: unknown, buffer: unknown): Buffer {
  return crypt("encrypt", key, buffer);
}
export function privateDecrypt(key: unknown, buffer: unknown): Buffer {
  return crypt("decrypt", key, buffer);
}

function bare(options: any, part: "public" | "private", buffer: unknown): [Key, Uint8Array] {
  const key = asymmetric(options, { part });
  if (key("kind") !== "rsa") throw wrongOperation();
  const padding = wholeOption(typeof options === "object" ? options : undefined, "padding") ?? PKCS1;
  if (padding !== PKCS1) throw opensslError("1C8000A5", "Provider routines", "illegal or unsupported padding mode", "ERR_OSSL_ILLEGAL_OR_UNSUPPORTED_PADDING_MODE");
  return [key, typeof buffer === "string" ? (Buffer.from(buffer) as unknown as Uint8Array) : bytesOf("buffer", buffer)];
}

/** Returns the RSA signature of a text, without a digest. */
export function privateEncrypt(options: unknown, buffer: unknown): Buffer {
  const [key, data] = bare(options, "private", buffer);
  const result = signWith(key, { padding: "bare", digest: "" }, data);
  if (!result) throw tooLarge();
  return Buffer.from(result.buffer);
}
export function publicDecrypt(options: unknown, buffer: unknown): Buffer {
  const [key, data] = bare(options, "public", buffer);
  const result = key("recover", plain(data));
  if (!result) throw opensslError("0200008A", "rsa routines", "invalid padding", "ERR_OSSL_RSA_INVALID_PADDING");
  return Buffer.from(result.buffer);
}

export function diffieHellman(options: any, done?: unknown): Buffer | void {
  if (typeof options !== "object" || options === null) throw invalidArgType("options", "of type object", options);
  if (done !== undefined) checkFunction("callback", done);
  const { privateKey, publicKey } = options;
  for (const [name, key] of [["privateKey", privateKey], ["publicKey", publicKey]] as const) {
    if (!(key instanceof KeyObject)) throw invalidProperty(`options.${name}`, key);
  }
  const wrong = (type: string, expected: string) => coded(TypeError, "ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE", `Invalid key object type ${type}, expected ${expected}.`);
  if (privateKey.type !== "private") throw wrong(privateKey.type, "private");
  if (publicKey.type === "secret") throw wrong(publicKey.type, "private or public");
  const types = [privateKey.asymmetricKeyType, publicKey.asymmetricKeyType];
  if (types[0] !== types[1] || !["ec", "x25519"].includes(types[0]!)) {
    throw coded(Error, "ERR_CRYPTO_INCOMPATIBLE_KEY", `Incompatible key types for Diffie-Hellman: ${types[0]} and ${types[1]}`);
  }
  const [own, other] = [engineKey(privateKey)!, engineKey(publicKey)!];
  if (own("kind") !== other("kind")) {
    throw opensslError("1C8000CB", "Provider routines", "mismatching domain parameters", "ERR_OSSL_MISMATCHING_DOMAIN_PARAMETERS");
  }
  const secret = own("agree", other("public")("der", "spki")!);
  if (!secret) throw opensslError("1C80007D", "Provider routines", "failed during derivation", "ERR_OSSL_FAILED_DURING_DERIVATION");
  const result = Buffer.from(secret.buffer);
  if (done === undefined) return result;
  queueTick(() => (done as (error: null, secret: Buffer) => void)(null, result));
}

const read = (name: string, value: unknown, encoding?: string): Uint8Array =>
  typeof value === "string" ? (Buffer.from(value, encoding) as unknown as Uint8Array) : bytesOf(name, value);

/** Returns a public key as a point, in one of the point formats. */
function point(key: Key, format: string | undefined): Uint8Array {
  if (format === "compressed") return key("point", true)!;
  const whole = key("point", false)!;
  if (format === undefined || format === "uncompressed") return whole;
  if (format !== "hybrid") throw coded(TypeError, "ERR_CRYPTO_ECDH_INVALID_FORMAT", `Invalid ECDH format: ${format}`);
  whole[0] = 6 + (whole.at(-1)! & 1);
  return whole;
}

/** Returns the key of a point; the hybrid form contains both coordinates and the sign. */
function pointKey(curve: string, bytes: Uint8Array): Key | undefined {
  const first = bytes[0]!;
  const hybrid = (first === 6 || first === 7) && (bytes.at(-1)! & 1) === first - 6;
  return buildKey(curve, hybrid ? Uint8Array.of(4, ...bytes.subarray(1)) : plain(bytes));
}

const failed = (message: string): Error => coded(Error, "ERR_CRYPTO_OPERATION_FAILED", message);

export class ECDH {
  #curve: string;
  #key: Key | undefined;

  constructor(curve: string) {
    checkString("curve", curve);
    this.#curve = curveOf(curve);
  }
  generateKeys(encoding?: string, format?: string): any {
    this.#key = generateKey(this.#curve, seed(), 0, 0)!;
    return this.getPublicKey(encoding, format);
  }
  computeSecret(other: unknown, inputEncoding?: string, outputEncoding?: string): any {
    const bytes = read("otherPublicKey", other, inputEncoding);
    if (!this.#key?.("private")) throw coded(RangeError, "ERR_CRYPTO_INVALID_KEYPAIR", "Invalid key pair");
    const key = pointKey(this.#curve, bytes);
    if (!key) throw coded(Error, "ERR_CRYPTO_ECDH_INVALID_PUBLIC_KEY", "Public key is not valid for specified curve");
    return given(this.#key("agree", key("der", "spki")!)!, outputEncoding);
  }
  getPublicKey(encoding?: string, format?: string): any {
    if (!this.#key) throw failed("Failed to get ECDH public key");
    return given(point(this.#key, format), encoding);
  }
  getPrivateKey(encoding?: string): any {
    const number = this.#key?.("private") ? this.#key("numbers")[2]! : undefined;
    if (!number) throw failed("Failed to get ECDH private key");
    return given(number, encoding);
  }
  setPrivateKey(key: unknown, encoding?: string): void {
    const bytes = read("key", key, encoding);
    const made = buildKey(this.#curve, EMPTY, plain(bytes));
    if (!made) throw coded(RangeError, "ERR_CRYPTO_INVALID_KEYTYPE", "Private key is not valid for specified curve.");
    this.#key = made;
  }
  setPublicKey(key: unknown, encoding?: string): void {
    const made = pointKey(this.#curve, read("key", key, encoding));
    if (!made) throw failed("Failed to convert Buffer to EC_POINT");
    this.#key = made;
  }
  static convertKey(key: unknown, curve: string, inputEncoding?: string, outputEncoding?: string, format?: string): any {
    checkString("curve", curve);
    const bytes = read("key", key, inputEncoding);
    const made = bytes.length === 0 ? undefined : pointKey(curveOf(curve), bytes);
    if (!made) throw failed("Failed to convert Buffer to EC_POINT");
    return given(point(made, format), outputEncoding);
  }
}

export function createECDH(curve: string): ECDH {
  return new ECDH(curve);
}
