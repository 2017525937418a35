/**
 * `pi:pi/default-stream`, replaces `stream-fn.js` of pi-agent-core: the default stream function of agents. pi sets its
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
