/** `node:http`: requests, and servers on loopback. */

import { adopting, callable } from "pi:node/callable";
import { ClientRequest, optionsOf } from "pi:node/http/client";
import { IncomingMessage, OutgoingMessage, validateHeaderName, validateHeaderValue } from "pi:node/http/message";
import { MAX_HEAD } from "pi:node/http/parser";
import { Server, ServerResponse } from "pi:node/http/server";
import { METHODS, STATUS_CODES } from "pi:node/http/status";
import { CloseEvent, MessageEvent, WebSocket } from "pi:web/websocket";
import { EventEmitter } from "node:events";

/** An agent that only stores its settings: the host manages connections. */
export const Agent = callable(class Agent extends adopting(EventEmitter) {
  readonly defaultPort: number = 80;
  readonly protocol: string = "http:";
  options: Record<string, unknown>;
  requests = {};
  sockets = {};
  freeSockets = {};
  maxSockets = Infinity;
  maxFreeSockets = 256;
  maxTotalSockets = Infinity;
  keepAlive: boolean;

  constructor(options: Record<string, unknown> = {}) {
    super();
    this.options = { path: null, ...options };
    this.keepAlive = Boolean(options.keepAlive);
  }
  destroy(): void {}
  getName(options: any = {}): string {
    return `${options.host ?? "localhost"}:${options.port ?? ""}:${options.localAddress ?? ""}`;
  }
});
export type Agent = InstanceType<typeof Agent>;

export function request(input: any, ...rest: any[]): ClientRequest {
  const { options, done } = optionsOf(input, rest, "http:");
  return new ClientRequest(options, done);
}
export function get(input: any, ...rest: any[]): ClientRequest {
  const sent: any = request(input, ...rest);
  sent.end();
  return sent;
}
export function createServer(options?: any, onRequest?: any): Server {
  return new Server(options, onRequest);
}

export const globalAgent = new Agent({ keepAlive: true });
export const maxHeaderSize = MAX_HEAD;
export function setMaxIdleHTTPParsers(): void {}

export { ClientRequest, CloseEvent, IncomingMessage, MessageEvent, WebSocket, METHODS, OutgoingMessage, STATUS_CODES, Server, ServerResponse, validateHeaderName, validateHeaderValue };

const http = {
  Agent, ClientRequest, CloseEvent, IncomingMessage, MessageEvent, WebSocket, METHODS, OutgoingMessage, STATUS_CODES, Server, ServerResponse, createServer, get, globalAgent, maxHeaderSize,
  request, setMaxIdleHTTPParsers, validateHeaderName, validateHeaderValue,
};
export default http;
