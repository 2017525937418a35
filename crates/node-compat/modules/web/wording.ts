/**
 * `pi:web/wording`: gives errors of the engine Node's messages.
 *
 * Extensions show `error.message`, compare it and write it to files, so its text is behaviour. The engine calls a hook for the
 * stack of each error before it can be caught (`Error.prepareStackTrace`), in which this module also replaces the message. V8's
 * messages that quote the source (`config.load is not a function`) come from the host, which has the text; if it has none, or the
 * position is ambiguous, the engine's message stays. The text of `stack` is created when it is first read: the error has its name
 * by then.
 */

import { callSync, importSync, quoteText } from "pi:engine";
import { defineHidden, defineLazy } from "pi:web/lazy";

/** Node's messages by the engine's. Where V8 names a value that the engine does not report, the closest message. */
const SAME: Record<string, string> = {
  "already running": "Generator is already running",
  "bad normalization form": "The normalization form should be one of NFC, NFD, NFKC, NFKD.",
  "BigInt are forbidden in JSON.stringify": "Do not know how to serialize a BigInt",
  "BigInt division by zero": "Division by zero",
  "BigInt is too large": "Maximum BigInt size exceeded",
  "BigInt is too large to allocate": "Maximum BigInt size exceeded",
  "BigInt negative exponent": "Exponent must be non-negative",
  "BigInt operands are forbidden for >>>": "BigInts have no unsigned right shift, use >> instead",
  "bigint argument with unary +": "Cannot convert a BigInt value to a number",
  "cannot convert BigInt to number": "Cannot mix BigInt and other types, use explicit conversions",
  "cannot convert symbol to number": "Cannot convert a Symbol value to a number",
  "cannot convert symbol to string": "Cannot convert a Symbol value to a string",
  "cannot invoke a running generator": "Generator is already running",
  "circular prototype chain": "Cyclic __proto__ value",
  "Date value is NaN": "Invalid time value",
  "derived class constructor must return an object or undefined": "Derived constructors may only return object or undefined",
  "empty array": "Reduce of empty array with no initial value",
  "empty iterator": "Reduce of a done iterator with no initial value",
  "invalid array buffer length": "Array buffer allocation failed",
  "invalid array length": "Invalid array length",
  "invalid 'instanceof' right operand": "Right-hand side of 'instanceof' is not callable",
  "invalid string length": "Invalid string length",
  "invalid value used as WeakMap key": "Invalid value used as weak map key",
  "invalid value used as WeakSet key": "Invalid value used in weak set",
  "iterator does not have a throw method": "The iterator does not provide a 'throw' method",
  "not a Date object": "this is not a Date object.",
  "object prototype may only be an Object or null": "Object prototype may only be an Object or null",
  "operand 'prototype' property is not an object": "Function has non-object prototype in instanceof check",
  "out of bound": "Offset is outside the bounds of the DataView",
  "parent class must be constructor": "Class extends value is not a constructor or null",
  "promise self resolution": "Chaining cycle detected for promise #<Promise>",
  "this is not initialized":
    "Must call super constructor in derived class before accessing 'this' or returning from derived constructor",
  toPrimitive: "Cannot convert object to primitive value",
  "WeakRef: target must be an object": "WeakRef: invalid target",
};

// Captured at the start: the hook runs within an extension's code, which may have replaced any global.
const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf, hasOwn } = Object;
const { toString } = Error.prototype;
const call = Reflect.apply;
const { exec } = RegExp.prototype;
const { slice } = Array.prototype;
const { charCodeAt } = String.prototype;
const { TypeError, URIError } = globalThis;
const Exception = DOMException;
const { isError } = Error as unknown as { isError(value: unknown): boolean };

