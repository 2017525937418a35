/** `pi:node/util/shape`: the prefix of inspected values: class names, tags, functions, errors. */

/** Built-in functions that look like classes, but are not shown as such. */
const BUILTINS = new Set<unknown>();
for (const name of Object.getOwnPropertyNames(globalThis)) {
  const descriptor = Object.getOwnPropertyDescriptor(globalThis, name);
  if (descriptor && typeof descriptor.value === "function" && /^[A-Z]/.test(name)) BUILTINS.add(descriptor.value);
}
const TypedArray = Object.getPrototypeOf(Uint8Array);
BUILTINS.add(TypedArray);

export function isBuiltin(value: unknown): boolean {
  return BUILTINS.has(value);
}

/** Returns the name of the nearest constructor in the prototype chain; null for an object without a prototype. */
export function constructorName(value: object): string | null {
  let first: object | null | undefined;
  for (let at: object | null = value; at; at = Object.getPrototypeOf(at)) {
    const descriptor = Object.getOwnPropertyDescriptor(at, "constructor");
    const maker = descriptor?.value;
    if (typeof maker === "function" && maker.name !== "" && madeBy(value, maker)) return String(maker.name);
    if (first === undefined) first = Object.getPrototypeOf(at);
  }
  if (first === null || first === undefined) return null;
  const inner = constructorName(first);
  return inner === null ? "Object <[Object: null prototype] {}>" : `Object <${inner}>`;
}

function madeBy(value: object, maker: Function): boolean {
  try {
    return value instanceof maker;
  } catch {
    return false;
  }
}

/** Returns `Name(size) [tag] `, with the trailing space. */
export function prefixOf(name: string | null, tag: string, fallback: string, size: string = ""): string {
  if (name === null) return tag !== "" && fallback !== tag ? `[${fallback}${size}: null prototype] [${tag}] ` : `[${fallback}${size}: null prototype] `;
  return tag !== "" && !saysTag(name, tag) ? `${name}${size} [${tag}] ` : `${name}${size} `;
}

/** Returns whether the name contains the tag as a word: `PrivateKeyObject` is a `KeyObject`, but `Mapper` is not a `Map`. */
function saysTag(name: string, tag: string): boolean {
  const at = name.indexOf(tag);
  return at >= 0 && /^(?:[A-Z]|$)/.test(name.slice(at + tag.length));
}

/** Returns the tag, unless it is an own property that is shown anyway. */
export function tagOf(value: any, showHidden: boolean): string {
  const tag = value[Symbol.toStringTag];
  if (typeof tag !== "string" || tag === "") return "";
  const own = showHidden ? Object.hasOwn(value, Symbol.toStringTag) : Object.prototype.propertyIsEnumerable.call(value, Symbol.toStringTag);
  return own ? "" : tag;
}

/** Returns whether a function is a class, which has a read-only `prototype`: bytecode has no source to test. */
function isClass(value: Function): boolean {
  return !BUILTINS.has(value) && Object.getOwnPropertyDescriptor(value, "prototype")?.writable === false;
}

const KINDS: Record<string, string> = {
  AsyncFunction: "AsyncFunction",
  GeneratorFunction: "GeneratorFunction",
  AsyncGeneratorFunction: "AsyncGeneratorFunction",
};

export function functionBase(value: Function, name: string | null, tag: string): string {
  if (isClassLike(value)) return classBase(value, name, tag);
  const kind = KINDS[(value as any)[Symbol.toStringTag]] ?? "Function";
  let base = `[${kind}${name === null ? " (null prototype)" : ""}${value.name === "" ? " (anonymous)" : `: ${value.name}`}]`;
  if (name !== kind && name !== null) base += ` ${name}`;
  if (tag !== "" && name !== tag) base += ` [${tag}]`;
  return base;
}

function isClassLike(value: Function): boolean {
  const source = Function.prototype.toString.call(value);
  if (source.startsWith("class") && source.endsWith("}")) return true;
  // The engine drops sources, so every function looks native.
  return source.includes("[native code]") && !KINDS[(value as any)[Symbol.toStringTag]] && isClass(value);
}

function classBase(value: Function, name: string | null, tag: string): string {
  const own = (Object.hasOwn(value, "name") && value.name) || "(anonymous)";
  let base = `class ${own}`;
  if (name !== "Function" && name !== null) base += ` [${name}]`;
  if (tag !== "" && name !== tag) base += ` [${tag}]`;
  if (name === null) return `[${base} extends [null prototype]]`;
  const parent = Object.getPrototypeOf(value)?.name;
  return `[${base}${parent ? ` extends ${parent}` : ""}]`;
}

function stackOf(error: any): string {
  try {
    const { stack } = error;
    if (stack) return typeof stack === "string" ? stack : `${Error.prototype.toString.call(error)}\n    ${String(stack)}`;
  } catch {
    // An error with a getter that throws has no stack to show.
  }
  return Error.prototype.toString.call(error);
}

/** Returns the stack with the class name in its header if `name` does not contain it. */
function improved(stack: string, constructor: string | null, name: string, tag: string): string {
  let length = name.length;
  const usual = name.endsWith("Error") && stack.startsWith(name) && (stack.length === length || stack[length] === ":" || stack[length] === "\n");
  if (constructor !== null && !usual) return stack;
  let fallback = "Error";
  if (constructor === null) {
    const start = /^([A-Z][a-z_ A-Z0-9[\]()-]+)(?::|\n {4}at)/.exec(stack) ?? /^([a-z_A-Z0-9-]*Error)$/.exec(stack);
    fallback = start?.[1] ?? "";
    length = fallback.length;
    fallback ||= "Error";
  }
  const prefix = prefixOf(constructor, tag, fallback).slice(0, -1);
  if (name === prefix) return stack;
  if (!prefix.includes(name)) return `${prefix} [${name}]${stack.slice(length)}`;
  return length === 0 ? `${prefix}: ${stack}` : `${prefix}${stack.slice(length)}`;
}

/** Returns the stack of an error. Removes repeated members from `keys`, and adds cause and errors. */
export function errorBase(error: any, constructor: string | null, tag: string, showHidden: boolean, keys: PropertyKey[]): string {
  const name = error.name != null ? String(error.name) : "Error";
  let stack = stackOf(error);
  if (!showHidden) {
    for (const key of ["name", "message", "stack"]) {
      const at = keys.indexOf(key);
      if (at >= 0 && stack.includes(String(error[key]))) keys.splice(at, 1);
    }
  }
  if ("cause" in error && !keys.includes("cause")) keys.push("cause");
  if (Array.isArray(error.errors) && !keys.includes("errors")) keys.push("errors");
  stack = improved(stack, constructor, name, tag);
  let from = (error.message && stack.indexOf(error.message)) || -1;
  if (from !== -1) from += error.message.length;
  return stack.indexOf("\n    at", from) === -1 ? `[${stack}]` : stack;
}
