/**
 * `pi:web/fetch`: fetch, Request and Response over the `http` hostcall.
 *
 * The body of a response arrives whole and is read with text, json, bytes, arrayBuffer, blob or
 * formData; `body` as a stream comes with web streams, and reading it says so. A refusal or failure
 * rejects with a TypeError `fetch failed` whose cause is the hostcall's error, as Node's does with
 * its network error.
 */

import { decodeUtf8, encodeUtf8, fillRandom } from "pi:engine";
import { attach, bytesOf, call } from "pi:hostcall";
import { AbortSignal } from "pi:web/abort";
import { BYTES, Blob, FormData, encodeForm } from "pi:web/blob";
import { viewOf } from "pi:web/encoding";
import { Headers } from "pi:web/headers";
import { URL, URLSearchParams } from "pi:web/url";

type BodyInit = string | ArrayBuffer | ArrayBufferView | Blob | FormData | URLSearchParams | null | undefined;

export interface RequestInit {
  method?: string;
  headers?: ConstructorParameters<typeof Headers>[0];
  body?: BodyInit;
  signal?: AbortSignal | null;
  redirect?: "follow" | "error" | "manual";
  [other: string]: unknown;
}

interface Extracted {
  bytes: Uint8Array;
  type: string | undefined;
}

function extract(body: BodyInit): Extracted | undefined {
  if (body === null || body === undefined) return undefined;
  if (typeof body === "string") return { bytes: encodeUtf8(body.toWellFormed()), type: "text/plain;charset=UTF-8" };
  if (body instanceof URLSearchParams) {
    return { bytes: encodeUtf8(body.toString()), type: "application/x-www-form-urlencoded;charset=UTF-8" };
  }
  if (body instanceof Blob) return { bytes: body[BYTES], type: body.type || undefined };
  if (body instanceof FormData) {
    const random = new Uint8Array(6);
    fillRandom(random);
    const boundary = `----formdata-pijs-0${[...random].map((byte) => byte % 10).join("")}`;
    return { bytes: encodeForm(body, boundary), type: `multipart/form-data; boundary=${boundary}` };
  }
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return { bytes: viewOf(body).slice(), type: undefined };
  if (typeof (body as any)[Symbol.asyncIterator] === "function" || typeof (body as any).getReader === "function") {
    throw new TypeError("A stream as a request body is not available in a PiJS realm yet; pass a string or bytes");
  }
  return { bytes: encodeUtf8(String(body).toWellFormed()), type: "text/plain;charset=UTF-8" };
}

/** What Request and Response share: one body that is read once. */
class Body {
  #bytes: Uint8Array | undefined;
  #used = false;
  declare readonly headers: Headers;

  constructor(bytes: Uint8Array | undefined) {
    this.#bytes = bytes;
  }

  get bodyUsed(): boolean {
    return this.#used;
  }

