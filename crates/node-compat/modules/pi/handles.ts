/**
 * `pi:pi/handles`: functions stay in the realm; the host names them by number.
 *
 * Numbers are issued in registration order and never again in this realm.
 */

import { issued } from "pi:engine";
import { SafeMap } from "pi:web/safe";

type Callable = (...args: any[]) => unknown;

const functions = new SafeMap<number, Callable>();

/** Keeps a function and returns its handle. */
export function issueHandle(callable: Callable): number {
  const handle = functions.size;
  functions.set(handle, callable);
  issued(handle);
  return handle;
}

/** Returns the function behind a handle of this realm. */
export function byHandle(handle: number): Callable {
  const callable = functions.get(handle);
  if (!callable) throw new Error(`handle ${handle} was never issued`);
  return callable;
}

/** Returns a copy of a value in which functions are `{"$handle": n}`, for values that contain functions. */
export function withHandles(value: unknown): unknown {
  if (typeof value === "function") return { $handle: issueHandle(value as Callable) };
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(withHandles);
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, withHandles(member)]));
}
