/**
 * `pi:pi/bus`: `pi.events`. Listeners in this realm are called at once, in the order of registration; other realms get a copy of
 * the data after the current macrotask.
 */

import { facts, send } from "pi:engine";
import { callSync } from "pi:hostcall";
import { sendError } from "pi:pi/errors";
import { plain } from "pi:pi/plain";
import { console } from "pi:web/console";

type Listener = (data: unknown) => unknown;

const channels = new Map<string, Set<{ listener: Listener }>>();

/** Subscribes to a channel and returns the function that unsubscribes. */
export function listen(channel: string, listener: Listener): () => void {
  let listeners = channels.get(channel);
  if (!listeners) channels.set(channel, (listeners = new Set()));
  const record = { listener };
  listeners.add(record);
  return () => {
    listeners.delete(record);
  };
}

/**
 * Emits in this realm and, as a copy, in all others. In the copy, a function that throws replaces each function. Cyclic
 * data is an error of the emitter.
 */
export function emit(channel: string, data: unknown, entry?: number): void {
  // Notifies a recording driver before the listeners.
  if (facts.observesEvents === true) tellObserver(channel, data);
  deliver(channel, data);
  try {
    send({ type: "bus_emit", payload: { channel: String(channel), data: portable(data, new Set()) ?? null } });
  } catch (error) {
    sendError(error, "events.emit", entry);
  }
}

function tellObserver(channel: string, data: unknown): void {
  try {
    callSync("events", "events", { op: "emit", channel: String(channel), data: plain(data) ?? null });
  } catch {
    // The ledger records the refusal.
  }
}

/** Calls the listeners of this realm. An exception in one does not affect the others. */
export function deliver(channel: string, data: unknown): void {
  const listeners = channels.get(channel);
  if (!listeners) return;
  for (const { listener } of [...listeners]) {
    // As in pi, the error is only printed to the console.
    const failed = (error: unknown) => console.error(`Event handler error (${channel}):`, error);
    try {
      const result = listener(data);
      if (result instanceof Promise) result.then(undefined, failed);
    } catch (error) {
      failed(error);
    }
  }
}

/** Handles an emission from another realm. */
export function arrive(channel: string, data: unknown): void {
  if (channels.get(channel)?.size) deliver(channel, revived(data));
}

/** Returns a copy in which functions are replaced by markers. */
function portable(value: unknown, above: Set<object>): unknown {
  if (typeof value === "function") return { $function: value.name };
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  if (above.has(value)) throw new TypeError("pi.events.emit: the data refers to itself");
  above.add(value);
  const copy = hasOwnJson(value)
    ? value
    : Array.isArray(value)
      ? value.map((member) => portable(member, above))
      : Object.fromEntries(Object.entries(value).map(([key, member]) => [key, portable(member, above)]));
  above.delete(value);
  return copy;
}

/** Returns whether a value defines its own JSON form, like a Date or a URL. */
function hasOwnJson(value: object): boolean {
  return typeof (value as { toJSON?: unknown }).toJSON === "function";
}

function revived(value: unknown): unknown {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(revived);
  const members = Object.entries(value);
  if (members.length === 1 && members[0]?.[0] === "$function") return elsewhere(String(members[0][1]));
  return Object.fromEntries(members.map(([key, member]) => [key, revived(member)]));
}

/** Returns the function that replaces a function of another extension, and throws. */
function elsewhere(name: string): () => never {
  return () => {
    throw new TypeError(`pi.events: the function ${name || "(anonymous)"} belongs to another extension and cannot be called from here`);
  };
}

/** Removes all listeners. */
export function deafen(): void {
  channels.clear();
}
