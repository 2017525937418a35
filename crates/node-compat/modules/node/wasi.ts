/** `node:wasi`: can be imported and extended; using it says what to do instead. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:wasi", "WebAssembly is not there yet", [
  "WASI",
]);

export const {
  WASI,
} = refused;

export default refused;
