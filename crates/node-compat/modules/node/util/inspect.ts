/**
 * `pi:node/util/inspect`: formats values as text, as Node does.
 *
 * `Inspection` walks a value once; its page (see `layout`) determines the line breaks. Circular references are numbered in order
 * of appearance. Proxies are shown through their traps: the engine cannot look behind them.
 */

import { errorBase, constructorName, functionBase, prefixOf, tagOf } from "pi:node/util/shape";
import { lay } from "pi:node/util/layout";
import type { Page } from "pi:node/util/layout";
import { promiseState, proxyParts } from "pi:engine";
import { decodeText } from "pi:node/buffer/codec";
import { invalidArgType } from "pi:node/errors";

export interface InspectOptions {
  showHidden?: boolean;
  depth?: number | null;
  colors?: boolean;
  customInspect?: boolean;
  showProxy?: boolean;
  maxArrayLength?: number | null;
  maxStringLength?: number | null;
  breakLength?: number;
  compact?: number | boolean;
  sorted?: boolean | ((a: string, b: string) => number);
  getters?: boolean | "get" | "set";
  numericSeparator?: boolean;
}

const CUSTOM: unique symbol = Symbol.for("nodejs.util.inspect.custom") as any;

const defaults: Required<InspectOptions> = {
  showHidden: false,
  depth: 2,
  colors: false,
  customInspect: true,
  showProxy: false,
  maxArrayLength: 100,
  maxStringLength: 10000,
  breakLength: 80,
  compact: 3,
  sorted: false,
  getters: false,
  numericSeparator: false,
};

const colors: Record<string, [number, number]> = {
  reset: [0, 0], bold: [1, 22], dim: [2, 22], italic: [3, 23], underline: [4, 24], blink: [5, 25], inverse: [7, 27], hidden: [8, 28],
  strikethrough: [9, 29], doubleunderline: [21, 24], black: [30, 39], red: [31, 39], green: [32, 39], yellow: [33, 39], blue: [34, 39],
  magenta: [35, 39], cyan: [36, 39], white: [37, 39], bgBlack: [40, 49], bgRed: [41, 49], bgGreen: [42, 49], bgYellow: [43, 49],
  bgBlue: [44, 49], bgMagenta: [45, 49], bgCyan: [46, 49], bgWhite: [47, 49], framed: [51, 54], overlined: [53, 55], gray: [90, 39],
  redBright: [91, 39], greenBright: [92, 39], yellowBright: [93, 39], blueBright: [94, 39], magentaBright: [95, 39], cyanBright: [96, 39],
  whiteBright: [97, 39], bgGray: [100, 49], bgRedBright: [101, 49], bgGreenBright: [102, 49], bgYellowBright: [103, 49],
  bgBlueBright: [104, 49], bgMagentaBright: [105, 49], bgCyanBright: [106, 49], bgWhiteBright: [107, 49],
};

const styles: Record<string, string> = {
  special: "cyan", number: "yellow", bigint: "yellow", boolean: "yellow", undefined: "grey", null: "bold", string: "green",
  symbol: "green", date: "magenta", regexp: "red", module: "underline",
};

for (const [alias, name] of [["grey", "gray"], ["bgGrey", "bgGray"], ["blackBright", "gray"], ["bgBlackBright", "bgGray"], ["faint", "dim"], ["crossedout", "strikethrough"], ["swapcolors", "inverse"], ["conceal", "hidden"]] as const) {
  Object.defineProperty(colors, alias, { get: () => colors[name], enumerable: false, configurable: true });
}

type Stylize = (text: string, style: string) => string;
const plain: Stylize = (text) => text;
const painted: Stylize = (text, style) => {
  const color = colors[styles[style] ?? ""];
  return color ? `\u001b[${color[0]}m${text}\u001b[${color[1]}m` : text;
};

const ESCAPES: Record<number, string> = { 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 92: "\\\\" };

