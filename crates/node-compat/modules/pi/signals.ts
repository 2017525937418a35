/**
 * `pi:pi/signals`: abort signals that the host hands in by number.
 *
 * A number stands for one signal for the life of the realm. Its abort may arrive before anybody has
 * asked for the signal; whoever asks then gets one that has fired.
 */

import { hostSignal, onSignalAborted } from "pi:hostcall";
import type { AbortSignal } from "pi:web/abort";

/** Signals that have fired, which the hostcall layer no longer keeps. */
const fired = new Map<number, AbortSignal>();

/** The signal of a number. */
export function signalOf(number: number): AbortSignal {
  return fired.get(number) ?? hostSignal(number);
}

/** `signal_aborted`: fires it. */
export function abortSignal(number: number): void {
  if (fired.has(number)) return;
  fired.set(number, hostSignal(number));
  onSignalAborted(number);
}
