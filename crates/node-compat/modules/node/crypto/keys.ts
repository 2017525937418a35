/**
 * `pi:node/crypto/keys`: `KeyObject` and its subclasses, and the arguments that crypto functions accept as keys.
 */

import { importSync } from "pi:engine";
import type { Key } from "pi:engine";
import { checkString, coded, invalidArgType } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { bytesOf } from "pi:node/crypto/bytes";
import { decodeKey, encodeKey, encodingOf, invalidProperty } from "pi:node/crypto/encodings";
import { CURVES, EDWARDS, KEY, jwkOf, keyOfJwk } from "pi:web/keys";
import type { Jwk } from "pi:web/keys";

const SECRET = Symbol.for("pijs.key.bytes");
const SOURCES = "of type string or an instance of ArrayBuffer, Buffer, TypedArray, or DataView";
const KEYS = "of type string or an instance of ArrayBuffer, Buffer, TypedArray, DataView, KeyObject, or CryptoKey";

/** Symbol that Node shows when a key is inspected. */
const kKeyType = Symbol("kKeyType");

/** The contents of a key object: the bytes of a secret, or the engine's key. */
class Handle {
  readonly secret: Uint8Array | undefined;
  readonly key: Key | undefined;
  constructor(secret: Uint8Array | undefined, key: Key | undefined) {
    this.secret = secret;
    this.key = key;
  }
}

const handles = new WeakMap<KeyObject, Handle>();

export class KeyObject {
  [kKeyType]: string;

  constructor(type: string, handle: unknown) {
    if (type !== "secret" && type !== "public" && type !== "private") {
      throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'type' is invalid. Received ${typeof type === "string" ? `'${type}'` : String(type)}`);
    }
    if (!(handle instanceof Handle)) throw invalidArgType("handle", "of type object", handle);
    this[kKeyType] = type;
    handles.set(this, handle);
  }
  get type(): string {
    return this[kKeyType];
  }
  static from(key: any): KeyObject {
    if (key?.[SECRET]) return new SecretKeyObject(new Handle(key[SECRET], undefined));
    if (key?.[KEY]) return keyObject(key[KEY]);
    throw invalidArgType("key", "an instance of CryptoKey", key);
  }
  equals(other: KeyObject): boolean {
    if (!(other instanceof KeyObject)) throw invalidArgType("otherKeyObject", "an instance of KeyObject", other);
    if (other.type !== this.type) return false;
    return Buffer.compare(identity(this), identity(other)) === 0;
  }
  get [Symbol.toStringTag](): string {
    return "KeyObject";
  }
}
/** Mark by which `util.types` recognises key objects. */
Object.defineProperty(KeyObject.prototype, Symbol.for("pijs.key.object"), { value: true });

/** Returns bytes that are equal exactly for equal keys. */
function identity(key: KeyObject): any {
  const handle = handles.get(key)!;
  return Buffer.from(handle.secret ?? handle.key!("der", key.type === "public" ? "spki" : "pkcs8")!);
}

class SecretKeyObject extends KeyObject {
  constructor(handle: Handle) {
    super("secret", handle);
  }
  get symmetricKeySize(): number {
    return handles.get(this)!.secret!.length;
  }
  export(options?: { format?: string }): any {
    if (options !== undefined && (typeof options !== "object" || options === null)) throw invalidArgType("options", "of type object", options);
    const format = options?.format;
    const copy = Buffer.from(handles.get(this)!.secret!);
    if (format === undefined || format === "buffer") return copy;
    if (format === "jwk") return { kty: "oct", k: copy.toString("base64url") };
    throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The property 'options.format' must be one of: undefined, 'buffer', 'jwk'. Received '${format}'`);
  }
  toCryptoKey(algorithm: any, extractable: boolean, usages: string[]): unknown {
    return importSync("pi:web/subtle").cryptoKey(algorithm, handles.get(this)!.secret, undefined, extractable, usages);
  }
}

