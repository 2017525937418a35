/**
 * `pi:node/environment`: the variables behind `process.env`.
 *
 * Variables that need no grant are facts. Reading any other name makes a sync `env` call; the name is undefined if it is
 * not granted. Assignments affect only the realm and the programs that it runs.
 */

import { facts } from "pi:engine";
import { tryCallSync } from "pi:hostcall";

export type Names = Record<string, string>;

/** Known values; undefined means that a variable is not set. */
const local = new Map<string, string | undefined>(Object.entries((facts.env ?? {}) as Names));
/** Variables that the extension set or deleted. */
const changed = new Map<string, string | undefined>();

function change(name: string, value: string | undefined): void {
  local.set(name, value);
  changed.set(name, value);
}

/**
 * Returns the environment of programs without an explicit one: undefined if the extension changed nothing, since the host has
 * its own.
 */
export function inherited(): Names | undefined {
  if (changed.size === 0) return undefined;
  const names = Object.entries({ ...(facts.env ?? {}), ...Object.fromEntries(changed) });
  return Object.fromEntries(names.filter(([, value]) => value !== undefined)) as Names;
}

function variable(name: string): string | undefined {
  if (local.has(name)) return local.get(name);
  const outcome = tryCallSync("env", "env", { op: "get", names: [name] });
  // A missing grant looks like an unset variable, but is not cached, because a grant may follow.
  if (outcome.error !== undefined) return undefined;
  const value: string | undefined = outcome.output.values?.[name];
  local.set(name, value);
  return value;
}

function known(): string[] {
  return [...local.keys()].filter((name) => local.get(name) !== undefined);
}

function describe(name: PropertyKey): PropertyDescriptor | undefined {
  const value = typeof name === "string" ? variable(name) : undefined;
  return value === undefined ? undefined : { value, writable: true, enumerable: true, configurable: true };
}

/** Enumeration shows the plain variables, and those that were read or set. */
const target = Object.defineProperty({}, Symbol.for("nodejs.util.inspect.custom"), { value: () => ({ ...env }), configurable: true }) as Names;

export const env: Names = new Proxy(target, {
  get: (target, name) => (typeof name === "string" ? (variable(name) ?? (Object.prototype as any)[name]) : Reflect.get(target, name)),
  set: (_target, name, value) => {
    if (typeof name === "symbol" || typeof value === "symbol") throw new TypeError("Cannot convert a Symbol value to a string");
    change(name, String(value));
    return true;
  },
  has: (_target, name) => typeof name === "string" && variable(name) !== undefined,
  deleteProperty: (_target, name) => {
    if (typeof name === "string") change(name, undefined);
    return true;
  },
  ownKeys: known,
  getOwnPropertyDescriptor: (_target, name) => describe(name),
  defineProperty: (_target, name, descriptor) => {
    if (typeof name === "string" && "value" in descriptor) change(name, String(descriptor.value));
    return true;
  },
});