  get body(): null {
    if (this.#bytes === undefined) return null;
    throw new TypeError("Reading a body as a stream is not available in a PiJS realm yet; use text(), json() or arrayBuffer()");
  }

  async bytes(): Promise<Uint8Array> {
    return this.#take().slice();
  }
  async arrayBuffer(): Promise<ArrayBuffer> {
    return this.#take().slice().buffer as ArrayBuffer;
  }
  async text(): Promise<string> {
    return decodeUtf8(this.#take(), false, false);
  }
  async json(): Promise<any> {
    return JSON.parse(decodeUtf8(this.#take(), false, false));
  }
  async blob(): Promise<Blob> {
    return new Blob([this.#take()], { type: this.headers.get("content-type") ?? "" });
  }
  async formData(): Promise<FormData> {
    const type = this.headers.get("content-type") ?? "";
    if (!type.startsWith("application/x-www-form-urlencoded")) {
      throw new TypeError(`formData() reads application/x-www-form-urlencoded bodies only; this one is ${type || "untyped"}`);
    }
    const form = new FormData();
    for (const [name, value] of new URLSearchParams(decodeUtf8(this.#take(), false, false))) form.append(name, value);
    return form;
  }

  /** The unread bytes, for a copy of this object. */
  _peek(): Uint8Array | undefined {
    if (this.#used) throw new TypeError("Body is unusable: Body has already been read");
    return this.#bytes;
  }

  #take(): Uint8Array {
    if (this.#used) throw new TypeError("Body is unusable: Body has already been read");
    this.#used = this.#bytes !== undefined;
    return this.#bytes ?? new Uint8Array(0);
  }
}

const NORMALISED = ["DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"];

export class Request extends Body {
  readonly method: string;
  readonly url: string;
  override readonly headers: Headers;
  readonly signal: AbortSignal;
  readonly redirect: "follow" | "error" | "manual";

  constructor(input: string | URL | Request, init: RequestInit = {}) {
    const from = input instanceof Request ? input : undefined;
    const method = String(init.method ?? from?.method ?? "GET");
    const upper = NORMALISED.includes(method.toUpperCase()) ? method.toUpperCase() : method;
    const headers = new Headers(init.headers ?? from?.headers);
    const content = init.body !== undefined ? extract(init.body) : undefined;
    const bytes = content?.bytes ?? (init.body === undefined ? from?._peek() : undefined);
    if (bytes && (upper === "GET" || upper === "HEAD")) throw new TypeError("Request with GET/HEAD method cannot have body.");
    if (content?.type && !headers.has("content-type")) headers.set("content-type", content.type);
    super(bytes);
    this.method = upper;
    this.url = from ? from.url : parse(String(input));
    this.headers = headers;
    this.signal = init.signal ?? from?.signal ?? AbortSignal.any([]);
    this.redirect = init.redirect ?? from?.redirect ?? "follow";
  }

  clone(): Request {
    return new Request(this);
  }
  get [Symbol.toStringTag](): string {
    return "Request";
  }
}

function parse(input: string): string {
  let url: URL;
  try {
    url = new URL(input);
  } catch (cause) {
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

  constructor(body?: BodyInit, init: ResponseInit = {}) {
    const status = init.status ?? 200;
    if (status < 200 || status > 599) throw new RangeError("init[\"status\"] must be in the range of 200 to 599, inclusive.");
    const content = extract(body);
    if (content && NULL_BODY_STATUS.includes(status)) throw new TypeError(`Response constructor: Invalid response status code ${status}`);
    super(content?.bytes);
    this.status = status;
    this.statusText = init.statusText ?? "";
    this.headers = new Headers(init.headers);
    if (content?.type && !this.headers.has("content-type")) this.headers.set("content-type", content.type);
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
    const bytes = this._peek();
    const copy = new Response(bytes, { status: this.status, statusText: this.statusText, headers: this.headers });
    copy.#url = this.#url;
    copy.#redirected = this.#redirected;
    copy.#type = this.#type;
    return copy;
  }

  /** An answer of the `http` connector. */
  static _received(body: Uint8Array, init: Required<ResponseInit>, url: string, redirected: boolean): Response {
    const response = new Response(NULL_BODY_STATUS.includes(init.status) ? null : body, init);
    response.#url = url;
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
    return new Response(null, { status, headers: { location: new URL(url).href } });
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
}

/** Sends a request; resolves for every HTTP status. */
export async function fetch(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
  const request = new Request(input, init);
  const bytes: Uint8Array[] = [];
  const body = request._peek();
  const params: Record<string, unknown> = {
    url: request.url,
    method: request.method,
    headers: [...request.headers],
    redirect: request.redirect,
  };
  if (body) params.body = attach(bytes, body);
  request.signal.throwIfAborted();
  try {
    const answer = await call("http", "http", params, { bytes, signal: request.signal });
    const output = answer.output;
    const received = bytesOf(answer, output.body) ?? encodeUtf8(typeof output.body === "string" ? output.body : "");
    const details = { status: output.status, statusText: output.statusText ?? output.status_text ?? "", headers: output.headers };
    return Response._received(received, details, output.url ?? request.url, Boolean(output.redirected));
  } catch (cause) {
    if (request.signal.aborted) throw request.signal.reason;
    throw new TypeError("fetch failed", { cause });
  }
}
