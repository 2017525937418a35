/** `node:https`: requests over the host's TLS. A realm cannot serve TLS. */

import { ClientRequest, optionsOf } from "pi:node/http/client";
import { Agent as HttpAgent } from "node:http";
import { refuse } from "pi:node/refuse";

const refused = refuse("node:https", "serve plain HTTP on loopback with node:http", ["createServer", "Server"]);
export const { createServer, Server } = refused;

export class Agent extends HttpAgent {
  override readonly defaultPort: number = 443;
  override readonly protocol: string = "https:";
}

export function request(input: any, ...rest: any[]): ClientRequest {
  const { options, done } = optionsOf(input, rest, "https:");
  return new ClientRequest(options, done);
}
export function get(input: any, ...rest: any[]): ClientRequest {
  const sent: any = request(input, ...rest);
  sent.end();
  return sent;
}

export const globalAgent = new Agent({ keepAlive: true });
export default { ...refused, Agent, get, globalAgent, request };
