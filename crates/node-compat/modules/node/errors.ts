/**
 * `pi:node/errors`: errors with Node's codes and messages.
 *
 * A coded error shows its code in `toString` and `stack` as Node's do: `name` stays the
 * class name, `code` is an own property.
 */

type ErrorType = new (message: string) => Error;

/** Returns an error with `code`. */
export function coded<E extends Error = Error>(Type: ErrorType, code: string, message: string): E & { code: string } {
  const error = new Type(message);
  Object.defineProperty(error, "code", { value: code, writable: true, enumerable: true, configurable: true });
  return error as E & { code: string };
}

/** Describes a value as Node does in "Received ...". */
export function received(value: unknown): string {
  if (value === null || value === undefined) return ` Received ${value}`;
  if (typeof value === "function") return ` Received function ${value.name}`;
  if (typeof value === "object") {
    const name = value.constructor?.name;
    return name ? ` Received an instance of ${name}` : ` Received ${Object.prototype.toString.call(value)}`;
  }
  let shown = typeof value === "string" ? JSON.stringify(value).slice(1, -1) : String(value);
  if (typeof value === "bigint") shown += "n";
  if (shown.length > 28) shown = `${shown.slice(0, 25)}...`;
  if (typeof value === "string") shown = `'${shown}'`;
  return ` Received type ${typeof value} (${shown})`;
}

/** Returns ERR_INVALID_ARG_TYPE. `expected` continues "must be": `of type string`, `an instance of Buffer`. */
export function invalidArgType(name: string, expected: string, value: unknown): TypeError & { code: string } {
  const what = name.includes(" ") ? name : name.includes(".") ? `"${name}" property` : `"${name}" argument`;
  return coded(TypeError, "ERR_INVALID_ARG_TYPE", `The ${what} must be ${expected}.${received(value)}`);
}

/** Returns ERR_OUT_OF_RANGE. */
export function outOfRange(name: string, range: string, value: unknown): RangeError & { code: string } {
  return coded(RangeError, "ERR_OUT_OF_RANGE", `The value of "${name}" is out of range. It must be ${range}. Received ${grouped(value)}`);
}

function grouped(value: unknown): string {
  const integer = typeof value === "bigint" || (typeof value === "number" && Number.isInteger(value) && Math.abs(value) > 2 ** 32);
  const text = integer ? String(value).replace(/\B(?=(\d{3})+$)/g, "_") : typeof value === "string" ? `'${value}'` : String(value);
  return typeof value === "bigint" ? `${text}n` : text;
}

export function checkString(name: string, value: unknown): asserts value is string {
  if (typeof value !== "string") throw invalidArgType(name, "of type string", value);
}

export function checkFunction(name: string, value: unknown): asserts value is (...args: any[]) => any {
  if (typeof value !== "function") throw invalidArgType(name, "of type function", value);
}

export class AbortError extends Error {
  readonly code = "ABORT_ERR";
  override name = "AbortError";

  constructor(options?: { cause?: unknown }) {
    super("The operation was aborted", options);
  }
}

/** Returns the error of an aborted operation, whose cause is the signal's reason. */
export function abortError(signal: { readonly reason: unknown }): AbortError {
  return new AbortError({ cause: signal.reason });
}

/** Returns the error of a Node member that a realm does not support, with the member and a hint. */
export function notSupported(member: string, advice: string): Error & { code: string } {
  return coded(Error, "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM", `${member} is not available in a PiJS realm: ${advice}`);
}
