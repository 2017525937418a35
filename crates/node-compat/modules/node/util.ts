/** `node:util`. The larger parts are separate modules in `pi:node/util/...`. */

import { importSync } from "pi:engine";
import { checkFunction, checkString, coded, invalidArgType, outOfRange } from "pi:node/errors";
import { difference } from "pi:node/util/difference";
import { parseEnv as parseEnvironment } from "pi:node/util/env";
import { systemErrors } from "pi:node/util/errno";
import { deepEqual } from "pi:node/util/equal";
import { format as formatText, formatWithOptions as formatTextWith } from "pi:node/util/format";
import { inspect as inspectValue } from "pi:node/util/inspect";
import { MIMEParams as Params, MIMEType as Type } from "pi:node/util/mime";
import { parseArgs as parseArguments } from "pi:node/util/parseargs";
import typeChecks from "node:util/types";
import { AbortController, AbortSignal } from "pi:web/abort";
import { TextDecoder as Decoder, TextEncoder as Encoder } from "pi:web/encoding";
import { guarded, queueTick } from "pi:web/ticks";

export const inspect = inspectValue;
export const format = formatText;
export const formatWithOptions = formatTextWith;
export const parseArgs = parseArguments;
export const parseEnv = parseEnvironment;
export const types = typeChecks;
export const TextDecoder = Decoder;
export const TextEncoder = Encoder;

const CUSTOM = Symbol.for("nodejs.util.promisify.custom");

type AnyFunction = (...args: any[]) => any;

/** Converts a function whose last argument is a callback to one that returns a promise. */
function promisifyFunction(original: AnyFunction): AnyFunction {
  checkFunction("original", original);
  const custom = (original as any)[CUSTOM];
  if (custom) {
    checkFunction("util.promisify.custom", custom);
    return Object.defineProperty(custom, CUSTOM, { value: custom, configurable: true }) as AnyFunction;
  }
  function promisified(this: unknown, ...args: unknown[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      Reflect.apply(original, this, [...args, (error: unknown, value: unknown) => (error ? reject(error) : resolve(value))]);
    });
  }
  Object.setPrototypeOf(promisified, Object.getPrototypeOf(original));
  Object.defineProperty(promisified, CUSTOM, { value: promisified, configurable: true });
  const own = Object.getOwnPropertyDescriptors(original) as Record<PropertyKey, PropertyDescriptor>;
  for (const key of Reflect.ownKeys(own)) {
    if (key !== "prototype") Object.defineProperty(promisified, key, { ...own[key as string], configurable: true });
  }
  return promisified;
}
export const promisify = Object.assign(promisifyFunction, { custom: CUSTOM });

/** Converts a function that returns a promise to one whose last argument is a callback. */
export function callbackify(original: AnyFunction): AnyFunction {
  checkFunction("original", original);
  return function callbackified(this: unknown, ...args: any[]): void {
    const done = args.pop();
    checkFunction("last argument", done);
    Promise.resolve(Reflect.apply(original, this, args)).then(
      (value) => queueTick(() => done(null, value)),
      (reason) => queueTick(() => done(reason || Object.assign(coded(Error, "ERR_FALSY_VALUE_REJECTION", "Promise was rejected with falsy value"), { reason }))),
    );
  };
}

export function inherits(constructor: any, parent: any): void {
  checkFunction("ctor", constructor);
  checkFunction("superCtor", parent);
  if (parent.prototype === undefined) throw invalidArgType("superCtor.prototype", "of type object", parent.prototype);
  Object.defineProperty(constructor, "super_", { value: parent, writable: true, configurable: true });
  Object.setPrototypeOf(constructor.prototype, parent.prototype);
}

/** Wraps a function to warn once, at the first call. */
export function deprecate<F extends AnyFunction>(original: F, message: string, code?: string): F {
  let warned = false;
  function deprecated(this: unknown, ...args: unknown[]): unknown {
    if (!warned) {
      warned = true;
      importSync("node:process").default.emitWarning(message, "DeprecationWarning", code);
    }
    return new.target ? Reflect.construct(original, args, new.target) : Reflect.apply(original, this, args);
  }
  Object.setPrototypeOf(deprecated, original);
  if (original.prototype) deprecated.prototype = original.prototype;
  Object.defineProperty(deprecated, "length", { ...Object.getOwnPropertyDescriptor(original, "length") });
  return deprecated as unknown as F;
}

