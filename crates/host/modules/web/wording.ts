/**
 * `pi:web/wording`: errors that the engine throws say what Node's say.
 *
 * Extensions show `error.message`, compare it and write it to files, so its words are behaviour. The engine asks a hook for
 * the stack of each error before anyone can catch it (`Error.prepareStackTrace`); ours also looks at the words. What V8
 * says with a piece of the source (`config.load is not a function`) the host is asked for, which has the text; where it has
 * none, or the place is not plain, the engine's words stay.
 */

import { callSync } from "pi:engine";
import { defineHidden } from "pi:web/lazy";

/** What the engine says, and what Node says. Where V8 names a value that the engine does not tell, the nearest words. */
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
  "empty array": "Reduce of empty array with no initial value",
  "invalid array buffer length": "Array buffer allocation failed",
  "invalid array length": "Invalid array length",
  "invalid 'instanceof' right operand": "Right-hand side of 'instanceof' is not callable",
  "invalid string length": "Invalid string length",
  "invalid value used as WeakMap key": "Invalid value used as weak map key",
  "invalid value used as WeakSet key": "Invalid value used in weak set",
  "iterator does not have a throw method": "The iterator does not provide a 'throw' method",
  "parent class must be constructor": "Class extends value is not a constructor or null",
  "promise self resolution": "Chaining cycle detected for promise #<Promise>",
  "this is not initialized":
    "Must call super constructor in derived class before accessing 'this' or returning from derived constructor",
};

const FORMS: [RegExp, (found: string[]) => string][] = [
  [/^cannot read property 'Symbol\.iterator' of (undefined|null)$/, ([, what]) => `${what} is not iterable`],
  [/^cannot read property '([^]*)' of (undefined|null)$/, ([, name, what]) => `Cannot read properties of ${what} (reading '${inBrackets(name!)}')`],
  [/^cannot set property '([^]*)' of (undefined|null)$/, ([, name, what]) => `Cannot set properties of ${what} (setting '${inBrackets(name!)}')`],
  [/^'([^]*)' is read-only$/, ([, name]) => `Cannot assign to read only property '${name}' of object '#<Object>'`],
  [/^private class field '([^]*)' does not exist$/, ([, name]) => `Cannot read private member ${name} from an object whose class did not declare it`],
  [/^(\S+) is not initialized$/, ([, name]) => `Cannot access '${name}' before initialization`],
];

/** A symbol as Node writes it. */
function inBrackets(name: string): string {
  return /^Symbol\.[a-zA-Z]+$/.test(name) ? `Symbol(${name})` : name;
}

const { hasOwn } = Object;
const call = Reflect.apply;
const { exec } = RegExp.prototype;

/** The engine's words in Node's. */
function translated(message: string): string | undefined {
  const same = hasOwn(SAME, message) ? SAME[message] : undefined;
  if (same !== undefined) return same;
  // Most messages are the extension's own: of ours only these begin in lower case, or with a quote.
  const first = message.charCodeAt(0);
  if (!(first >= 97 && first <= 122) && first !== 39 && !message.endsWith(" is not initialized")) return undefined;
  for (let index = 0; index < FORMS.length; index++) {
    const [pattern, words] = FORMS[index]!;
    const found = call(exec, pattern, [message]);
    if (found !== null) return words(found);
  }
  return undefined;
}

/** V8 says which, as the innermost frame does. */
const CLASS_CALLED = "class constructors must be invoked with 'new'";
/** Where V8 quotes the source. */
const QUOTED: Record<string, true> = {
  "not a constructor": true,
  "not a function": true,
  "null is not iterable": true,
  "undefined is not iterable": true,
  "value is not iterable": true,
};
/** Messages by the place they come from, `null` for one that is not quoted: what fails again fails with the same words. */
const quotations: Record<string, string | null> = Object.create(null);
/** Places that are remembered: those of an honest extension are few. */
const MOST_QUOTATIONS = 1000;
let remembered = 0;
let isAsking = false;

/** `config.load is not a function`, for an error with these words that comes from this place. */
function quotation(words: string, site: CallSite | undefined): string | null {
  // What the question itself runs into is not asked about.
  if (site === undefined || site.isNative() || isAsking) return null;
  const place = placeOf(site);
  const known = quotations[place];
  if (known !== undefined) return known;
  if (remembered === MOST_QUOTATIONS) return null;
  let found: string | null = null;
  isAsking = true;
  try {
    const where = { module: site.getFileName(), line: site.getLineNumber(), column: site.getColumnNumber() };
    const { output } = callSync("module", "module", { op: "quote", message: words, ...where });
    found = (output as { message: string | null }).message;
  } catch {
    // A host that quotes nothing.
  } finally {
    isAsking = false;
  }
  quotations[place] = found;
  remembered++;
  return found;
}

interface CallSite {
  getFunctionName(): string | null;
  getFileName(): string | null;
  getLineNumber(): number;
  getColumnNumber(): number;
  isNative(): boolean;
}

type Sites = CallSite[];
type Prepare = (error: unknown, sites: Sites) => unknown;

/** The frames as the engine writes them where nobody asks for more. Text, since what an error keeps must be small. */
function framesOf(sites: Sites): string {
  let frames = "";
  for (let index = 0; index < sites.length; index++) {
    const site = sites[index]!;
    frames += `    at ${site.getFunctionName() || "<anonymous>"} (${placeOf(site)})\n`;
  }
  return frames;
}

/**
 * What packages ask a frame beside what the engine tells. What it does not know is answered as V8 answers for a plain function
 * of a strict module.
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
  toString: (site: CallSite) => (site.getFunctionName() ? `${site.getFunctionName()} (${placeOf(site)})` : placeOf(site)),
};

/** Where a frame is, as frames are written. */
function placeOf(site: CallSite): string {
  return site.isNative() ? "native" : `${site.getFileName()}:${site.getLineNumber()}:${site.getColumnNumber()}`;
}

