/**
 * `pi:pi/signals`: abort signals that the host passes by number.
 *
 * A number identifies one signal during the lifetime of the realm. The abort may arrive before the first use of the signal, which
 * then gets an aborted signal.
 */

import { hostSignal, onSignalAborted } from "pi:hostcall";
import type { AbortSignal } from "pi:web/abort";

/** Aborted signals, which the hostcall layer has dropped. */
const fired = new Map<number, AbortSignal>();

/** Returns the signal with a number. */
export function signalOf(number: number): AbortSignal {
  return fired.get(number) ?? hostSignal(number);
}

/** Handles `signal_aborted`. */
export function abortSignal(number: number): void {
  if (fired.has(number)) return;
  fired.set(number, hostSignal(number));
  onSignalAborted(number);
}
