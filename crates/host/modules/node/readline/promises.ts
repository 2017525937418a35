/** `node:readline/promises`: can be imported and extended; using it says what to do instead. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:readline/promises", "a realm has no terminal; ask through ctx.ui", [
  "createInterface", "Interface", "Readline",
]);

export const {
  createInterface, Interface, Readline,
} = refused;

export default refused;
