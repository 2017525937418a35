/** `node:assert`: checks that throw AssertionError. `pi:node/assert/messages` formats the messages about two values. */

import { coded, invalidArgType } from "pi:node/errors";
import { compared, looselyEqual, looselyUnequal, tooEqual, unequal } from "pi:node/assert/messages";
import { deepEqual as equalDeep } from "pi:node/util/equal";
import { inspect } from "pi:node/util/inspect";

interface Details {
  message?: string | undefined;
  actual?: unknown;
  expected?: unknown;
  operator?: string;
}

export class AssertionError extends Error {
  readonly generatedMessage: boolean;
  readonly code = "ERR_ASSERTION";
  readonly actual: unknown;
  readonly expected: unknown;
  readonly operator: string | undefined;
  readonly diff = "simple";

  constructor(details: Details) {
    super(details.message ?? `${inspect(details.actual)} ${details.operator ?? "=="} ${inspect(details.expected)}`);
    Object.defineProperty(this, "name", { value: "AssertionError", writable: true, configurable: true });
    // Defines the members in Node's order, regardless of the order of the arguments.
    this.generatedMessage = details.message === undefined;
    this.actual = details.actual;
    this.expected = details.expected;
    this.operator = details.operator;
  }
}

type Message = string | Error | undefined;

function check(holds: boolean, message: Message, otherwise: () => Details): void {
  if (holds) return;
  if (message instanceof Error) throw message;
  const details = otherwise();
  const generated = message === undefined;
  const { operator, actual, expected } = details;
  // These operators append the difference to the caller's message.
  const differs = operator === "strictEqual" || operator === "deepStrictEqual" ? unequal(operator, actual, expected, message) : undefined;
  const error = new AssertionError({ ...details, message: differs ?? message ?? details.message });
  if (generated && !details.message?.startsWith("Missing expected")) Object.defineProperty(error, "generatedMessage", { value: true });
  throw error;
}

const both = (text: string, actual: unknown, expected: unknown) => `${text}\n\n${inspect(actual)} !== ${inspect(expected)}\n`;

export function ok(value?: unknown, message?: Message): void {
  check(Boolean(value), message, () => ({
    message: arguments.length === 0 ? "No value argument passed to `assert.ok()`" : "The expression evaluated to a falsy value",
    actual: value, expected: true, operator: "==",
  }));
}
export function equal(actual: any, expected: any, message?: Message): void {
  check(actual == expected || (Number.isNaN(actual) && Number.isNaN(expected)), message, () => ({ message: compared(actual, "==", expected), actual, expected, operator: "==" }));
}
export function notEqual(actual: any, expected: any, message?: Message): void {
  check(!(actual == expected || (Number.isNaN(actual) && Number.isNaN(expected))), message, () => ({ message: compared(actual, "!=", expected), actual, expected, operator: "!=" }));
}
export function strictEqual(actual: unknown, expected: unknown, message?: Message): void {
  check(Object.is(actual, expected), message, () => ({ actual, expected, operator: "strictEqual" }));
}
export function notStrictEqual(actual: unknown, expected: unknown, message?: Message): void {
  check(!Object.is(actual, expected), message, () => ({ message: tooEqual("notStrictEqual", actual), actual, expected, operator: "notStrictEqual" }));
}
export function deepEqual(actual: unknown, expected: unknown, message?: Message): void {
  check(equalDeep(actual, expected, false), message, () => ({ message: looselyUnequal(actual, expected), actual, expected, operator: "deepEqual" }));
}
export function notDeepEqual(actual: unknown, expected: unknown, message?: Message): void {
  check(!equalDeep(actual, expected, false), message, () => ({ message: looselyEqual(actual, expected), actual, expected, operator: "notDeepEqual" }));
}
export function deepStrictEqual(actual: unknown, expected: unknown, message?: Message): void {
  check(equalDeep(actual, expected, true), message, () => ({ actual, expected, operator: "deepStrictEqual" }));
}
export function notDeepStrictEqual(actual: unknown, expected: unknown, message?: Message): void {
  check(!equalDeep(actual, expected, true), message, () => ({ message: tooEqual("notDeepStrictEqual", actual), actual, expected, operator: "notDeepStrictEqual" }));
}
export function match(text: string, pattern: RegExp, message?: Message): void {
  check(typeof text === "string" && pattern.test(text), message, () => ({ message: `The input did not match the regular expression ${inspect(pattern)}. Input:\n\n${inspect(text)}\n`, actual: text, expected: pattern, operator: "match" }));
}
export function doesNotMatch(text: string, pattern: RegExp, message?: Message): void {
  check(typeof text !== "string" || !pattern.test(text), message, () => ({ message: `The input was expected to not match the regular expression ${inspect(pattern)}. Input:\n\n${inspect(text)}\n`, actual: text, expected: pattern, operator: "doesNotMatch" }));
}
export function fail(message: string | Error = "Failed"): never {
  if (message instanceof Error) throw message;
  throw Object.assign(new AssertionError({ message, operator: "fail" }), { generatedMessage: arguments.length === 0 });
}
export function ifError(value: unknown): void {
  if (value === null || value === undefined) return;
  const shown = value instanceof Error ? value.message : inspect(value);
  throw new AssertionError({ message: `ifError got unwanted exception: ${shown}`, actual: value, expected: null, operator: "ifError" });
}

