/** `node:stream/consumers`: can be imported and extended; using it says what to do instead. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:stream/consumers", "streams are not there yet; use text(), json() or arrayBuffer() of fetch", [
  "arrayBuffer", "blob", "buffer", "json", "text",
]);

export const {
  arrayBuffer, blob, buffer, json, text,
} = refused;

export default refused;
