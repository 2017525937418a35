/** `pi:node/crypto/derive`: keys from passwords and other keys. Callback forms compute synchronously and call back in a tick. */

import { deriveKey, digest as createDigest } from "pi:engine";
import { checkFunction, checkString, coded, invalidArgType, outOfRange } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { bytesOf } from "pi:node/crypto/bytes";
import { keyOf } from "pi:node/crypto/keys";
import { engineName } from "pi:node/crypto/hash";
import { queueTick } from "pi:web/ticks";

type Done = (error: Error | null, key?: any) => void;

const EMPTY = new Uint8Array(0);
const SCRYPT_MEMORY = 32 * 1024 * 1024;

function whole(name: string, value: unknown, least: number, most: number): number {
  if (typeof value !== "number") throw invalidArgType(name, "of type number", value);
  if (!Number.isInteger(value)) throw outOfRange(name, "an integer", value);
  if (value < least || value > most) throw outOfRange(name, `>= ${least} && <= ${most}`, value);
  return value;
}

const plain = (bytes: Uint8Array) => new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);

function derive(kind: string, digest: string, secret: Uint8Array, salt: Uint8Array, info: Uint8Array, numbers: [number, number, number], length: number): Uint8Array {
  const name = kind === "scrypt" ? "" : engineName(digest);
  const key = name === undefined ? undefined : deriveKey(kind, name, plain(secret), plain(salt), plain(info), ...numbers, length);
  if (!key) throw coded(TypeError, "ERR_CRYPTO_INVALID_DIGEST", `Invalid digest: ${digest}`);
  return key;
}

function later(done: unknown, compute: () => any): void {
  checkFunction("callback", done);
  let outcome: [Error | null, any];
  try {
    outcome = [null, compute()];
  } catch (error) {
    if ((error as any)?.code?.startsWith?.("ERR_INVALID") || (error as any)?.code === "ERR_OUT_OF_RANGE" || (error as any)?.code === "ERR_CRYPTO_INVALID_DIGEST") throw error;
    outcome = [error as Error, undefined];
  }
  queueTick(() => (done as Done)(...outcome));
}

export function pbkdf2Sync(password: unknown, salt: unknown, iterations: number, length: number, digest: string): Buffer {
  checkString("digest", digest);
  const secret = bytesOf("password", password);
  const grain = bytesOf("salt", salt);
  whole("iterations", iterations, 1, 2 ** 31 - 1);
  whole("keylen", length, 0, 2 ** 31 - 1);
  return Buffer.from(derive("pbkdf2", digest, secret, grain, EMPTY, [iterations, 0, 0], length).buffer);
}
export function pbkdf2(password: unknown, salt: unknown, iterations: number, length: number, digest: any, done?: Done): void {
  later(typeof digest === "function" ? digest : done, () => pbkdf2Sync(password, salt, iterations, length, typeof digest === "function" ? undefined as any : digest));
}

interface ScryptOptions {
  N?: number;
  cost?: number;
  r?: number;
  blockSize?: number;
  p?: number;
  parallelization?: number;
  maxmem?: number;
}

export function scryptSync(password: unknown, salt: unknown, length: number, options: ScryptOptions = {}): Buffer {
  const secret = bytesOf("password", password);
  const grain = bytesOf("salt", salt);
  whole("keylen", length, 0, 2 ** 31 - 1);
  const cost = options.N ?? options.cost ?? 16384;
  const block = options.r ?? options.blockSize ?? 8;
  const parallel = options.p ?? options.parallelization ?? 1;
  const memory = options.maxmem ?? SCRYPT_MEMORY;
  if (cost < 2 || (cost & (cost - 1)) !== 0) throw coded(RangeError, "ERR_CRYPTO_INVALID_SCRYPT_PARAMS", "Invalid scrypt params");
  if (128 * block * (cost + parallel + 2) > memory) throw coded(RangeError, "ERR_CRYPTO_INVALID_SCRYPT_PARAMS", "Invalid scrypt params: error:030000AC:digital envelope routines::memory limit exceeded");
  return Buffer.from(derive("scrypt", "", secret, grain, EMPTY, [cost, block, parallel], length).buffer);
}
export function scrypt(password: unknown, salt: unknown, length: number, options: any, done?: Done): void {
  later(typeof options === "function" ? options : done, () => scryptSync(password, salt, length, typeof options === "function" ? {} : (options ?? {})));
}

export function hkdfSync(digest: string, key: unknown, salt: unknown, info: unknown, length: number): ArrayBuffer {
  checkString("digest", digest);
  const secret = keyOf("ikm", key);
  const grain = bytesOf("salt", salt);
  const extra = bytesOf("info", info);
  whole("length", length, 0, 2 ** 31 - 1);
  if (extra.length > 1024) throw outOfRange("info", "must not contain more than 1024 bytes", extra.length);
  const name = engineName(digest);
  const size = name === undefined ? undefined : createDigest(name)?.().length;
  if (size !== undefined && length > 255 * size) throw coded(RangeError, "ERR_CRYPTO_INVALID_KEYLEN", "Invalid key length");
  return derive("hkdf", digest, secret, grain, extra, [0, 0, 0], length).buffer as ArrayBuffer;
}
export function hkdf(digest: string, key: unknown, salt: unknown, info: unknown, length: number, done: Done): void {
  later(done, () => hkdfSync(digest, key, salt, info, length));
}
