/** `node:repl`: can be imported and extended; its use throws an error with a hint. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:repl", "a realm never compiles source text at run time", [
  "start", "REPLServer", "Recoverable",
]);

export const {
  start, REPLServer, Recoverable,
} = refused;

export default refused;
