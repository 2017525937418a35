/**
 * `pi:node/crypto/encodings`: encodings of keys (PEM, DER) and the options that select them, with Node's errors.
 */

import { cipher as createCipher, digest as createDigest, fillRandom, readKey } from "pi:engine";
import type { Key } from "pi:engine";
import { coded } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { plain, seed } from "pi:web/keys";

/** Returns an error of OpenSSL in Node's form. */
export function opensslError(number: string, library: string, reason: string, code: string, stack?: string[]): Error {
  const message = `error:${number}:${library}::${reason}`;
  return Object.assign(new Error(message), stack ? { opensslErrorStack: stack } : {}, { library, reason, code });
}
export const unsupported = (): Error =>
  opensslError("1E08010C", "DECODER routines", "unsupported", "ERR_OSSL_UNSUPPORTED", ["error:1E08010C:DECODER routines::unsupported"]);
export const wrongOperation = (): Error =>
  opensslError("03000096", "digital envelope routines", "operation not supported for this keytype", "ERR_OSSL_EVP_OPERATION_NOT_SUPPORTED_FOR_THIS_KEYTYPE");
export const tooLarge = (): Error => opensslError("0200006E", "rsa routines", "data too large for key size", "ERR_OSSL_RSA_DATA_TOO_LARGE_FOR_KEY_SIZE");
/** Returns the error of a wrong passphrase, with the error stack of the format's reader. */
function badDecrypt(old: boolean): Error {
  const here = "error:1C800064:Provider routines::bad decrypt";
  const above = "error:11800074:PKCS12 routines::pkcs12 cipherfinal error";
  return opensslError("1C800064", "Provider routines", "bad decrypt", "ERR_OSSL_BAD_DECRYPT", old ? ["error:04800065:PEM routines::bad decrypt", here] : [above, here, above, here]);
}
function noPassphrase(old: boolean): Error {
  const here = "error:07880109:common libcrypto routines::interrupted or cancelled";
  const stack = ["error:04800068:PEM routines::bad password read", here, ...(old ? [here] : ["error:1C80009F:Provider routines::unable to get passphrase", here, here])];
  return opensslError("07880109", "common libcrypto routines", "interrupted or cancelled", "ERR_OSSL_CRYPTO_INTERRUPTED_OR_CANCELLED", stack);
}

export function invalidProperty(name: string, value: unknown): TypeError {
  const shown = typeof value === "string" ? `'${value}'` : typeof value === "object" && value !== null ? "{}" : String(value);
  return coded(TypeError, "ERR_INVALID_ARG_VALUE", `The property '${name}' is invalid. Received ${shown}`);
}
const incompatible = (form: string, what: string): Error => coded(Error, "ERR_CRYPTO_INCOMPATIBLE_KEY_OPTIONS", `The selected key encoding ${form} ${what}.`);

export interface Encoding {
  format: "pem" | "der" | "jwk";
  type: string | undefined;
  cipher: string | undefined;
  passphrase: Uint8Array | undefined;
}

/** The key whose encoding is requested. */
interface About {
  /** The part of the key; `undefined`: either. */
  part: "public" | "private" | undefined;
  /** `rsa`, `ec` or another type; undefined when a key is read. */
  keyType?: string;
  /** Name of the member that contains these options. */
  within?: string;
}

const isBytes = (value: unknown): value is ArrayBuffer | ArrayBufferView => ArrayBuffer.isView(value) || value instanceof ArrayBuffer;

function passphraseOf(value: unknown, encoding: string | undefined): Uint8Array | undefined {
  if (typeof value === "string") return Buffer.from(value, encoding) as unknown as Uint8Array;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  return ArrayBuffer.isView(value) ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : undefined;
}

