/** `pi:node/child_process/signals`: signals by name, and the processes that they may be sent to. */

import { coded } from "pi:node/errors";
import { constants } from "pi:node/os/constants";

const SIGNALS = constants.signals as Record<string, number>;

/** Process ids of the programs that this realm has started. */
export const started = new Set<number>();

/** Returns a signal's name. Throws for an unknown signal. */
export function signalName(signal: string | number | undefined): string {
  if (signal === undefined) return "SIGTERM";
  const named = typeof signal === "number" ? Object.keys(SIGNALS).find((name) => SIGNALS[name] === signal) : signal.toUpperCase();
  if (named === undefined || !(named in SIGNALS)) throw coded(TypeError, "ERR_UNKNOWN_SIGNAL", `Unknown signal: ${signal}`);
  return named;
}
