/** `pi:node/buffer/codec`: conversion between text and bytes in every encoding that Buffer supports. */

import { decodeUtf8, encodeUtf8 } from "pi:engine";
import { coded } from "pi:node/errors";

export type Encoding = "utf8" | "utf16le" | "latin1" | "ascii" | "base64" | "base64url" | "hex";

const NAMES: Record<string, Encoding> = {
  utf8: "utf8", "utf-8": "utf8", ucs2: "utf16le", "ucs-2": "utf16le", utf16le: "utf16le", "utf-16le": "utf16le", latin1: "latin1",
  binary: "latin1", ascii: "ascii", base64: "base64", base64url: "base64url", hex: "hex",
};

/** Returns the encoding of a name in any case; undefined for an unknown name. */
export function knownEncoding(name: unknown): Encoding | undefined {
  if (name === undefined || name === null || name === "") return "utf8";
  if (typeof name !== "string") return undefined;
  return NAMES[name] ?? NAMES[name.toLowerCase()];
}

export function checkedEncoding(name: unknown): Encoding {
  const encoding = knownEncoding(name);
  if (!encoding) throw coded(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${String(name)}`);
  return encoding;
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_DIGITS = `${DIGITS.slice(0, 62)}-_`;

let sextets: Int8Array | undefined;

/** Returns the value of each ASCII character in either Base64 alphabet; -1 for skipped characters. */
function sextetTable(): Int8Array {
  if (!sextets) {
    sextets = new Int8Array(128).fill(-1);
    for (let value = 0; value < 64; value++) {
      sextets[DIGITS.charCodeAt(value)] = value;
      sextets[URL_DIGITS.charCodeAt(value)] = value;
    }
  }
  return sextets;
}

function fromBase64(text: string): Uint8Array {
  const table = sextetTable();
  const out = new Uint8Array(Math.ceil((text.length * 3) / 4));
  let size = 0;
  let bits = 0;
  let held = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    // Padding ends the data; other characters outside of the alphabet are skipped.
    if (code === 0x3d) break;
    const value = code < 128 ? table[code]! : -1;
    if (value < 0) continue;
    held = ((held << 6) | value) & 0xffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out[size++] = (held >> bits) & 0xff;
    }
  }
  return out.subarray(0, size);
}

function toBase64(bytes: Uint8Array, digits: string, padded: boolean): string {
  const pieces: string[] = [];
  let at = 0;
  for (; at + 2 < bytes.length; at += 3) {
    const group = (bytes[at]! << 16) | (bytes[at + 1]! << 8) | bytes[at + 2]!;
    pieces.push(digits[group >> 18]! + digits[(group >> 12) & 63] + digits[(group >> 6) & 63] + digits[group & 63]);
  }
  const left = bytes.length - at;
  if (left === 1) pieces.push(digits[bytes[at]! >> 2]! + digits[(bytes[at]! & 3) << 4] + (padded ? "==" : ""));
  if (left === 2) {
    const group = (bytes[at]! << 8) | bytes[at + 1]!;
    pieces.push(digits[group >> 10]! + digits[(group >> 4) & 63] + digits[(group & 15) << 2] + (padded ? "=" : ""));
  }
  return pieces.join("");
}

function fromHex(text: string): Uint8Array {
  const out = new Uint8Array(text.length >> 1);
  for (let at = 0; at < out.length; at++) {
    const pair = text.slice(at * 2, at * 2 + 2);
    // The first pair that is not hexadecimal ends the data.
    if (!/^[0-9a-fA-F]{2}$/.test(pair)) return out.subarray(0, at);
    out[at] = Number.parseInt(pair, 16);
  }
  return out;
}

let hexPairs: string[] | undefined;

function toHex(bytes: Uint8Array): string {
  hexPairs ??= Array.from({ length: 256 }, (_, value) => (value + 0x100).toString(16).slice(1));
  let out = "";
  for (let at = 0; at < bytes.length; at++) out += hexPairs[bytes[at]!];
  return out;
}

function toUnits(bytes: Uint8Array, mask: number): string {
  let out = "";
  for (let at = 0; at < bytes.length; at += 4096) {
    const codes = Array.from(bytes.subarray(at, at + 4096), (byte) => byte & mask);
    out += String.fromCharCode(...codes);
  }
  return out;
}

/** Encodes a text. */
export function encodeText(text: string, encoding: Encoding): Uint8Array {
  switch (encoding) {
    case "utf8":
      return encodeUtf8(text.toWellFormed());
    case "utf16le": {
      const out = new Uint8Array(text.length * 2);
      for (let at = 0; at < text.length; at++) {
        const code = text.charCodeAt(at);
        out[at * 2] = code & 0xff;
        out[at * 2 + 1] = code >> 8;
      }
      return out;
    }
    case "latin1":
    case "ascii": {
      const out = new Uint8Array(text.length);
      for (let at = 0; at < text.length; at++) out[at] = text.charCodeAt(at);
      return out;
    }
    case "base64":
    case "base64url":
      return fromBase64(text);
    case "hex":
      return fromHex(text);
  }
}

/** Decodes bytes. */
export function decodeText(bytes: Uint8Array, encoding: Encoding): string {
  switch (encoding) {
    case "utf8":
      return decodeUtf8(bytes, false, true);
    case "utf16le": {
      let out = "";
      for (let at = 0; at + 1 < bytes.length; at += 2) out += String.fromCharCode(bytes[at]! | (bytes[at + 1]! << 8));
      return out;
    }
    case "latin1":
      return toUnits(bytes, 0xff);
    case "ascii":
      return toUnits(bytes, 0x7f);
    case "base64":
      return toBase64(bytes, DIGITS, true);
    case "base64url":
      return toBase64(bytes, URL_DIGITS, false);
    case "hex":
      return toHex(bytes);
  }
}

/** Returns the length of a text in bytes, without encoding it if the length can be computed. */
export function textLength(text: string, encoding: Encoding): number {
  switch (encoding) {
    case "utf8":
      return utf8Length(text);
    case "utf16le":
      return text.length * 2;
    case "latin1":
    case "ascii":
      return text.length;
    case "hex":
      return text.length >> 1;
    case "base64":
    case "base64url": {
      const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
      return ((text.length - padding) * 3) >>> 2;
    }
  }
}

function utf8Length(text: string): number {
  let size = text.length;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x80) continue;
    if (code < 0x800) size += 1;
    else if (code >= 0xd800 && code < 0xdc00 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) {
      size += 2;
      at++;
    } else size += 2;
  }
  return size;
}