export function isDeepStrictEqual(a: unknown, b: unknown): boolean {
  return deepEqual(a, b, true);
}

const CONTROL = /[\u001B\u009B][[\]()#;?]*(?:(?:(?:(?:;[-a-zA-Z\d/#&.:=?%@~_]+)*|[a-zA-Z\d]+(?:;[-a-zA-Z\d/#&.:=?%@~_]*)*)?(?:\u0007|\u001B\u005C|\u009C))|(?:(?:\d{1,4}(?:;\d{0,4})*)?[\dA-PR-TZcf-nq-uy=><~]))/g;

export function stripVTControlCharacters(text: string): string {
  if (typeof text !== "string") throw invalidArgType("str", "of type string", text);
  return text.replace(CONTROL, "");
}

/** Returns the stream that styled text is for: stdout by default. */
function streamOf(given: any): object {
  if (given === undefined) return importSync("node:process").default.stdout;
  const isStream = typeof given?.pipe === "function" || typeof given?.write === "function" || typeof given?.getReader === "function" || typeof given?.getWriter === "function";
  if (!isStream) throw invalidArgType("stream", "an instance of ReadableStream, WritableStream, or Stream", given);
  return given;
}

/** Returns whether a stream shows colours. `FORCE_COLOR` is ignored: reading it would cause a permission prompt. */
function showsColours(stream: any): boolean {
  return Boolean(stream?.isTTY) && (typeof stream.getColorDepth !== "function" || stream.getColorDepth() > 2);
}

/** Returns text with the colours of `inspect.colors`, or plain text for a stream without colours, unless validation is off. */
export function styleText(style: string | string[], text: string, { validateStream = true, stream }: { validateStream?: boolean; stream?: any } = {}): string {
  if (typeof text !== "string") throw invalidArgType("text", "of type string", text);
  if (typeof validateStream !== "boolean") throw invalidArgType("options.validateStream", "of type boolean", validateStream);
  const isPlain = validateStream && !showsColours(streamOf(stream));
  let left = "";
  let right = "";
  for (const name of Array.isArray(style) ? style : [style]) {
    const codes = inspect.colors[name];
    if (codes === undefined) {
      const known = Object.keys(inspect.colors).map((color) => `'${color}'`).join(", ");
      throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'format' must be one of: ${known}. Received ${inspect(name)}`);
    }
    left += `\u001b[${codes[0]}m`;
    right = `\u001b[${codes[1]}m${right}`;
  }
  return isPlain ? text : `${left}${text}${right}`;
}

export function toUSVString(text: string): string {
  return String(text).toWellFormed();
}

function systemError(errno: unknown): [string, string] | undefined {
  if (typeof errno !== "number") throw invalidArgType("err", "of type number", errno);
  if (errno >= 0 || !Number.isSafeInteger(errno)) throw outOfRange("err", "a negative integer", errno);
  return systemErrors.get(errno);
}
export function getSystemErrorName(errno: number): string {
  return systemError(errno)?.[0] ?? `Unknown system error ${errno}`;
}
export function getSystemErrorMessage(errno: number): string {
  return systemError(errno)?.[1] ?? `Unknown system error ${errno}`;
}
export function getSystemErrorMap(): Map<number, [string, string]> {
  return new Map(systemErrors);
}

/** Returns the positions of the callers, innermost first. */
export function getCallSites(frameCount: unknown = 10): object[] {
  const count = typeof frameCount === "object" && frameCount !== null ? 10 : frameCount;
  if (typeof count !== "number") throw invalidArgType("frameCount", "of type number", count);
  if (!(count >= 1 && count <= 200)) throw outOfRange("frameCount", ">= 1 && <= 200", count);
  const errors = Error as any;
  const { prepareStackTrace, stackTraceLimit } = errors;
  errors.prepareStackTrace = (_: unknown, sites: any[]) => sites;
  errors.stackTraceLimit = count + 1;
  try {
    return (new Error().stack as unknown as any[]).slice(1).map((site) => ({
      functionName: site.getFunctionName() ?? "", scriptId: "0", scriptName: site.getFileName() ?? "", lineNumber: site.getLineNumber() ?? 0,
      columnNumber: site.getColumnNumber() ?? 0, column: site.getColumnNumber() ?? 0,
    }));
  } finally {
    Object.assign(errors, { prepareStackTrace, stackTraceLimit });
  }
}
export const getCallSite = getCallSites;

/** Returns an ordinary controller: a realm transfers no values to other threads. */
export function transferableAbortController(): AbortController {
  return new AbortController();
}
export function transferableAbortSignal(signal: AbortSignal): AbortSignal {
  return signal;
}
export function setTraceSigInt(): void {}

/** Returns a logger for NODE_DEBUG, which is always off in a realm. */
export function debuglog(): AnyFunction & { enabled: boolean } {
  return Object.assign(() => undefined, { enabled: false });
}
export const debug = debuglog;

/** Resolves when the signal fires. */
export async function aborted(signal: any, resource: unknown): Promise<void> {
  if (!(signal instanceof AbortSignal)) throw invalidArgType("signal", "an instance of AbortSignal", signal);
  if ((typeof resource !== "object" && typeof resource !== "function") || resource === null) throw invalidArgType("resource", "of type object", resource);
  return new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener("abort", () => guarded(resolve), { once: true })));
}

export const MIMEType = Type;
export const MIMEParams = Params;

/** Compares lists, or the characters of strings. Returns the differences as `[-1 | 0 | 1, entry]`. */
export function diff(actual: string | string[], expected: string | string[]): [number, string][] {
  if (actual === expected) return [];
  for (const [name, value] of [["actual", actual], ["expected", expected]] as const) {
    const isText = typeof value === "string";
    if (!isText && !Array.isArray(value)) throw invalidArgType(name, "of type string", value);
    if (!isText) value.forEach((entry, index) => checkString(`${name}[${index}]`, entry));
  }
  return difference([...actual], [...expected]);
}

// Deprecated checks that old packages still import.
export const isBuffer = (value: unknown): boolean => importSync("node:buffer").Buffer.isBuffer(value);
export const isArray = Array.isArray;
export const isBoolean = (value: unknown) => typeof value === "boolean";
export const isNull = (value: unknown) => value === null;
export const isNullOrUndefined = (value: unknown) => value === null || value === undefined;
export const isNumber = (value: unknown) => typeof value === "number";
export const isString = (value: unknown) => typeof value === "string";
export const isSymbol = (value: unknown) => typeof value === "symbol";
export const isUndefined = (value: unknown) => value === undefined;
export const isRegExp = types.isRegExp;
export const isObject = (value: unknown) => typeof value === "object" && value !== null;
export const isDate = types.isDate;
export const isError = (value: unknown) => value instanceof Error;
export const isFunction = (value: unknown) => typeof value === "function";
export const isPrimitive = (value: unknown) => value === null || (typeof value !== "object" && typeof value !== "function");
export function _extend<T extends object>(target: T, source: object | null | undefined): T {
  return typeof source === "object" && source !== null ? Object.assign(target, source) : target;
}

export default {
  MIMEParams, MIMEType, diff, parseEnv, getSystemErrorMessage, getCallSite, getCallSites, transferableAbortController, transferableAbortSignal, setTraceSigInt,
  isBuffer, inspect, format, formatWithOptions, parseArgs, types, TextDecoder, TextEncoder, promisify, callbackify, inherits, deprecate,
  isDeepStrictEqual, stripVTControlCharacters, styleText, toUSVString, getSystemErrorName, getSystemErrorMap, debuglog, debug, aborted,
  isArray, isBoolean, isNull, isNullOrUndefined, isNumber, isString, isSymbol, isUndefined, isRegExp, isObject, isDate, isError,
  isFunction, isPrimitive, _extend,
};
