/** `pi:node/http/message`: incoming (readable) and outgoing (writable) HTTP messages. */

import { adopting, callable } from "pi:node/callable";
import { checkString, coded, invalidArgType } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { Readable, Writable } from "node:stream";
import { queueTick } from "pi:web/ticks";

const TOKEN = /^[\^_`a-zA-Z\-0-9!#$%&'*+.|~]+$/;
/** Headers that keep their first value. */
const SINGLE = new Set([
  "age", "authorization", "content-length", "content-type", "etag", "expires", "from", "host", "if-modified-since", "if-unmodified-since", "last-modified",
  "location", "max-forwards", "proxy-authorization", "referer", "retry-after", "server", "user-agent",
]);

export function validateHeaderName(name: unknown, label: string = "Header name"): void {
  if (typeof name !== "string" || !TOKEN.test(name)) throw coded(TypeError, "ERR_INVALID_HTTP_TOKEN", `${label} must be a valid HTTP token ["${String(name)}"]`);
}
export function validateHeaderValue(name: string, value: unknown): void {
  if (value === undefined) throw coded(TypeError, "ERR_HTTP_INVALID_HEADER_VALUE", `Invalid value "undefined" for header "${name}"`);
  if (/[^\t\x20-\x7e\x80-\xff]/.test(String(value))) throw coded(TypeError, "ERR_INVALID_CHAR", `Invalid character in header content ["${name}"]`);
}

/** Joins headers by lower-case name, as Node does. */
export function joinHeaders(raw: string[]): Record<string, any> {
  const headers: Record<string, any> = {};
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at]!.toLowerCase();
    const value = raw[at + 1]!;
    if (name === "set-cookie") (headers[name] ??= []).push(value);
    else if (headers[name] === undefined) headers[name] = value;
    else if (!SINGLE.has(name)) headers[name] += name === "cookie" ? `; ${value}` : `, ${value}`;
  }
  return headers;
}

/** A request of a client, or a response of a server. */
export const IncomingMessage = callable(class IncomingMessage extends adopting(Readable as any) {
  httpVersion = "1.1";
  httpVersionMajor = 1;
  httpVersionMinor = 1;
  complete = false;
  aborted = false;
  rawHeaders: string[] = [];
  rawTrailers: string[] = [];
  method: string | null = null;
  url = "";
  statusCode: number | null = null;
  statusMessage: string | null = null;
  socket: any;
  req: any = undefined;
  #headers: Record<string, any> | undefined;

  constructor(socket?: any) {
    super({ autoDestroy: true, highWaterMark: socket?.readableHighWaterMark });
    this.socket = socket;
  }
  get connection(): any {
    return this.socket;
  }
  get headers(): Record<string, any> {
    return (this.#headers ??= joinHeaders(this.rawHeaders));
  }
  set headers(value: Record<string, any>) {
    this.#headers = value;
  }
  get headersDistinct(): Record<string, string[]> {
    const distinct: Record<string, string[]> = {};
    for (let at = 0; at < this.rawHeaders.length; at += 2) (distinct[this.rawHeaders[at]!.toLowerCase()] ??= []).push(this.rawHeaders[at + 1]!);
    return distinct;
  }
  get trailers(): Record<string, any> {
    return joinHeaders(this.rawTrailers);
  }
  setTimeout(ms: number, done?: () => void): this {
    if (done) (this as any).on("timeout", done);
    this.socket?.setTimeout?.(ms);
    return this;
  }
  _read(): void {}
  _destroy(error: any, done: (error?: unknown) => void): void {
    const self = this as any;
    if (!self.readableEnded || !this.complete) {
      this.aborted = true;
      self.emit("aborted");
    }
    if (this.socket && !this.socket.destroyed && this.aborted) this.socket.destroy(error);
    if (!error && self.req && !this.complete) error = coded(Error, "ECONNRESET", "aborted");
    // Without a listener the error is dropped, as in Node.
    queueTick(() => done(self.listenerCount("error") === 0 ? undefined : error));
  }
});
export type IncomingMessage = InstanceType<typeof IncomingMessage>;

/** A message to send. Headers are stored by lower-case name, with their original spelling. */
export abstract class OutgoingMessage extends adopting(Writable as any) {
  headersSent = false;
  sendDate = true;
  finished = false;
  chunkedEncoding = false;
  shouldKeepAlive = true;
  useChunkedEncodingByDefault = true;
  socket: any = null;
  protected _trailers = "";
  /** Names of removed headers, which are not added by default. */
  protected _removed = new Set<string>();
  protected _fields = new Map<string, { name: string; value: any }>();

  /** Creates a message; a request is not destroyed until its response ends. */
  constructor(autoDestroy: boolean) {
    super({ autoDestroy, emitClose: true });
  }
  get connection(): any {
    return this.socket;
  }
  setHeader(name: string, value: any): this {
    if (this.headersSent) throw coded(Error, "ERR_HTTP_HEADERS_SENT", "Cannot set headers after they are sent to the client");
    validateHeaderName(name);
    if (Array.isArray(value)) for (const each of value) validateHeaderValue(name, each);
    else validateHeaderValue(name, value);
    this._fields.set(name.toLowerCase(), { name, value });
    this._removed.delete(name.toLowerCase());
    return this;
  }
  setHeaders(headers: Iterable<[string, any]>): this {
    for (const [name, value] of headers) this.setHeader(name, value);
    return this;
  }
  appendHeader(name: string, value: any): this {
    const known = this.getHeader(name);
    const list = known === undefined ? [] : Array.isArray(known) ? known : [known];
    return this.setHeader(this._fields.get(name.toLowerCase())?.name ?? name, list.concat(value));
  }
  getHeader(name: string): any {
    checkString("name", name);
    return this._fields.get(name.toLowerCase())?.value;
  }
  getHeaders(): Record<string, any> {
    const headers = Object.create(null);
    for (const [name, { value }] of this._fields) headers[name] = value;
    return headers;
  }
  getHeaderNames(): string[] {
    return [...this._fields.keys()];
  }
  getRawHeaderNames(): string[] {
    return [...this._fields.values()].map(({ name }) => name);
  }
  hasHeader(name: string): boolean {
    return this._fields.has(String(name).toLowerCase());
  }
  removeHeader(name: string): void {
    if (this.headersSent) throw coded(Error, "ERR_HTTP_HEADERS_SENT", "Cannot remove headers after they are sent to the client");
    this._fields.delete(String(name).toLowerCase());
    this._removed.add(String(name).toLowerCase());
  }
  /** Adds the trailers of a chunked body. */
  addTrailers(headers: any): void {
    const pairs: [string, any][] = Array.isArray(headers) ? headers : Object.entries(headers);
    for (const [name, value] of pairs) {
      validateHeaderName(name, "Trailer name");
      for (const each of Array.isArray(value) ? value : [value]) {
        if (/[^\t\x20-\x7e\x80-\xff]/.test(String(each))) throw coded(TypeError, "ERR_INVALID_CHAR", `Invalid character in trailer content ["${name}"]`);
        this._trailers += `${name}: ${each}\r\n`;
      }
    }
  }
  setTimeout(ms: number, done?: () => void): this {
    if (done) (this as any).once("timeout", done);
    this.socket?.setTimeout?.(ms);
    return this;
  }

  /** Returns the headers as lines, in the order in which they were set. */
  protected _lines(): string[] {
    const lines: string[] = [];
    for (const { name, value } of this._fields.values()) {
      if (Array.isArray(value) && name.toLowerCase() !== "cookie") for (const each of value) lines.push(`${name}: ${each}`);
      else lines.push(`${name}: ${Array.isArray(value) ? value.join("; ") : value}`);
    }
    return lines;
  }

  /** Writes to the body. A write after the end is a separate error, which does not affect earlier output. */
  write(...args: any[]): any {
    if (!this.finished) return super.write(...args);
    const self = this as any;
    const error = coded(Error, "ERR_STREAM_WRITE_AFTER_END", "write after end");
    const done = args.find((arg) => typeof arg === "function");
    queueTick(() => {
      done?.(error);
      if (!self.destroyed) self.emit("error", error);
    });
    return false;
  }

  end(...args: any[]): any {
    const [chunk] = args;
    if (this.finished) {
      const done = args.find((arg) => typeof arg === "function");
      if (chunk && chunk !== done) this.write(...args);
      else if (done && !this.writableFinished) (this as any).on("finish", done);
      else if (done) done(coded(Error, "ERR_STREAM_ALREADY_FINISHED", "Cannot call end after a stream was finished"));
      return this;
    }
    // A body that consists of one piece has a length instead of chunks.
    if (!this.headersSent && !this.hasHeader("content-length") && !this.hasHeader("transfer-encoding")) {
      const size = chunk === undefined || chunk === null || typeof chunk === "function" ? 0 : typeof chunk === "string" ? Buffer.byteLength(chunk, typeof args[1] === "string" ? args[1] : "utf8") : chunk.byteLength;
      this._knownLength(size);
    }
    this.finished = true;
    return super.end(...args);
  }
  abstract _knownLength(size: number): void;
  get writableFinished(): boolean {
    return (this as any)._writableState.finished;
  }
}

export function badChunk(chunk: unknown): Error {
  return invalidArgType("chunk", "of type string or an instance of Buffer or Uint8Array", chunk);
}
