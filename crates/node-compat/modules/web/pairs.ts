/**
 * `pi:web/pairs`: algorithms of `crypto.subtle` that use key pairs: RSA, ECDSA, ECDH, Ed25519, X25519.
 *
 * A plan describes a new `CryptoKey`; `pi:web/subtle` creates the key. Messages are Node's.
 */

import { buildKey, generateKey, readKey } from "pi:engine";
import type { Key } from "pi:engine";
import { CURVES, EDWARDS, cryptWith, jwkOf, keyOfJwk, plain, seed, signWith, verifyWith } from "pi:web/keys";
import type { Jwk } from "pi:web/keys";

export interface Settings {
  name: string;
  [member: string]: any;
}

/** One part of a key, and the properties of its `CryptoKey`. */
export interface Plan {
  key: Key;
  algorithm: Settings;
  usages: string[];
}

/** Allowed usages of each part. */
export const PAIRS: Record<string, { public: string[]; private: string[] }> = {
  "RSASSA-PKCS1-v1_5": { public: ["verify"], private: ["sign"] },
  "RSA-PSS": { public: ["verify"], private: ["sign"] },
  "RSA-OAEP": { public: ["encrypt", "wrapKey"], private: ["decrypt", "unwrapKey"] },
  ECDSA: { public: ["verify"], private: ["sign"] },
  ECDH: { public: [], private: ["deriveKey", "deriveBits"] },
  Ed25519: { public: ["verify"], private: ["sign"] },
  X25519: { public: [], private: ["deriveKey", "deriveBits"] },
};

const HASHES: Record<string, string> = { "SHA-1": "sha1", "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512" };
/** Suffixes of JWK's names of algorithms with a hash. */
const JWK_ALGORITHMS: Record<string, (hash: string) => string> = {
  "RSASSA-PKCS1-v1_5": (hash) => `RS${hash.slice(4)}`,
  "RSA-PSS": (hash) => `PS${hash.slice(4)}`,
  "RSA-OAEP": (hash) => (hash === "SHA-1" ? "RSA-OAEP" : `RSA-OAEP-${hash.slice(4)}`),
};

const ECDSA_ALGORITHMS: Record<string, string> = { "P-256": "ES256", "P-384": "ES384", "P-521": "ES512" };

const notFormat = (method: string, format: unknown): TypeError =>
  Object.assign(new TypeError(`Failed to execute '${method}' on 'SubtleCrypto': 1st argument value '${format}' is not a valid enum value of type KeyFormat.`), { code: "ERR_INVALID_ARG_VALUE" });

const failure = (name: string, message: string): DOMException => new DOMException(message, name);
const failed = (): DOMException => failure("OperationError", "The operation failed for an operation-specific reason");

/** Returns the error about a missing member. `dictionary` is Node's name of the type. */
const missing = (member: string, dictionary: string): TypeError =>
  Object.assign(new TypeError(`Failed to normalize algorithm: passed algorithm can not be converted to '${dictionary}' because '${member}' is required in '${dictionary}'.`), {
    code: "ERR_MISSING_OPTION",
  });

function checkUsages(name: string, part: "public" | "private" | "either", usages: string[]): void {
  const { public: outer, private: inner } = PAIRS[name]!;
  const allowed = part === "public" ? outer : part === "private" ? inner : [...outer, ...inner];
  if (usages.some((usage) => !allowed.includes(usage))) {
    const isRsa = name.startsWith("RSA");
    const what = part !== "either" ? `${isRsa ? "an" : "a"} ${name}` : isRsa ? "a RSA" : `an ${name}`;
    throw failure("SyntaxError", `Unsupported key usage for ${what} key`);
  }
  if (part === "private" && usages.length === 0) throw failure("SyntaxError", "Usages cannot be empty when importing a private key.");
}

/** Returns the algorithm of a `CryptoKey`. */
function shown(key: Key, settings: Settings): Settings {
  const { name } = settings;
  if (name.startsWith("RSA")) {
    const [modulus, exponent] = key("numbers") as [Uint8Array, Uint8Array];
    const modulusLength = modulus.length * 8 - Math.clz32(modulus[0]!) + 24;
    return { name, modulusLength, publicExponent: Uint8Array.from(exponent), hash: { name: settings.hash.name } };
  }
  return name === "ECDSA" || name === "ECDH" ? { name, namedCurve: key("kind") } : { name };
}

