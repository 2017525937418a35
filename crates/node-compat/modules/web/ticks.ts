/**
 * `pi:web/ticks`: the queue of `process.nextTick`, which Node empties before any promise job.
 *
 * `pi:runtime` calls `runTicks` when the synchronous part of a macrotask is over, before the engine
 * drains its jobs; ticks that a promise job queues run when no promise job is left. That is Node's order.
 */

import { afterJobs } from "pi:engine";
import { bind } from "pi:web/contexts";

type Tick = () => void;

let queue: Tick[] = [];
let waiting = false;

/** Queues a callback; it runs before the promise jobs when the macrotask is still on the stack, else after them. */
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
 * Continues once a promise is settled, as a callback of Node does: a task of its own, so that the ticks it queues come before the
 * promise jobs it queues.
 */
export function whenSettled<T>(promise: Promise<T>, onValue: (value: T) => void, onError: (error: any) => void): void {
  promise.then(
    (value) => queueTick(() => onValue(value)),
    (error) => queueTick(() => onError(error)),
  );
}

/** Runs a callback of a job; its exception is reported like an unhandled rejection. */
export function guarded(callback: () => void): void {
  try {
    callback();
  } catch (error) {
    void Promise.reject(error);
  }
}

/** Runs the queue until it is empty. An exception leaves the rest queued for the next run. */
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
