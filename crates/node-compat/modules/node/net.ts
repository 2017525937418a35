/** `node:net`: connections, servers on loopback, addresses and block lists. */

import { isIP, isIPv4, isIPv6 } from "pi:node/net/addresses";
import { BlockList, SocketAddress } from "pi:node/net/blocklist";
import { Server } from "pi:node/net/server";
import { Socket } from "pi:node/net/socket";

export function createConnection(...args: any[]): Socket {
  const options = typeof args[0] === "object" && args[0] !== null ? args[0] : {};
  const socket = new Socket(options);
  if (options.timeout) socket.setTimeout(options.timeout);
  return socket.connect(...args);
}
export const connect = createConnection;

export function createServer(options?: any, onConnection?: any): Server {
  return new Server(options, onConnection);
}

let autoSelect = true;
export function getDefaultAutoSelectFamily(): boolean {
  return autoSelect;
}
export function setDefaultAutoSelectFamily(value: boolean): void {
  autoSelect = Boolean(value);
}
export function getDefaultAutoSelectFamilyAttemptTimeout(): number {
  return 250;
}
export function setDefaultAutoSelectFamilyAttemptTimeout(): void {}

export { Socket as Stream };
export { BlockList, Server, Socket, SocketAddress, isIP, isIPv4, isIPv6 };
export default {
  BlockList, Server, Socket, SocketAddress, Stream: Socket, connect, createConnection, createServer, getDefaultAutoSelectFamily,
  getDefaultAutoSelectFamilyAttemptTimeout, isIP, isIPv4, isIPv6, setDefaultAutoSelectFamily, setDefaultAutoSelectFamilyAttemptTimeout,
};
