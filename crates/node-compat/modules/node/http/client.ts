/**
 * `pi:node/http/client`: requests. Requests to this machine use `node:net`, so that an extension reaches its own server; all
 * others are `http` hostcalls, with TLS, limits and address checks of the host.
 */

import { encodeUtf8 } from "pi:engine";
import { attach, bytesOf, call } from "pi:hostcall";
import type { Answer, Params } from "pi:hostcall";
import { AbortError, coded, invalidArgType } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { IncomingMessage, OutgoingMessage, validateHeaderName } from "pi:node/http/message";
import { Parser } from "pi:node/http/parser";
import { netError } from "pi:node/net/socket";
import { REQUESTS, Socket } from "pi:node/net/socket";
import { AbortController } from "pi:web/abort";
import { URL } from "pi:web/url";
import { queueTick } from "pi:web/ticks";
import { clearTimeout, setTimeout } from "pi:web/timers";

type Done = (error?: unknown) => void;

const isHere = (host: string) => /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/i.test(host);

/** Reads the options of `(url, options?, callback?)`. */
export function optionsOf(input: any, rest: any[], protocol: string): { options: any; done: any } {
  const done = typeof rest.at(-1) === "function" ? rest.pop() : undefined;
  let options: any = {};
  if (typeof input === "string" || typeof input?.href === "string") {
    const url = new URL(String(input.href ?? input));
    options = {
      protocol: url.protocol, hostname: url.hostname, path: `${url.pathname}${url.search}`, ...(url.port !== "" && { port: Number(url.port) }),
      ...((url.username || url.password) && { auth: `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}` }), ...rest[0],
    };
  } else options = { ...input, ...(rest[0] ?? {}) };
  options.protocol ??= protocol;
  if (options.protocol !== "http:" && options.protocol !== "https:") {
    throw coded(TypeError, "ERR_INVALID_PROTOCOL", `Protocol "${options.protocol}" not supported. Expected "${protocol}"`);
  }
  return { options, done };
}

let uploads = 0;

export class ClientRequest extends OutgoingMessage {
  method: string;
  path: string;
  host: string;
  protocol: string;
  aborted = false;
  reusedSocket = false;
  maxHeadersCount: number | null = null;
  res: any = null;
  #port: number;
  #socketPath: string | undefined;
  #abort = new AbortController();
  #upload: string | undefined;
  #first: Buffer | undefined;
  #started = false;
  #timer: unknown;

