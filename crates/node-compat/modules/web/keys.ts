/**
 * `pi:web/keys`: key pairs of `node:crypto` and `crypto.subtle`, and their JWK form.
 *
 * The engine computes, and a key is a function of the engine. The driver provides randomness: each operation that needs it gets a
 * seed.
 */

import { buildKey, fillRandom } from "pi:engine";
import type { Key } from "pi:engine";
import { decodeText, encodeText } from "pi:node/buffer/codec";

/** Key under which a `CryptoKey` holds the engine's key. */
export const KEY = Symbol.for("pijs.key.pair");

export type Jwk = Record<string, any>;

const EMPTY = new Uint8Array(0);

export const EDWARDS: Record<string, string> = { ed25519: "Ed25519", x25519: "X25519" };
export const CURVES = ["P-256", "secp256k1", "P-384", "P-521"];

export function seed(): Uint8Array {
  const bytes = new Uint8Array(32);
  fillRandom(bytes);
  return bytes;
}

/** Returns a plain Uint8Array, the only kind of view that the engine accepts. */
export const plain = (bytes: Uint8Array): Uint8Array => new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);

export const toBase64Url = (bytes: Uint8Array): string => decodeText(bytes, "base64url");
export const fromBase64Url = (text: string): Uint8Array => encodeText(text, "base64url");

const RSA_MEMBERS = ["n", "e", "d", "p", "q", "dp", "dq", "qi"];

/** Returns the members of a JWK that define the key, in Node's order. */
export function jwkOf(key: Key): Jwk {
  const kind = key("kind");
  const numbers = key("numbers").map(toBase64Url);
  if (kind === "rsa") return { kty: "RSA", ...Object.fromEntries(numbers.map((number, index) => [RSA_MEMBERS[index], number])) };
  const crv = EDWARDS[kind];
  if (crv) {
    const [x, d] = numbers;
    return d === undefined ? { crv, x, kty: "OKP" } : { crv, d, x, kty: "OKP" };
  }
  const [x, y, d] = numbers;
  return { kty: "EC", x, y, crv: kind, ...(d === undefined ? {} : { d }) };
}

/** Returns the key of a JWK; undefined if its members are invalid. The caller has checked that they are strings. */
export function keyOfJwk(jwk: Jwk): Key | undefined {
  const bytes = (name: string) => fromBase64Url(String(jwk[name]));
  if (jwk.kty === "RSA") return buildKey("rsa", ...(jwk.d === undefined ? ["n", "e"] : RSA_MEMBERS).map(bytes));
  if (jwk.kty === "OKP") return buildKey(jwk.crv.toLowerCase(), bytes("x"), ...(jwk.d === undefined ? [] : [bytes("d")]));
  const [x, y] = [bytes("x"), bytes("y")];
  const point = new Uint8Array(1 + x.length + y.length);
  point[0] = 4;
  point.set(x, 1);
  point.set(y, 1 + x.length);
  return buildKey(jwk.crv, point, ...(jwk.d === undefined ? [] : [bytes("d")]));
}

/** The parameters of a signature. */
export interface Scheme {
  /** `pkcs1`, `pss` or `bare` for RSA; `der` or `numbers` for a curve. */
  padding: string;
  /** The engine's name of the digest. */
  digest: string;
  /** Salt length of PSS; a negative value accepts any. */
  salt?: number;
}

export const signWith = (key: Key, scheme: Scheme, data: Uint8Array): Uint8Array | undefined =>
  key("sign", plain(data), scheme.padding, scheme.digest, scheme.salt ?? -1, EMPTY, seed());
export const verifyWith = (key: Key, scheme: Scheme, data: Uint8Array, signature: Uint8Array): boolean =>
  key("verify", plain(data), scheme.padding, scheme.digest, scheme.salt ?? -1, EMPTY, plain(signature));
/** Encrypts or decrypts with RSA. Returns undefined on failure. */
export const cryptWith = (operation: "encrypt" | "decrypt", key: Key, padding: string, digest: string, label: Uint8Array, data: Uint8Array): Uint8Array | undefined =>
  key(operation, plain(data), padding, digest, -1, plain(label), seed());