type Expected = RegExp | Function | object | undefined;

function asExpected(error: any, expected: Expected, message: Message, operator: string): void {
  if (expected === undefined) return;
  if (expected instanceof RegExp) {
    check(expected.test(String(error)), message, () => ({ message: `The input did not match the regular expression ${inspect(expected)}. Input:\n\n${inspect(String(error))}\n`, actual: error, expected, operator }));
  } else if (typeof expected === "function") {
    if (expected.prototype !== undefined && error instanceof expected) return;
    if (Error.isPrototypeOf(expected) || expected === Error) throw error;
    check(expected.call({}, error) === true, message, () => ({ message: "The validation function is expected to return \"true\".", actual: error, expected, operator }));
  } else {
    const keys = Object.keys(expected);
    if (expected instanceof Error) keys.push("name", "message");
    for (const key of keys) {
      const wanted = (expected as any)[key];
      const holds = wanted instanceof RegExp && typeof error?.[key] === "string" ? wanted.test(error[key]) : equalDeep(error?.[key], wanted, true);
      check(holds, message, () => ({ message: both(`Expected values to be strictly deep-equal (${key}):`, error?.[key], wanted), actual: error, expected, operator }));
    }
  }
}

export function throws(body: () => unknown, expected?: Expected | string, message?: Message): void {
  if (typeof body !== "function") throw invalidArgType("fn", "of type function", body);
  if (typeof expected === "string") [message, expected] = [expected, undefined];
  let error: unknown;
  try {
    body();
  } catch (thrown) {
    error = thrown;
    return asExpected(error, expected as Expected, message, "throws");
  }
  check(false, message, () => ({ message: "Missing expected exception.", expected, operator: "throws" }));
}
export function doesNotThrow(body: () => unknown, expected?: unknown, message?: Message): void {
  try {
    body();
  } catch (error: any) {
    const text = typeof expected === "string" ? expected : message;
    throw new AssertionError({ message: `Got unwanted exception${text ? `: ${text}` : "."}\nActual message: "${error?.message}"`, actual: error, expected, operator: "doesNotThrow" });
  }
}
export async function rejects(body: Promise<unknown> | (() => Promise<unknown>), expected?: Expected | string, message?: Message): Promise<void> {
  if (typeof expected === "string") [message, expected] = [expected, undefined];
  try {
    await (typeof body === "function" ? body() : body);
  } catch (error) {
    return asExpected(error, expected as Expected, message, "rejects");
  }
  check(false, message, () => ({ message: "Missing expected rejection.", expected, operator: "rejects" }));
}
export async function doesNotReject(body: Promise<unknown> | (() => Promise<unknown>)): Promise<void> {
  try {
    await (typeof body === "function" ? body() : body);
  } catch (error: any) {
    throw new AssertionError({ message: `Got unwanted rejection.\nActual message: "${error?.message}"`, actual: error, operator: "doesNotReject" });
  }
}

export class CallTracker {
  constructor() {
    throw coded(Error, "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM", "assert.CallTracker is not available in a PiJS realm");
  }
}

const members = {
  AssertionError, CallTracker, ok, equal, notEqual, deepEqual, notDeepEqual, deepStrictEqual, notDeepStrictEqual, strictEqual, notStrictEqual,
  match, doesNotMatch, fail, ifError, throws, doesNotThrow, rejects, doesNotReject,
};

/** Behaves like `assert`, but the short names have the strict forms. */
export const strict = Object.assign((value?: unknown, message?: Message) => ok(value, message), members, {
  equal: strictEqual, notEqual: notStrictEqual, deepEqual: deepStrictEqual, notDeepEqual: notDeepStrictEqual,
});
(strict as any).strict = strict;

const assert = Object.assign((value?: unknown, message?: Message) => ok(value, message), members, { strict });
export default assert;
