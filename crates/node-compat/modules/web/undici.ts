/**
 * `undici`: the npm package of Node's own HTTP client, over the `http` hostcall.
 *
 * The published package parses HTTP in WebAssembly and opens sockets. Here the host owns connections: dispatchers keep
 * their names and life cycle, and one that needs another way to a server (certificates, a proxy, a socket) throws when it is
 * used, since the host would ignore that way.
 */

import { encodeUtf8 } from "pi:engine";
import { EventEmitter } from "node:events";
import { Readable } from "node:stream";
import { notSupported } from "pi:node/errors";
import { Blob, File, FormData } from "pi:web/blob";
import { exchange, fetch as hostFetch, Request, Response } from "pi:web/fetch";
import type { RequestInit } from "pi:web/fetch";
import { Headers } from "pi:web/headers";
import { URL } from "pi:web/url";
import { MessageEvent, WebSocket } from "pi:web/websocket";

export { File, FormData, Headers, MessageEvent, Request, Response, WebSocket };

/** Connection options that the host's client does not accept from an extension. */
const WAYS = ["ca", "cert", "key", "pfx", "passphrase", "socketPath", "lookup", "localAddress", "servername"];

export class Dispatcher extends EventEmitter {
  /** The reason why the dispatcher cannot send a request. */
  protected refusal: string | undefined;
  #closed = false;

  get closed(): boolean {
    return this.#closed;
  }

  get destroyed(): boolean {
    return this.#closed;
  }

  dispatch(): never {
    throw notSupported("Dispatcher.dispatch", "use fetch or request of undici");
  }

  /** Throws if the dispatcher cannot send a request. */
  carry(): void {
    if (this.#closed) throw Object.assign(new Error("The client is closed"), { name: "ClientClosedError", code: "UND_ERR_CLOSED" });
    if (this.refusal !== undefined) throw notSupported(this.refusal, "connections are the host's; give the certificate or proxy to the system");
  }

  async close(): Promise<void> {
    this.#closed = true;
  }

  async destroy(): Promise<void> {
    this.#closed = true;
  }

  compose(): never {
    throw notSupported("Dispatcher.compose", "wrap fetch instead");
  }

  request(options: RequestOptions & { origin?: string | URL; path?: string }): Promise<ResponseData> {
    return request(new URL(String(options.path ?? "/"), String(options.origin)), { ...options, dispatcher: this });
  }
}

interface Connecting {
  connect?: Record<string, unknown> | ((...args: unknown[]) => unknown);
  [other: string]: unknown;
}

function wayOf(name: string, options: Connecting): string | undefined {
  if (typeof options.connect === "function") return `${name} with a connector of its own`;
  const connect = options.connect ?? {};
  const way = WAYS.find((way) => connect[way] !== undefined) ?? (connect.rejectUnauthorized === false ? "rejectUnauthorized" : undefined);
  return way === undefined ? undefined : `${name} with \`connect.${way}\``;
}

export class Agent extends Dispatcher {
  constructor(options: Connecting = {}) {
    super();
    this.refusal = typeof options.factory === "function" ? "Agent with a factory" : wayOf("Agent", options);
  }
}

/** A client of one origin; requests specify paths. */
export class Client extends Dispatcher {
  readonly #origin: URL;

  constructor(origin: string | URL, options: Connecting = {}) {
    super();
    this.#origin = new URL(String(origin));
    this.refusal = wayOf("Client", options);
  }

