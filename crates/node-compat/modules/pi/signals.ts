/**
 * `pi:pi/signals`: abort signals of the host, by number.
 *
 * A number identifies one signal for the life of the realm. Its abort may arrive before the first use of the signal; a later use
 * gets an aborted one.
 */

import { hostSignal, onSignalAborted } from "pi:hostcall";
import type { AbortSignal } from "pi:web/abort";

/** Aborted signals, which the hostcall layer no longer keeps. */
const fired = new Map<number, AbortSignal>();

/** Returns the signal of a number. */
export function signalOf(number: number): AbortSignal {
  return fired.get(number) ?? hostSignal(number);
}

/** Handles `signal_aborted`. */
export function abortSignal(number: number): void {
  if (fired.has(number)) return;
  fired.set(number, hostSignal(number));
  onSignalAborted(number);
}
