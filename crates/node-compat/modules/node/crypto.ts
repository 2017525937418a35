/**
 * `node:crypto`: randomness, digests, HMACs, AES, key derivation, asymmetric keys, constant-time comparison.
 *
 * Certificates, prime numbers and finite-field Diffie-Hellman are not supported: a call throws an error that names it.
 */

import { fillRandom, random } from "pi:engine";
import { coded, invalidArgType, outOfRange } from "pi:node/errors";
import { refuse } from "pi:node/refuse";
import { Buffer } from "node:buffer";
import { constants } from "pi:node/crypto/constants";
import { Cipheriv, Decipheriv, createCipheriv, createDecipheriv, getCipherInfo, getCiphers } from "pi:node/crypto/cipher";
import { hkdf, hkdfSync, pbkdf2, pbkdf2Sync, scrypt, scryptSync } from "pi:node/crypto/derive";
import { ECDH, createECDH, diffieHellman, privateDecrypt, privateEncrypt, publicDecrypt, publicEncrypt } from "pi:node/crypto/exchange";
import { Hash, Hmac, createHash, createHmac, getHashes, hash } from "pi:node/crypto/hash";
import { KeyObject, createPrivateKey, createPublicKey, createSecretKey, secretKey } from "pi:node/crypto/keys";
import { generateKeyPair, generateKeyPairSync, getCurves } from "pi:node/crypto/pairs";
import { Sign, Verify, createSign, createVerify, sign, verify } from "pi:node/crypto/signing";
import { crypto as web, getRandomValues as fillValues, randomUUID as uuid } from "pi:web/crypto";
import { queueTick } from "pi:web/ticks";

type Done = (error: Error | null, value?: any) => void;

export const webcrypto = web;
/** The Web Crypto API, loaded on first use. */
export const subtle = new Proxy({} as typeof web.subtle, {
  get: (_target, name) => {
    const member = (web.subtle as any)[name];
    return typeof member === "function" ? member.bind(web.subtle) : member;
  },
});
export const getRandomValues = fillValues;

export function randomUUID(_options?: object): string {
  return uuid();
}

export function randomBytes(size: number, done?: Done): Buffer | void {
  if (typeof size !== "number") throw invalidArgType("size", "of type number", size);
  if (!(size >= 0 && size <= 2 ** 31 - 1)) throw outOfRange("size", ">= 0 && <= 2147483647", size);
  const bytes = Buffer.alloc(size);
  fillRandom(bytes);
  if (!done) return bytes;
  queueTick(() => done(null, bytes));
}
export const pseudoRandomBytes = randomBytes;

export function randomFillSync<T extends ArrayBufferView>(buffer: T, offset: number = 0, size: number = buffer.byteLength - offset): T {
  if (offset < 0 || offset > buffer.byteLength) throw outOfRange("offset", `>= 0 && <= ${buffer.byteLength}`, offset);
  if (size < 0 || offset + size > buffer.byteLength) throw outOfRange("size", `<= ${buffer.byteLength - offset}`, size);
  fillRandom(new Uint8Array(buffer.buffer, buffer.byteOffset + offset, size));
  return buffer;
}
export function randomFill(buffer: ArrayBufferView, ...args: any[]): void {
  const done = args.pop() as Done;
  randomFillSync(buffer, ...args);
  queueTick(() => done(null, buffer));
}

/** Returns a uniformly distributed integer that is at least `min` and below `max`. */
export function randomInt(min: number, max?: number | Done, done?: Done): number | void {
  const callback = typeof max === "function" ? max : done;
  const [low, high] = typeof max === "number" ? [min, max] : [0, min];
  if (!Number.isSafeInteger(low)) throw invalidArgType("min", "a safe integer", low);
  if (!Number.isSafeInteger(high)) throw invalidArgType("max", "a safe integer", high);
  const range = high - low;
  if (range <= 0) throw outOfRange("max", `greater than the value of "min" (${low})`, high);
  if (range > 2 ** 48 - 1) throw outOfRange("max - min", "<= 281474976710655", range);
  const limit = 2 ** 48 - (2 ** 48 % range);
  let drawn: number;
  do {
    drawn = Math.floor(random() * 2 ** 24) * 2 ** 24 + Math.floor(random() * 2 ** 24);
  } while (drawn >= limit);
  const value = low + (drawn % range);
  if (!callback) return value;
  queueTick(() => callback(null, value));
}