/** Quotes a text with the kind of quotes that needs the fewest escapes. */
export function quoted(text: string): string {
  const quote = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes("`") && !text.includes("${") ? "`" : "'";
  const escaped = text.replace(/[\0-\x1f\x7f-\x9f\\']|[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]/g, (found) => {
    const code = found.charCodeAt(0);
    if (found.length === 2) return found;
    if (found === "'") return quote === "'" ? "\\'" : found;
    if (code >= 0xd800) return `\\u${code.toString(16)}`;
    return ESCAPES[code] ?? `\\x${code.toString(16).toUpperCase().padStart(2, "0")}`;
  });
  return quote + escaped + quote;
}

function separated(digits: string): string {
  return digits.replace(/\B(?=(\d{3})+(?!\d))/g, "_");
}

function numberText(value: number | bigint, separators: boolean): string {
  if (typeof value === "bigint") return `${separators ? separated(String(value)) : value}n`;
  if (Object.is(value, -0)) return "-0";
  const text = String(value);
  if (!separators || !Number.isFinite(value) || text.includes("e")) return text;
  const [whole, fraction] = text.split(".");
  return fraction === undefined ? separated(whole!) : `${separated(whole!)}.${fraction.replace(/(\d{3})(?=\d)/g, "$1_")}`;
}

function moreItems(count: number): string {
  return `... ${count} more item${count > 1 ? "s" : ""}`;
}

function isIndex(key: string): boolean {
  return /^(?:0|[1-9]\d{0,9})$/.test(key) && Number(key) < 2 ** 32 - 1;
}

const TYPED = Object.getPrototypeOf(Uint8Array.prototype);
const typedTag = Object.getOwnPropertyDescriptor(TYPED, Symbol.toStringTag)!.get!;

const setSize = Object.getOwnPropertyDescriptor(Set.prototype, "size")!.get!;
const mapSize = Object.getOwnPropertyDescriptor(Map.prototype, "size")!.get!;

/** Returns whether an object is of a built-in kind, by its tag. */
const isKind = (value: object, kind: string) => Object.prototype.toString.call(value) === `[object ${kind}]`;
const has = (getter: () => unknown, value: object) => {
  try {
    getter.call(value);
    return true;
  } catch {
    return false;
  }
};
const isSet = (value: object) => has(setSize, value);
const isMap = (value: object) => has(mapSize, value);

const isPair = (item: unknown) => Array.isArray(item) && item.length === 2;
const isTwice = (item: unknown) => isPair(item) && Object.is((item as unknown[])[0], (item as unknown[])[1]);

const MapIterator = Object.getPrototypeOf(new Map().keys());
const SetIterator = Object.getPrototypeOf(new Set().keys());

/**
 * Returns the remaining items of a Map or Set iterator. The engine cannot look ahead, so the iterator is read to its end
 * and then replays the items.
 */
function remaining(iterator: any, tag: string): { rest: unknown[]; isEntries: boolean } {
  const known = read.get(iterator);
  if (known) return known;
  const proto = Object.getPrototypeOf(iterator);
  if ((proto !== MapIterator && proto !== SetIterator) || Object.hasOwn(iterator, "next")) return { rest: [], isEntries: false };
  const rest: unknown[] = [...iterator];
  const isEntries = rest.length > 0 && rest.every(tag === "Set Iterator" ? isTwice : isPair);
  read.set(iterator, { rest, isEntries });
  const value = () => (rest.length > 0 ? { value: rest.shift(), done: false } : { value: undefined, done: true });
  Object.defineProperty(iterator, "next", { value, writable: true, configurable: true });
  return { rest, isEntries };
}

const read = new WeakMap<object, { rest: unknown[]; isEntries: boolean }>();

/** The layout of one value: entries between braces, after a base. */
interface Form {
  braces: [string, string];
  entries: () => string[];
  keys: PropertyKey[];
  base: string;
  array: boolean;
}

