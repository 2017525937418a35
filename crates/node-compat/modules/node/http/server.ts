/** `pi:node/http/server`: an HTTP server over `node:net`. */

import { elapsedMs, epochMs } from "pi:engine";
import { callable } from "pi:node/callable";
import { coded } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { IncomingMessage, OutgoingMessage } from "pi:node/http/message";
import { Parser } from "pi:node/http/parser";
import type { Head } from "pi:node/http/parser";
import { STATUS_CODES } from "pi:node/http/status";
import { Server as NetServer } from "pi:node/net/server";
import { queueTick } from "pi:web/ticks";
import { clearTimeout, setTimeout } from "pi:web/timers";
import type { Timeout } from "pi:web/timers";

type Done = (error?: unknown) => void;

/** Status of the response to each kind of invalid request; 400 for others. */
const STATUS_OF: Record<string, number> = { HPE_HEADER_OVERFLOW: 431, ERR_HTTP_REQUEST_TIMEOUT: 408 };

/** Returns whether a response cannot have a body. */
const bodiless = (method: string, status: number) => method === "HEAD" || status === 204 || status === 304 || (status >= 100 && status < 200);

export const ServerResponse = callable(class ServerResponse extends OutgoingMessage {
  statusCode = 200;
  statusMessage: string | undefined = undefined;
  req: IncomingMessage;
  strictContentLength = false;
  #over: () => void = () => {};

  constructor(request: IncomingMessage) {
    super(true);
    this.req = request;
    this.shouldKeepAlive = request.httpVersionMinor === 1 ? !/\bclose\b/i.test(request.headers.connection ?? "") : /\bkeep-alive\b/i.test(request.headers.connection ?? "");
  }

  assignSocket(socket: any, over: () => void = () => {}): void {
    this.socket = socket;
    this.#over = over;
  }
  writeHead(status: number, reason?: any, headers?: any): this {
    if (this.headersSent) throw coded(Error, "ERR_HTTP_HEADERS_SENT", "Cannot write headers after they are sent to the client");
    if (!(Number.isInteger(status) && status >= 100 && status <= 999)) throw coded(RangeError, "ERR_HTTP_INVALID_STATUS_CODE", `Invalid status code: ${status}`);
    if (typeof reason !== "string") [headers, reason] = [reason ?? headers, undefined];
    this.statusCode = status;
    if (reason !== undefined) {
      this.statusMessage = reason;
      if (/[^\t\x20-\x7e\x80-\xff]/.test(reason)) throw coded(TypeError, "ERR_INVALID_CHAR", "Invalid character in statusMessage");
    }
    const pairs: [string, any][] = Array.isArray(headers)
      ? Array.isArray(headers[0]) ? headers : Array.from({ length: headers.length / 2 }, (_, at) => [headers[at * 2], headers[at * 2 + 1]])
      : Object.entries(headers ?? {});
    for (const [name, value] of pairs) if (value !== undefined) this.setHeader(name, value);
    // From here on the head is fixed, as in Node: a length that is not among the headers is unknown.
    this.#storeHead();
    return this;
  }
  writeContinue(done?: Done): void {
    this.socket?.write("HTTP/1.1 100 Continue\r\n\r\n", done);
  }
  writeProcessing(done?: Done): void {
    this.socket?.write("HTTP/1.1 102 Processing\r\n\r\n", done);
  }
  writeEarlyHints(): void {}
  flushHeaders(): void {
    this.#sendHead();
  }
  _knownLength(size: number): void {
    this.#length = size;
  }
  /** Length of the body, if it is complete before the head is sent. */
  #length: number | undefined;
  /** Milliseconds for which the connection waits for the next request; 0 omits the header. */
  _keepsFor = 0;

  #head: string | undefined;

  #storeHead(): void {
    if (this.headersSent) return;
    // `getHeaders` does not include the headers that Node adds.
    const added: string[] = [];
    const isLeft = (name: string) => !this.hasHeader(name) && !this._removed.has(name);
    if (this.sendDate && isLeft("date")) added.push(`Date: ${new Date(epochMs()).toUTCString()}`);
    const framed = this.hasHeader("content-length") || this.hasHeader("transfer-encoding") || bodiless(this.req.method!, this.statusCode);
    const isSized = !framed && this.#length !== undefined && isLeft("content-length");
    const isChunked = !framed && !isSized && this.req.httpVersionMinor === 1 && isLeft("transfer-encoding");
    // The end of the connection marks the end of such a body.
    if (!framed && !isSized && !isChunked) this.shouldKeepAlive = false;
    if (this.hasHeader("connection")) this.shouldKeepAlive &&= !/\bclose\b/i.test(String(this.getHeader("connection")));
    else if (isLeft("connection")) {
      added.push(`Connection: ${this.shouldKeepAlive ? "keep-alive" : "close"}`);
      if (this.shouldKeepAlive && this._keepsFor > 0 && !this.hasHeader("keep-alive")) added.push(`Keep-Alive: timeout=${Math.floor(this._keepsFor / 1000)}`);
    }
    if (isSized) added.push(`Content-Length: ${this.#length}`);
    if (isChunked) added.push("Transfer-Encoding: chunked");
    this.chunkedEncoding = isChunked || /\bchunked\b/i.test(String(this.getHeader("transfer-encoding") ?? ""));
    const reason = (this.statusMessage ??= STATUS_CODES[this.statusCode] ?? "unknown");
    this.#head = `HTTP/1.1 ${this.statusCode} ${reason}\r\n${[...this._lines(), ...added].join("\r\n")}\r\n\r\n`;
    this.headersSent = true;
  }
  /** Returns whether output still reaches a client. */
  get #reaches(): boolean {
    return Boolean(this.socket) && !this.socket.destroyed && !this.socket.writableEnded;
  }
  #sendHead(): void {
    this.#storeHead();
    if (this.#head !== undefined && this.#reaches) this.socket.write(this.#head, "latin1");
    this.#head = undefined;
  }
  _write(chunk: Buffer, _encoding: string, done: Done): void {
    this.#sendHead();
    if (!this.#reaches || bodiless(this.req.method!, this.statusCode)) return done();
    // A closed connection is not an error of the response.
    const written = () => done();
    if (!this.chunkedEncoding) return void this.socket.write(chunk, written);
    this.socket.write(`${chunk.length.toString(16)}\r\n`, "latin1");
    this.socket.write(chunk);
    this.socket.write("\r\n", "latin1", written);
  }
  _final(done: Done): void {
    this.#sendHead();
    const finish = () => {
      done();
      this.#over();
    };
    if (!this.#reaches) return finish();
    if (this.chunkedEncoding && !bodiless(this.req.method!, this.statusCode)) this.socket.write(`0\r\n${this._trailers}\r\n`, "latin1", finish);
    else finish();
  }
  _destroy(error: unknown, done: Done): void {
    if (!(this as any).writableFinished && this.socket && !this.socket.destroyed) this.socket.destroy();
    done(error);
  }
});
export type ServerResponse = InstanceType<typeof ServerResponse>;

