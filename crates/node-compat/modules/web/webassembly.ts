/**
 * `pi:web/webassembly`: the global `WebAssembly`.
 *
 * The native side identifies functions, memories, tables and globals by number; each object here holds a number, and each number
 * has one object. Exported functions are native; all other objects are TypeScript. Loads when `WebAssembly` is first read.
 */

import { importSync, webAssembly } from "pi:engine";
import { refuse } from "pi:node/refuse";
import { defineHidden } from "pi:web/lazy";
import { coded } from "pi:web/streams/queue";

type Kind = "function" | "memory" | "table" | "global";
type Fn = (...args: any[]) => any;

function errorClass(name: string): new (message?: string, options?: { cause?: unknown }) => Error {
  const made = { [name]: class extends Error {} }[name]!;
  defineHidden(made.prototype, { name, message: "" });
  return made;
}

const CompileError = errorClass("CompileError");
const LinkError = errorClass("LinkError");
const RuntimeError = errorClass("RuntimeError");
const CLASSES: Record<string, new (message: string) => Error> = { CompileError, LinkError, RuntimeError, RangeError };

/** Name of the current call, with which messages begin. */
let running = "";

function failed(kind: string, message: string): Error {
  const isPlain = kind === "RuntimeError" || message.startsWith("Maximum call stack");
  return new CLASSES[kind]!(isPlain || running === "" ? message : `${running}: ${message}`);
}

/** Runs the native part of a call under the call's name. */
function named<T>(name: string, body: () => T): T {
  const before = running;
  running = name;
  try {
    return body();
  } finally {
    running = before;
  }
}

// Values passed as `externref`, each with a fixed number. Minus zero and zero are distinct.
const externs: unknown[] = [];
const externIds = new Map<unknown, number>();
const functions = new Map<number, Fn>();
const functionIds = new WeakMap<Fn, number>();

function functionOf(id: number, name?: string): Fn {
  let known = functions.get(id);
  if (!known) {
    known = native.makeFunction(id, name ?? String(id));
    functions.set(id, known);
    functionIds.set(known, id);
  }
  return known;
}

const native = webAssembly({
  failure: failed,
  functionOf: (id: number) => functionOf(id),
  functionId: (value: unknown) => (typeof value === "function" ? functionIds.get(value as Fn) : undefined),
  externOf: (id: number) => externs[id],
  externId(value: unknown): number {
    // A map treats both zeros as equal, so minus zero gets a key that is never a value of the guest.
    const key = Object.is(value, -0) ? externIds : value;
    let id = externIds.get(key);
    if (id === undefined) {
      id = externs.push(value) - 1;
      externIds.set(key, id);
    }
    return id;
  },
  list(value: unknown, length: number): unknown[] {
    if (typeof (value as any)?.[Symbol.iterator] !== "function") throw new TypeError(`${typeof value} ${String(value)} is not iterable (cannot read property Symbol(Symbol.iterator))`);
    const list = [...(value as Iterable<unknown>)];
    if (list.length !== length) throw new TypeError("multi-return length mismatch");
    return list;
  },
});

const NO_FUNCTION = "function-typed object must be null (if nullable) or a Wasm function object";

const isObject = (value: unknown): value is object => (typeof value === "object" && value !== null) || typeof value === "function";

/** Returns the bytes of a buffer source. */
function bytesOf(source: unknown, name: string): Uint8Array {
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  if (source instanceof ArrayBuffer || Object.prototype.toString.call(source) === "[object SharedArrayBuffer]") return new Uint8Array(source as ArrayBuffer);
  throw new TypeError(`${name}: Argument 0 must be a buffer source`);
}

/** Converts to a 32-bit integer like Web IDL's `[EnforceRange] unsigned long`. */
function whole(value: unknown, what: string, most = 0xffff_ffff, least = 0): number {
  const number = typeof value === "bigint" ? NaN : Number(value);
  if (!Number.isFinite(number)) throw new TypeError(`${what} must be convertible to a valid number`);
  const truncated = Math.trunc(number);
  if (truncated < 0) throw new TypeError(`${what} must be non-negative`);
  if (truncated > 0xffff_ffff) throw new TypeError(`${what} must be in the unsigned long range`);
  if (truncated < least) throw new RangeError(`${what}: value ${truncated} is below the lower bound ${least}`);
  if (truncated > most) throw new RangeError(`${what}: value ${truncated} is above the upper bound ${most}`);
  return truncated;
}

