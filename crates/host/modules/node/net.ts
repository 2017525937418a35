/** `node:net`: addresses and lists of them; connections say what to do instead. */

import { isIP, isIPv4, isIPv6 } from "pi:node/net/addresses";
import { BlockList, SocketAddress } from "pi:node/net/blocklist";
import { refuse } from "pi:node/refuse";

const refused = refuse("node:net", "use fetch, or a program started with child_process", [
  "createServer", "createConnection", "connect", "Server", "Socket", "Stream", "getDefaultAutoSelectFamily",
  "setDefaultAutoSelectFamily",
]);

export const {
  createServer, createConnection, connect, Server, Socket, Stream, getDefaultAutoSelectFamily, setDefaultAutoSelectFamily,
} = refused;

export { BlockList, isIP, isIPv4, isIPv6, SocketAddress };

export default { ...refused, BlockList, isIP, isIPv4, isIPv6, SocketAddress };
