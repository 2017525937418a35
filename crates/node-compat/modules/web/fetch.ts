/**
 * `pi:web/fetch`: fetch, Request and Response over the `http` hostcall.
 *
 * A response is available as soon as its head is; its body arrives in pieces. A request body that is a stream is also sent
 * in pieces. A refusal or failure rejects with a TypeError `fetch failed` whose cause has Node's message
 * (`pi:web/fetch/failure`).
 */

import { encodeUtf8 } from "pi:engine";
import { attach, bytesOf, call } from "pi:hostcall";
import type { Answer, Params } from "pi:hostcall";
import { AbortController, AbortSignal } from "pi:web/abort";
import { Arriving, Body, chunkBytes, extract } from "pi:web/fetch/body";
import type { BodyInit, Content } from "pi:web/fetch/body";
import { causeOf } from "pi:web/fetch/failure";
import { byteString, oneOf } from "pi:web/fetch/arguments";
import { invalidUrl, localAnswer } from "pi:web/fetch/local";
import { Headers } from "pi:web/headers";
import { URL } from "pi:web/url";

export interface RequestInit {
  method?: string;
  headers?: ConstructorParameters<typeof Headers>[0];
  body?: BodyInit;
  signal?: AbortSignal | null;
  redirect?: "follow" | "error" | "manual";
  [other: string]: unknown;
}

const NORMALISED = ["DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"];
const FORBIDDEN = ["CONNECT", "TRACE", "TRACK"];

function methodOf(given: unknown): string {
  const method = String(given);
  const upper = method.toUpperCase();
  if (!/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(method)) throw new TypeError(`'${method}' is not a valid HTTP method.`);
  if (FORBIDDEN.includes(upper)) throw new TypeError(`'${method}' HTTP method is unsupported.`);
  return NORMALISED.includes(upper) ? upper : method;
}

export class Request extends Body {
  readonly method: string;
  readonly url: string;
  override readonly headers: Headers;
  readonly signal: AbortSignal;
  readonly redirect: "follow" | "error" | "manual";

  constructor(input: string | URL | Request, init: RequestInit = {}) {
    init ??= {};
    const from = input instanceof Request ? input : undefined;
    checkInit(init);
    const upper = methodOf(init.method !== undefined ? init.method : (from?.method ?? "GET"));
    const headers = new Headers(init.headers !== undefined ? init.headers : from?.headers);
    const given = init.body !== undefined ? extract(init.body) : undefined;
    const content = given?.content ?? (init.body === undefined ? (init._copy ? from?._copy() : from?._send()) : undefined);
    if (content && (upper === "GET" || upper === "HEAD")) throw new TypeError("Request with GET/HEAD method cannot have body.");
    if (given && "stream" in given.content && init.duplex !== "half") throw new TypeError("RequestInit: duplex option is required when sending a body.");
    if (given?.type && !headers.has("content-type")) headers.set("content-type", given.type);
    super(content);
    this.method = upper;
    this.url = from ? from.url : parse(String(input));
    this.headers = headers;
    this.signal = init.signal ?? from?.signal ?? AbortSignal.any([]);
    this.redirect = init.redirect ?? from?.redirect ?? "follow";
  }

  clone(): Request {
    return new Request(this, { _copy: true });
  }

  // The following members are constant outside of a browser.
  get cache(): string {
    return "default";
  }
  get credentials(): string {
    return "same-origin";
  }
  get destination(): string {
    return "";
  }
  get duplex(): string {
    return "half";
  }
  get integrity(): string {
    return "";
  }
  get keepalive(): boolean {
    return false;
  }
  get mode(): string {
    return "cors";
  }
  get referrer(): string {
    return "about:client";
  }
  get referrerPolicy(): string {
    return "";
  }
  get [Symbol.toStringTag](): string {
    return "Request";
  }
  [Symbol.for("nodejs.util.inspect.custom")](_depth: number, options: object, inspect: (value: object, options: object) => string): string {
    const { method, url, headers, destination, referrer, referrerPolicy, mode, credentials, cache, redirect, integrity, keepalive, signal } = this;
    const shown = {
      method, url, headers, destination, referrer, referrerPolicy, mode, credentials, cache, redirect, integrity, keepalive,
      isReloadNavigation: false, isHistoryNavigation: false, signal,
    };
    return `Request ${inspect(shown, options)}`;
  }
}

function checkInit({ window, mode, credentials, redirect, duplex, signal }: RequestInit): void {
  if (window !== undefined && window !== null) throw new TypeError("'window' option 'client' must be null");
  oneOf("Request", mode, ["navigate", "same-origin", "no-cors", "cors"]);
  oneOf("Request", credentials, ["omit", "same-origin", "include"]);
  oneOf("Request", redirect, ["follow", "manual", "error"]);
  oneOf("Request", duplex, ["half"]);
  if (signal !== undefined && signal !== null && !(signal instanceof AbortSignal)) {
    throw new TypeError("Failed to construct 'Request': member signal is not of type AbortSignal.");
  }
}