const FORMS: [RegExp, (found: string, and: string) => string][] = [
  [/^cannot read property 'Symbol\.iterator' of (undefined|null)$/, (what) => `${what} is not iterable`],
  [/^cannot read property '([^]*)' of (undefined|null)$/, (name, what) => `Cannot read properties of ${what} (reading '${inBrackets(name)}')`],
  [/^cannot set property '([^]*)' of (undefined|null)$/, (name, what) => `Cannot set properties of ${what} (setting '${inBrackets(name)}')`],
  [/^'([^]*)' is read-only$/, (name) => `Cannot assign to read only property '${name}' of object '#<Object>'`],
  [/^private class field '([^]*)' does not exist$/, (name) => `Cannot read private member ${name} from an object whose class did not declare it`],
  [/^(\S+) is not initialized$/, (name) => `Cannot access '${name}' before initialization`],
];
const SYMBOL = /^Symbol\.[a-zA-Z]+$/;
const NOT_INITIALIZED = FORMS[FORMS.length - 1]![0];

/** Formats a symbol as Node does. */
function inBrackets(name: string): string {
  return call(exec, SYMBOL, [name]) === null ? name : `Symbol(${name})`;
}

/** Translates the engine's message to Node's. */
function translated(message: string): string | undefined {
  const same = hasOwn(SAME, message) ? SAME[message] : undefined;
  if (same !== undefined) return same;
  // Most messages are the extension's own. Only these messages of the engine begin in lower case or with a quote.
  const first = call(charCodeAt, message, [0]);
  if (!(first >= 97 && first <= 122) && first !== 39 && call(exec, NOT_INITIALIZED, [message]) === null) return undefined;
  for (let index = 0; index < FORMS.length; index++) {
    const [pattern, words] = FORMS[index]!;
    const found = call(exec, pattern, [message]);
    if (found !== null) return words(found[1]!, found[2]!);
  }
  return undefined;
}

/** V8's messages that name the function, by the function and the engine's message. */
const OF_FUNCTIONS: Record<string, string> = {
  "apply: not a object": "CreateListFromArrayLike called on non-object",
  "ArrayBuffer: invalid array index": "Invalid array buffer length",
  "bind: not a function": "Bind must be called on a function",
  "DataView: ArrayBuffer object expected": "First argument to DataView constructor must be an ArrayBuffer",
  "defineProperties: not an object": "Object.defineProperties called on non-object",
  "defineProperty: not an object": "Object.defineProperty called on non-object",
  "matchAll: regexp must have the 'g' flag": "String.prototype.matchAll called with a non-global RegExp argument",
  "ownKeys: not an object": "Reflect.ownKeys called on non-object",
  "Promise: must be called with new": "Promise constructor cannot be invoked without 'new'",
  "Proxy: not an object": "Cannot create proxy with a non-object as target or handler",
  "repeat: invalid repeat count": "Invalid count value",
  "replaceAll: regexp must have the 'g' flag": "String.prototype.replaceAll called with a non-global RegExp argument",
  "set: invalid array length": "offset is out of bounds",
  "toExponential: invalid number of digits": "toExponential() argument must be between 0 and 100",
  "toFixed: invalid number of digits": "toFixed() digits argument must be between 0 and 100",
  "toPrecision: invalid number of digits": "toPrecision() argument must be between 1 and 100",
};

/** The position of the function's name in V8's message. */
const WITH_NAME: Record<string, (name: string) => string> = {
  "must be called with new": (name) => `Constructor ${name} requires 'new'`,
  "null or undefined are forbidden": (name) => `String.prototype.${name} called on null or undefined`,
  "regexp not supported": (name) => `First argument to String.prototype.${name} must not be a regular expression`,
};

/** V8 names the class in this message; it is the class of the innermost frame. */
const CLASS_CALLED = "class constructors must be invoked with 'new'";
/** Messages in which V8 quotes the source. */
const QUOTED: Record<string, true> = {
  "not a constructor": true,
  "not a function": true,
  "null is not iterable": true,
  "undefined is not iterable": true,
  "value is not iterable": true,
};
/** Messages by position, so that a repeated failure has the same message; `null` if there is no quote. */
const quotations: Record<string, string | null> = Object.create(null);