/** Returns the engine's kind of key for an algorithm. The caller checks RSA's hash. */
function kindOf(settings: Settings, operation: "Gen" | "Import"): string {
  if (settings.name.startsWith("RSA")) {
    if (settings.hash === undefined) throw missing("hash", operation === "Gen" ? "RsaHashedKeyGenParams" : "RsaHashedImportParams");
    return "rsa";
  }
  if (settings.name !== "ECDSA" && settings.name !== "ECDH") return settings.name.toLowerCase();
  if (typeof settings.namedCurve !== "string") {
    throw missing("namedCurve", `EcKey${operation}Params`);
  }
  if (!CURVES.includes(settings.namedCurve) || settings.namedCurve === "secp256k1") throw failure("NotSupportedError", "Unrecognized namedCurve");
  return settings.namedCurve;
}

export function importPair(format: string, data: any, settings: Settings, usages: string[], extractable: boolean): Plan {
  const { name } = settings;
  if (!["raw", "spki", "pkcs8", "jwk"].includes(format)) throw notFormat("importKey", format);
  const kind = kindOf(settings, "Import");
  let key: Key | undefined;
  switch (format) {
    case "spki":
    case "pkcs8": {
      checkUsages(name, format === "spki" ? "public" : "private", usages);
      key = readKey(format, plain(data));
      break;
    }
    case "raw": {
      if (kind === "rsa") throw failure("NotSupportedError", `Unable to import ${name} using raw format`);
      checkUsages(name, "public", usages);
      if (EDWARDS[kind] && data.byteLength !== 32) throw failure("DataError", `${name} raw keys must be exactly 32-bytes`);
      key = buildKey(kind, plain(data));
      break;
    }
    default:
      key = fromJwk(data, settings, kind, usages, extractable);
  }
  if (!key) throw failure("DataError", "Invalid keyData");
  const made = key("kind");
  if (made !== kind) throw failure("DataError", CURVES.includes(made) && CURVES.includes(kind) ? "Named curve mismatch" : "Invalid key type");
  return { key, algorithm: shown(key, settings), usages };
}

function fromJwk(jwk: Jwk, settings: Settings, kind: string, usages: string[], extractable: boolean): Key | undefined {
  const { name } = settings;
  if (typeof jwk !== "object" || jwk === null) {
    throw Object.assign(new TypeError("Failed to execute 'importKey' on 'SubtleCrypto': 2nd argument can not be converted to a dictionary"), { code: "ERR_INVALID_ARG_TYPE" });
  }
  const type = kind === "rsa" ? "RSA" : EDWARDS[kind] ? "OKP" : "EC";
  const bad = (message: string) => failure("DataError", message);
  if (!jwk.kty) throw bad("Invalid keyData");
  if (jwk.kty !== type) throw bad('Invalid JWK "kty" Parameter');
  if (EDWARDS[kind] && jwk.crv !== EDWARDS[kind]) throw bad('JWK "crv" Parameter and algorithm name mismatch');
  checkUsages(name, jwk.d === undefined ? "public" : "private", usages);
  if (usages.length > 0 && jwk.use !== undefined && jwk.use !== (PAIRS[name]!.public.includes("verify") ? "sig" : "enc")) throw bad('Invalid JWK "use" Parameter');
  if (jwk.key_ops !== undefined && usages.some((usage) => !jwk.key_ops.includes(usage))) throw bad("Key operations and usage mismatch");
  if (jwk.ext === false && extractable) throw bad('JWK "ext" Parameter and extractable mismatch');
  if (type === "EC" && jwk.crv !== kind) throw bad('JWK "crv" does not match the requested algorithm');
  if (jwk.alg !== undefined) {
    const known = name === "Ed25519" ? ["Ed25519", "EdDSA"] : name === "ECDSA" ? [ECDSA_ALGORITHMS[kind]] : [JWK_ALGORITHMS[name]?.(settings.hash.name)];
    if (known[0] !== undefined && !known.includes(jwk.alg)) throw bad('JWK "alg" does not match the requested algorithm');
  }
  const members = type === "RSA" ? ["n", "e"] : type === "EC" ? ["x", "y"] : ["x"];
  if (members.some((member) => typeof jwk[member] !== "string")) throw bad("Invalid keyData");
  return keyOfJwk(jwk);
}