function parse(input: string): string {
  let url: URL;
  try {
    url = new URL(input);
  } catch (cause) {
    // Like Node's wrapped refusals, which have the taxonomy's error as the innermost cause.
    Object.defineProperty(cause, "cause", { value: invalidUrl(input, "an absolute http or https URL is needed"), configurable: true, writable: true });
    throw new TypeError(`Failed to parse URL from ${input}`, { cause });
  }
  if (url.username || url.password) throw new TypeError(`Request cannot be constructed from a URL that includes credentials: ${input}`);
  return url.href;
}

const NULL_BODY_STATUS = [101, 103, 204, 205, 304];

interface ResponseInit {
  status?: number;
  statusText?: string;
  headers?: ConstructorParameters<typeof Headers>[0];
}

export class Response extends Body {
  readonly status: number;
  readonly statusText: string;
  override readonly headers: Headers;
  #url = "";
  #redirected = false;
  #type = "default";

  constructor(body?: BodyInit, init: ResponseInit & { _content?: Content; _received?: boolean; _immutable?: boolean } = {}) {
    init ??= {};
    const status = Number(init.status ?? 200) & 0xffff;
    const statusText = byteString(init.statusText ?? "");
    if (/[^\t\x20-\x7e\x80-\xff]/.test(statusText)) throw new TypeError("Invalid statusText");
    // A server may send any status.
    if (!init._received && (status < 200 || status > 599)) throw new RangeError("init[\"status\"] must be in the range of 200 to 599, inclusive.");
    const given = extract(body);
    if (given && NULL_BODY_STATUS.includes(status)) throw new TypeError(`Response constructor: Invalid response status code ${status}`);
    super(given?.content ?? init._content);
    this.status = status;
    this.statusText = statusText;
    this.headers = init._immutable ? Headers._received(init.headers) : new Headers(init.headers);
    if (given?.type && !this.headers.has("content-type")) this.headers.set("content-type", given.type);
  }

  get ok(): boolean {
    return this.status >= 200 && this.status <= 299;
  }
  get url(): string {
    return this.#url;
  }
  get redirected(): boolean {
    return this.#redirected;
  }
  get type(): string {
    return this.#type;
  }

  clone(): Response {
    if (this.bodyUsed) throw new TypeError("Response.clone: Body has already been consumed.");
    const copy = new Response(null, { status: this.status, statusText: this.statusText, headers: this.headers, _content: this._copy(), _received: true, _immutable: this.#type === "basic" });
    copy.#url = this.#url;
    copy.#redirected = this.#redirected;
    copy.#type = this.#type;
    return copy;
  }

  /** Creates a response from the `http` connector's answer. */
  static _received(content: Content, init: Required<ResponseInit>, url: string, redirected: boolean): Response {
    const response = new Response(null, { ...init, _received: true, _immutable: true, _content: NULL_BODY_STATUS.includes(init.status) ? undefined : content });
    // The fragment is not part of a response's URL.
    response.#url = url.split("#", 1)[0]!;
    response.#redirected = redirected;
    response.#type = "basic";
    return response;
  }

  static json(data: unknown, init: ResponseInit = {}): Response {
    const text = JSON.stringify(data);
    if (text === undefined) throw new TypeError("Value is not JSON serializable");
    const headers = new Headers(init.headers);
    if (!headers.has("content-type")) headers.set("content-type", "application/json");
    return new Response(text, { ...init, headers });
  }

  static redirect(url: string | URL, status: number = 302): Response {
    if (![301, 302, 303, 307, 308].includes(status)) throw new RangeError(`Invalid status code ${status}`);
    let location: string;
    try {
      location = new URL(url).href;
    } catch (cause) {
      throw new TypeError(`Failed to parse URL from ${String(url)}`, { cause });
    }
    return new Response(null, { status, headers: { location } });
  }

  static error(): Response {
    const response = new Response(null, {});
    Object.defineProperty(response, "status", { value: 0 });
    response.#type = "error";
    return response;
  }

  get [Symbol.toStringTag](): string {
    return "Response";
  }
  [Symbol.for("nodejs.util.inspect.custom")](_depth: number, options: object, inspect: (value: object, options: object) => string): string {
    const { status, statusText, headers, body, bodyUsed, ok, redirected, type, url } = this;
    return `Response ${inspect({ status, statusText, headers, body, bodyUsed, ok, redirected, type, url }, options)}`;
  }
}

let uploads = 0;

/** Sends the pieces of a body in order. Each waits until the connection accepts the previous one. */
async function upload(id: string, stream: any, signal: AbortSignal): Promise<void> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const bytes: Uint8Array[] = [];
      await call("http", "http", { op: "send", upload: id, data: attach(bytes, chunkBytes(value)) }, { bytes, signal });
    }
    await call("http", "http", { op: "finish", upload: id }, { signal });
  } catch (error) {
    void reader.cancel(error).catch(() => {});
    throw error;
  }
}

