/** `node:dgram`: can be imported and extended; using it says what to do instead. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:dgram", "a realm has no datagrams; use fetch", [
  "createSocket", "Socket",
]);

export const {
  createSocket, Socket,
} = refused;

export default refused;
