/** `pi:web/blob`: Blob, File and FormData, held in memory. */

import { decodeUtf8, encodeUtf8, epochMs, importSync } from "pi:engine";
import { coded, invalidArgType } from "pi:node/errors";
import { viewOf } from "pi:web/encoding";
import { needs, needsFunction } from "pi:web/fetch/arguments";
import { PairList } from "pi:web/pair_list";

type Part = string | Blob | ArrayBuffer | ArrayBufferView;

/** Key of a blob's bytes, for the body of a request. */
export const BYTES = Symbol("bytes");

export class Blob {
  [BYTES]: Uint8Array;
  readonly type: string;

  constructor(parts: Iterable<Part> = [], options: { type?: string; endings?: string } | null = {}) {
    if (parts === null || typeof parts !== "object" || typeof parts[Symbol.iterator] !== "function") throw invalidArgType("sources", "a sequence", parts);
    if (typeof options !== "object") throw invalidArgType("options", "a dictionary", options);
    const endings = `${options?.endings ?? "transparent"}`;
    if (endings !== "transparent" && endings !== "native") {
      throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The property 'options.endings' is invalid. Received ${importSync("pi:node/util/inspect").inspect(endings)}`);
    }
    const pieces = [...parts].map((part) => {
      if (part instanceof Blob) return part[BYTES];
      if (part instanceof ArrayBuffer || ArrayBuffer.isView(part)) return viewOf(part);
      const text = `${part as string}`.toWellFormed();
      return encodeUtf8(endings === "native" ? text.replace(/\r\n?/g, "\n") : text);
    });
    this[BYTES] = concat(pieces);
    const type = String(options?.type ?? "");
    this.type = /[^\x20-\x7e]/.test(type) ? "" : type.toLowerCase();
  }

  get size(): number {
    return this[BYTES].length;
  }
  async arrayBuffer(): Promise<ArrayBuffer> {
    return this[BYTES].slice().buffer as ArrayBuffer;
  }
  async bytes(): Promise<Uint8Array> {
    return this[BYTES].slice();
  }
  async text(): Promise<string> {
    return decodeUtf8(this[BYTES], false, false);
  }
  slice(start: number = 0, end: number = this.size, type: string = ""): Blob {
    return new Blob([this[BYTES].slice(start, end)], { type });
  }
  stream(): any {
    const bytes = this[BYTES];
    return new (importSync("pi:web/streams").ReadableStream)({
      type: "bytes",
      start(controller: any) {
        if (bytes.length > 0) controller.enqueue(bytes.slice());
        controller.close();
      },
    });
  }
  get [Symbol.toStringTag](): string {
    return "Blob";
  }
  [Symbol.for("nodejs.util.inspect.custom")](_depth: number, options: object, inspect: (value: object, options: object) => string): string {
    const { size, type } = this;
    return `Blob ${inspect({ size, type }, options)}`;
  }
}

export class File extends Blob {
  readonly name: string;
  readonly lastModified: number;

  constructor(parts: Iterable<Part>, name: string, options: { type?: string; lastModified?: number } | null = {}) {
    if (arguments.length < 2) throw coded(TypeError, "ERR_MISSING_ARGS", 'The "fileBits" and "fileName" arguments must be specified');
    super(parts, options);
    this.name = String(name).toWellFormed();
    this.lastModified = Number(options?.lastModified ?? epochMs());
  }
  override get [Symbol.toStringTag](): string {
    return "File";
  }
  [Symbol.for("nodejs.util.inspect.custom")](_depth: number, options: object, inspect: (value: object, options: object) => string): string {
    const { size, type, name, lastModified } = this;
    return `File ${inspect({ size, type, name, lastModified }, options)}`;
  }
}

type Entry = string | File;

export class FormData {
  #list = new PairList<Entry>();

  constructor(form?: undefined) {
    if (form !== undefined) throw new TypeError("FormData constructor: Argument 1 could not be converted to: undefined.");
  }

  append(name: string, value: string | Blob, filename?: string): void {
    needs(2, "FormData.append", arguments);
    needsBlob("append", value, arguments);
    this.#list.append(String(name).toWellFormed(), entryOf(value, filename));
  }
  delete(name: string): void {
    needs(1, "FormData.delete", arguments);
    this.#list.delete(String(name));
  }
  get(name: string): Entry | null {
    needs(1, "FormData.get", arguments);
    return this.#list.first(String(name)) ?? null;
  }
  getAll(name: string): Entry[] {
    needs(1, "FormData.getAll", arguments);
    return this.#list.all(String(name));
  }
  has(name: string): boolean {
    needs(1, "FormData.has", arguments);
    return this.#list.has(String(name));
  }
  set(name: string, value: string | Blob, filename?: string): void {
    needs(2, "FormData.set", arguments);
    needsBlob("set", value, arguments);
    this.#list.set(String(name).toWellFormed(), entryOf(value, filename));
  }
  forEach(callback: (value: Entry, name: string, form: FormData) => void, self?: unknown): void {
    needs(1, "FormData.forEach", arguments);
    needsFunction("FormData", callback);
    for (const [name, value] of this.#list.pairs) callback.call(self, value, name, this);
  }
  entries(): IterableIterator<[string, Entry]> {
    return this.#list.pairs.map(([name, value]): [string, Entry] => [name, value])[Symbol.iterator]();
  }
  *keys(): IterableIterator<string> {
    for (const [name] of this.#list.pairs) yield name;
  }
  *values(): IterableIterator<Entry> {
    for (const [, value] of this.#list.pairs) yield value;
  }
  [Symbol.iterator](): IterableIterator<[string, Entry]> {
    return this.entries();
  }
  get [Symbol.toStringTag](): string {
    return "FormData";
  }
  [Symbol.for("nodejs.util.inspect.custom")](_depth: number, options: object, inspect: (value: object, options: object) => string): string {
    const names = new Set(this.#list.pairs.map((entry) => entry[0]));
    const shown = [...names].map((name) => {
      const values = this.getAll(name);
      return [name, values.length > 1 ? values : values[0]];
    });
    return `FormData ${inspect(Object.fromEntries(shown), options)}`;
  }
}

/** Checks that a file name is only given for a blob. */
function needsBlob(method: string, value: unknown, given: ArrayLike<unknown>): void {
  if (given.length < 3 || value instanceof Blob) return;
  throw new TypeError(`Failed to execute '${method}' on 'FormData': parameter 2 is not of type 'Blob'`);
}

/** Encodes a form as `multipart/form-data` with the given boundary. */
export function encodeForm(form: FormData, boundary: string): Uint8Array {
  const quote = (text: string) => text.replace(/\r?\n|\r/g, "%0D%0A").replaceAll('"', "%22");
  const pieces: Uint8Array[] = [];
  for (const [name, value] of form) {
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="${quote(name)}"`;
    if (typeof value === "string") {
      pieces.push(encodeUtf8(`${head}\r\n\r\n${value.replace(/\r?\n|\r/g, "\r\n")}\r\n`));
    } else {
      const type = value.type || "application/octet-stream";
      pieces.push(encodeUtf8(`${head}; filename="${quote(value.name)}"\r\nContent-Type: ${type}\r\n\r\n`), value[BYTES], encodeUtf8("\r\n"));
    }
  }
  pieces.push(encodeUtf8(`--${boundary}--\r\n`));
  return concat(pieces);
}

function entryOf(value: string | Blob, filename: string | undefined): Entry {
  if (!(value instanceof Blob)) return String(value).toWellFormed();
  if (value instanceof File && filename === undefined) return value;
  return new File([value], filename ?? "blob", { type: value.type });
}

function concat(pieces: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
