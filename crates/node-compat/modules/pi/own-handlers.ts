/**
 * `pi:pi/own-handlers`: runs handlers of this package inside the call that causes their event.
 *
 * A call such as `pi.setThinkingLevel()` emits an event. pi runs the first handler before the call returns, and each
 * further handler after the previous one. The host answers such a call with the event if the first handler belongs to this
 * package; the package then runs its own handlers, and the host runs those of other packages.
 */

import type { Entry } from "pi:pi/entry";
import { sendError } from "pi:pi/errors";
import { setImmediate } from "pi:web/timers";
import { exiting } from "pi:web/uncaught";

type Handler = (event: object, context: object) => unknown;

interface Registered {
  entry: Entry;
  ctx: object;
  handler: Handler;
}

/** Events whose handlers may run inside a call of this package. */
const BEGUN_BY_CALLS: readonly string[] = ["session_info_changed", "thinking_level_select"];

let registered: { event: string; registered: Registered }[] = [];

/** Records a handler. Returns the function that removes it. */
export function noteHandler(event: string, entry: Entry, ctx: object, handler: Handler): () => void {
  if (!BEGUN_BY_CALLS.includes(event)) return () => {};
  const noted = { event, registered: { entry, ctx, handler } };
  // Handlers are ordered by entry, then by registration.
  const after = registered.findIndex((other) => other.registered.entry.index > entry.index);
  registered.splice(after < 0 ? registered.length : after, 0, noted);
  return () => {
    registered = registered.filter((other) => other !== noted);
  };
}

/** Runs this package's handlers for the event of a call, if the host delegated that. */
export function beginHandlers({ begins }: { begins?: { event: string; payload: object } }): void {
  if (begins === undefined) return;
  const { event, payload } = begins;
  const told = registered.filter((other) => other.event === event && other.registered.entry.state === "active");
  void tell({ type: event, ...payload }, told.map((other) => other.registered));
}

/** Runs synchronously until a handler first waits, and asynchronously after that. */
async function tell(event: { type: string }, handlers: readonly Registered[]): Promise<void> {
  for (const one of handlers) {
    // A handler that was removed meanwhile is not called.
    if (!registered.some((other) => other.registered === one)) continue;
    try {
      await one.handler(event, one.ctx);
    } catch (error) {
      if (error === exiting) return;
      sendError(error, event.type, one.entry.index);
      // Lets the report leave with this turn, before the next handler has effects.
      await new Promise<void>((resume) => setImmediate(resume));
    }
  }
}

/** Removes all handlers of this package. */
export function forgetHandlers(): void {
  registered = [];
}