/** Reads the options of an encoding. The default for reading a key is PEM, whose label selects the type. */
export function encodingOf(options: any, reading: boolean, { part, keyType, within }: About): Encoding {
  const named = (name: string) => (within === undefined ? `options.${name}` : `options.${within}.${name}`);
  const format = options.format ?? (reading ? "pem" : undefined);
  if (format !== "pem" && format !== "der" && format !== "jwk") throw invalidProperty(named("format"), options.format);
  const { type } = options;
  const needed = format !== "jwk" && (!reading || format === "der");
  if (type !== undefined || needed) {
    const known = type === "pkcs1" || (type === "spki" && part !== "private") || ((type === "pkcs8" || type === "sec1") && part !== "public");
    if (!known) throw invalidProperty(named("type"), type);
    if (type === "pkcs1" && keyType !== undefined && keyType !== "rsa") throw incompatible("pkcs1", "can only be used for RSA keys");
    if (type === "sec1" && keyType !== undefined && keyType !== "ec") throw incompatible("sec1", "can only be used for EC keys");
  }
  const encoding: Encoding = { format, type, cipher: undefined, passphrase: undefined };
  if (part === "public") return encoding;
  const { cipher, passphrase } = options;
  if (!reading) {
    if (cipher !== undefined && cipher !== null) {
      if (typeof cipher !== "string") throw invalidProperty(named("cipher"), cipher);
      if (format === "der" && (type === "pkcs1" || type === "sec1")) throw incompatible(type, "does not support encryption");
      if (format === "jwk") throw incompatible("jwk", "does not support encryption");
      encoding.cipher = cipher;
    } else if (passphrase !== undefined) {
      throw invalidProperty(named("cipher"), cipher);
    }
  }
  const asked = reading ? passphrase !== undefined : encoding.cipher !== undefined;
  if (asked && typeof passphrase !== "string" && !isBytes(passphrase)) throw invalidProperty(named("passphrase"), passphrase);
  encoding.passphrase = passphraseOf(passphrase, options.encoding);
  return encoding;
}

const LABELS: Record<string, string> = {
  "PRIVATE KEY": "pkcs8", "RSA PRIVATE KEY": "pkcs1", "EC PRIVATE KEY": "sec1", "PUBLIC KEY": "spki", "RSA PUBLIC KEY": "pkcs1",
  "ENCRYPTED PRIVATE KEY": "encrypted", CERTIFICATE: "certificate", "X509 CERTIFICATE": "certificate", "TRUSTED CERTIFICATE": "certificate",
};

/** Decodes a key. Throws OpenSSL's errors. `part` decides whether a public key is accepted. */
export function decodeKey(data: Uint8Array, encoding: Encoding, part: "public" | "private"): Key {
  const key = encoding.format === "der" ? decodeDer(data, encoding) : decodePem(Buffer.from(plain(data)).toString("latin1"), encoding, part);
  if (!key || (part === "private" && !key("private"))) throw unsupported();
  return part === "public" && key("private") ? key("public") : key;
}

function decodeDer(data: Uint8Array, { type, passphrase }: Encoding): Key | undefined {
  const der = plain(data);
  const read = readKey(type as "pkcs8", der);
  if (read || type !== "pkcs8" || passphrase === undefined) return read;
  return readKey("encrypted", der, plain(passphrase));
}

const PEM = /-----BEGIN ([A-Z0-9 ]+)-----[ \t]*\r?\n([^]*?)-----END \1-----/g;

