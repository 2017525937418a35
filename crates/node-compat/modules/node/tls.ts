/**
 * `node:tls`: encrypted connections of a client. The host performs the handshake and checks the certificate; a realm serves no
 * TLS, has no client certificates and never connects to a server with an invalid certificate.
 */

import { Buffer } from "node:buffer";
import { coded, notSupported } from "pi:node/errors";
import { Socket } from "pi:node/net/socket";
import type { Target } from "pi:node/net/socket";
import { defaultCipherList } from "pi:node/crypto/constants";
import { refuse } from "pi:node/refuse";
import { isIP } from "pi:node/net/addresses";

interface TlsOptions {
  [name: string]: any;
}

const refused = refuse("node:tls", "connect as a client with tls.connect, or serve plain HTTP on loopback with node:http", [
  "createServer", "createSecurePair", "checkServerIdentity", "Server", "convertALPNProtocols",
]);
export const { createServer, createSecurePair, checkServerIdentity, Server, convertALPNProtocols } = refused;

/** Refuses options that the host does not support. */
function checkOptions(options: TlsOptions): void {
  if (options.rejectUnauthorized === false) throw notSupported("tls.connect with rejectUnauthorized: false", "certificates are always checked; pass the authority's certificate as `ca`");
  for (const name of ["key", "cert", "pfx"]) {
    if (options[name] !== undefined) throw notSupported(`tls.connect with ${name}`, "the host has no client certificates");
  }
  if (options.socket !== undefined) throw notSupported("tls.connect over an open socket", "connect with host and port");
}

/** Returns the PEM texts in a `ca` option. */
function authorities(ca: any): string[] {
  if (ca === undefined || ca === null) return [];
  return (Array.isArray(ca) ? ca : [ca]).map((one) => (typeof one === "string" ? one : Buffer.from(one).toString("latin1")));
}

/** Reads `ALPNProtocols`, which are strings or their wire format. */
function protocols(offered: any): string[] {
  if (offered === undefined || offered === null) return [];
  if (Array.isArray(offered)) return offered.map((one) => (typeof one === "string" ? one : Buffer.from(one).toString("latin1")));
  const bytes = Buffer.from(offered);
  const found: string[] = [];
  for (let at = 0; at < bytes.length; at += 1 + bytes[at]!) found.push(bytes.toString("latin1", at + 1, at + 1 + bytes[at]!));
  return found;
}

export class SecureContext {
  readonly context: TlsOptions;

  constructor(options: TlsOptions = {}) {
    checkOptions(options);
    this.context = options;
  }
}

export function createSecureContext(options?: TlsOptions): SecureContext {
  return new SecureContext(options);
}

const refusedOver = () => notSupported("a TLSSocket over an open socket", "connect with tls.connect");

export class TLSSocket extends Socket {
  readonly encrypted = true;
  authorized = false;
  authorizationError: unknown = null;
  alpnProtocol: string | false | null = null;
  servername: string | undefined = undefined;
  readonly #options: TlsOptions;
  readonly #isOver: boolean;
  #about: any = undefined;

  constructor(socket?: unknown, options: TlsOptions = {}) {
    checkOptions(options);
    super(options);
    this.#options = options;
    this.#isOver = socket !== undefined && socket !== null;
    // Libraries create a socket only to inspect it; it is refused on the first read or write.
    if (this.#isOver) Object.defineProperty(this, "_handle", { value: { _parentWrap: socket }, writable: true, enumerable: false, configurable: true });
  }

  override _read(): void {
    if (this.#isOver) (this as any).destroy(refusedOver());
    else super._read();
  }

  override _write(chunk: Uint8Array, encoding: string, done: (error?: unknown) => void): void {
    if (this.#isOver) done(refusedOver());
    else super._write(chunk, encoding, done);
  }

  override _secured(target: Target): object {
    if (target.path !== undefined) throw notSupported("tls.connect to a path", "connect with host and port");
    const { ca, secureContext, ALPNProtocols, servername } = this.#options;
    if (typeof servername === "string" && servername !== "" && isIP(servername) === 0) this.servername = servername;
    else if (isIP(target.host ?? "") === 0) this.servername = target.host;
    return {
      ca: authorities(ca ?? secureContext?.context?.ca),
      alpn: protocols(ALPNProtocols),
      ...(typeof servername === "string" && servername !== "" ? { servername } : {}),
    };
  }

  override _established(about: any): void {
    const self = this as any;
    this.#about = about;
    this.authorized = true;
    this.alpnProtocol = about.alpn;
    self.once("ready", () => {
      self.emit("secure");
      self.emit("secureConnect");
    });
  }

  getProtocol(): string | null {
    return this.#about?.protocol ?? null;
  }
  getCipher(): object | undefined {
    if (!this.#about) return undefined;
    return { name: this.#about.cipher, standardName: this.#about.cipher, version: this.#about.protocol };
  }
  isSessionReused(): boolean {
    return false;
  }
  getSession(): undefined {
    return undefined;
  }
  getPeerCertificate(): never {
    throw notSupported("TLSSocket.getPeerCertificate", "the host has checked the certificate");
  }
  setMaxSendFragment(): boolean {
    return true;
  }
  disableRenegotiation(): void {}
}

/** Reads `connect(port[, host][, options][, done])` or `connect(options[, done])`, and connects. */
export function connect(...args: any[]): TLSSocket {
  const done = typeof args.at(-1) === "function" ? args.pop() : undefined;
  let options: TlsOptions = {};
  for (const [at, given] of args.entries()) {
    if (typeof given === "object" && given !== null) options = { ...options, ...given };
    else if (at === 0) options.port = given;
    else if (typeof given === "string") options.host = given;
  }
  if (options.port === undefined && options.path === undefined) {
    throw coded(TypeError, "ERR_MISSING_ARGS", 'The "options.port" or "options.path" argument must be specified');
  }
  const socket: any = new TLSSocket(undefined, options);
  if (options.timeout) socket.setTimeout(options.timeout);
  return done ? socket.connect(options, done) : socket.connect(options);
}

export function getCiphers(): string[] {
  return [
    "tls_aes_256_gcm_sha384", "tls_aes_128_gcm_sha256", "tls_chacha20_poly1305_sha256", "ecdhe-ecdsa-aes256-gcm-sha384",
    "ecdhe-ecdsa-aes128-gcm-sha256", "ecdhe-ecdsa-chacha20-poly1305", "ecdhe-rsa-aes256-gcm-sha384", "ecdhe-rsa-aes128-gcm-sha256",
    "ecdhe-rsa-chacha20-poly1305",
  ];
}

/** Root certificates of the system, which the host reads. */
export const rootCertificates: string[] = [];
export const DEFAULT_MIN_VERSION = "TLSv1.2";
export const DEFAULT_MAX_VERSION = "TLSv1.3";
export const DEFAULT_ECDH_CURVE = "auto";
export const CLIENT_RENEG_LIMIT = 3;
export const CLIENT_RENEG_WINDOW = 600;
export const DEFAULT_CIPHERS = defaultCipherList;
export function getCACertificates(): string[] {
  return [];
}

export default {
  ...refused, CLIENT_RENEG_LIMIT, CLIENT_RENEG_WINDOW, DEFAULT_CIPHERS, getCACertificates, DEFAULT_ECDH_CURVE, DEFAULT_MAX_VERSION, DEFAULT_MIN_VERSION, SecureContext, TLSSocket, connect, createSecureContext, getCiphers,
  rootCertificates,
};
