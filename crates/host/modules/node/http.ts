/** `node:http`: can be imported and extended; using it says what to do instead. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:http", "use fetch; a realm cannot listen", [
  "createServer", "request", "get", "Agent", "ClientRequest", "IncomingMessage", "OutgoingMessage", "Server", "ServerResponse",
  "validateHeaderName", "validateHeaderValue", "setMaxIdleHTTPParsers",
]);

export const {
  createServer, request, get, Agent, ClientRequest, IncomingMessage, OutgoingMessage, Server, ServerResponse, validateHeaderName,
  validateHeaderValue, setMaxIdleHTTPParsers,
} = refused;

export const METHODS: string[] = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"];
export const STATUS_CODES: Record<number, string> = {
  100: "Continue", 101: "Switching Protocols", 200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 206: "Partial Content",
  301: "Moved Permanently", 302: "Found", 303: "See Other", 304: "Not Modified", 307: "Temporary Redirect", 308: "Permanent Redirect",
  400: "Bad Request", 401: "Unauthorized", 402: "Payment Required", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
  406: "Not Acceptable", 408: "Request Timeout", 409: "Conflict", 410: "Gone", 413: "Payload Too Large", 415: "Unsupported Media Type",
  418: "I'm a Teapot", 422: "Unprocessable Entity", 429: "Too Many Requests", 500: "Internal Server Error", 501: "Not Implemented",
  502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
};
export const maxHeaderSize = 16384;
export const globalAgent: Record<string, unknown> = {};

export default { ...refused, METHODS, STATUS_CODES, maxHeaderSize, globalAgent };