export function exportPair(format: string, key: Key, algorithm: Settings, usages: string[], extractable: boolean): any {
  const { name } = algorithm;
  const isPrivate = key("private");
  const bytes = (made: Uint8Array | undefined) => made?.buffer;
  if (format === "jwk") {
    const alg = JWK_ALGORITHMS[name]?.(algorithm.hash.name);
    const { kty, ...members } = jwkOf(key);
    const own = { key_ops: usages, ext: extractable };
    if (kty === "RSA") return { ...own, alg, kty, ...members };
    return kty === "EC" ? { ...own, kty, ...members } : { ...own, ...(name === "Ed25519" ? { alg: name } : {}), ...members, kty };
  }
  if (format === "spki" && !isPrivate) return bytes(key("der", "spki"));
  if (format === "pkcs8" && isPrivate) return bytes(key("der", "pkcs8"));
  if (format === "raw" && !isPrivate && !name.startsWith("RSA")) return bytes(key("point", false) ?? key("numbers")[0]);
  if (!["raw", "spki", "pkcs8"].includes(format)) throw notFormat("exportKey", format);
  throw failure("NotSupportedError", `Unable to export ${name} ${isPrivate ? "private" : "public"} key using ${format} format`);
}

/** Generates a key pair. */
export function generatePair(settings: Settings, usages: string[]): { publicKey: Plan; privateKey: Plan } {
  const { name } = settings;
  const kind = kindOf(settings, "Gen");
  checkUsages(name, "either", usages);
  let key: Key | undefined;
  if (kind === "rsa") {
    for (const member of ["modulusLength", "publicExponent"]) if (settings[member] === undefined) throw missing(member, "RsaHashedKeyGenParams");
    const exponent = settings.publicExponent instanceof Uint8Array ? settings.publicExponent.reduce((value: number, byte: number) => value * 256 + byte, 0) : NaN;
    if (exponent !== 3 && exponent !== 65537) throw failed();
    if (!(settings.modulusLength >= 1024)) throw failed();
    key = generateKey("rsa", seed(), settings.modulusLength, exponent);
  } else {
    key = generateKey(kind, seed(), 0, 0);
  }
  const { public: outer, private: inner } = PAIRS[name]!;
  const plan = (part: Key, allowed: string[]) => ({ key: part, algorithm: shown(part, settings), usages: usages.filter((usage) => allowed.includes(usage)) });
  const pair = { publicKey: plan(key!("public"), outer), privateKey: plan(key!, inner) };
  if (pair.privateKey.usages.length === 0) throw failure("SyntaxError", "Usages cannot be empty when creating a key.");
  return pair;
}

/** Returns the scheme of a signature and the input to sign: a digest, or the data itself. */
function prepared(algorithm: Settings, settings: Settings, digest: (hash: string) => Uint8Array, data: Uint8Array): [{ padding: string; digest: string; salt?: number }, Uint8Array] {
  if (algorithm.name === "Ed25519") return [{ padding: "", digest: "" }, data];
  if (algorithm.name === "ECDSA" && settings.hash === undefined) throw missing("hash", "EcdsaParams");
  if (algorithm.name === "RSA-PSS" && typeof settings.saltLength !== "number") throw missing("saltLength", "RsaPssParams");
  const hash = HASHES[algorithm.name === "ECDSA" ? settings.hash.name : algorithm.hash.name]!;
  const padding = algorithm.name === "ECDSA" ? "numbers" : algorithm.name === "RSA-PSS" ? "pss" : "pkcs1";
  return [{ padding, digest: hash, salt: settings.saltLength }, digest(hash)];
}

export function signPair(key: Key, algorithm: Settings, settings: Settings, digest: (hash: string) => Uint8Array, data: Uint8Array): Uint8Array {
  const made = signWith(key, ...prepared(algorithm, settings, digest, data));
  if (!made) throw failed();
  return made;
}
export function verifyPair(key: Key, algorithm: Settings, settings: Settings, digest: (hash: string) => Uint8Array, data: Uint8Array, signature: Uint8Array): boolean {
  return verifyWith(key, ...prepared(algorithm, settings, digest, data), signature);
}

/** Encrypts or decrypts with RSA-OAEP. */
export function cryptPair(encrypt: boolean, key: Key, algorithm: Settings, settings: Settings, data: Uint8Array): Uint8Array {
  const label = settings.label === undefined ? new Uint8Array(0) : plain(settings.label);
  const made = cryptWith(encrypt ? "encrypt" : "decrypt", key, "oaep", HASHES[algorithm.hash.name]!, label, data);
  if (!made) throw failed();
  return made;
}

/** Returns the secret that a private key shares with a public key of another pair. */
export function agree(key: Key, other: Key): Uint8Array {
  const made = key("agree", other("der", "spki")!);
  if (!made) throw failed();
  return made;
}
