/** `node:querystring`. Malformed escapes are decoded byte by byte as far as they go. */

import { decodeUtf8, encodeUtf8 } from "pi:engine";

type Primitive = string | number | boolean | bigint;

/** Percent-encodes all characters except `A-Z a-z 0-9 - _ . ! ~ * ' ( )`. */
export function escape(value: unknown): string {
  const text = typeof value === "string" ? value : typeof value === "object" ? String(value) : `${value}`;
  return encodeURIComponent(text);
}

export function unescape(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return decodeUtf8(unescapeBuffer(text), false, true);
  }
}

/** Returns the bytes of a text with its valid escapes replaced. */
export function unescapeBuffer(text: string): Uint8Array {
  const source = encodeUtf8(String(text).toWellFormed());
  const bytes: number[] = [];
  for (let at = 0; at < source.length; at++) {
    const hex = source[at] === 0x25 ? String.fromCharCode(source[at + 1] ?? 0, source[at + 2] ?? 0) : "";
    if (/^[0-9a-fA-F]{2}$/.test(hex)) {
      bytes.push(Number.parseInt(hex, 16));
      at += 2;
    } else bytes.push(source[at]!);
  }
  return Uint8Array.from(bytes);
}

function shown(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "number") return Number.isFinite(value) ? `${value}` : "";
  return typeof value === "bigint" || typeof value === "boolean" ? `${value}` : "";
}

export function stringify(object: unknown, separator?: string | null, equals?: string | null, options?: { encodeURIComponent?: (text: string) => string }): string {
  if (typeof object !== "object" || object === null) return "";
  const encode = options?.encodeURIComponent ?? querystring.escape;
  const sep = separator || "&";
  const eq = equals || "=";
  return Object.keys(object)
    .flatMap((key) => {
      const value = (object as Record<string, Primitive | Primitive[]>)[key];
      const values = Array.isArray(value) ? value : [value];
      return values.map((item) => `${encode(key)}${eq}${encode(shown(item))}`);
    })
    .join(sep);
}

interface ParseOptions {
  maxKeys?: number;
  decodeURIComponent?: (text: string) => string;
}

export function parse(text: string, separator?: string | null, equals?: string | null, options?: ParseOptions): Record<string, string | string[]> {
  const result: Record<string, string | string[]> = Object.create(null);
  if (typeof text !== "string" || text.length === 0) return result;
  const decode = options?.decodeURIComponent ?? querystring.unescape;
  const eq = equals || "=";
  const limit = options?.maxKeys ?? 1000;
  let parts = text.split(separator || "&");
  if (limit > 0) parts = parts.slice(0, limit);
  const decoded = (piece: string) => {
    try {
      return decode(piece.replaceAll("+", " "));
    } catch {
      return unescape(piece);
    }
  };
  for (const part of parts) {
    if (part === "") continue;
    const cut = part.indexOf(eq);
    const key = decoded(cut < 0 ? part : part.slice(0, cut));
    const value = cut < 0 ? "" : decoded(part.slice(cut + eq.length));
    const known = result[key];
    if (known === undefined) result[key] = value;
    else if (Array.isArray(known)) known.push(value);
    else result[key] = [known, value];
  }
  return result;
}

export { stringify as encode, parse as decode };

const querystring = { escape, unescape, unescapeBuffer, stringify, parse, encode: stringify, decode: parse };
export default querystring;
