/** `pi:node/util/format`: `util.format` and its placeholders. */

import { inspect } from "pi:node/util/inspect";
import type { InspectOptions } from "pi:node/util/inspect";
import { isBuiltin } from "pi:node/util/shape";

/** Formats with the default options of inspect. */
export function format(...args: unknown[]): string {
  return formatWithOptions({}, ...args);
}

export function formatWithOptions(options: InspectOptions, ...args: unknown[]): string {
  const first = args[0];
  let next = 0;
  let out = "";
  if (typeof first === "string") {
    if (args.length === 1) return first;
    next = 1;
    out = first.replace(/%([sdifjoOc%])/g, (found, kind: string) => {
      if (kind === "%") return "%";
      if (next >= args.length) return found;
      return placeholder(kind, args[next++], options);
    });
  }
  for (; next < args.length; next++) {
    const value = args[next];
    if (out !== "" || next > 0) out += " ";
    out += typeof value === "string" ? value : inspect(value, options);
  }
  return out;
}

function placeholder(kind: string, value: any, options: InspectOptions): string {
  switch (kind) {
    case "s":
      if (typeof value === "bigint") return `${value}n`;
      if (Object.is(value, -0)) return "-0";
      if (typeof value !== "object" || value === null || !hasBuiltinText(value)) return String(value);
      return inspect(value, { ...options, depth: 0, colors: false, compact: 3 });
    case "d":
      return typeof value === "bigint" ? `${value}n` : number(typeof value === "symbol" ? Number.NaN : Number(value));
    case "i":
      return typeof value === "bigint" ? `${value}n` : number(typeof value === "symbol" ? Number.NaN : Number.parseInt(value));
    case "f":
      return number(typeof value === "symbol" ? Number.NaN : Number.parseFloat(value));
    case "j":
      return json(value);
    case "o":
      return inspect(value, { ...options, showHidden: true, showProxy: true, depth: 4 });
    case "O":
      return inspect(value, options);
    default:
      // %c consumes a style and prints nothing.
      return "";
  }
}

function number(value: number): string {
  return Object.is(value, -0) ? "-0" : String(value);
}

function json(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "undefined";
  } catch (error: any) {
    if (/circular/i.test(error?.message ?? "")) return "[Circular]";
    throw error;
  }
}

/** Returns whether an object's `toString` is built in, and therefore less informative than inspect. */
function hasBuiltinText(value: any): boolean {
  if (typeof value.toString !== "function") return typeof value[Symbol.toPrimitive] !== "function";
  let owner = value;
  while (owner && !Object.hasOwn(owner, "toString") && !Object.hasOwn(owner, Symbol.toPrimitive)) owner = Object.getPrototypeOf(owner);
  if (!owner || owner === value) return !owner;
  const maker = Object.getOwnPropertyDescriptor(owner, "constructor")?.value;
  return typeof maker === "function" && isBuiltin(maker);
}