function tag(target: { prototype: object }, name: string, methods: string[]): void {
  Object.defineProperty(target.prototype, Symbol.toStringTag, { value: `WebAssembly.${name}`, configurable: true });
  // Members of this interface are enumerable.
  for (const method of methods) Object.defineProperty(target.prototype, method, { enumerable: true });
}

interface Compiled {
  module: number;
  imports: [string, string, Kind, string?, boolean?][];
  exports: [string, Kind, number][];
}

const SECRET = Symbol("made here");

class Module {
  #compiled: Compiled;

  constructor(source: unknown, secret?: unknown, compiled?: Compiled) {
    this.#compiled = secret === SECRET ? compiled! : compile(bytesOf(source, "WebAssembly.Module()"), "WebAssembly.Module()");
  }
  static compiled(value: unknown, what: string): Compiled {
    if (!isObject(value) || !(#compiled in value)) throw new TypeError(`${what}: Argument 0 must be a WebAssembly.Module`);
    return value.#compiled;
  }
  static is(value: unknown): value is Module {
    return isObject(value) && #compiled in value;
  }
  static exports(module: unknown): { name: string; kind: Kind }[] {
    return compiledOf(module, "WebAssembly.Module.exports()").exports.map(([name, kind]) => ({ name, kind }));
  }
  static imports(module: unknown): { module: string; name: string; kind: Kind }[] {
    return compiledOf(module, "WebAssembly.Module.imports()").imports.map(([from, name, kind]) => ({ module: from, name, kind }));
  }
  static customSections(module: unknown, name: unknown): ArrayBuffer[] {
    const { module: id } = compiledOf(module, "WebAssembly.Module.customSections()");
    if (name === undefined) throw new TypeError("WebAssembly.Module.customSections(): Argument 1 is required");
    return native.customSections(id, String(name));
  }
}
const compiledOf = Module.compiled;
const isModule = Module.is;
for (const helper of ["compiled", "is"]) delete (Module as any)[helper];
for (const method of ["exports", "imports", "customSections"]) Object.defineProperty(Module, method, { enumerable: true });
tag(Module, "Module", []);

function compile(bytes: Uint8Array, name: string): Compiled {
  return named(name, () => native.compile(bytes));
}

class Instance {
  #exports: object;

  constructor(module: unknown, imports?: unknown, secret?: unknown, call = "WebAssembly.Instance()") {
    const name = secret === SECRET ? call : "WebAssembly.Instance()";
    this.#exports = instantiate(compiledOf(module, name), imports, name);
  }
  get exports(): object {
    if (!isObject(this) || !(#exports in this)) throw new TypeError("WebAssembly.Instance.exports: Receiver is not a WebAssembly.Instance");
    return this.#exports;
  }
}
tag(Instance, "Instance", ["exports"]);

/** Instantiates a module. Returns its exports. */
function instantiate(compiled: Compiled, imports: unknown, name: string): object {
  if (imports !== undefined && !isObject(imports)) throw new TypeError(`${name}: Argument 1 must be an object`);
  if (imports === undefined && compiled.imports.length > 0) throw new TypeError(`${name}: Imports argument must be present and must be an object`);
  const given = compiled.imports.map((row, index) => resolved(row, index, imports as Record<string, any>, name));
  const made = named(name, () => native.instantiate(compiled.module, given));
  const exports = Object.create(null);
  compiled.exports.forEach(([key, kind, number], index) => {
    Object.defineProperty(exports, key, { value: objectOf(kind, made.exports[index]!, String(number)), enumerable: true });
  });
  Object.freeze(exports);
  if (made.start !== undefined) functionOf(made.start)();
  return exports;
}

/** Returns the value for one import: a number of the native side, or a function. */
function resolved([from, name, kind, type, mutable]: Compiled["imports"][number], index: number, imports: Record<string, any>, call: string): number | Fn {
  const module = imports[from];
  if (!isObject(module)) throw new TypeError(`${call}: Import #${index} module="${from}": module is not an object or function`);
  const value = (module as any)[name];
  const refuse = (what: string) => new LinkError(`${call}: Import #${index} module="${from}" function="${name}": ${what}`);
  if (kind === "function") {
    if (typeof value !== "function") throw refuse("function import requires a callable");
    return functionIds.get(value) ?? value;
  }
  if (kind === "memory") {
    if (!isMemory(value)) throw refuse("memory import must be a WebAssembly.Memory object");
    return memoryId(value);
  }
  if (kind === "table") {
    if (!isTable(value)) throw refuse("table import requires a WebAssembly.Table");
    return tableId(value);
  }
  if (isGlobal(value)) return globalId(value);
  if (mutable) throw refuse("imported mutable global must be a WebAssembly.Global object");
  if (type === "i64" ? typeof value !== "bigint" : type!.length === 3 && typeof value !== "number") {
    throw refuse("global import must be a number, valid Wasm reference, or WebAssembly.Global object");
  }
  if (type === "funcref" && value !== null && !functionIds.has(value)) throw refuse("imported funcref global must be null or WebAssembly function ('function') object");
  return native.newGlobal(type!, false, value);
}

function objectOf(kind: Kind, id: number, name: string): unknown {
  switch (kind) {
    case "function":
      return functionOf(id, name);
    case "memory":
      return memories.get(id) ?? new Memory(undefined, SECRET, id);
    case "table":
      return tables.get(id) ?? new Table(undefined, undefined, SECRET, id);
    case "global":
      return globals.get(id) ?? new Global(undefined, undefined, SECRET, id);
  }
}

/** Returns a descriptor's `initial` or `minimum`, and its `maximum`. */
function bounds(descriptor: any, name: string, most: number, highest: number): [number, number | undefined] {
  let initial = descriptor.initial;
  let label = "initial";
  if (initial === undefined) {
    initial = descriptor.minimum;
    label = "minimum";
  }
  if (initial === undefined) throw new TypeError(`${name}: Property 'initial' is required`);
  const first = whole(initial, `${name}: Property '${label}'`, most);
  const { maximum } = descriptor;
  return [first, maximum === undefined ? undefined : whole(maximum, `${name}: Property 'maximum'`, highest, first)];
}

const memories = new Map<number, Memory>();

class Memory {
  #id: number;

  constructor(descriptor: unknown, secret?: unknown, id?: number) {
    if (secret === SECRET) this.#id = id!;
    else {
      const name = "WebAssembly.Memory()";
      if (!isObject(descriptor)) throw new TypeError(`${name}: Argument 0 must be a memory descriptor`);
      const [initial, maximum] = bounds(descriptor, name, 65_536, 65_536);
      if ((descriptor as any).shared) {
        if (maximum === undefined) throw new TypeError(`${name}: If shared is true, maximum property should be specified.`);
        throw new RangeError(`${name}: shared memories are not supported, because a realm has one thread`);
      }
      this.#id = named(name, () => native.newMemory(initial, maximum));
    }
    memories.set(this.#id, this);
  }
  static idOf(memory: unknown, what: string): number {
    if (!isObject(memory) || !(#id in memory)) throw new TypeError(`${what}: Receiver is not a WebAssembly.Memory`);
    return memory.#id;
  }
  static is(value: unknown): value is Memory {
    return isObject(value) && #id in value;
  }
  get buffer(): ArrayBuffer {
    return native.memoryBuffer(memoryId(this, "WebAssembly.Memory.buffer"));
  }
  grow(pages: unknown): number {
    const name = "WebAssembly.Memory.grow()";
    const id = memoryId(this, name);
    const count = whole(pages, `${name}: Argument 0`);
    return named(name, () => native.growMemory(id, count));
  }
}
const isMemory = Memory.is;
const memoryId = Memory.idOf as (memory: unknown, what?: string) => number;
for (const helper of ["idOf", "is"]) delete (Memory as any)[helper];
tag(Memory, "Memory", ["buffer", "grow"]);

const tables = new Map<number, Table>();

class Table {
  #id: number;
  #element: string;

  constructor(descriptor: unknown, value?: unknown, secret?: unknown, id?: number) {
    if (secret === SECRET) this.#id = id!;
    else {
      const name = "WebAssembly.Table()";
      if (!isObject(descriptor)) throw new TypeError(`${name}: Argument 0 must be a table descriptor`);
      let element = String((descriptor as any).element);
      if (element === "anyfunc") element = "funcref";
      if (element !== "funcref" && element !== "externref") throw new TypeError(`${name}: Descriptor property 'element' must be a WebAssembly reference type`);
      const [initial, maximum] = bounds(descriptor, name, 10_000_000, 0xffff_ffff);
      const first = arguments.length < 2 || (element === "funcref" && value === undefined) ? (element === "externref" ? undefined : null) : value;
      if (element === "funcref") checkFunction(first, `${name}: Argument 2 must be undefined or a value of type compatible with the type of the new table: ${NO_FUNCTION}.`);
      this.#id = named(name, () => native.newTable(element, initial, maximum, first));
    }
    this.#element = native.tableType(this.#id);
    tables.set(this.#id, this);
  }
  static idOf(table: unknown, what: string): number {
    if (!isObject(table) || !(#id in table)) throw new TypeError(`${what}: Receiver is not a WebAssembly.Table`);
    return table.#id;
  }
  static is(value: unknown): value is Table {
    return isObject(value) && #id in value;
  }
  get length(): number {
    return native.tableLength(tableId(this, "WebAssembly.Table.length"));
  }
  grow(count: unknown, value?: unknown): number {
    const name = "WebAssembly.Table.grow()";
    const id = tableId(this, name);
    const more = whole(count, `${name}: Argument 0`);
    const filling = arguments.length < 2 || (this.#element === "funcref" && value === undefined) ? (this.#element === "externref" ? undefined : null) : value;
    if (this.#element === "funcref") checkFunction(filling, `${name}: Argument 1 is invalid: ${NO_FUNCTION}`);
    const before = native.growTable(id, more, filling);
    if (before === undefined) throw new RangeError(`${name}: failed to grow table by ${more}`);
    return before;
  }
  set(index: unknown, value?: unknown): void {
    const name = "WebAssembly.Table.set()";
    const id = tableId(this, name);
    const at = this.#index(index, name);
    const element = arguments.length < 2 ? (this.#element === "externref" ? undefined : null) : value;
    if (this.#element === "funcref") checkFunction(element, `${name}: Argument 1 is invalid for table: ${NO_FUNCTION}`);
    native.tableSet(id, at, element);
  }
  get(index: unknown): unknown {
    const name = "WebAssembly.Table.get()";
    const id = tableId(this, name);
    return native.tableGet(id, this.#index(index, name));
  }
  #index(index: unknown, name: string): number {
    const at = whole(index, `${name}: Argument 0`);
    const length = native.tableLength(this.#id);
    if (at >= length) throw new RangeError(`${name}: invalid index ${at} into ${this.#element} table of size ${length}`);
    return at;
  }
}
const isTable = Table.is;
const tableId = Table.idOf as (table: unknown, what?: string) => number;
for (const helper of ["idOf", "is"]) delete (Table as any)[helper];
tag(Table, "Table", ["length", "grow", "set", "get"]);

function checkFunction(value: unknown, message: string): void {
  if (value !== null && !(typeof value === "function" && functionIds.has(value as Fn))) throw new TypeError(message);
}

const globals = new Map<number, Global>();
const TYPES = ["i32", "i64", "f32", "f64", "v128", "externref", "anyfunc", "funcref"];
const DEFAULTS: Record<string, unknown> = { i32: 0, i64: 0n, f32: 0, f64: 0, funcref: null, externref: undefined };

class Global {
  #id: number;

  constructor(descriptor: unknown, value?: unknown, secret?: unknown, id?: number) {
    if (secret === SECRET) this.#id = id!;
    else {
      const name = "WebAssembly.Global()";
      if (!isObject(descriptor)) throw new TypeError(`${name}: Argument 0 must be a global descriptor`);
      const mutable = Boolean((descriptor as any).mutable);
      const type = String((descriptor as any).value);
      if (!TYPES.includes(type)) throw new TypeError(`${name}: Descriptor property 'value' must be a WebAssembly type`);
      const kind = type === "anyfunc" ? "funcref" : type;
      if (kind === "v128") throw new TypeError(`${name}: type incompatibility when transforming from/to JS`);
      const first = value === undefined && !(kind === "externref" && arguments.length > 1) ? DEFAULTS[kind] : value;
      if (kind === "funcref") checkFunction(first, `${name}: The value of funcref globals must be null or an exported function`);
      this.#id = named(name, () => native.newGlobal(kind, mutable, first));
    }
    globals.set(this.#id, this);
  }
  static idOf(global: unknown, what: string): number {
    if (!isObject(global) || !(#id in global)) throw new TypeError(`${what}: Receiver is not a WebAssembly.Global`);
    return global.#id;
  }
  static is(value: unknown): value is Global {
    return isObject(value) && #id in value;
  }
  valueOf(): unknown {
    return native.globalGet(globalId(this, "WebAssembly.Global.valueOf()"));
  }
  get value(): unknown {
    return native.globalGet(globalId(this, "get WebAssembly.Global.value"));
  }
  set value(value: unknown) {
    const name = "set WebAssembly.Global.value";
    const id = globalId(this, name);
    const [type, mutable] = native.globalType(id);
    if (!mutable) throw new TypeError(`${name}: Can't set the value of an immutable global.`);
    if (type === "funcref") checkFunction(value, `${name}: value of an funcref reference must be either null or an exported function`);
    native.globalSet(id, value);
  }
}
const isGlobal = Global.is;
const globalId = Global.idOf as (global: unknown, what?: string) => number;
for (const helper of ["idOf", "is"]) delete (Global as any)[helper];
tag(Global, "Global", ["valueOf", "value"]);

function validate(source: unknown): boolean {
  return native.validate(bytesOf(source, "WebAssembly.validate()"));
}

async function compileBytes(source: unknown, name: string): Promise<Module> {
  // Copies the bytes when compilation is requested, as later changes must not matter.
  const bytes = bytesOf(source, name).slice();
  await undefined;
  return new Module(undefined, SECRET, compile(bytes, name));
}

async function instantiateModule(module: Module, imports: unknown, name: string): Promise<Instance> {
  await undefined;
  return new Instance(module, imports, SECRET, name);
}

/** Checks a response and returns its bytes. */
async function bytesOfResponse(source: unknown): Promise<ArrayBuffer> {
  const response: any = await source;
  if (!(response instanceof importSync("pi:web/fetch").Response)) {
    throw coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "source" argument must be an instance of Response or an Promise resolving to Response.');
  }
  const refuse = (message: string) => coded(TypeError, "ERR_WEBASSEMBLY_RESPONSE", `WebAssembly response ${message}`);
  const type = response.headers.get("content-type");
  if (type !== "application/wasm") throw refuse(`has unsupported MIME type '${type}'`);
  if (!response.ok) throw refuse(`has status code ${response.status}`);
  if (response.bodyUsed) throw refuse("body has already been used");
  return response.arrayBuffer();
}

const members = {
  compile: async (source: unknown) => compileBytes(source, "WebAssembly.compile()"),
  validate: (source: unknown) => validate(source),
  instantiate: async (source: unknown, imports?: unknown) => {
    const name = "WebAssembly.instantiate()";
    if (!isModule(source) && !ArrayBuffer.isView(source) && !(source instanceof ArrayBuffer)) {
      throw new TypeError(`${name}: Argument 0 must be a buffer source or a WebAssembly.Module object`);
    }
    if (imports !== undefined && !isObject(imports)) throw new TypeError(`${name}: Argument 1 must be an object`);
    if (isModule(source)) return instantiateModule(source, imports, name);
    const module = await compileBytes(source, name);
    return { module, instance: await instantiateModule(module, imports, name) };
  },
  compileStreaming: async (source: unknown) => compileBytes(await bytesOfResponse(source), "WebAssembly.compileStreaming()"),
  instantiateStreaming: async (source: unknown, imports?: unknown) => {
    const name = "WebAssembly.instantiateStreaming()";
    const module = await compileBytes(await bytesOfResponse(source), name);
    return { module, instance: await instantiateModule(module, imports, name) };
  },
};

export const WebAssembly: object = {};
for (const [name, value] of Object.entries(members)) {
  Object.defineProperty(WebAssembly, name, { value, writable: true, enumerable: true, configurable: true });
}
// A module with exceptions fails with a `CompileError`; these are for code that uses the classes.
const exceptions = refuse("WebAssembly", "build the module without exception handling: -fno-wasm-exceptions", ["Tag", "Exception"]);
defineHidden(WebAssembly, { ...exceptions, Module, Instance, Table, Memory, Global, CompileError, LinkError, RuntimeError });
Object.defineProperty(WebAssembly, Symbol.toStringTag, { value: "WebAssembly", configurable: true });
