/**
 * `pi:pi/bus`: `pi.events`. Listeners in this realm are called at once, in the order they came; other
 * realms get a copy of the data after the current macrotask.
 */

import { facts, send } from "pi:engine";
import { callSync } from "pi:hostcall";
import { sendError } from "pi:pi/errors";
import { plain } from "pi:pi/plain";
import { console } from "pi:web/console";

type Listener = (data: unknown) => unknown;

const channels = new Map<string, Set<{ listener: Listener; entry: number | undefined }>>();

/** Listens to a channel and returns the function that stops it. */
export function listen(channel: string, listener: Listener, entry?: number): () => void {
  let listeners = channels.get(channel);
  if (!listeners) channels.set(channel, (listeners = new Set()));
  const record = { listener, entry };
  listeners.add(record);
  return () => {
    listeners.delete(record);
  };
}

/** Emits here and, as a copy, everywhere else. Data that cannot be copied is an error of the emitter. */
export function emit(channel: string, data: unknown, entry?: number): void {
  // A driver that writes down what happens is told before anybody hears it.
  if (facts.observesEvents === true) tellObserver(channel, data);
  deliver(channel, data);
  try {
    assertPlain(data, new Set());
    send({ type: "bus_emit", payload: { channel: String(channel), data: data ?? null } });
  } catch (error) {
    sendError(error, "events.emit", entry);
  }
}

function tellObserver(channel: string, data: unknown): void {
  try {
    callSync("events", "events", { op: "emit", channel: String(channel), data: plain(data) ?? null });
  } catch {
    // A refusal, which is in the ledger.
  }
}

/** Calls the listeners of this realm; what one throws does not reach the others. */
export function deliver(channel: string, data: unknown): void {
  const listeners = channels.get(channel);
  if (!listeners) return;
  for (const { listener, entry } of [...listeners]) {
    const failed = (error: unknown) => {
      console.error(`Event handler error (${channel}):`, error);
      sendError(error, `events:${channel}`, entry);
    };
    try {
      const result = listener(data);
      if (result instanceof Promise) result.then(undefined, failed);
    } catch (error) {
      failed(error);
    }
  }
}

/** Functions do not cross between realms; saying so beats dropping them silently. */
function assertPlain(value: unknown, above: Set<object>): void {
  if (typeof value === "function") throw new TypeError("pi.events.emit: functions cannot be sent to other extensions");
  if (value === null || typeof value !== "object") return;
  if (above.has(value)) throw new TypeError("pi.events.emit: the data refers to itself");
  above.add(value);
  for (const member of Object.values(value)) assertPlain(member, above);
  above.delete(value);
}

/** Forgets every listener: this realm takes no part any more. */
export function deafen(): void {
  channels.clear();
}
