/** `node:wasi`: can be imported and extended; using it says what to do instead. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:wasi", "WASI is not there yet; WebAssembly is", [
  "WASI",
]);

export const {
  WASI,
} = refused;

export default refused;