  override request(options: RequestOptions & { path?: string }): Promise<ResponseData> {
    return super.request({ ...options, origin: this.#origin });
  }
}

export class Pool extends Client {}

/** An ordinary agent if the environment names no proxy. The host uses its own proxy settings. */
export class EnvHttpProxyAgent extends Dispatcher {}

export class ProxyAgent extends Dispatcher {
  constructor() {
    super();
    this.refusal = "ProxyAgent";
  }
}

/** The callbacks of one request. */
type Handler = Record<string, ((...args: unknown[]) => unknown) | undefined>;

const HEARS = ["onRequestStart", "onRequestUpgrade", "onResponseStart", "onResponseData", "onResponseEnd", "onResponseError", "onBodySent"];

/** Forwards all callbacks. Packages extend this class. */
export class DecoratorHandler {
  constructor(handler: Handler) {
    if (typeof handler !== "object" || handler === null) throw new TypeError("handler must be an object");
    handlers.set(this, handler);
  }
}

const handlers = new WeakMap<DecoratorHandler, Handler>();

for (const name of HEARS) {
  const value = function (this: DecoratorHandler, ...args: unknown[]) {
    return handlers.get(this)?.[name]?.(...args);
  };
  Object.defineProperty(DecoratorHandler.prototype, name, { value, writable: true, configurable: true });
}

let dispatcher: Dispatcher | undefined;

export function setGlobalDispatcher(agent: Dispatcher): void {
  if (typeof agent?.dispatch !== "function") throw Object.assign(new Error("Argument agent must implement Agent"), { name: "InvalidArgumentError", code: "UND_ERR_INVALID_ARG" });
  dispatcher = agent;
}

export function getGlobalDispatcher(): Dispatcher {
  return (dispatcher ??= new Agent());
}

function carried(own: unknown): void {
  const by = (own ?? getGlobalDispatcher()) as Partial<Dispatcher>;
  if (by instanceof Dispatcher) by.carry();
}

export async function fetch(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
  const { dispatcher: own, ...rest } = init;
  carried(own);
  return hostFetch(input, rest);
}

export interface RequestOptions extends RequestInit {
  query?: Record<string, unknown>;
  dispatcher?: unknown;
  opaque?: unknown;
  throwOnError?: boolean;
}

export interface ResponseData {
  statusCode: number;
  headers: Record<string, string | string[]>;
  trailers: Record<string, string>;
  opaque: unknown;
  context: object;
  body: any;
}

/**
 * Implements undici's `request`: no redirects, no decoding, headers as an object, and a body that is a stream with read
 * methods.
 */
export async function request(url: string | URL, options: RequestOptions = {}): Promise<ResponseData> {
  const { dispatcher: own, query, opaque, throwOnError, headers, ...init } = options;
  carried(own);
  const target = new URL(String(url));
  for (const [name, value] of Object.entries(query ?? {})) target.searchParams.append(name, String(value));
  // Unlike fetch, `request` sets no content type for a string.
  if (typeof init.body === "string") init.body = encodeUtf8(init.body) as any;
  const response = await exchange(target, { redirect: "manual", ...init, headers: pairs(headers) as RequestInit["headers"] }, false);
  if (throwOnError && response.status >= 400) {
    throw Object.assign(new Error(`Response status code ${response.status}`), { name: "ResponseStatusCodeError", code: "UND_ERR_RESPONSE_STATUS_CODE", status: response.status, statusCode: response.status });
  }
  const stream = response.body ? Readable.fromWeb(response.body as any) : Readable.from([]);
  const all = async (): Promise<Uint8Array> => {
    const pieces: Uint8Array[] = [];
    for await (const piece of stream as AsyncIterable<Uint8Array>) pieces.push(piece);
    return new Uint8Array(await new Blob(pieces).arrayBuffer());
  };
  const read = async () => new Response((await all()) as any, { headers: response.headers as any });
  const body = Object.assign(stream, {
    text: async () => (await read()).text(),
    json: async () => (await read()).json(),
    bytes: all,
    arrayBuffer: async () => (await all()).buffer,
    blob: async () => (await read()).blob(),
    dump: async () => void (stream as any).destroy(),
  });
  return { statusCode: response.status, headers: members(response.headers), trailers: {}, opaque: opaque ?? null, context: {}, body };
}

/** Reads headers in undici's forms: an object, a flat list of names and values, or pairs. */
function pairs(headers: unknown): unknown {
  if (!Array.isArray(headers) || Array.isArray(headers[0])) return headers;
  const out: [string, string][] = [];
  for (let at = 0; at + 1 < headers.length; at += 2) out.push([String(headers[at]), String(headers[at + 1])]);
  return out;
}

function members(headers: Headers): Record<string, string | string[]> {
  const out: Record<string, string | string[]> = {};
  for (const [name, value] of headers as unknown as Iterable<[string, string]>) {
    const known = out[name];
    out[name] = known === undefined ? value : Array.isArray(known) ? [...known, value] : [known, value];
  }
  return out;
}

export function stream(): never {
  throw notSupported("undici.stream", "use fetch or request");
}

export function pipeline(): never {
  throw notSupported("undici.pipeline", "use fetch or request");
}

export function connect(): never {
  throw notSupported("undici.connect", "use fetch or request");
}

export function upgrade(): never {
  throw notSupported("undici.upgrade", "use fetch or request");
}

export default { Agent, Client, DecoratorHandler, Dispatcher, EnvHttpProxyAgent, File, FormData, Headers, MessageEvent, Pool, ProxyAgent, Request, Response, connect, fetch, getGlobalDispatcher, pipeline, request, setGlobalDispatcher, stream, upgrade, WebSocket };
