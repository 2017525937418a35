/** `node:dgram`: can be imported and extended; its use throws an error with a hint. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:dgram", "a realm has no datagrams; use fetch", [
  "createSocket", "Socket",
]);

export const {
  createSocket, Socket,
} = refused;

export default refused;
