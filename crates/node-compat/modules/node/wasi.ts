/** `node:wasi`: can be imported and extended; its use throws an error with a hint. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:wasi", "WASI is not there yet; WebAssembly is", [
  "WASI",
]);

export const {
  WASI,
} = refused;

export default refused;