const OPENSSL_CURVES: Record<string, string> = { "P-256": "prime256v1", "P-384": "secp384r1", "P-521": "secp521r1", secp256k1: "secp256k1" };

class AsymmetricKeyObject extends KeyObject {
  get asymmetricKeyType(): string {
    const kind = handles.get(this)!.key!("kind");
    return OPENSSL_CURVES[kind] ? "ec" : kind;
  }
  get asymmetricKeyDetails(): object {
    const key = handles.get(this)!.key!;
    const kind = key("kind");
    if (OPENSSL_CURVES[kind]) return { namedCurve: OPENSSL_CURVES[kind] };
    if (kind !== "rsa") return {};
    const [modulus, exponent] = key("numbers") as [Uint8Array, Uint8Array];
    return {
      modulusLength: modulus.length * 8 - Math.clz32(modulus[0]!) + 24,
      publicExponent: exponent.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n),
    };
  }
  toCryptoKey(algorithm: any, extractable: boolean, usages: string[]): unknown {
    return importSync("pi:web/subtle").cryptoKey(algorithm, undefined, handles.get(this)!.key, extractable, usages);
  }
}

function checkOptions(options: unknown): void {
  if (typeof options !== "object" || options === null) throw invalidArgType("options", "of type object", options);
}

function exported(object: AsymmetricKeyObject, part: "public" | "private", options: any): any {
  checkOptions(options);
  const encoding = encodingOf(options, false, { part, keyType: object.asymmetricKeyType });
  const key = handles.get(object)!.key!;
  return encoding.format === "jwk" ? jwkOf(key) : encodeKey(key, encoding);
}

class PublicKeyObject extends AsymmetricKeyObject {
  constructor(handle: Handle) {
    super("public", handle);
  }
  export(options: any): any {
    return exported(this, "public", options);
  }
}

class PrivateKeyObject extends AsymmetricKeyObject {
  constructor(handle: Handle) {
    super("private", handle);
  }
  export(options: any): any {
    return exported(this, "private", options);
  }
}

/** Wraps the engine's key. */
export function keyObject(key: Key): any {
  return key("private") ? new PrivateKeyObject(new Handle(undefined, key)) : new PublicKeyObject(new Handle(undefined, key));
}
export const engineKey = (key: KeyObject): Key | undefined => handles.get(key)!.key;

export function createSecretKey(key: unknown, encoding?: string): any {
  const bytes = typeof key === "string" ? Buffer.from(key, encoding) : bytesOf("key", key);
  return new SecretKeyObject(new Handle(Uint8Array.from(bytes as Uint8Array), undefined));
}
export const secretKey = (bytes: Uint8Array): any => new SecretKeyObject(new Handle(bytes, undefined));

/** Returns the bytes of a secret, for ciphers and MACs. */
export function keyOf(name: string, value: unknown): Uint8Array {
  if (value instanceof KeyObject) {
    const { secret } = handles.get(value)!;
    if (!secret) throw wrongType(value.type, "secret");
    return secret;
  }
  return (value as any)?.[SECRET] ?? bytesOf(name, value, KEYS);
}

const wrongType = (type: string, expected: string): Error =>
  coded(TypeError, "ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE", `Invalid key object type ${type}, expected ${expected}.`);

/** The use of a key, and the part that it needs. */
export interface Wanted {
  part: "public" | "private";
  /** Set by `createPublicKey` and `createPrivateKey`. */
  create?: boolean;
}

function held(key: KeyObject, { part, create }: Wanted): Key {
  if (create && part === "private") throw invalidArgType("key", SOURCES, key);
  if (key.type !== "private" && (create || part === "private")) throw wrongType(key.type, "private");
  if (key.type === "secret") throw wrongType(key.type, "private or public");
  const engine = handles.get(key)!.key!;
  return create ? engine("public") : engine;
}

