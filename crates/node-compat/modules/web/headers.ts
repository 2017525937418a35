/** `pi:web/headers`: header lists of fetch. Names are lower case, iteration is sorted, Set-Cookie values stay separate. */

import { byteString, needs, needsFunction } from "pi:web/fetch/arguments";

type Init = Headers | Iterable<[string, string]> | Record<string, string> | undefined;

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

function nameOf(name: unknown, method: string): string {
  const text = byteString(name);
  if (!TOKEN.test(text)) throw new TypeError(`Headers.${method}: "${text}" is an invalid header name.`);
  return text.toLowerCase();
}

function valueOf(value: unknown, method: string): string {
  const text = byteString(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, "");
  if (/[\0\r\n]/.test(text)) throw new TypeError(`Headers.${method}: "${text}" is an invalid header value.`);
  return text;
}

/** Converts a constructor's argument to pairs. The messages are undici's. */
function pairsOf(init: NonNullable<Init>): [string, string][] {
  if (typeof init !== "object") {
    throw new TypeError("Headers constructor: Argument 1 could not be converted to one of: sequence<sequence<ByteString>>, record<ByteString, ByteString>.");
  }
  if (typeof (init as any)[Symbol.iterator] !== "function") {
    const keys = Reflect.ownKeys(init).filter((key) => Object.prototype.propertyIsEnumerable.call(init, key));
    if (keys.some((key) => typeof key === "symbol")) throw new TypeError("Headers contructor: init is a symbol, which cannot be converted to a DOMString.");
    return keys.map((key) => [key as string, (init as any)[key]]);
  }
  return [...(init as Iterable<any>)].map((given, at) => {
    if (typeof given !== "object" || typeof given?.[Symbol.iterator] !== "function") throw new TypeError(`Headers contructor: init[${at}] (${String(given)}) is not iterable.`);
    const pair = [...given];
    if (pair.length !== 2) throw new TypeError(`Headers constructor: expected name/value pair to be length 2, found ${pair.length}.`);
    return pair as [string, string];
  });
}

export class Headers {
  /** Values by name, in the order of first appearance. */
  #values = new Map<string, string[]>();
  #isImmutable = false;

  constructor(init: Init = undefined) {
    if (init === undefined) return;
    if (init === null) init = 0 as never;
    for (const [name, value] of pairsOf(init)) this.append(name, value);
  }

  /** Returns the immutable headers of a response. */
  static _received(pairs: Init): Headers {
    const headers = new Headers(pairs);
    headers.#isImmutable = true;
    return headers;
  }

  append(name: string, value: string): void {
    needs(2, "Headers.append", arguments);
    const [key, text] = [nameOf(name, "append"), valueOf(value, "append")];
    this.#mayChange();
    const values = this.#values.get(key);
    if (values) values.push(text);
    else this.#values.set(key, [text]);
  }
  delete(name: string): void {
    needs(1, "Headers.delete", arguments);
    const key = nameOf(name, "delete");
    this.#mayChange();
    this.#values.delete(key);
  }
  get(name: string): string | null {
    needs(1, "Headers.get", arguments);
    return this.#values.get(nameOf(name, "get"))?.join(", ") ?? null;
  }
  getSetCookie(): string[] {
    return [...(this.#values.get("set-cookie") ?? [])];
  }
  has(name: string): boolean {
    needs(1, "Headers.has", arguments);
    return this.#values.has(nameOf(name, "has"));
  }
  set(name: string, value: string): void {
    needs(2, "Headers.set", arguments);
    const [key, text] = [nameOf(name, "set"), valueOf(value, "set")];
    this.#mayChange();
    this.#values.set(key, [text]);
  }
  forEach(callback: (value: string, name: string, headers: Headers) => void, self?: unknown): void {
    needs(1, "Headers.forEach", arguments);
    needsFunction("Headers", callback);
    for (const [name, value] of this) callback.call(self, value, name, this);
  }

  #mayChange(): void {
    if (this.#isImmutable) throw new TypeError("immutable");
  }

  *entries(): IterableIterator<[string, string]> {
    const names = [...this.#values.keys()].sort();
    for (const name of names) {
      if (name === "set-cookie") for (const cookie of this.getSetCookie()) yield [name, cookie];
      else yield [name, this.get(name)!];
    }
  }
  *keys(): IterableIterator<string> {
    for (const [name] of this.entries()) yield name;
  }
  *values(): IterableIterator<string> {
    for (const [, value] of this.entries()) yield value;
  }
  [Symbol.iterator](): IterableIterator<[string, string]> {
    return this.entries();
  }
  get [Symbol.toStringTag](): string {
    return "Headers";
  }
  [Symbol.for("nodejs.util.inspect.custom")](_depth: number, options: object, inspect: (value: unknown, options?: object) => string): string {
    return `Headers ${inspect(Object.fromEntries([...this.#values].map(([name, values]) => [name, values.join(", ")])), options)}`;
  }
}
