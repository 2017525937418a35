/** `node:inspector`: can be imported and extended; its use throws an error with a hint. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:inspector", "debug with a tape: pi replay", [
  "open", "close", "Session", "waitForDebugger",
]);

export const {
  open, close, Session, waitForDebugger,
} = refused;

export function url(): undefined {
  return undefined;
}
export const console: undefined = undefined;

export default { ...refused, url, console };