class Inspection implements Page {
  readonly options: Required<InspectOptions>;
  readonly stylize: Stylize;
  readonly compact: number | boolean;
  readonly breakLength: number;
  readonly maxArrayLength: number;
  readonly maxStringLength: number;
  readonly colors: boolean;
  indentation = 0;
  deepest = 0;
  #seen: object[] = [];
  #circular: Map<object, number> | undefined;

  constructor(options: Required<InspectOptions>) {
    this.options = options;
    this.stylize = options.colors ? painted : plain;
    this.colors = options.colors;
    this.compact = options.compact;
    this.breakLength = options.breakLength;
    this.maxArrayLength = Math.max(0, options.maxArrayLength ?? Number.POSITIVE_INFINITY);
    this.maxStringLength = Math.max(0, options.maxStringLength ?? Number.POSITIVE_INFINITY);
  }

  value(value: any, depth: number): string {
    if (value === null) return this.stylize("null", "null");
    if (typeof value !== "object" && typeof value !== "function") return this.primitive(value);
    // Proxies are shown by their target, so that no trap runs.
    for (let parts = proxyParts(value); parts !== undefined; parts = proxyParts(value)) {
      if (parts[0] === null) return this.stylize("<Revoked Proxy>", "special");
      if (this.options.showProxy) return this.#proxy(parts, depth);
      value = parts[0];
    }
    if (this.options.customInspect) {
      const custom = value[CUSTOM];
      const usable = typeof custom === "function" && custom !== inspect && !(value.constructor && value.constructor.prototype === value);
      if (usable) {
        const left = this.options.depth === null ? null : this.options.depth - depth;
        const shown = custom.call(value, left, { ...this.options, stylize: this.stylize, depth: left }, inspect);
        if (shown !== value) {
          return typeof shown === "object" ? this.value(shown, depth) : String(shown).replaceAll("\n", `\n${" ".repeat(this.indentation)}`);
        }
      }
    }
    if (this.#seen.includes(value)) {
      this.#circular ??= new Map();
      let index = this.#circular.get(value);
      if (index === undefined) this.#circular.set(value, (index = this.#circular.size + 1));
      return this.stylize(`[Circular *${index}]`, "special");
    }
    return this.#object(value, depth);
  }

