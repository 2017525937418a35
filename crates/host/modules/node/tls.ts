/** `node:tls`: can be imported and extended; using it says what to do instead. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:tls", "use fetch with an https address", [
  "connect", "createServer", "createSecureContext", "createSecurePair", "checkServerIdentity", "getCiphers", "TLSSocket", "Server",
  "SecureContext",
]);

export const {
  connect, createServer, createSecureContext, createSecurePair, checkServerIdentity, getCiphers, TLSSocket, Server, SecureContext,
} = refused;

export const rootCertificates: string[] = [];
export const DEFAULT_MIN_VERSION = "TLSv1.2";
export const DEFAULT_MAX_VERSION = "TLSv1.3";

export default { ...refused, rootCertificates, DEFAULT_MIN_VERSION, DEFAULT_MAX_VERSION };
