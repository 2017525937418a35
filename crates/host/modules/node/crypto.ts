/**
 * `node:crypto`: randomness and constant-time comparison.
 *
 * Hashes, HMACs and ciphers are not available yet; they throw when they are called and name the call.
 */

import { fillRandom, random } from "pi:engine";
import { coded, invalidArgType, notSupported, outOfRange } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { crypto as web, getRandomValues as fillValues, randomUUID as uuid } from "pi:web/crypto";
import { queueTick } from "pi:web/ticks";

type Done = (error: Error | null, value?: any) => void;

export const webcrypto = web;
export const subtle = web.subtle;
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

/** An integer from `min` to below `max`, each as likely as the other. */
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

export function getHashes(): string[] {
  return [];
}
export function getCiphers(): string[] {
  return [];
}
export function getCurves(): string[] {
  return [];
}
export const constants = {};

function absent(member: string): (...args: unknown[]) => never {
  return () => {
    throw notSupported(`crypto.${member}`, "only randomness and timingSafeEqual are there yet; bundle a pure JavaScript implementation with the extension");
  };
}

export const createHash = absent("createHash");
export const createHmac = absent("createHmac");
export const hash = absent("hash");
export const createCipheriv = absent("createCipheriv");
export const createDecipheriv = absent("createDecipheriv");
export const createSign = absent("createSign");
export const createVerify = absent("createVerify");
export const createPublicKey = absent("createPublicKey");
export const createPrivateKey = absent("createPrivateKey");
export const createSecretKey = absent("createSecretKey");
export const generateKeyPair = absent("generateKeyPair");
export const generateKeyPairSync = absent("generateKeyPairSync");
export const pbkdf2 = absent("pbkdf2");
export const pbkdf2Sync = absent("pbkdf2Sync");
export const scrypt = absent("scrypt");
export const scryptSync = absent("scryptSync");
export const hkdf = absent("hkdf");
export const hkdfSync = absent("hkdfSync");
export const sign = absent("sign");
export const verify = absent("verify");
export const createDiffieHellman = absent("createDiffieHellman");
export const createECDH = absent("createECDH");
export const publicEncrypt = absent("publicEncrypt");
export const privateDecrypt = absent("privateDecrypt");
export class X509Certificate {
  constructor() {
    absent("X509Certificate")();
  }
}

export default {
  webcrypto, subtle, getRandomValues, randomUUID, randomBytes, pseudoRandomBytes, randomFill, randomFillSync, randomInt, timingSafeEqual,
  getHashes, getCiphers, getCurves, constants, createHash, createHmac, hash, createCipheriv, createDecipheriv, createSign, createVerify,
  createPublicKey, createPrivateKey, createSecretKey, generateKeyPair, generateKeyPairSync, pbkdf2, pbkdf2Sync, scrypt, scryptSync, hkdf, hkdfSync,
  sign, verify, createDiffieHellman, createECDH, publicEncrypt, privateDecrypt, X509Certificate,
};
