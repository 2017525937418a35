/**
 * `pi:web/url`: URL and URLSearchParams (URL standard).
 *
 * The engine parses and serialises (`parseUrl`, `setUrlPart`); these classes hold the parts.
 * The query of a URL and its `searchParams` mirror each other; the parameters are created on first use.
 */

import { decodeUtf8, encodeUtf8, parseUrl, setUrlPart } from "pi:engine";
import type { UrlParts } from "pi:engine";
import { checkFunction, coded } from "pi:node/errors";
import { PairList } from "pi:web/pair_list";

const OWNER = Symbol("owner");
const RELOAD = Symbol("reload");
const INSPECT = Symbol.for("nodejs.util.inspect.custom");

function invalidUrl(input: string, base?: string): TypeError {
  const error = Object.assign(new TypeError("Invalid URL"), { code: "ERR_INVALID_URL", input });
  return base === undefined ? error : Object.assign(error, { base });
}

function tryParse(input: string, base?: string): UrlParts | undefined {
  try {
    return parseUrl(input, base) ?? undefined;
  } catch {
    return undefined;
  }
}

export class URL {
  #current: UrlParts;
  /** Whether the query is outdated. It is updated when a part is read, since many changes may follow each other. */
  #isBehind = false;
  #query: URLSearchParams | undefined;

  constructor(input: string | URL, base?: string | URL) {
    needs(arguments, "url");
    const text = String(input).toWellFormed();
    const against = base === undefined ? undefined : String(base).toWellFormed();
    const parts = tryParse(text, against);
    if (!parts) throw invalidUrl(text, against);
    this.#current = parts;
  }

  get #parts(): UrlParts {
    if (this.#isBehind) {
      this.#isBehind = false;
      this.#set("search", this.#query!.toString());
    }
    return this.#current;
  }

  static canParse(input: string | URL, base?: string | URL): boolean {
    return tryParse(String(input).toWellFormed(), base === undefined ? undefined : String(base).toWellFormed()) !== undefined;
  }

  static parse(input: string | URL, base?: string | URL): URL | null {
    return URL.canParse(input, base) ? new URL(input, base) : null;
  }

  get href(): string {
    return this.#parts.href;
  }
  set href(value: string) {
    const parts = tryParse(String(value).toWellFormed());
    if (!parts) throw invalidUrl(String(value));
    this.#current = parts;
    this.#isBehind = false;
    this.#query?.[RELOAD](parts.search);
  }
  get origin(): string {
    return this.#parts.origin;
  }
  get protocol(): string {
    return this.#parts.protocol;
  }
  set protocol(value: string) {
    this.#set("protocol", value);
  }
  get username(): string {
    return this.#parts.username;
  }
  set username(value: string) {
    this.#set("username", value);
  }
  get password(): string {
    return this.#parts.password;
  }
  set password(value: string) {
    this.#set("password", value);
  }
  get host(): string {
    return this.#parts.host;
  }
  set host(value: string) {
    this.#set("host", value);
  }
  get hostname(): string {
    return this.#parts.hostname;
  }
  set hostname(value: string) {
    this.#set("hostname", value);
  }
  get port(): string {
    return this.#parts.port;
  }
  set port(value: string) {
    this.#set("port", value);
  }
  get pathname(): string {
    return this.#parts.pathname;
  }
  set pathname(value: string) {
    this.#set("pathname", value);
  }
  get search(): string {
    return this.#parts.search;
  }
  set search(value: string) {
    this.#set("search", value);
    this.#query?.[RELOAD](this.#parts.search);
  }
  get hash(): string {
    return this.#parts.hash;
  }
  set hash(value: string) {
    this.#set("hash", value);
  }

  get searchParams(): URLSearchParams {
    if (!this.#query) {
      this.#query = new URLSearchParams(this.#parts.search);
      this.#query[OWNER] = () => (this.#isBehind = true);
    }
    return this.#query;
  }

  toString(): string {
    return this.#parts.href;
  }
  toJSON(): string {
    return this.#parts.href;
  }

  get [Symbol.toStringTag](): string {
    return "URL";
  }

  [INSPECT](depth: number, options: object, inspect: (value: unknown, options?: object) => string): string {
    if (typeof depth === "number" && depth < 0) return "[URL]";
    const { href, origin, protocol, username, password, host, hostname, port, pathname, search, searchParams, hash } = this;
    const shown = { href, origin, protocol, username, password, host, hostname, port, pathname, search, searchParams, hash };
    return `URL ${inspect(shown, options)}`;
  }

  /** Sets a part. An invalid value leaves the URL unchanged, as the standard requires. */
  #set(part: string, value: string): void {
    try {
      this.#current = setUrlPart(this.#parts.href, part, String(value).toWellFormed()) ?? this.#current;
    } catch {
      // The value is invalid for this part.
    }
  }
}

for (const name of ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "searchParams", "hash"]) {
  Object.defineProperty(URL.prototype, name, { enumerable: true });
}

type Init = string | Iterable<[string, string]> | Record<string, string> | URLSearchParams | undefined | null;

function needs(given: ArrayLike<unknown>, ...names: string[]): void {
  if (given.length >= names.length) return;
  const listed = names.map((name) => `"${name}"`).join(" and ");
  throw coded(TypeError, "ERR_MISSING_ARGS", `The ${listed} argument${names.length > 1 ? "s" : ""} must be specified`);
}

export class URLSearchParams {
  #list = new PairList<string>();
  [OWNER]: (() => void) | undefined;

