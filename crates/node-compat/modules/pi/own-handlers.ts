/**
 * `pi:pi/own-handlers`: runs handlers of this package inside the call that causes their event.
 *
 * A call such as `pi.setThinkingLevel()` emits an event to handlers. pi runs the first handler before the call returns, and each
 * other one after the handler before it. The host answers such a call with the event when the first handler is one of this
 * package's; the package then runs its own handlers, and the host those of the others.
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

/** Events whose handlers a call of this package may run. */
const BEGUN_BY_CALLS: readonly string[] = ["session_info_changed", "thinking_level_select"];

let registered: { event: string; registered: Registered }[] = [];

/** Records a handler; returns the function that removes it. */
export function noteHandler(event: string, entry: Entry, ctx: object, handler: Handler): () => void {
  if (!BEGUN_BY_CALLS.includes(event)) return () => {};
  const noted = { event, registered: { entry, ctx, handler } };
  // In the order of the entries, then of registration.
  const after = registered.findIndex((other) => other.registered.entry.index > entry.index);
  registered.splice(after < 0 ? registered.length : after, 0, noted);
  return () => {
    registered = registered.filter((other) => other !== noted);
  };
}

/** Runs the handlers of this package for a call's event, if the host delegated that. */
export function beginHandlers({ begins }: { begins?: { event: string; payload: object } }): void {
  if (begins === undefined) return;
  const { event, payload } = begins;
  const told = registered.filter((other) => other.event === event && other.registered.entry.state === "active");
  void tell({ type: event, ...payload }, told.map((other) => other.registered));
}

/** Runs synchronously up to the first wait of a handler, and asynchronously from there. */
async function tell(event: { type: string }, handlers: readonly Registered[]): Promise<void> {
  for (const one of handlers) {
    // A removed handler is not called.
    if (!registered.some((other) => other.registered === one)) continue;
    try {
      await one.handler(event, one.ctx);
    } catch (error) {
      if (error === exiting) return;
      sendError(error, event.type, one.entry.index);
      // The report leaves with this turn, before effects of the next handler.
      await new Promise<void>((resume) => setImmediate(resume));
    }
  }
}

/** Removes all handlers of this package. */
export function forgetHandlers(): void {
  registered = [];
}