export function timingSafeEqual(a: ArrayBufferView, b: ArrayBufferView): boolean {
  if (!ArrayBuffer.isView(a)) throw invalidArgType("buf1", "an instance of ArrayBuffer, Buffer, TypedArray, or DataView", a);
  if (!ArrayBuffer.isView(b)) throw invalidArgType("buf2", "an instance of ArrayBuffer, Buffer, TypedArray, or DataView", b);
  if (a.byteLength !== b.byteLength) throw coded(RangeError, "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH", "Input buffers must have the same byte length");
  const left = new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
  const right = new Uint8Array(b.buffer, b.byteOffset, b.byteLength);
  let difference = 0;
  for (let at = 0; at < left.length; at++) difference |= left[at]! ^ right[at]!;
  return difference === 0;
}

export const getFips = (): number => 0;
export const secureHeapUsed = () => ({ total: 0, used: 0, utilization: 0, min: 2 });

/** Returns a new random secret of `length` bits. */
export function generateKeySync(type: string, options: { length: number }): KeyObject {
  const bits = options?.length;
  if (type === "hmac") {
    if (!Number.isInteger(bits) || bits < 8 || bits > 2 ** 31 - 1) throw outOfRange("options.length", ">= 8 && <= 2147483647", bits);
  } else if (type === "aes") {
    if (![128, 192, 256].includes(bits)) {
      throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The property 'options.length' must be one of: 128, 192, 256. Received ${bits}`);
    }
  } else {
    throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'type' must be a supported key type. Received '${type}'`);
  }
  return secretKey(Uint8Array.from(randomBytes(bits >> 3) as unknown as Uint8Array));
}
export function generateKey(type: string, options: { length: number }, done: (error: unknown, key?: KeyObject) => void): void {
  const key = generateKeySync(type, options);
  queueTick(() => done(null, key));
}

const absent = refuse("crypto", "bundle a pure JavaScript implementation with the extension", [
  "Certificate", "DiffieHellman", "DiffieHellmanGroup", "X509Certificate", "checkPrime", "checkPrimeSync", "createDiffieHellman", "createDiffieHellmanGroup",
  "generatePrime", "generatePrimeSync", "getDiffieHellman", "setEngine", "setFips",
]);
export const {
  Certificate, DiffieHellman, DiffieHellmanGroup, X509Certificate, checkPrime, checkPrimeSync, createDiffieHellman, createDiffieHellmanGroup, generatePrime,
  generatePrimeSync, getDiffieHellman, setEngine, setFips,
} = absent;

export {
  constants, Cipheriv, Decipheriv, ECDH, Hash, Hmac, KeyObject, Sign, Verify, createCipheriv, createDecipheriv, createECDH, createHash, createHmac, createPrivateKey,
  createPublicKey, createSecretKey, createSign, createVerify, diffieHellman, generateKeyPair, generateKeyPairSync, getCipherInfo, getCiphers, getCurves, getHashes,
  hash, hkdf, hkdfSync, pbkdf2, pbkdf2Sync, privateDecrypt, privateEncrypt, publicDecrypt, publicEncrypt, scrypt, scryptSync, sign, verify,
};
export default {
  ...absent, getFips, secureHeapUsed, generateKey, generateKeySync, Cipheriv, Decipheriv, ECDH, Hash, Hmac, KeyObject, Sign, Verify, getCipherInfo,
  webcrypto, subtle, getRandomValues, randomUUID, randomBytes, pseudoRandomBytes, randomFill, randomFillSync, randomInt, timingSafeEqual,
  getHashes, getCiphers, getCurves, constants, createHash, createHmac, hash, createCipheriv, createDecipheriv, createECDH, createPrivateKey,
  createPublicKey, createSecretKey, createSign, createVerify, diffieHellman, generateKeyPair, generateKeyPairSync, privateDecrypt, privateEncrypt,
  publicDecrypt, publicEncrypt, sign, verify, pbkdf2, pbkdf2Sync, scrypt, scryptSync, hkdf, hkdfSync,
};