/** Returns `config.load is not a function` for an error with this message at this position; `null` if there is no quote. */
function quotation(words: string, site: CallSite | undefined): string | null {
  if (site === undefined || call(isNative, site, [])) return null;
  if (call(getFileName, site, []) === TEXT) return quotationOfText(words, site);
  const place = placeOf(site);
  const known = quotations[place];
  if (known !== undefined) return known;
  let found: string | null = null;
  try {
    const question = {
      // Has no prototype, so that members that an extension added to all objects are not read.
      __proto__: null,
      op: "quote",
      message: words,
      module: call(getFileName, site, []),
      line: call(getLineNumber, site, []),
      column: call(getColumnNumber, site, []),
    };
    found = (callSync("module", "module", question).output as { message: string | null }).message;
  } catch {
    // The host cannot quote the source.
  }
  quotations[place] = found;
  return found;
}

/** The file name of code that the extension compiled from text. */
const TEXT = "<anonymous>";
const textOf = Function.prototype.toString;
const beginning = (name: string) => getOwnPropertyDescriptor(Function.prototype, name)!.get!;
const [firstLineOf, firstColumnOf] = [beginning("lineNumber"), beginning("columnNumber")];

/** Quotes code that the extension compiled from text, whose functions have their source. */
function quotationOfText(words: string, site: CallSite): string | null {
  const made = call(getFunction, site, []);
  if (typeof made !== "function") return null;
  const line: number = call(getLineNumber, site, []) - call(firstLineOf, made, []) + 1;
  const column: number = call(getColumnNumber, site, []);
  return quoteText(words, call(textOf, made, []), line, line === 1 ? column - call(firstColumnOf, made, []) + 1 : column);
}

const READ_ONLY = /^'([^]*)' is read-only$/;
const { indexOf } = String.prototype;

/** Returns whether such code assigns to one of its own constants; for bundled code, the compiler handles that. */
function isConstantOfText(message: string, site: CallSite): boolean {
  const found = call(exec, READ_ONLY, [message]);
  if (found === null || call(getFileName, site, []) !== TEXT) return false;
  const made = call(getFunction, site, []);
  return typeof made === "function" && call(indexOf, call(textOf, made, []), [`const ${found[1]}`]) >= 0;
}

interface CallSite {
  getFunction(): unknown;
  getFunctionName(): string | null;
  getFileName(): string | null;
  getLineNumber(): number;
  getColumnNumber(): number;
  isConstructor(): boolean;
  isNative(): boolean;
}

type Sites = CallSite[];
type Prepare = (error: unknown, sites: Sites) => unknown;

/** The common prototype of frames. */
const frame: CallSite = (() => {
  (Error as any).prepareStackTrace = (_: unknown, sites: Sites) => sites;
  const [site] = new Error().stack as unknown as Sites;
  return getPrototypeOf(site);
})();
const { getFunction, getFunctionName, getFileName, getLineNumber, getColumnNumber, isConstructor, isNative } = frame;

/** Formats frames as the engine does by default. Returns a text, since the state of an error must be small. */
function framesOf(sites: Sites): string {
  let frames = "";
  for (let index = 0; index < sites.length; index++) {
    frames += `\n    at ${written(sites[index]!)}`;
  }
  return frames;
}

/**
 * Methods of a frame that the engine lacks. Unknown values equal those of V8 for a plain function in a strict module.
 */
const QUESTIONS: Record<string, (site: CallSite) => unknown> = {
  getEnclosingColumnNumber: (site) => site.getColumnNumber(),
  getEnclosingLineNumber: (site) => site.getLineNumber(),
  getEvalOrigin: () => undefined,
  getMethodName: () => null,
  getPosition: () => 0,
  getPromiseIndex: () => null,
  getScriptHash: () => "",
  getScriptNameOrSourceURL: (site) => site.getFileName(),
  getThis: () => undefined,
  getTypeName: () => null,
  isAsync: () => false,
  isEval: () => false,
  isPromiseAll: () => false,
  isToplevel: () => true,
  toString: written,
};

/** Returns the name of a frame's function, if it has one. */
function nameOf(site: CallSite | undefined): string {
  return (site !== undefined && call(getFunctionName, site, [])) || "";
}

