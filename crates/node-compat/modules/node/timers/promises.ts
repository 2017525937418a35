/** `node:timers/promises`. An aborted wait clears its timer and rejects with AbortError. */

import { abortError, invalidArgType } from "pi:node/errors";
import type { AbortSignal } from "pi:web/abort";
import * as timers from "pi:web/timers";

interface Options {
  signal?: AbortSignal;
  ref?: boolean;
}

/** Returns whether the timer keeps the loop alive. */
function isKept({ ref }: Options): boolean {
  if (ref !== undefined && typeof ref !== "boolean") throw invalidArgType("options.ref", "of type boolean", ref);
  return ref !== false;
}

function wait<T>(arm: (fire: () => void) => { unref(): unknown }, value: T | undefined, options: Options): Promise<T | undefined> {
  const { signal } = options;
  let kept: boolean;
  try {
    kept = isKept(options);
  } catch (error) {
    return Promise.reject(error);
  }
  if (signal?.aborted) return Promise.reject(abortError(signal));
  return new Promise((resolve, reject) => {
    const timer = arm(() => {
      signal?.removeEventListener("abort", stop);
      resolve(value);
    });
    if (!kept) timer.unref();
    const stop = () => {
      timers.clearTimeout(timer);
      reject(abortError(signal!));
    };
    signal?.addEventListener("abort", stop, { once: true });
  });
}

export function setTimeout<T>(delay?: number, value?: T, options: Options = {}): Promise<T | undefined> {
  return wait((fire) => timers.setTimeout(fire, delay), value, options);
}

export function setImmediate<T>(value?: T, options: Options = {}): Promise<T | undefined> {
  return wait((fire) => timers.setImmediate(fire), value, options);
}

/** Yields once per interval until the loop that reads it ends. Intervals that pass between reads are not lost. */
export async function* setInterval<T>(delay?: number, value?: T, options: Options = {}): AsyncGenerator<T | undefined> {
  const { signal } = options;
  if (signal?.aborted) throw abortError(signal);
  let due = 0;
  let wake: (() => void) | undefined;
  const interval = timers.setInterval(() => {
    due++;
    wake?.();
  }, delay);
  const stop = () => wake?.();
  signal?.addEventListener("abort", stop, { once: true });
  try {
    for (;;) {
      if (signal?.aborted) throw abortError(signal);
      if (due === 0) await new Promise<void>((resolve) => (wake = resolve));
      if (signal?.aborted) throw abortError(signal);
      for (; due > 0; due--) yield value;
    }
  } finally {
    timers.clearInterval(interval);
    signal?.removeEventListener("abort", stop);
  }
}

export const scheduler = {
  wait: (delay?: number, options?: Options) => setTimeout(delay, undefined, options),
  yield: () => setImmediate(),
};

export default { setTimeout, setImmediate, setInterval, scheduler };