function decodePem(text: string, { passphrase }: Encoding, part: "public" | "private"): Key | undefined {
  for (const [, label, body] of text.matchAll(PEM)) {
    const form = LABELS[label!];
    // Other PEM blocks are skipped, such as the parameters of a curve.
    if (!form || (part === "private" && (form === "certificate" || form === "spki" || label === "RSA PUBLIC KEY"))) continue;
    const [, headers, base64] = /^((?:[A-Za-z0-9-]+:.*\r?\n)*)([^]*)$/.exec(body!)!;
    if (!/^[A-Za-z0-9+/=\s]*$/.test(base64!)) return undefined;
    let der: Uint8Array = Buffer.from(base64!.replace(/\s/g, ""), "base64") as unknown as Uint8Array;
    if (form === "encrypted") {
      if (passphrase === undefined) throw noPassphrase(false);
      const key = readKey("encrypted", plain(der), plain(passphrase));
      if (!key) throw badDecrypt(false);
      return key;
    }
    const scheme = /^DEK-Info: *([A-Z0-9-]+),([0-9A-F]+)/im.exec(headers!);
    if (scheme) {
      if (passphrase === undefined) throw noPassphrase(true);
      der = oldCipher(false, scheme[1]!, Buffer.from(scheme[2]!, "hex") as unknown as Uint8Array, passphrase, der);
    }
    const key = readKey(form as "pkcs8", plain(der));
    if (!key && scheme) throw badDecrypt(true);
    return key;
  }
  return undefined;
}

/** Decrypts or encrypts PEM in the form that precedes PKCS #8 (RFC 1423): MD5 derives the key from passphrase and vector. */
function oldCipher(encrypt: boolean, name: string, vector: Uint8Array, passphrase: Uint8Array, data: Uint8Array): Uint8Array {
  const bytes = Number(/^AES-(128|192|256)-CBC$/i.exec(name)?.[1]) / 8;
  if (!bytes) throw coded(Error, "ERR_CRYPTO_UNKNOWN_CIPHER", "Unknown cipher");
  const key = new Uint8Array(32);
  let last = new Uint8Array(0);
  for (let filled = 0; filled < bytes; filled += 16) {
    const digest = createDigest("md5")!;
    for (const part of [last, passphrase, vector.subarray(0, 8)]) digest(plain(part));
    last = digest() as Uint8Array<ArrayBuffer>;
    key.set(last, filled);
  }
  const cipher = createCipher("cbc", encrypt, key.slice(0, bytes), plain(vector));
  if (!cipher) throw badDecrypt(true);
  const body = cipher("update", plain(data));
  const end = cipher("final");
  if (typeof end === "string") throw badDecrypt(true);
  return Buffer.concat([body, end]) as unknown as Uint8Array;
}

const pem = (label: string, bytes: Uint8Array, headers = ""): string =>
  `-----BEGIN ${label}-----\n${headers}${Buffer.from(plain(bytes)).toString("base64").replace(/.{1,64}/g, "$&\n")}-----END ${label}-----\n`;

/** Encodes a key. The caller handles the JWK form. */
export function encodeKey(key: Key, { format, type, cipher, passphrase }: Encoding): string | Buffer {
  const old = type === "pkcs1" ? "RSA" : "EC";
  const name = type === "spki" ? "PUBLIC KEY" : type === "pkcs8" ? "PRIVATE KEY" : key("private") ? `${old} PRIVATE KEY` : "RSA PUBLIC KEY";
  if (cipher !== undefined) {
    const known = /^aes-?(128|192|256)(?:-cbc)?$/i.exec(cipher);
    if (!known) throw coded(Error, "ERR_CRYPTO_UNKNOWN_CIPHER", "Unknown cipher");
    if (type === "pkcs8") {
      const der = key("encrypted", `aes-${known[1]}-cbc`, plain(passphrase!), seed())!;
      return format === "pem" ? pem("ENCRYPTED PRIVATE KEY", der) : Buffer.from(der.buffer);
    }
    const vector = new Uint8Array(16);
    fillRandom(vector);
    const scheme = `AES-${known[1]}-CBC`;
    const text = Buffer.from(vector).toString("hex").toUpperCase();
    return pem(name, oldCipher(true, scheme, vector, passphrase!, key("der", type!)!), `Proc-Type: 4,ENCRYPTED\nDEK-Info: ${scheme},${text}\n\n`);
  }
  const der = key("der", type!)!;
  return format === "pem" ? pem(name, der) : Buffer.from(der.buffer);
}