function written(site: CallSite): string {
  const name = nameOf(site);
  return name === "" ? placeOf(site) : `${call(isConstructor, site, []) ? "new " : ""}${name} (${placeOf(site)})`;
}

/** Formats the source position of a frame. */
function placeOf(site: CallSite): string {
  if (call(isNative, site, [])) return "native";
  return `${call(getFileName, site, [])}:${call(getLineNumber, site, [])}:${call(getColumnNumber, site, [])}`;
}

for (const name of Object.keys(QUESTIONS)) {
  const answer = QUESTIONS[name]!;
  const value = function (this: CallSite) {
    return answer(this);
  };
  Object.defineProperty(frame, name, { value, writable: true, configurable: true });
}

/** Formats an error like Node's default formatter. */
function prepareStackTrace(error: unknown, sites: Sites): string {
  return headerOf(error) + framesOf(sites);
}

/** The hook that the extension reads and can replace. */
let own: unknown = prepareStackTrace;

/** Returns Node's message for an error if it differs from the engine's. */
function wordsOf(error: unknown, message: string, sites: Sites): string | undefined {
  if (error instanceof URIError) return "URI malformed";
  if (message === CLASS_CALLED) return `Class constructor ${nameOf(sites[0])} cannot be invoked without 'new'`;
  const site = sites[0];
  if (site !== undefined && isConstantOfText(message, site)) return "Assignment to constant variable.";
  const name = site !== undefined && call(isNative, site, []) ? nameOf(site) : "";
  const ofFunction = `${name}: ${message}`;
  const named = name !== "" && hasOwn(WITH_NAME, message) ? WITH_NAME[message]!(name) : undefined;
  const words = hasOwn(OF_FUNCTIONS, ofFunction) ? OF_FUNCTIONS[ofFunction] : (named ?? translated(message));
  const plain = words ?? message;
  return error instanceof TypeError && hasOwn(QUOTED, plain) ? (quotation(plain, sites[0]) ?? words) : words;
}

/**
 * Handles the engine's hook. The engine also calls it for rethrown values and for values other than errors; it repeats the call,
 * frame by frame, until it gets a value.
 */
function prepare(error: any, sites: Sites): null {
  if (!isCapturing && (!(isError(error) || error instanceof Exception) || Traced.has(error))) return null;
  // Until a constructor has run, an inherited message may be a getter that needs a complete object.
  if (hasOwn(error, "message")) {
    const { message } = error;
    const words = typeof message === "string" ? wordsOf(error, message, sites) : undefined;
    if (words !== undefined) error.message = words;
  }
  const hidden = hiddenIn(error, sites);
  const frames = hidden === 0 ? sites : call(slice, sites, [hidden]);
  Traced.keep(error, own === prepareStackTrace || typeof own !== "function" ? framesOf(frames) : frames);
  return null;
}

/** Returns the number of innermost frames that are hidden: constructors of the error's own class, and the capturing function. */
function hiddenIn(error: object, sites: Sites): number {
  const { length } = sites;
  if (!isCapturing && (length === 0 || !call(isConstructor, sites[0], []))) return 0;
  // The stack above a function that was not called is empty; the engine then begins at the top.
  const last = isCapturing ? captureStackTrace : getOwnPropertyDescriptor(getPrototypeOf(error) ?? error, "constructor")?.value;
  for (let index = 0; index < length; index++) if (call(getFunction, sites[index], []) === last) return isCapturing ? length : index + 1;
  return 0;
}

function headerOf(error: unknown): string {
  try {
    return call(toString, error, []);
  } catch {
    return "<error>";
  }
}

/** A constructor that returns its argument, so that a class can add private members to it. */
const Given = function (given: object) {
  return given;
} as unknown as new (given: object) => object;

/** An object with a stack, formatted when it is first read: by then a constructor has given the error its name. */
class Traced extends Given {
  /** The unformatted frames, as text, since an error's state must be small, unless the extension's hook needs objects. */
  #trace: unknown;
  #isWritten = false;