  constructor(options: any, done?: (response: IncomingMessage) => void) {
    super(false);
    this.method = String(options.method ?? "GET").toUpperCase();
    validateHeaderName(this.method, "Method");
    this.protocol = options.protocol;
    this.path = options.path ?? "/";
    if (/[\x00-\x20]|[^\x00-\xff]/.test(this.path)) throw coded(TypeError, "ERR_UNESCAPED_CHARACTERS", "Request path contains unescaped characters");
    const host = options.hostname ?? options.host ?? "localhost";
    if (typeof host !== "string") throw invalidArgType("options.hostname", "of type string", host);
    this.host = host;
    const usual = this.protocol === "https:" ? 443 : 80;
    this.#port = Number(options.port || options.defaultPort || usual);
    this.#socketPath = options.socketPath;
    const headers = options.headers ?? {};
    for (const [name, value] of Array.isArray(headers) ? headers : Object.entries(headers)) if (value !== undefined) this.setHeader(name, value);
    if (!this.hasHeader("host") && options.setHost !== false) this.setHeader("Host", `${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}${this.#port === usual ? "" : `:${this.#port}`}`);
    if (options.auth && !this.hasHeader("authorization")) this.setHeader("Authorization", `Basic ${Buffer.from(options.auth).toString("base64")}`);
    const self = this as any;
    if (done) self.once("response", done);
    if (options.timeout) this.setTimeout(options.timeout);
    options.signal?.addEventListener("abort", () => this.#stop(options.signal.reason), { once: true });
    if (options.signal?.aborted) queueTick(() => this.#stop(options.signal.reason));
  }

  #stop(reason: unknown): void {
    (this as any).destroy(new AbortError({ cause: reason }));
  }
  abort(): void {
    if (this.aborted) return;
    this.aborted = true;
    queueTick(() => (this as any).emit("abort"));
    (this as any).destroy();
  }
  override setTimeout(ms: number, done?: () => void): this {
    const self = this as any;
    if (done) self.once("timeout", done);
    clearTimeout(this.#timer);
    if (ms > 0) this.#timer = setTimeout(() => self.emit("timeout"), ms);
    return this;
  }
  setNoDelay(): void {}
  setSocketKeepAlive(): void {}
  flushHeaders(): void {
    if (!this.#started) this.#start(undefined);
  }
  _knownLength(size: number): void {
    if (size > 0 || !["GET", "HEAD", "DELETE", "OPTIONS"].includes(this.method)) this.setHeader("Content-Length", size);
  }

  _write(chunk: Buffer, _encoding: string, done: Done): void {
    // A body that consists of one piece needs no upload.
    const declared = this.getHeader("content-length");
    if (!this.#started && declared !== undefined && Number(declared) === chunk.length) {
      this.#first = chunk;
      return done();
    }
    if (!this.#started) this.#start(undefined);
    this.#send(chunk, done);
  }
  _final(done: Done): void {
    if (!this.#started) {
      this.#start(this.#first ?? Buffer.alloc(0));
      return done();
    }
    this.#finish(done);
  }
  _destroy(error: any, done: Done): void {
    clearTimeout(this.#timer);
    const self = this as any;
    if (this.res && !this.res.complete) this.res.destroy(error);
    this.#abort.abort();
    this.socket?.destroy();
    if (!error && !this.res && !this.aborted) error = coded(Error, "ECONNRESET", "socket hang up");
    else if (!error && !this.res) error = coded(Error, "ECONNRESET", "socket hang up");
    if (self._answered) error = null;
    done(error);
  }

  #send!: (chunk: Buffer, done: Done) => void;
  #finish!: (done: Done) => void;

  /** Sends the head, together with the body if the whole body is known. */
  #start(body: Buffer | undefined): void {
    this.#started = true;
    if (this.#socketPath !== undefined || (this.protocol === "http:" && isHere(this.host))) this.#overSocket(body);
    else this.#overHost(body);
    this.headersSent = true;
  }

  #respond(message: any): void {
    const self = this as any;
    clearTimeout(this.#timer);
    this.res = message;
    message.req = this;
    self._answered = true;
    message.once("close", () => {
      if (!self.destroyed && self.writableFinished) self.destroy();
    });
    if (!self.emit("response", message)) message.resume();
  }

  #overSocket(body: Buffer | undefined): void {
    const self = this as any;
    const socket: any = new Socket();
    this.socket = socket;
    if (body === undefined && !this.hasHeader("content-length")) {
      this.setHeader("Transfer-Encoding", "chunked");
      this.chunkedEncoding = true;
    }
    if (!this.hasHeader("connection")) this.setHeader("Connection", "close");
    const isUpgrade = /\bupgrade\b/i.test(String(this.getHeader("connection")));
    let message: any;
    const parser: Parser = new Parser(
      {
        head: ({ start, rawHeaders }) => {
          const line = /^HTTP\/1\.([01]) (\d{3})(?: (.*))?$/.exec(start);
          if (!line) throw coded(Error, "HPE_INVALID_CONSTANT", "Parse Error: Expected HTTP/");
          const status = Number(line[2]);
          if (status >= 100 && status < 200 && status !== 101) {
            self.emit(status === 100 ? "continue" : "information", { statusCode: status });
            message = undefined;
            return "none";
          }
          message = new IncomingMessage(socket);
          Object.assign(message, { rawHeaders, statusCode: status, statusMessage: line[3] ?? "", httpVersion: `1.${line[1]}`, httpVersionMinor: Number(line[1]) });
          if (status === 101 && isUpgrade) {
            socket.removeListener("data", onData);
            message.complete = true;
            self._answered = true;
            queueTick(() => {
              if (!self.emit("upgrade", message, socket, parser.rest)) socket.destroy();
            });
            return "upgrade";
          }
          this.#respond(message);
          return this.method === "HEAD" || status === 204 || status === 304 ? "none" : "body";
        },
        body: (bytes) => message?.push(bytes),
        end: (trailers) => {
          if (!message) return;
          message.complete = true;
          message.rawTrailers = trailers;
          message.push(null);
          if (!isUpgrade) socket.end();
        },
      },
      true,
    );
    const onData = (bytes: Buffer) => {
      try {
        parser.execute(bytes);
      } catch (error) {
        self.destroy(error);
      }
    };
    socket.on("data", onData);
    socket.on("end", () => {
      try {
        parser.finish();
      } catch {
        message?.destroy(coded(Error, "ECONNRESET", "aborted"));
      }
      if (!message) self.destroy(coded(Error, "ECONNRESET", "socket hang up"));
    });
    socket.on("error", (error: unknown) => {
      if (message) message.destroy(error);
      else self.destroy(error);
    });
    socket.on("timeout", () => self.emit("timeout"));
    queueTick(() => self.emit("socket", socket));
    if (this.#socketPath !== undefined) socket.connect({ path: this.#socketPath });
    else socket.connect({ port: this.#port, host: this.host.replace(/^\[|\]$/g, ""), [REQUESTS]: true });
    socket.write(`${this.method} ${this.path} HTTP/1.1\r\n${this._lines().join("\r\n")}\r\n\r\n`, "latin1");
    if (body && body.length > 0) socket.write(body);
    this.#send = (chunk, done) => {
      if (!this.chunkedEncoding) return void socket.write(chunk, done);
      socket.write(`${chunk.length.toString(16)}\r\n`, "latin1");
      socket.write(chunk);
      socket.write("\r\n", "latin1", done);
    };
    this.#finish = (done) => {
      if (this.chunkedEncoding) socket.write(`0\r\n${this._trailers}\r\n`, "latin1", () => done());
      else done();
    };
  }

  #overHost(body: Buffer | undefined): void {
    const self = this as any;
    const { signal } = this.#abort;
    const bytes: Uint8Array[] = [];
    const headers = this._lines().map((line): [string, string] => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]).filter(([name]) => !/^(?:host|connection|content-length|transfer-encoding)$/i.test(name!));
    const port = this.#port === (this.protocol === "https:" ? 443 : 80) ? "" : `:${this.#port}`;
    const params: Extract<Params<"http">, { url: string; op?: null }> = { url: `${this.protocol}//${this.host}${port}${this.path}`, method: this.method, headers, redirect: "manual", stream: true };
    if (body === undefined) params.upload = this.#upload = `request-${(uploads += 1)}`;
    else if (body.length > 0) params.body = attach(bytes, new Uint8Array(body.buffer, body.byteOffset, body.byteLength));
    let message: any;
    const onChunk = (answer: Answer) => {
      const { output } = answer;
      if (!message && output?.status !== undefined) {
        message = new IncomingMessage(undefined);
        Object.assign(message, { statusCode: output.status, statusMessage: output.statusText ?? "", rawHeaders: output.headers.flat() });
        this.#respond(message);
      }
      const piece = output?.body;
      if (message && piece !== undefined && piece !== null) {
        const data = bytesOf(answer, piece) ?? encodeUtf8(String(piece));
        if (data.length > 0 && !message.destroyed) message.push(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
      }
    };
    call("http", "http", params, { bytes, signal, onChunk }).then(
      (answer) => {
        if (!message) onChunk(answer);
        message.complete = true;
        message.push(null);
      },
      (failure) => {
        if (signal.aborted) return;
        const error = netError(failure, "connect", { host: this.host, port: this.#port });
        if (message) message.destroy(error);
        else self.destroy(error);
      },
    );
    this.#send = (chunk, done) => {
      const data: Uint8Array[] = [];
      const params: Params<"http"> = { op: "send", upload: this.#upload!, data: attach(data, new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength)) };
      call("http", "http", params, { bytes: data, signal }).then(() => done(), (failure) => done(netError(failure, "write", {})));
    };
    this.#finish = (done) => {
      call("http", "http", { op: "finish", upload: this.#upload! }, { signal }).then(() => done(), (failure) => done(netError(failure, "write", {})));
    };
  }
}
