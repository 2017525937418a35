/**
 * `pi:web/contexts`: the stores of `AsyncLocalStorage`, across `await`, promise callbacks, timers and ticks.
 *
 * A context is an immutable map from storage to store; `undefined` is the empty map. The engine has no hook where an
 * async function resumes, so `extc` inserts calls of `__pi_async` there, in packages that import `node:async_hooks`:
 *
 * ```text
 * await x          →  __pi_async.resume(__pi_async.now(), await x)
 * catch (e) {      →  catch (e) { __pi_async.enter(kept);
 * ```
 *
 * Callbacks are bound when they are passed on. There is no cost until the first store is set.
 */

import { defineHidden } from "pi:web/lazy";

export type Context = ReadonlyMap<object, unknown> | undefined;

type AnyFunction = (...args: any[]) => any;

let current: Context;
/** Whether a store has ever been set. */
export let tracks = false;

export const now = (): Context => current;

export function enter(context: Context): void {
  current = context;
}

/** Runs a callback in a context, then restores the previous context. */
export function runIn<R>(context: Context, callback: (...args: any[]) => R, self: unknown, args: unknown[]): R {
  const outer = current;
  current = context;
  try {
    return Reflect.apply(callback, self, args);
  } finally {
    current = outer;
  }
}

/** Binds a callback to the current context. */
export function bind<F>(callback: F): F {
  if (!tracks || typeof callback !== "function") return callback;
  const context = current;
  return function (this: unknown, ...args: unknown[]) {
    return runIn(context, callback as unknown as AnyFunction, this, args);
  } as unknown as F;
}

/** Starts to bind promise callbacks, which is needed from the first store on. */
export function track(): void {
  if (tracks) return;
  tracks = true;
  const native = Promise.prototype.then;
  defineHidden(Promise.prototype, {
    then(this: Promise<unknown>, onValue?: AnyFunction, onError?: AnyFunction) {
      return Reflect.apply(native, this, [bind(onValue), bind(onError)]);
    },
  });
}

function resume<T>(context: Context, value: T): T {
  current = context;
  return value;
}

defineHidden(globalThis, { __pi_async: Object.freeze({ now, enter, resume }) });