export const Server = callable(class Server extends NetServer {
  timeout = 0;
  keepAliveTimeout = 5000;
  headersTimeout = 60000;
  requestTimeout = 300000;
  maxHeadersCount: number | null = null;
  maxRequestsPerSocket = 0;
  #checksEvery = 30000;
  #check: Timeout | undefined;

  constructor(options?: any, onRequest?: any) {
    if (typeof options === "function") [onRequest, options] = [options, {}];
    super({ ...options, allowHalfOpen: true });
    this.requestTimeout = options?.requestTimeout ?? this.requestTimeout;
    this.headersTimeout = options?.headersTimeout ?? Math.min(this.headersTimeout, this.requestTimeout || this.headersTimeout);
    this.keepAliveTimeout = options?.keepAliveTimeout ?? this.keepAliveTimeout;
    this.#checksEvery = options?.connectionsCheckingInterval ?? this.#checksEvery;
    if (onRequest) this.on("request", onRequest);
    this.on("connection", (socket) => {
      serve(this, socket);
      this.#check ??= this.#laterCheck();
    });
  }
  /** Schedules checks that close connections whose request takes too long, while connections exist. */
  #laterCheck(): Timeout {
    const check = () => {
      const now = elapsedMs();
      for (const socket of [...this._sockets]) socket._late?.(now);
      this.#check = this._sockets.size > 0 ? this.#laterCheck() : undefined;
    };
    return setTimeout(check, this.#checksEvery).unref();
  }
  setTimeout(ms: number, done?: () => void): this {
    this.timeout = ms;
    if (done) this.on("timeout", done);
    return this;
  }
  closeAllConnections(): void {
    for (const socket of [...this._sockets]) socket.destroy();
  }
  closeIdleConnections(): void {
    for (const socket of [...this._sockets]) if (socket._idle) socket.destroy();
  }
  override close(done?: (error?: Error) => void): this {
    super.close(done);
    this.closeIdleConnections();
    if (this._sockets.size === 0) {
      clearTimeout(this.#check);
      this.#check = undefined;
    }
    return this;
  }
});
export type Server = InstanceType<typeof Server>;

/** Serves the requests of one connection in order. A request waits until the previous one is answered. */
function serve(server: Server, socket: any): void {
  let request: IncomingMessage | undefined;
  const waiting: (() => void)[] = [];
  let busy = false;
  socket._idle = true;
  /** Start time of the arriving request; 0 if none arrives. A new connection starts with a request. */
  let began = elapsedMs() || 1;
  let headed = false;
  let rest: Timeout | undefined;
  socket._late = (now: number) => {
    const isOver = (most: number) => began > 0 && most > 0 && now - began > most;
    if (isOver(server.requestTimeout) || (!headed && isOver(server.headersTimeout))) {
      began = 0;
      fail(coded(Error, "ERR_HTTP_REQUEST_TIMEOUT", "Request timeout"));
    }
  };
  if (server.timeout > 0) {
    socket.setTimeout(server.timeout, () => {
      if (!server.emit("timeout", socket)) socket.destroy();
    });
  }
  const next = () => {
    busy = false;
    const start = waiting.shift();
    if (start) start();
    else {
      socket._idle = true;
      if (server.keepAliveTimeout > 0 && !socket.destroyed) rest = setTimeout(() => socket.destroy(), server.keepAliveTimeout).unref();
    }
  };
  const parser = new Parser(
    {
      head({ start, rawHeaders }: Head) {
        const line = /^([A-Z-]+) (\S+) HTTP\/1\.([01])$/.exec(start);
        if (!line) throw coded(Error, "HPE_INVALID_METHOD", "Parse Error: Invalid method encountered");
        const message: any = (request = new IncomingMessage(socket));
        Object.assign(message, { method: line[1], url: line[2], rawHeaders, httpVersion: `1.${line[3]}`, httpVersionMinor: Number(line[3]) });
        socket._idle = false;
        headed = true;
        const isUpgrade = /\bupgrade\b/i.test(message.headers.connection ?? "") && message.headers.upgrade !== undefined;
        if ((isUpgrade || line[1] === "CONNECT") && server.listenerCount(line[1] === "CONNECT" ? "connect" : "upgrade") > 0) {
          socket.removeListener("data", onData);
          began = 0;
          message.complete = true;
          message.push(null);
          queueTick(() => server.emit(line[1] === "CONNECT" ? "connect" : "upgrade", message, socket, parser.rest));
          return "upgrade";
        }
        const begin = () => {
          busy = true;
          const response: any = new ServerResponse(message);
          response._keepsFor = server.keepAliveTimeout;
          response.assignSocket(socket, () => {
            if (!response.shouldKeepAlive) socket.end();
            else if (!message.complete) message.resume();
            next();
          });
          // The close of its connection destroys a response, finished or not.
          socket.once("close", () => response.destroy());
          const expects = /100-continue/i.test(message.headers.expect ?? "");
          if (expects && server.listenerCount("checkContinue") > 0) server.emit("checkContinue", message, response);
          else {
            if (expects) response.writeContinue();
            server.emit("request", message, response);
          }
        };
        if (busy) waiting.push(begin);
        else begin();
        return "body";
      },
      body(bytes) {
        (request as any)?.push(bytes);
      },
      end(trailers) {
        const message: any = request;
        if (!message) return;
        began = 0;
        message.complete = true;
        message.rawTrailers = trailers;
        message.push(null);
      },
    },
    false,
  );
  const fail = (error: any) => {
    if (server.listenerCount("clientError") > 0) server.emit("clientError", error, socket);
    else if (!socket.destroyed) {
      const status = STATUS_OF[error?.code] ?? 400;
      socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\n\r\n`, () => socket.destroy());
      leave();
    }
  };
  const onData = (bytes: Buffer) => {
    clearTimeout(rest);
    if (began === 0) [began, headed] = [elapsedMs() || 1, false];
    try {
      parser.execute(bytes);
    } catch (error) {
      socket.removeListener("data", onData);
      fail(error);
    }
  };
  socket.on("data", onData);
  socket.on("error", (error: any) => {
    if (server.listenerCount("clientError") > 0) server.emit("clientError", error, socket);
  });
  /** Aborts the pending requests of a client that has disconnected. */
  const leave = () => {
    const message: any = request;
    if (message && !message.destroyed && (busy || !message.complete)) message.destroy(coded(Error, "ECONNRESET", "aborted"));
  };
  socket.on("end", () => {
    leave();
    socket.end();
  });
  socket.on("close", () => {
    clearTimeout(rest);
    leave();
  });
}