/** Sends a request. Resolves for every HTTP status as soon as the head arrives. */
export function fetch(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
  return exchange(input, init, true);
}

/** Headers that fetch sends by default. */
const USUAL: [string, string][] = [["accept", "*/*"], ["accept-language", "*"], ["sec-fetch-mode", "cors"], ["user-agent", "node"]];

/** Ports of other services, to which fetch refuses to connect. */
const BAD_PORTS =
  " 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123 135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665 6666 6667 6668 6669 6679 6697 10080 ";

/** Methods whose request declares an empty body. */
const EXPECTING = ["PATCH", "POST", "PROPFIND", "PROPPATCH", "PUT", "QUERY"];

function portOf(url: string): string {
  const { port, protocol } = new URL(url);
  return protocol === "http:" || protocol === "https:" ? port : "";
}

/** Sends a request. With `isFetch`, the response is decoded and the request gets fetch's default headers. */
export function exchange(input: string | URL | Request, init: RequestInit, isFetch: boolean): Promise<Response> {
  return new Promise((resolve, reject) => {
    const request = new Request(input, init);
    request.signal.throwIfAborted();
    if (isFetch && BAD_PORTS.includes(` ${portOf(request.url)} `)) throw new TypeError("fetch failed", { cause: new Error("bad port") });
    const local = localAnswer(request.url);
    if (local instanceof Error) throw new TypeError("fetch failed", { cause: local });
    if (local) return resolve(Response._received({ bytes: local.bytes }, { status: 200, statusText: "OK", headers: { "content-type": local.type } }, request.url, false));
    const bytes: Uint8Array[] = [];
    const headers = [...request.headers];
    if (isFetch) headers.push(...USUAL.filter(([name]) => !request.headers.has(name)));
    const params: Extract<Params<"http">, { url: string; op?: null }> = { url: request.url, method: request.method, headers, redirect: request.redirect, decode: isFetch, stream: true };
    const content = request._send();
    const isEmpty = !content || ("bytes" in content && content.bytes.length === 0);
    if (isFetch && isEmpty && EXPECTING.includes(request.method) && !request.headers.has("content-length")) headers.push(["content-length", "0"]);
    const id = `upload-${(uploads += 1)}`;
    if (content && "bytes" in content) params.body = attach(bytes, content.bytes);
    else if (content) params.upload = id;

    const stopped = new AbortController();
    const signal = AbortSignal.any([request.signal, stopped.signal]);
    const arriving = new Arriving((reason) => stopped.abort(reason));
    let isThere = false;
    const head = ({ output }: Answer) => {
      const details = { status: output.status, statusText: output.statusText ?? "", headers: output.headers };
      resolve(Response._received(isFetch && request.method === "HEAD" ? undefined : { arriving }, details, output.url ?? request.url, Boolean(output.redirected)));
      isThere = true;
    };
    const body = (answer: Answer) => {
      const { body: piece } = answer.output ?? {};
      if (piece === undefined || piece === null) return;
      arriving.add(bytesOf(answer, piece) ?? encodeUtf8(String(piece)));
    };
    const onChunk = (chunk: Answer) => {
      try {
        if (!isThere && chunk.output?.status !== undefined) head(chunk);
        else if (isThere) body(chunk);
      } catch (error) {
        broken(error);
      }
    };
    // Settles the promise, whatever the server sends.
    const broken = (cause: unknown) => {
      stopped.abort(new TypeError(isThere ? "terminated" : "fetch failed", { cause }));
      fail(cause);
    };
    const fail = (cause: unknown) => {
      const error = request.signal.aborted ? request.signal.reason : stopped.signal.aborted ? stopped.signal.reason : new TypeError(isThere ? "terminated" : "fetch failed", { cause: causeOf(cause, request.url) });
      if (isThere) arriving.end(error);
      else reject(error);
    };
    let whole = false;
    call("http", "http", params, { bytes, signal, onChunk: (chunk) => { whole = chunk.isLast; onChunk(chunk); } }).then((answer) => {
      // A connector without streaming answers in one message.
      try {
        if (!isThere) head(answer), body(answer);
        else if (!whole) body(answer);
        arriving.end();
      } catch (error) {
        broken(error);
      }
    }, fail);
    if (content && !("bytes" in content)) {
      upload(id, (content as { stream: any }).stream, signal).catch((error) => {
        stopped.abort(error);
        fail(error);
      });
    }
  });
}
