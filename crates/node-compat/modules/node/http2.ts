/** `node:http2`: can be imported and extended; its use throws an error with a hint. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:http2", "use fetch", [
  "createServer", "createSecureServer", "connect", "getDefaultSettings", "getPackedSettings", "getUnpackedSettings",
  "performServerHandshake", "Http2ServerRequest", "Http2ServerResponse",
]);

export const {
  createServer, createSecureServer, connect, getDefaultSettings, getPackedSettings, getUnpackedSettings, performServerHandshake,
  Http2ServerRequest, Http2ServerResponse,
} = refused;

export const constants: Record<string, unknown> = {};
export const sensitiveHeaders: unique symbol = Symbol("nodejs.http2.sensitiveHeaders") as any;

export default { ...refused, constants, sensitiveHeaders };
