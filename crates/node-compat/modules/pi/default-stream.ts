/**
 * `pi:pi/default-stream`, in place of `stream-fn.js` of pi-agent-core: the stream function of an agent without one. pi sets its
 * global `streamSimple` when it starts.
 */

import { streamSimple } from "pi:pi/apis";

let current: unknown = streamSimple;

export function setDefaultStreamFn(streamFn: unknown): void {
  current = streamFn;
}

export function getDefaultStreamFn(): unknown {
  if (!current) throw new Error("No default stream function configured. Pass streamFn explicitly or call setDefaultStreamFn().");
  return current;
}
