/**
 * `pi:web/uncaught`: tells listeners on `process` of what nobody caught.
 *
 * `node:process` says how its listeners are called once it is loaded; until then there are none. They are told before
 * the host is: the report is made all the same, since an extension cannot hide its errors.
 */

/** Thrown by `process.exit()` once pi is ending: nothing after the call runs, and it is nobody's error. */
export const exiting: Error = new Error("process.exit() was called: pi is ending");

type Emit = (event: string, ...args: unknown[]) => boolean;

let emit: Emit | undefined;

/** `node:process` gives its `emit`. */
export function listenWith(own: Emit): void {
  emit = own;
}

/** An exception that left a task. */
export function tellUncaught(error: unknown, origin: "uncaughtException" | "unhandledRejection" = "uncaughtException"): void {
  emit?.("uncaughtExceptionMonitor", error, origin);
  emit?.("uncaughtException", error, origin);
}

/** A promise that was rejected and has no handler; as an exception when nobody listens for rejections. */
export function tellUnhandled(reason: unknown): void {
  if (emit === undefined) return;
  const promise = Promise.reject(reason);
  promise.catch(() => undefined);
  if (!emit("unhandledRejection", reason, promise)) tellUncaught(reason, "unhandledRejection");
}
