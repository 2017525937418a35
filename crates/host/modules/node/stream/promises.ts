/** `node:stream/promises`: can be imported and extended; using it says what to do instead. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:stream/promises", "streams are not there yet; use readFile, writeFile, fetch's text() and async iterators", [
  "pipeline", "finished",
]);

export const {
  pipeline, finished,
} = refused;

export default refused;