const isSource = (value: unknown): boolean => typeof value === "string" || ArrayBuffer.isView(value) || value instanceof ArrayBuffer;

/** Returns the engine's key for any value that Node accepts as a key. */
export function asymmetric(value: any, wanted: Wanted): Key {
  if (value instanceof KeyObject) return held(value, wanted);
  if (value?.[KEY]) return held(KeyObject.from(value), wanted);
  if (value?.[SECRET]) throw wrongType("secret", wanted.part === "private" ? "private" : "private or public");
  const accepted = wanted.create && wanted.part === "private" ? SOURCES : KEYS;
  const plainly = { format: "pem", type: undefined, cipher: undefined, passphrase: undefined } as const;
  if (isSource(value)) return decodeKey(bytesOf("key", value), plainly, wanted.part);
  if (typeof value !== "object" || value === null) throw invalidArgType("key", accepted, value);
  const { key: data } = value;
  if (data instanceof KeyObject) return held(data, wanted);
  if (data?.[KEY]) return held(KeyObject.from(data), wanted);
  if (value.format === "jwk") {
    if (typeof data !== "object" || data === null) throw invalidArgType("key.key", "of type object", data);
    return fromJwk(data, wanted);
  }
  if (!isSource(data)) throw invalidArgType("key.key", accepted, data);
  const bytes = typeof data === "string" ? (Buffer.from(data, value.encoding) as unknown as Uint8Array) : bytesOf("key", data);
  return decodeKey(bytes, encodingOf(value, true, { part: wanted.part === "private" ? "private" : undefined }), wanted.part);
}

const oneOf = (name: string, values: string[], value: unknown): Error =>
  coded(TypeError, "ERR_INVALID_ARG_VALUE", `The property '${name}' must be one of: ${values.map((known) => `'${known}'`).join(", ")}. Received ${typeof value === "string" ? `'${value}'` : String(value)}`);

function fromJwk(jwk: Jwk, wanted: Wanted): Key {
  if (!["RSA", "EC", "OKP"].includes(jwk.kty)) throw oneOf("key.kty", ["RSA", "EC", "OKP"], jwk.kty);
  const check = (...names: string[]) => names.forEach((name) => checkString(`key.${name}`, jwk[name]));
  const isPrivate = wanted.part === "private" || jwk.d !== undefined;
  if (jwk.kty === "OKP") {
    const names = ["Ed25519", "Ed448", "X25519", "X448"];
    if (!names.includes(jwk.crv)) throw oneOf("key.crv", names, jwk.crv);
    check("x", ...(isPrivate ? ["d"] : []));
    if (!EDWARDS[jwk.crv.toLowerCase()]) throw coded(TypeError, "ERR_CRYPTO_INVALID_JWK", "Invalid JWK data");
  } else if (jwk.kty === "EC") {
    if (!CURVES.includes(jwk.crv)) throw oneOf("key.crv", CURVES, jwk.crv);
    check("x", "y", ...(isPrivate ? ["d"] : []));
  } else {
    check("n", "e", ...(isPrivate ? ["d", "p", "q", "dp", "dq", "qi"] : []));
  }
  const key = keyOfJwk(jwk);
  if (!key) throw coded(TypeError, "ERR_CRYPTO_INVALID_JWK", jwk.kty === "OKP" ? "Invalid JWK data" : `Invalid JWK ${jwk.kty} key`);
  return wanted.part === "public" && key("private") ? key("public") : key;
}

export function createPublicKey(key: unknown): any {
  return keyObject(asymmetric(key, { part: "public", create: true }));
}
export function createPrivateKey(key: unknown): any {
  return keyObject(asymmetric(key, { part: "private", create: true }));
}

/** Returns an optional integer option. */
export function wholeOption(options: any, name: string): number | undefined {
  const value = options?.[name];
  if (value === undefined || value === value >> 0) return value;
  throw invalidProperty(`options.${name}`, value);
}
