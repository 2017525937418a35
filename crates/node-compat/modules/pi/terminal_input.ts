/**
 * `pi:pi/terminal_input`: listeners that see keys before the editor does.
 *
 * The host hands a key to each realm that listens, in the order in which they began, and goes on with what is left of it.
 * Keys for a question of pi's, or for a dialog of somebody else, are handed to nobody.
 */

import { tellUi } from "pi:pi/components";
import { issueHandle } from "pi:pi/handles";
import { sendError } from "pi:pi/errors";

type Listener = (data: string) => { consume?: boolean; data?: string } | undefined;

const listeners = new Set<{ listener: Listener }>();
let handle: number | undefined;

/** What is left of a key: `{data}`, or `{}` when a listener took it. */
function filter(data: string): { data?: string } {
  let current = data;
  for (const { listener } of listeners) {
    try {
      const result = listener(current);
      if (result?.consume) return {};
      if (typeof result?.data === "string") current = result.data;
    } catch (error) {
      // The others, and the person, still have the key.
      sendError(error, "terminal_input");
    }
  }
  return current.length > 0 ? { data: current } : {};
}

/** Forgets every listener. */
export function endKeys(): void {
  listeners.clear();
}

/** Begins to hand keys to a listener; the function that is returned ends it. */
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
