/** `pi:node/net/socket`: a connection as a duplex stream. */

import { HostcallError, attach, call } from "pi:hostcall";
import type { Answer, Params } from "pi:hostcall";
import { bytesOf } from "pi:hostcall";
import { checkFunction, coded, invalidArgType, outOfRange } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { Duplex } from "node:stream";
import { explain } from "pi:node/fs/error";
import { constants } from "pi:node/os/constants";
import { AbortController } from "pi:web/abort";
import { queueTick } from "pi:web/ticks";
import { clearTimeout, setTimeout } from "pi:web/timers";

type Done = (error?: unknown) => void;

let names = 0;
/** Returns a new name for a connection or a server. */
export const freshName = (kind: string): string => `${kind}-${(names += 1)}`;

const ERRNO: Record<string, number> = { ENOTFOUND: -3008, ...Object.fromEntries(Object.entries(constants.errno as Record<string, number>).map(([name, value]) => [name, -value])) };

/** Returns the error of a refusal or failure in Node's form. */
export function netError(failure: unknown, syscall: string, where: { host?: string; port?: number; path?: string }): unknown {
  if (!(failure instanceof HostcallError)) return failure;
  const code = failure.code === "io" ? String(failure.details.errno ?? "EIO") : failure.code === "denied" ? "EACCES" : failure.code === "timeout" ? "ETIMEDOUT" : "EINVAL";
  const address = failure.details.address ?? where.host;
  const target = where.path ?? (where.port === undefined ? undefined : `${address}:${where.port}`);
  const call = code === "ENOTFOUND" ? "getaddrinfo" : syscall;
  const words: Record<string, string> = { EADDRINUSE: "address already in use", EACCES: "permission denied" };
  const shown = call === "getaddrinfo" && where.host !== undefined ? ` ${where.host}` : syscall === "listen" && words[code] ? `: ${words[code]} ${target}` : target === undefined || syscall !== "connect" ? "" : ` ${target}`;
  const error: any = Object.assign(new Error(`${call} ${code}${shown}`), { errno: ERRNO[code] ?? -1, code, syscall: call });
  if (code === "ENOTFOUND") error.hostname = where.host;
  else if (where.path !== undefined) error.address = where.path;
  else if (where.port !== undefined && (syscall === "connect" || syscall === "listen")) Object.assign(error, { address, port: where.port });
  explain(error, failure);
  return error;
}

export function portOf(port: unknown, name: string = "options.port"): number {
  const number = typeof port === "string" && port.trim() !== "" ? Number(port) : port;
  if (typeof number !== "number") throw invalidArgType(name === "Port" ? "options.port" : name, "of type number or string", port);
  if (!Number.isInteger(number) || number < 0 || number > 65535) throw coded(RangeError, "ERR_SOCKET_BAD_PORT", `${name} should be >= 0 and < 65536. Received type ${typeof port} (${String(port)}).`);
  return number;
}

/** Marks a connection as one that carries HTTP requests only. */
export const REQUESTS = Symbol("requests");

export interface Target {
  host?: string;
  port?: number;
  path?: string;
  protocol?: "http";
}

export class Socket extends (Duplex as any) {
  connecting = false;
  remoteAddress: string | undefined = undefined;
  remotePort: number | undefined = undefined;
  remoteFamily: string | undefined = undefined;
  localAddress: string | undefined = undefined;
  localPort: number | undefined = undefined;
  localFamily: string | undefined = undefined;
  bytesRead = 0;
  timeout: number | undefined = undefined;
  server: any = null;
  #name = "";
  #abort = new AbortController();
  #timer: unknown;
  #sent = 0;
  #hadError = false;
  /** Whether a server accepted the connection and the host has not been told yet to keep it. */
  #waits = false;
  #target: Target = {};

  constructor(options: any = {}) {
    super({ ...options, allowHalfOpen: Boolean(options?.allowHalfOpen), emitClose: false, autoDestroy: true, decodeStrings: true, signal: undefined });
    if (options?.signal) options.signal.addEventListener("abort", () => (this as any).destroy(options.signal.reason), { once: true });
  }