  #proxy(parts: [object, object], depth: number): string {
    if (this.options.depth !== null && depth > this.options.depth) return this.stylize("Proxy [Array]", "special");
    this.deepest = depth + 1;
    const entries = this.#indented(() => parts.map((part) => this.value(part, depth + 1)));
    return lay(this, entries, "", ["Proxy [", "]"], true, depth + 1);
  }

  primitive(value: unknown): string {
    if (typeof value === "string") return this.#text(value);
    if (typeof value === "number" || typeof value === "bigint") return this.stylize(numberText(value, this.options.numericSeparator), typeof value);
    return this.stylize(String(value), typeof value);
  }

  #text(value: string): string {
    let trailer = "";
    if (value.length > this.maxStringLength) {
      const more = value.length - this.maxStringLength;
      value = value.slice(0, this.maxStringLength);
      trailer = `... ${more} more character${more > 1 ? "s" : ""}`;
    }
    if (this.compact !== true && value.length > 16 && value.length > this.breakLength - this.indentation - 4) {
      const lines = value.split(/(?<=\n)/).map((line) => this.stylize(quoted(line), "string"));
      return lines.join(` +\n${" ".repeat(this.indentation + 2)}`) + trailer;
    }
    return this.stylize(quoted(value), "string") + trailer;
  }

  #object(value: any, depth: number): string {
    const name = constructorName(value);
    const tag = tagOf(value, this.options.showHidden);
    const form = this.#form(value, name, tag, depth);
    if (typeof form === "string") return form;
    if (this.options.depth !== null && depth > this.options.depth) {
      const short = prefixOf(name, tag, Array.isArray(value) ? "Array" : "Object").slice(0, -1);
      return this.stylize(name === null ? short : `[${short}]`, "special");
    }
    this.#seen.push(value);
    this.deepest = depth + 1;
    const indentation = this.indentation;
    const entries: string[] = [];
    try {
      for (const entry of form.entries()) entries.push(entry);
      for (const key of form.keys) entries.push(this.#property(value, key, depth + 1));
    } catch (error) {
      if (!(error instanceof RangeError && /call stack/.test(error.message))) throw error;
      this.indentation = indentation;
      this.#seen.length = this.#seen.lastIndexOf(value);
      const what = prefixOf(name, tag, "Object").slice(0, -1);
      return this.stylize(`[${what}: Inspection interrupted prematurely. Maximum call stack size exceeded.]`, "special");
    }
    this.#seen.pop();
    let base = form.base;
    const index = this.#circular?.get(value);
    if (index !== undefined) {
      const mark = this.stylize(`<ref *${index}>`, "special");
      if (this.compact === true) form.braces[0] = `${mark} ${form.braces[0]}`;
      else base = base === "" ? mark : `${mark} ${base}`;
    }
    this.#sort(entries, form);
    return lay(this, entries, base, form.braces, form.array, depth + 1, form.array ? value : undefined);
  }

  #sort(entries: string[], form: Form): void {
    const { sorted } = this.options;
    if (!sorted) return;
    const order = sorted === true ? undefined : sorted;
    if (!form.array) entries.sort(order);
    else if (form.keys.length > 1) {
      const named = entries.splice(entries.length - form.keys.length).sort(order);
      for (const entry of named) entries.push(entry);
    }
  }

  /** Formats a value: returns a finished text, or a form to lay out. */
  #form(value: any, name: string | null, tag: string, depth: number): string | Form {
    const { showHidden } = this.options;
    const make = (open: string, close: string, entries: () => string[], keys: PropertyKey[], more: Partial<Form> = {}): Form => ({
      braces: [open, close], entries, keys, base: "", array: false, ...more,
    });
    const none = () => [];
    if (Array.isArray(value)) {
      const prefix = name !== "Array" || tag !== "" ? prefixOf(name, tag, "Array", `(${value.length})`) : "";
      const keys = this.#keys(value, true);
      if (value.length === 0 && keys.length === 0) return `${prefix}[]`;
      return make(`${prefix}[`, "]", () => this.#items(value, depth + 1), keys, { array: true });
    }
    if (value instanceof Set || (name === null && isSet(value))) {
      const keys = this.#keys(value);
      const prefix = prefixOf(name, tag, "Set", `(${setSize.call(value)})`);
      if (setSize.call(value) === 0 && keys.length === 0) return `${prefix}{}`;
      return make(`${prefix}{`, "}", () => this.#set([...Set.prototype.values.call(value)], depth + 1), keys);
    }
    if (value instanceof Map || (name === null && isMap(value))) {
      const keys = this.#keys(value);
      const prefix = prefixOf(name, tag, "Map", `(${mapSize.call(value)})`);
      if (mapSize.call(value) === 0 && keys.length === 0) return `${prefix}{}`;
      return make(`${prefix}{`, "}", () => this.#map([...Map.prototype.entries.call(value)], depth + 1), keys);
    }
    const typed = ArrayBuffer.isView(value) ? typedTag.call(value) : undefined;
    if (typed !== undefined) {
      const array = value as unknown as Uint8Array;
      const keys = this.#keys(array, true);
      const prefix = prefixOf(name, tag, name === null ? typed : "", `(${array.length})`);
      if (array.length === 0 && keys.length === 0 && !showHidden) return `${prefix}[]`;
      return make(`${prefix}[`, "]", () => this.#numbers(array), keys, { array: true });
    }
    if (tag === "Map Iterator" || tag === "Set Iterator") {
      const { rest, isEntries } = remaining(value, tag);
      return make(`[${isEntries ? tag.replace("Iterator", "Entries") : tag}] {`, "}", () => this.#set(rest, depth + 1), this.#keys(value));
    }
    const keys = this.#keys(value);
    if (typeof value === "function") {
      const base = functionBase(value, name, tag);
      return keys.length === 0 ? this.stylize(base, "special") : make("{", "}", none, keys, { base });
    }
    if (Object.prototype.toString.call(value) === "[object Arguments]") {
      return keys.length === 0 ? "[Arguments] {}" : make("[Arguments] {", "}", none, keys);
    }
    const beyond = this.options.depth !== null && depth > this.options.depth;
    if (value instanceof RegExp) {
      const prefix = prefixOf(name, tag, "RegExp");
      const base = `${prefix === "RegExp " ? "" : prefix}${RegExp.prototype.toString.call(value)}`;
      return keys.length === 0 || beyond ? this.stylize(base, "regexp") : make("{", "}", none, keys, { base });
    }
    if (value instanceof Date || (name === null && isKind(value, "Date"))) {
      const prefix = prefixOf(name, tag, "Date");
      const text = Number.isNaN(Date.prototype.getTime.call(value)) ? "Invalid Date" : Date.prototype.toISOString.call(value);
      const base = `${prefix === "Date " ? "" : prefix}${text}`;
      return keys.length === 0 ? this.stylize(base, "date") : make("{", "}", none, keys, { base });
    }
    if (value instanceof Error || (name === null && isKind(value, "Error"))) {
      const base = errorBase(value, name, tag, showHidden, keys).replaceAll("\n", `\n${" ".repeat(this.indentation)}`);
      return keys.length === 0 ? base : make("{", "}", none, keys, { base });
    }
    if (value instanceof ArrayBuffer) {
      return make(`${prefixOf(name, tag, "ArrayBuffer")}{`, "}", () => [...this.#contents(value), ...this.#inner(value, ["byteLength"], depth + 1)], keys);
    }
    if (value instanceof DataView) {
      return make(`${prefixOf(name, tag, "DataView")}{`, "}", () => this.#inner(value, ["byteLength", "byteOffset", "buffer"], depth + 1), keys);
    }
    if (value instanceof Promise) return make(`${prefixOf(name, tag, "Promise")}{`, "}", () => this.#promise(value, depth + 1), keys);
    if (value instanceof WeakSet || value instanceof WeakMap) {
      const kind = value instanceof WeakSet ? "WeakSet" : "WeakMap";
      return make(`${prefixOf(name, tag, kind)}{`, "}", () => [this.stylize("<items unknown>", "special")], keys);
    }
    if (tag === "Module" && name === null) return make("[Module: null prototype] {", "}", none, Object.keys(value));
    const boxed = boxedBase(value, name, tag, keys);
    if (boxed !== undefined) return keys.length === 0 ? boxed : make("{", "}", none, keys, { base: boxed });
    const prefix = name === "Object" && tag === "" ? "" : prefixOf(name, tag, "Object");
    return keys.length === 0 ? `${prefix}{}` : make(`${prefix}{`, "}", none, keys);
  }

  #keys(value: object, skipIndexes: boolean = false): PropertyKey[] {
    const { showHidden } = this.options;
    const names = showHidden ? Object.getOwnPropertyNames(value) : Object.keys(value);
    const symbols = Object.getOwnPropertySymbols(value).filter((key) => showHidden || Object.prototype.propertyIsEnumerable.call(value, key));
    const shown = skipIndexes ? names.filter((key) => !isIndex(key)) : names;
    return symbols.length > 0 ? [...shown, ...symbols] : shown;
  }

  #items(value: ArrayLike<unknown>, depth: number): string[] {
    const shown = Math.min(this.maxArrayLength, value.length);
    const entries: string[] = [];
    /** Indexes that exist, once a hole is found. */
    let indexes: number[] | undefined;
    let next = 0;
    let at = 0;
    for (; at < value.length && entries.length < shown; at++) {
      if (Object.hasOwn(value, at)) {
        entries.push(this.#property(value, String(at), depth, true));
        continue;
      }
      indexes ??= Object.getOwnPropertyNames(value).filter(isIndex).map(Number);
      while (next < indexes.length && indexes[next]! < at) next++;
      const end = indexes[next] ?? value.length;
      entries.push(this.stylize(`<${end - at} empty item${end - at > 1 ? "s" : ""}>`, "undefined"));
      at = end - 1;
    }
    if (at < value.length) entries.push(moreItems(value.length - at));
    return entries;
  }

  #numbers(array: Uint8Array): string[] {
    const entries = Array.from(array.subarray(0, Math.min(this.maxArrayLength, array.length)), (item) => this.primitive(item));
    if (array.length > entries.length) entries.push(moreItems(array.length - entries.length));
    if (this.options.showHidden) {
      for (const key of ["BYTES_PER_ELEMENT", "length", "byteLength", "byteOffset", "buffer"] as const) {
        entries.push(`[${key}]: ${this.value(array[key], this.deepest)}`);
      }
    }
    return entries;
  }

  #set(items: unknown[], depth: number): string[] {
    const shown = items.slice(0, this.maxArrayLength);
    const entries = this.#indented(() => shown.map((item) => this.value(item, depth)));
    if (items.length > shown.length) entries.push(moreItems(items.length - shown.length));
    return entries;
  }

  #map(items: [unknown, unknown][], depth: number): string[] {
    const shown = items.slice(0, this.maxArrayLength);
    const entries = this.#indented(() => shown.map(([key, item]) => `${this.value(key, depth)} => ${this.value(item, depth)}`));
    if (items.length > shown.length) entries.push(moreItems(items.length - shown.length));
    return entries;
  }

  #contents(buffer: ArrayBuffer): string[] {
    const bytes = new Uint8Array(buffer);
    const shown = bytes.subarray(0, Math.min(this.maxArrayLength, bytes.length));
    const more = bytes.length - shown.length;
    const hex = decodeText(shown, "hex").replace(/(..)(?=.)/g, "$1 ");
    return [`${this.stylize("[Uint8Contents]", "special")}: <${hex}${more > 0 ? ` ... ${more} more byte${more > 1 ? "s" : ""}` : ""}>`];
  }

  /** Returns the internal members that are not properties of the object, in brackets. */
  #inner(owner: any, names: string[], depth: number): string[] {
    return names.map((name) => `[${name}]: ${this.#indented(() => this.value(owner[name], depth))}`);
  }

  #promise(promise: Promise<unknown>, depth: number): string[] {
    const { state, value } = promiseState(promise);
    if (state === "pending") return [this.stylize("<pending>", "special")];
    const shown = this.#indented(() => this.value(value, depth));
    return [state === "rejected" ? `${this.stylize("<rejected>", "special")} ${shown}` : shown];
  }

  #indented<T>(body: () => T): T {
    this.indentation += 2;
    const result = body();
    this.indentation -= 2;
    return result;
  }

  #property(owner: any, key: PropertyKey, depth: number, item: boolean = false): string {
    const descriptor = Object.getOwnPropertyDescriptor(owner, key) ?? { value: owner[key], configurable: true, enumerable: true };
    let shown: string;
    if ("value" in descriptor || descriptor.get === undefined && descriptor.set === undefined) {
      const width = this.compact !== true || item ? 2 : 3;
      this.indentation += width;
      shown = this.value(descriptor.value, depth);
      if (width === 3 && this.breakLength < shown.length) shown = `\n${" ".repeat(this.indentation)}${shown}`;
      this.indentation -= width;
    } else {
      shown = this.#accessor(owner, descriptor, depth);
    }
    if (item) return shown;
    return `${this.#keyText(key, descriptor.enumerable !== false)}: ${shown}`;
  }

  #accessor(owner: object, descriptor: PropertyDescriptor, depth: number): string {
    const { getters } = this.options;
    const both = descriptor.set !== undefined;
    if (descriptor.get === undefined) return this.stylize("[Setter]", "special");
    const label = both ? "Getter/Setter" : "Getter";
    const called = getters === true || (getters === "get" && !both) || (getters === "set" && both);
    if (!called) return this.stylize(`[${label}]`, "special");
    try {
      const value = descriptor.get.call(owner);
      const shown = this.#indented(() => this.value(value, depth));
      if (typeof value === "object" && value !== null) return `${this.stylize(`[${label}]`, "special")} ${shown}`;
      return `${this.stylize(`[${label}:`, "special")} ${shown}${this.stylize("]", "special")}`;
    } catch (error: any) {
      return this.stylize(`[${label}: <Inspection threw (${error?.message})>]`, "special");
    }
  }

  #keyText(key: PropertyKey, enumerable: boolean): string {
    if (typeof key === "symbol") return `[${this.stylize(String(key), "symbol")}]`;
    const text = String(key);
    if (text === "__proto__") return "['__proto__']";
    if (!enumerable) return `[${text}]`;
    return /^[A-Za-z_][A-Za-z0-9_]*$/.test(text) ? this.stylize(text, "name") : this.stylize(quoted(text), "string");
  }
}