  constructor(init?: Init) {
    if (init === undefined || init === null) return;
    if (typeof init === "object" || typeof init === "function") {
      const iterate = (init as Iterable<[string, string]>)[Symbol.iterator];
      if (typeof iterate === "function") {
        for (const pair of init as Iterable<Iterable<string>>) {
          const items = typeof pair === "object" && pair !== null ? [...pair] : [];
          if (items.length !== 2) {
            throw Object.assign(new TypeError("Each query pair must be an iterable [name, value] tuple"), { code: "ERR_INVALID_TUPLE" });
          }
          this.#list.append(text(items[0]), text(items[1]));
        }
      } else {
        for (const key of Reflect.ownKeys(init)) {
          if (typeof key === "string" && Object.prototype.propertyIsEnumerable.call(init, key)) {
            this.set(key, (init as Record<string, string>)[key]!);
          }
        }
      }
      return;
    }
    this[RELOAD](String(init));
  }

  get size(): number {
    return this.#list.pairs.length;
  }

  append(name: string, value: string): void {
    needs(arguments, "name", "value");
    this.#list.append(text(name), text(value));
    this.#changed();
  }

  delete(name: string, value?: string): void {
    needs(arguments, "name");
    const key = text(name);
    this.#list.delete(key, (known) => value === undefined || known === text(value));
    this.#changed();
  }

  get(name: string): string | null {
    needs(arguments, "name");
    const key = text(name);
    return this.#list.first(key) ?? null;
  }

  getAll(name: string): string[] {
    needs(arguments, "name");
    const key = text(name);
    return this.#list.all(key);
  }

  has(name: string, value?: string): boolean {
    needs(arguments, "name");
    const key = text(name);
    return value === undefined ? this.#list.has(key) : this.#list.all(key).includes(text(value));
  }

  set(name: string, value: string): void {
    needs(arguments, "name", "value");
    this.#list.set(text(name), text(value));
    this.#changed();
  }

  /** Sorts by UTF-16 units, and keeps the order of equal names. */
  sort(): void {
    this.#list.sort();
    this.#changed();
  }

  forEach(callback: (value: string, name: string, params: URLSearchParams) => void, self?: unknown): void {
    checkFunction("callback", callback);
    for (const [name, value] of this) callback.call(self, value, name, this);
  }

  *entries(): IterableIterator<[string, string]> {
    for (let at = 0; at < this.#list.pairs.length; at++) yield [...this.#list.pairs[at]!];
  }
  *keys(): IterableIterator<string> {
    for (let at = 0; at < this.#list.pairs.length; at++) yield this.#list.pairs[at]![0];
  }
  *values(): IterableIterator<string> {
    for (let at = 0; at < this.#list.pairs.length; at++) yield this.#list.pairs[at]![1];
  }
  [Symbol.iterator](): IterableIterator<[string, string]> {
    return this.entries();
  }

  toString(): string {
    return this.#list.pairs.map(([name, value]) => `${encodeForm(name)}=${encodeForm(value)}`).join("&");
  }

  get [Symbol.toStringTag](): string {
    return "URLSearchParams";
  }

  [RELOAD](query: string): void {
    const body = query.startsWith("?") ? query.slice(1) : query;
    this.#list.clear();
    for (const part of body.split("&")) {
      if (part === "") continue;
      const cut = part.indexOf("=");
      if (cut < 0) this.#list.append(decodeForm(part), "");
      else this.#list.append(decodeForm(part.slice(0, cut)), decodeForm(part.slice(cut + 1)));
    }
  }

  [INSPECT](_depth: number, options: object, inspect: (value: unknown, options?: object) => string): string {
    if (this.#list.pairs.length === 0) return "URLSearchParams {}";
    const shown = this.#list.pairs.map(([name, value]) => `${inspect(name, options)} => ${inspect(value, options)}`);
    return `URLSearchParams { ${shown.join(", ")} }`;
  }

  #changed(): void {
    this[OWNER]?.();
  }
}

function text(value: unknown): string {
  return String(value).toWellFormed();
}

/** Encodes as application/x-www-form-urlencoded: all characters but letters, digits and `*-._`, and space as plus. */
function encodeForm(value: string): string {
  if (/^[A-Za-z0-9*\-._]*$/.test(value)) return value;
  let out = "";
  for (const byte of encodeUtf8(value)) {
    const character = String.fromCharCode(byte);
    if (byte === 0x20) out += "+";
    else if (/[A-Za-z0-9*\-._]/.test(character)) out += character;
    else out += `%${(byte + 0x100).toString(16).slice(1).toUpperCase()}`;
  }
  return out;
}

/** Decodes. Malformed escapes are kept; malformed UTF-8 becomes U+FFFD. */
function decodeForm(value: string): string {
  const spaced = value.replaceAll("+", " ");
  if (!spaced.includes("%")) return spaced.toWellFormed();
  const source = encodeUtf8(spaced.toWellFormed());
  const bytes: number[] = [];
  for (let at = 0; at < source.length; at++) {
    const hex = source[at] === 0x25 ? String.fromCharCode(source[at + 1] ?? 0, source[at + 2] ?? 0) : "";
    if (/^[0-9a-fA-F]{2}$/.test(hex)) {
      bytes.push(Number.parseInt(hex, 16));
      at += 2;
    } else bytes.push(source[at]!);
  }
  return decodeUtf8(Uint8Array.from(bytes), false, true);
}
