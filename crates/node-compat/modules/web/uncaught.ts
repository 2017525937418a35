/**
 * `pi:web/uncaught`: notifies listeners on `process` of uncaught errors.
 *
 * `node:process` provides their emitter when it is loaded; until then there are none. They run before the report to the host,
 * which is sent in any case, since an extension cannot hide its errors.
 */

/** Thrown by `process.exit()` when pi exits, so that no code after the call runs. It is not reported. */
export const exiting: Error = new Error("process.exit() was called: pi is ending");

type Emit = (event: string, ...args: unknown[]) => boolean;

let emit: Emit | undefined;

/** Sets the `emit` of `node:process`. */
export function listenWith(own: Emit): void {
  emit = own;
}

/** Reports an exception that left a task uncaught. */
export function tellUncaught(error: unknown, origin: "uncaughtException" | "unhandledRejection" = "uncaughtException"): void {
  emit?.("uncaughtExceptionMonitor", error, origin);
  emit?.("uncaughtException", error, origin);
}

/** Reports a rejected promise without a handler; without a listener for rejections, as an exception. */
export function tellUnhandled(reason: unknown): void {
  if (emit === undefined) return;
  const promise = Promise.reject(reason);
  promise.catch(() => undefined);
  if (!emit("unhandledRejection", reason, promise)) tellUncaught(reason, "unhandledRejection");
}