let isComplete = false;

/** Frames that answer all of V8's questions; they share one prototype. */
function complete(sites: Sites): Sites {
  if (!isComplete && sites.length > 0) {
    isComplete = true;
    const prototype = Object.getPrototypeOf(sites[0]);
    for (const name of Object.keys(QUESTIONS)) {
      const answer = QUESTIONS[name]!;
      const value = function (this: CallSite) {
        return answer(this);
      };
      Object.defineProperty(prototype, name, { value, writable: true, configurable: true });
    }
  }
  return sites;
}

/** What the extension put in the place of the hook. */
let own: unknown;

/** What an error says in Node, where that is something else. */
function wordsOf(error: unknown, message: string, sites: Sites): string | undefined {
  if (error instanceof URIError) return "URI malformed";
  if (message === CLASS_CALLED) return `Class constructor ${sites[0]?.getFunctionName() ?? ""} cannot be invoked without 'new'`;
  const words = translated(message);
  const plain = words ?? message;
  return error instanceof TypeError && hasOwn(QUOTED, plain) ? (quotation(plain, sites[0]) ?? words) : words;
}

function prepare(error: any, sites: Sites): unknown {
  // Before a constructor has run, a message that is not the error's own may be a getter that wants a whole object.
  if (hasOwn(error, "message")) {
    const { message } = error;
    const words = typeof message === "string" ? wordsOf(error, message, sites) : undefined;
    if (words !== undefined) error.message = words;
  }
  return typeof own === "function" ? call(own as Prepare, Error, [error, complete(sites)]) : framesOf(sites);
}

(Error as any).prepareStackTrace = prepare;
Object.defineProperty(Error, "prepareStackTrace", {
  configurable: true,
  enumerable: false,
  get: () => own,
  set: (value: unknown) => void (own = value),
});

/** What the engine's parser of expressions says, and Node's. */
const EXPRESSIONS: Record<string, string> = {
  "back reference out of range in regular expression": "Invalid escape",
  "duplicate group name": "Duplicate capture group name",
  "expecting ')'": "Unterminated group",
  "expecting '{' after \\p": "Invalid property name",
  "expecting '}'": "Invalid property name",
  "expecting group name": "Invalid named reference",
  "extraneous characters at the end": "Unmatched ')'",
  "group name not defined": "Invalid named capture referenced",
  "invalid character in class in regular expression": "Invalid character in character class",
  "invalid class range": "Range out of order in character class",
  "invalid class set operation in regular expression": "Invalid set operation in character class",
  "invalid decimal escape in regular expression": "Invalid decimal escape",
  "invalid escape sequence in regular expression": "Invalid escape",
  "invalid group": "Invalid group",
  "invalid group name": "Invalid capture group name",
  "invalid modifiers": "Invalid flags",
  "invalid repetition count": "numbers out of order in {} quantifier",
  "malformed unicode char": "Invalid Unicode escape",
  "nothing to repeat": "Nothing to repeat",
  "syntax error": "Lone quantifier brackets",
  "too many captures": "Too many captures",
  "unknown unicode general category": "Invalid property name",
  "unknown unicode property name": "Invalid property name",
  "unknown unicode property value": "Invalid property name",
  "unknown unicode script": "Invalid property name",
};

function worded(error: any, pattern: unknown, flags: unknown): unknown {
  if (!(error instanceof SyntaxError)) return error;
  const { message } = error;
  const source = isExpression(pattern) ? pattern.source : pattern === undefined ? "" : `${pattern}`;
  if (message === "invalid regular expression flags") {
    error.message = `Invalid flags supplied to RegExp constructor '${flags}'`;
    return error;
  }
  const known = hasOwn(EXPRESSIONS, message) ? EXPRESSIONS[message] : message === "unexpected end" ? ended(source) : undefined;
  const shown = flags === undefined && isExpression(pattern) ? pattern.flags : flags === undefined ? "" : `${flags}`;
  if (known !== undefined) error.message = `Invalid regular expression: /${source}/${shown}: ${known}`;
  return error;
}

/** Why an expression ends too early. */
function ended(source: string): string {
  let inClass = false;
  for (let at = 0; at < source.length; at++) {
    if (source[at] === "\\" && ++at >= source.length) return "\\ at end of pattern";
    else if (source[at] === "[") inClass = true;
    else if (source[at] === "]") inClass = false;
  }
  return inClass ? "Unterminated character class" : "Unterminated group";
}

const Expression = RegExp;
const isExpression = (value: unknown): value is RegExp => value instanceof Expression;

/** `RegExp`, whose errors name the expression. Literals were checked when they were compiled. */
const Worded: RegExpConstructor = new Proxy(Expression, {
  apply(target, receiver, args: [string, string?]) {
    const [pattern, flags] = args as [unknown, unknown?];
    if (flags === undefined && isExpression(pattern) && pattern.constructor === Worded) return pattern;
    try {
      return call(target, receiver, args);
    } catch (error) {
      throw worded(error, ...args);
    }
  },
  construct(target, args: [string, string?], newTarget) {
    try {
      return Reflect.construct(target, args, newTarget === Worded ? target : newTarget);
    } catch (error) {
      throw worded(error, ...args);
    }
  },
});
defineHidden(Expression.prototype, { constructor: Worded });
// What the language makes of expressions by itself it makes with the engine's own constructor, which is quicker.
Object.defineProperty(Expression, Symbol.species, {
  configurable: true,
  get(this: unknown) {
    return this === Worded ? Expression : this;
  },
});
defineHidden(globalThis, { RegExp: Worded });