  static has(target: object): boolean {
    return #trace in target;
  }

  static keep(target: object, frames: string | Sites): void {
    const traced = #trace in target ? target : (new Traced(target) as Traced);
    traced.#trace = frames;
    traced.#isWritten = false;
    defineProperty(target, "stack", STACK);
  }

  static read(given: object | null): unknown {
    let traced = given;
    while (traced !== null && !(#trace in traced)) traced = getPrototypeOf(traced) as object | null;
    if (traced === null) return undefined;
    if (traced.#isWritten) return traced.#trace;
    const frames = traced.#trace as string | Sites;
    // Set first, because the hook may read any member of the error.
    traced.#isWritten = true;
    if (typeof frames === "string") traced.#trace = headerOf(traced) + frames;
    else {
      traced.#trace = undefined;
      traced.#trace = call((typeof own === "function" ? own : prepareStackTrace) as Prepare, Error, [traced, frames]);
    }
    return traced.#trace;
  }
}

const { get: kept } = getOwnPropertyDescriptor(Error.prototype, "stack")!;

/** The property `stack` of each error, which accepts any value. */
const STACK = {
  __proto__: null,
  get(this: object) {
    return Traced.read(this);
  },
  set(this: object, value: unknown) {
    defineProperty(this, "stack", { __proto__: null, value, writable: true, enumerable: !hasOwn(this, "stack"), configurable: true } as PropertyDescriptor);
  },
  enumerable: false,
  configurable: true,
} as PropertyDescriptor;
// Provides a stack for an error for which the hook was not called, as under memory pressure.
defineProperty(Error.prototype, "stack", {
  ...STACK,
  get(this: object) {
    return call(kept!, this, []) === null ? headerOf(this) : undefined;
  },
});

let isCapturing = false;

const { captureStackTrace: capture } = Error;
function captureStackTrace(target: object, from: unknown): void {
  if ((typeof target !== "object" && typeof target !== "function") || target === null) throw new TypeError("invalid_argument");
  isCapturing = true;
  try {
    call(capture!, Error, [target, typeof from === "function" ? from : captureStackTrace]);
  } finally {
    isCapturing = false;
  }
  // Replaces the text that the engine stored there.
  defineProperty(target, "stack", STACK);
}

(Error as any).prepareStackTrace = prepare;
defineHidden(Error, { captureStackTrace });
defineProperty(Error, "prepareStackTrace", {
  configurable: true,
  enumerable: false,
  get: () => own,
  set: (value: unknown) => void (own = value),
});
defineProperty(Error, "stackTraceLimit", { enumerable: true });

const Expression = RegExp;
const isExpression = (value: unknown): value is RegExp => value instanceof Expression;

/** Returns the expression in a form that the stricter engine accepts. Otherwise throws the language's error. */
function made(args: [string, string?], make: (args: [string, string?]) => RegExp): RegExp {
  try {
    return make(args);
  } catch (error) {
    return importSync("pi:web/expressions").mended(error, args, make);
  }
}

/** `RegExp` with errors that name the expression. Literals were checked when they were compiled. */
const Worded: RegExpConstructor = new Proxy(Expression, {
  apply(target, receiver, args: [string, string?]) {
    const [pattern, flags] = args as [unknown, unknown?];
    if (flags === undefined && isExpression(pattern) && pattern.constructor === Worded) return pattern;
    return made(args, (given) => call(target, receiver, given));
  },
  construct(target, args: [string, string?], newTarget) {
    return made(args, (given) => Reflect.construct(target, given, newTarget === Worded ? target : newTarget));
  },
});
defineHidden(Expression.prototype, { constructor: Worded });
// The language itself creates expressions with the engine's own constructor, which is faster.
Object.defineProperty(Expression, Symbol.species, {
  configurable: true,
  get(this: unknown) {
    return this === Worded ? Expression : this;
  },
});
defineHidden(globalThis, { RegExp: Worded });

// The engine's own `Promise.any` rejects with an error without a message, and calls no hook.
defineLazy(Promise, "any", "pi:web/any");
