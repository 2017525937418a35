/** `node:readline`: can be imported and extended; using it says what to do instead. */

import promises from "node:readline/promises";
import { refuse } from "pi:node/refuse";

const refused = refuse("node:readline", "a realm has no terminal; ask through ctx.ui", [
  "createInterface", "Interface", "clearLine", "clearScreenDown", "cursorTo", "emitKeypressEvents", "moveCursor",
]);

export const {
  createInterface, Interface, clearLine, clearScreenDown, cursorTo, emitKeypressEvents, moveCursor,
} = refused;

export { default as promises } from "node:readline/promises";

export default { ...refused, promises };