  get pending(): boolean {
    return !this.#name || this.connecting;
  }
  get bytesWritten(): number {
    return this.#sent + ((this as any).writableLength ?? 0);
  }
  get bufferSize(): number {
    return (this as any).writableLength ?? 0;
  }
  get readyState(): string {
    const self = this as any;
    if (this.connecting) return "opening";
    if (!this.#name || self.destroyed) return "closed";
    return self.readable && self.writable ? "open" : self.readable ? "readOnly" : self.writable ? "writeOnly" : "closed";
  }

  connect(...args: any[]): this {
    const done = typeof args.at(-1) === "function" ? args.pop() : undefined;
    const first = args[0];
    let target: Target;
    const isPath = typeof first === "string" && Number.isNaN(Number(first));
    const given = typeof first === "object" && first !== null ? first : isPath ? { path: first } : { port: first, host: args[1] };
    if (given.path === undefined && given.port === undefined) throw coded(TypeError, "ERR_MISSING_ARGS", 'The "options" or "port" or "path" argument must be specified');
    if (given.path !== undefined) target = { path: String(given.path) };
    else target = { port: portOf(given.port, "Port"), host: given.host ?? "localhost", ...(given[REQUESTS] ? { protocol: "http" } : {}) };
    const secured = this._secured(target);
    if (done) (this as any).once(secured ? "secureConnect" : "connect", done);
    this.#name = freshName("socket");
    this.#target = target;
    this.connecting = true;
    this.#receive({ op: "connect", socket: this.#name, ...target, ...(secured ? { tls: secured } : {}) });
    return this;
  }

  /** Returns the parameters of an encrypted connection; undefined for an unencrypted one. */
  _secured(_target: Target): object | undefined {
    return undefined;
  }

  /** Handles an established connection. `about` is the host's description of it. */
  _established(_about: any): void {}

  /** Takes over a connection that a server accepted. `about` has both addresses. */
  _accept(name: string, about: any): void {
    this.#name = name;
    this.#waits = true;
    this.#ends(about);
    this.#receive({ op: "accept", socket: name });
  }

  #receive(params: Params<"net">): void {
    const self = this as any;
    const onChunk = ({ output, ...rest }: Answer) => {
      if (self.destroyed) return;
      this._touch();
      if (output.connected) this.#connected(output.connected);
      else if (output.data !== undefined) {
        const bytes = bytesOf({ output, ...rest }, output.data)!;
        this.bytesRead += bytes.length;
        self.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
      } else if (output.end) {
        self.push(null);
        // Emits the end even if the stream is not read.
        self.read(0);
      }
    };
    call("net", this.#target.path === undefined ? "http" : "write", params, { signal: this.#abort.signal, onChunk }).then(
      () => self.destroy(),
      (failure) => {
        if (this.#abort.signal.aborted) return;
        const syscall = this.connecting ? "connect" : "read";
        this.connecting = false;
        self.destroy(netError(failure, syscall, this.#target));
      },
    );
  }

  #ends(about: any): void {
    this.localAddress = about.localAddress;
    this.localPort = about.localPort;
    this.remoteAddress = about.remoteAddress;
    this.remotePort = about.remotePort;
    this.remoteFamily = this.localFamily = about.family;
  }

  #connected(about: any): void {
    const self = this as any;
    this.#ends(about);
    const wasConnecting = this.connecting;
    this.connecting = false;
    this.#waits = false;
    if (!wasConnecting) return;
    this._established(about);
    self.emit("connect");
    self.emit("ready");
  }

  _read(): void {}
  _write(chunk: Uint8Array, _encoding: string, done: Done): void {
    const self = this as any;
    if (this.connecting) {
      self.once("connect", () => this._write(chunk, _encoding, done));
      self.once("close", () => done(coded(Error, "ERR_SOCKET_CLOSED_BEFORE_CONNECTION", "Socket closed before the connection was established")));
      return;
    }
    this._touch();
    const bytes: Uint8Array[] = [];
    const data = attach(bytes, new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    call("net", "http", { op: "write", socket: this.#name, data }, { bytes, signal: this.#abort.signal }).then(
      () => {
        this.#sent += chunk.byteLength;
        done();
      },
      (failure) => done(this.#abort.signal.aborted ? undefined : netError(failure, "write", {})),
    );
  }
  _final(done: Done): void {
    const self = this as any;
    if (this.connecting) return void self.once("connect", () => this._final(done));
    if (!this.#name || this.#abort.signal.aborted) return done();
    call("net", "http", { op: "end", socket: this.#name }, { signal: this.#abort.signal }).then(() => done(), () => done());
  }
  _destroy(error: unknown, done: Done): void {
    this.connecting = false;
    clearTimeout(this.#timer);
    this.#hadError = Boolean(error);
    this.#abort.abort();
    // A call that is cancelled before it begins takes nothing over.
    if (this.#waits) void call("net", "http", { op: "refuse", socket: this.#name }).catch(() => {});
    done(error);
    queueTick(() => (this as any).emit("close", this.#hadError));
  }
  destroySoon(): void {
    const self = this as any;
    if (self.writable) self.end();
    if (self.writableFinished) self.destroy();
    else self.once("finish", () => self.destroy());
  }
  resetAndDestroy(): this {
    return (this as any).destroy();
  }

  /** Resets the idle timer. */
  _touch(): void {
    if (!this.timeout) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => (this as any).emit("timeout"), this.timeout);
  }
  setTimeout(ms: number, done?: () => void): this {
    if (typeof ms !== "number") throw invalidArgType("msecs", "of type number", ms);
    if (!(ms >= 0) || ms === Infinity) throw outOfRange("msecs", "a non-negative finite number", ms);
    clearTimeout(this.#timer);
    this.timeout = ms;
    if (done !== undefined) {
      checkFunction("callback", done);
      (this as any)[ms === 0 ? "removeListener" : "once"]("timeout", done);
    }
    this._touch();
    return this;
  }
  setNoDelay(): this {
    return this;
  }
  setKeepAlive(): this {
    return this;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
  address(): object {
    return this.localAddress === undefined ? {} : { address: this.localAddress, family: this.localFamily, port: this.localPort };
  }
}
