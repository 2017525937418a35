/**
 * `pi:pi/terminal_input`: listeners that receive keys before the editor.
 *
 * The host passes a key to each subscribed realm, in the order of subscription, and continues with the remaining data. Keys for a
 * prompt of pi's, or for another extension's dialog, are not passed on.
 */

import { tellUi } from "pi:pi/components";
import { issueHandle } from "pi:pi/handles";
import { sendError } from "pi:pi/errors";

type Listener = (data: string) => { consume?: boolean; data?: string } | undefined;

const listeners = new Set<{ listener: Listener }>();
let handle: number | undefined;

/** Returns the remaining data of a key: `{data}`, or `{}` if a listener consumed it. */
function filter(data: string): { data?: string } {
  let current = data;
  for (const { listener } of listeners) {
    try {
      const result = listener(current);
      if (result?.consume) return {};
      if (typeof result?.data === "string") current = result.data;
    } catch (error) {
      // Other listeners and the user still receive the key.
      sendError(error, "terminal_input");
    }
  }
  return current.length > 0 ? { data: current } : {};
}

/** Removes every listener. */
export function endKeys(): void {
  listeners.clear();
}

/** Subscribes a listener to keys. Returns the function that unsubscribes. */
export function listenToKeys(listener: Listener): () => void {
  const entry = { listener };
  handle ??= issueHandle((data: string) => filter(data));
  if (listeners.size === 0) tellUi("on_terminal_input", { listener: handle });
  else tellUi("on_terminal_input", {});
  listeners.add(entry);
  return () => {
    if (listeners.delete(entry) && listeners.size === 0) tellUi("end_terminal_input", {});
  };
}