function boxedBase(value: any, name: string | null, tag: string, keys: PropertyKey[]): string | undefined {
  let type: string;
  let inner: unknown;
  if (value instanceof Number) [type, inner] = ["Number", Number.prototype.valueOf.call(value)];
  else if (value instanceof String) {
    [type, inner] = ["String", String.prototype.valueOf.call(value)];
    keys.splice(0, value.length);
  } else if (value instanceof Boolean) [type, inner] = ["Boolean", Boolean.prototype.valueOf.call(value)];
  else if (value instanceof BigInt) [type, inner] = ["BigInt", BigInt.prototype.valueOf.call(value)];
  else if (value instanceof Symbol) [type, inner] = ["Symbol", Symbol.prototype.valueOf.call(value)];
  else return undefined;
  let base = `[${type}`;
  if (type !== name) base += name === null ? " (null prototype)" : ` (${name})`;
  const shown = typeof inner === "string" ? quoted(inner) : typeof inner === "number" || typeof inner === "bigint" ? numberText(inner, false) : String(inner);
  base += `: ${shown}]`;
  return tag !== "" && tag !== name ? `${base} [${tag}]` : base;
}

/** Formats a value as text. The old form takes `(value, showHidden, depth, colors)`. */
function inspectValue(value: unknown, options?: InspectOptions | boolean, depth?: number | null, useColors?: boolean): string {
  let chosen: InspectOptions = {};
  if (typeof options === "boolean") {
    chosen.showHidden = options;
    if (depth !== undefined) chosen.depth = depth;
    if (useColors !== undefined) chosen.colors = useColors;
  } else if (typeof options === "object" && options !== null) chosen = options;
  const settings = { ...defaults };
  for (const key of Object.keys(defaults) as (keyof InspectOptions)[]) {
    if (chosen[key] !== undefined) (settings as any)[key] = chosen[key];
  }
  if (settings.depth === Number.POSITIVE_INFINITY) settings.depth = null;
  return new Inspection(settings).value(value, 0);
}

export const inspect = Object.assign(inspectValue, { custom: CUSTOM, colors, styles }) as typeof inspectValue & {
  custom: typeof CUSTOM;
  colors: typeof colors;
  styles: typeof styles;
  defaultOptions: Required<InspectOptions>;
};
Object.defineProperty(inspect, "name", { value: "inspect" });
Object.defineProperty(inspect, "defaultOptions", {
  get: () => defaults,
  set: (options: InspectOptions) => {
    if (typeof options !== "object" || options === null) throw invalidArgType("options", "of type object", options);
    Object.assign(defaults, options);
  },
});
