/**
 * `pi:web/ticks`: the queue of `process.nextTick`, which Node empties before any promise job.
 *
 * `pi:runtime` calls `runTicks` when the synchronous part of a macrotask is over, before the engine
 * drains its jobs; ticks queued by promise jobs run when no promise job remains, as in Node.
 */

import { afterJobs } from "pi:engine";
import { bind } from "pi:web/contexts";

type Tick = () => void;

let queue: Tick[] = [];
let waiting = false;

/** Queues a callback, which runs before the promise jobs if the macrotask is still on the stack, and otherwise after them. */
export function queueTick(tick: Tick): void {
  queue.push(bind(tick));
  if (waiting) return;
  waiting = true;
  afterJobs(() => {
    waiting = false;
    guarded(runTicks);
  });
}

/**
 * Continues once a promise is settled, in a separate task like a callback of Node, so that the ticks it queues come before the
 * promise jobs it queues.
 */
export function whenSettled<T>(promise: Promise<T>, onValue: (value: T) => void, onError: (error: any) => void): void {
  promise.then(
    (value) => queueTick(() => onValue(value)),
    (error) => queueTick(() => onError(error)),
  );
}

/** Runs the callback of a job. Its exception is reported like an unhandled rejection. */
export function guarded(callback: () => void): void {
  try {
    callback();
  } catch (error) {
    void Promise.reject(error);
  }
}

/** Runs the queue until it is empty. After an exception, the remaining ticks wait for the next run. */
export function runTicks(): void {
  while (queue.length > 0) {
    const batch = queue;
    queue = [];
    for (let at = 0; at < batch.length; at++) {
      try {
        batch[at]!();
      } catch (error) {
        const rest = batch.slice(at + 1).concat(queue);
        queue = [];
        for (const tick of rest) queueTick(tick);
        throw error;
      }
    }
  }
}
