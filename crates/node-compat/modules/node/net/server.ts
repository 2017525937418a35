/** `pi:node/net/server`: a server on loopback or at a path. Without a host it listens on 127.0.0.1, never on other interfaces. */

import { call } from "pi:hostcall";
import type { Answer } from "pi:hostcall";
import { adopting } from "pi:node/callable";
import { checkFunction, coded } from "pi:node/errors";
import { EventEmitter } from "node:events";
import { Socket, freshName, netError, portOf } from "pi:node/net/socket";
import { AbortController } from "pi:web/abort";
import { queueTick } from "pi:web/ticks";

/**
 * Servers that are closing, with a promise for each: the next listener on the same address waits for it, as a system call does.
 */
const leaving = new Set<Promise<unknown>>();

export class Server extends adopting(EventEmitter) {
  listening = false;
  maxConnections: number | undefined = undefined;
  allowHalfOpen: boolean;
  #abort: AbortController | undefined;
  /** Name under which the host knows the server. */
  #name = "";
  /** Settles when the server stops listening. */
  #listening: Promise<unknown> = Promise.resolve();
  #address: any = null;
  #sockets = new Set<any>();
  #options: any;

  constructor(options?: any, onConnection?: any) {
    super();
    if (typeof options === "function") [onConnection, options] = [options, {}];
    this.#options = options ?? {};
    this.allowHalfOpen = Boolean(this.#options.allowHalfOpen);
    if (onConnection) this.on("connection", onConnection);
  }

  listen(...args: any[]): this {
    const done = typeof args.at(-1) === "function" ? args.pop() : undefined;
    if (this.#abort) throw coded(Error, "ERR_SERVER_ALREADY_LISTEN", "Listen method has been called more than once without closing.");
    const first = args[0];
    let where: { host?: string; port?: number; path?: string };
    if (typeof first === "object" && first !== null) {
      if (first.path !== undefined) where = { path: String(first.path) };
      else where = { port: first.port === undefined ? 0 : portOf(first.port), host: first.host };
      first.signal?.addEventListener("abort", () => this.close(), { once: true });
    } else if (typeof first === "string" && Number.isNaN(Number(first))) where = { path: first };
    else where = { port: first === undefined || first === null ? 0 : portOf(first), host: typeof args[1] === "string" ? args[1] : undefined! };
    if (where.path === undefined) where.host = !where.host || where.host === "::" || where.host === "0.0.0.0" ? "127.0.0.1" : where.host;
    if (done) {
      checkFunction("cb", done);
      this.once("listening", done);
    }
    const controller = (this.#abort = new AbortController());
    this.#isGone = false;
    const onChunk = ({ output }: Answer) => {
      if (controller.signal.aborted) return;
      if (output.listening) {
        this.#address = output.listening.path ?? output.listening;
        this.listening = true;
        this.emit("listening");
      } else if (output.connection) this.#connection(output.connection, output.about);
    };
    const name = (this.#name = freshName("server"));
    const ask = () => call("net", where.path === undefined ? "http" : "write", { op: "listen", server: name, ...where }, { signal: controller.signal, onChunk });
    const listening = leaving.size === 0 ? ask() : Promise.all(leaving).then(ask);
    this.#listening = listening.then(() => {}, () => {});
    listening.then(
      () => this.#closed(name),
      (failure) => {
        if (this.#closing || controller.signal.aborted) return this.#closed(name);
        this.#abort = undefined;
        this.listening = false;
        this.emit("error", netError(failure, "listen", where));
      },
    );
    return this;
  }

  #connection(name: string, about: any): void {
    const socket: any = new Socket({ allowHalfOpen: this.allowHalfOpen });
    if (this.maxConnections !== undefined && this.#sockets.size >= this.maxConnections) {
      socket._accept(name, about);
      socket.destroy();
      this.emit("drop");
      return;
    }
    socket.server = this;
    this.#sockets.add(socket);
    socket.once("close", () => {
      this.#sockets.delete(socket);
      this.#maybeClosed();
    });
    socket._accept(name, about);
    this.emit("connection", socket);
  }

  #closing = false;
  /** Handles the end of listening. */
  #isGone = true;
  #closed(name: string): void {
    // The server may already be listening again.
    if (name !== this.#name) return;
    this.#isGone = true;
    this.#maybeClosed();
  }
  #maybeClosed(): void {
    if (!this.#closing || !this.#isGone || this.#sockets.size > 0) return;
    this.#closing = false;
    queueTick(() => this.emit("close"));
  }

  /** Stops listening. `close` is emitted when the last connection ends. */
  close(done?: (error?: Error) => void): this {
    const wasOpen = this.#abort !== undefined;
    if (typeof done === "function") {
      if (wasOpen) this.once("close", () => done());
      else this.once("close", () => done(coded(Error, "ERR_SERVER_NOT_RUNNING", "Server is not running.")));
    }
    this.#closing = true;
    // Aborts a server that is not listening yet.
    const abort = this.#abort;
    if (this.listening) {
      const left = this.#listening;
      leaving.add(left);
      void left.then(() => leaving.delete(left));
      void call("net", "http", { op: "close", server: this.#name }).catch(() => abort?.abort());
    } else abort?.abort();
    this.#abort = undefined;
    this.listening = false;
    this.#address = null;
    this.#maybeClosed();
    return this;
  }
  async [Symbol.asyncDispose ?? Symbol.for("asyncDispose")](): Promise<void> {
    if (this.#abort) await new Promise<void>((resolve) => this.close(() => resolve()));
  }
  address(): any {
    return this.#address && typeof this.#address === "object" ? { address: this.#address.address, family: this.#address.family, port: this.#address.port } : this.#address;
  }
  getConnections(done: (error: null, count: number) => void): this {
    queueTick(() => done(null, this.#sockets.size));
    return this;
  }
  get _sockets(): Set<any> {
    return this.#sockets;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
}
