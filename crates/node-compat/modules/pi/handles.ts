/**
 * `pi:pi/handles`: numbers by which the host refers to functions of the realm.
 *
 * Numbers are issued in registration order and not reused in this realm.
 */

import { issued } from "pi:engine";
import { SafeMap } from "pi:web/safe";

type Callable = (...args: any[]) => unknown;

const functions = new SafeMap<number, Callable>();

/** Stores a function and returns its handle. */
export function issueHandle(callable: Callable): number {
  const handle = functions.size;
  functions.set(handle, callable);
  issued(handle);
  return handle;
}

/**
 * Returns a check for a registration whose function is looked up when the host calls it, as in pi. Without a function the check
 * throws an error that has the position of the registration.
 */
export function functionCheck(find: () => unknown, wrong: () => string): () => void {
  // Created here, because the stack of the later call has no frame of the extension.
  const early = typeof find() === "function" ? undefined : new TypeError(wrong());
  return () => {
    if (typeof find() !== "function") throw early ?? new TypeError(wrong());
  };
}

/** Describes an argument that is not what a registration needs: an object with a function `member`. */
export function describeArgument(value: unknown, member?: string): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (typeof value !== "object") return `a ${typeof value}`;
  return member === undefined ? "an object" : `an object without a function \`${member}\``;
}

/** Returns the function of a handle. */
export function byHandle(handle: number): Callable {
  const callable = functions.get(handle);
  if (!callable) throw new Error(`handle ${handle} was never issued`);
  return callable;
}

/** Returns a copy of a value in which `{"$handle": n}` replaces each function. */
export function withHandles(value: unknown): unknown {
  if (typeof value === "function") return { $handle: issueHandle(value as Callable) };
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(withHandles);
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, withHandles(member)]));
}
