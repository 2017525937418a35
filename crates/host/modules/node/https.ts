/** `node:https`: can be imported and extended; using it says what to do instead. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:https", "use fetch; a realm cannot listen", [
  "createServer", "request", "get", "Agent", "Server",
]);

export const {
  createServer, request, get, Agent, Server,
} = refused;

export const globalAgent: Record<string, unknown> = {};

export default { ...refused, globalAgent };
