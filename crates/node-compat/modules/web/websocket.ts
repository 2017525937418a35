/**
 * `pi:web/websocket`: `WebSocket` and its events (WHATWG), over the host's connections.
 *
 * In addition to protocols, the second argument accepts `{protocols, headers}`, as in Node.
 */

import { HostcallError, attach, bytesOf, call } from "pi:hostcall";
import type { Answer, Params } from "pi:hostcall";
import { AbortController } from "pi:web/abort";
import { Blob } from "pi:web/blob";
import { Event, EventTarget } from "pi:web/events";
import { defineHidden } from "pi:web/lazy";
import { queueTick } from "pi:web/ticks";
import { URL } from "pi:web/url";

export class MessageEvent extends Event {
  readonly data: any;
  readonly origin: string;
  readonly lastEventId: string;
  readonly source: any;
  readonly ports: readonly any[];
  constructor(type: string, init: any = {}) {
    super(type, init);
    this.data = init?.data ?? null;
    this.origin = String(init?.origin ?? "");
    this.lastEventId = String(init?.lastEventId ?? "");
    this.source = init?.source ?? null;
    this.ports = Object.freeze([...(init?.ports ?? [])]);
  }
}

export class CloseEvent extends Event {
  readonly wasClean: boolean;
  readonly code: number;
  readonly reason: string;
  constructor(type: string, init: { wasClean?: boolean; code?: number; reason?: string } = {}) {
    super(type, init as object);
    this.wasClean = Boolean(init?.wasClean);
    this.code = Number(init?.code ?? 0);
    this.reason = String(init?.reason ?? "");
  }
}

class ErrorEvent extends Event {
  readonly error: unknown;
  readonly message: string;
  constructor(error: Error) {
    super("error");
    this.error = error;
    this.message = error.message;
  }
}

function domException(message: string, name: string): Error {
  return new (globalThis as any).DOMException(message, name);
}

type Data = string | ArrayBuffer | ArrayBufferView | Blob;

let names = 0;

export class WebSocket extends EventTarget {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSING = 2;
  static readonly CLOSED = 3;
  declare readonly CONNECTING: 0;
  declare readonly OPEN: 1;
  declare readonly CLOSING: 2;
  declare readonly CLOSED: 3;

  #name = `websocket-${(names += 1)}`;
  #url: string;
  #state = 0;
  #protocol = "";
  #binary: "blob" | "arraybuffer" = "blob";
  #waiting = 0;
  #abort = new AbortController();
  /** Resolves when earlier messages are sent, so that messages stay in order. */
  #sending: Promise<unknown> = Promise.resolve();
  #handlers = new Map<string, (event: Event) => void>();

  constructor(address: string | URL, options: string | string[] | { protocols?: string | string[]; headers?: any } = []) {
    super();
    let url: URL;
    try {
      url = new URL(String(address));
    } catch {
      throw domException(`Invalid URL: ${String(address)}`, "SyntaxError");
    }
    if (url.protocol === "http:") url.protocol = "ws:";
    else if (url.protocol === "https:") url.protocol = "wss:";
    if (url.protocol !== "ws:" && url.protocol !== "wss:") {
      throw domException(`Expected a ws: or wss: protocol, got ${url.protocol}`, "SyntaxError");
    }
    if (url.hash || url.href.endsWith("#")) throw domException("Got fragment", "SyntaxError");
    this.#url = url.href;
    const plain = typeof options === "string" || Array.isArray(options);
    const protocols = [(plain ? options : (options?.protocols ?? [])) as string | string[]].flat().map(String);
    const isToken = (text: string) => /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(text);
    if (new Set(protocols.map((each) => each.toLowerCase())).size !== protocols.length || !protocols.every(isToken)) {
      throw domException("Invalid Sec-WebSocket-Protocol value", "SyntaxError");
    }
    const given = plain ? undefined : (options as any)?.headers;
    const headers = given ? [...new (globalThis as any).Headers(given)] : [];
    this.#run({ op: "open", socket: this.#name, url: this.#url, protocols, headers });
  }

  #run(params: Params<"websocket">): void {
    const onChunk = (chunk: Answer) => {
      const { output } = chunk;
      if (this.#state > 1) return;
      if (output.open) {
        this.#state = 1;
        this.#protocol = output.open.protocol;
        this.dispatchEvent(new Event("open"));
      } else if (output.text !== undefined) this.#message(output.text);
      else if (output.data !== undefined) {
        const bytes = bytesOf(chunk, output.data)!;
        this.#message(this.#binary === "blob" ? new Blob([bytes as any]) : bytes.slice().buffer);
      }
    };
    call("websocket", "http", params, { signal: this.#abort.signal, onChunk }).then(
      ({ output }) => this.#closed(output.clean, output.code, output.reason),
      (failure) => this.#failed(failure),
    );
  }

  #message(data: unknown): void {
    const { protocol, host } = new URL(this.#url);
    this.dispatchEvent(new MessageEvent("message", { data, origin: `${protocol}//${host}` }));
  }

  #closed(wasClean: boolean, code: number, reason: string): void {
    if (this.#state === 3) return;
    this.#state = 3;
    if (!wasClean) this.dispatchEvent(new ErrorEvent(new TypeError("The connection was lost")));
    this.dispatchEvent(new CloseEvent("close", { wasClean, code, reason }));
  }

  #failed(failure: unknown): void {
    if (this.#state === 3) return;
    this.#state = 3;
    const message = failure instanceof HostcallError ? failure.message : "The connection was given up";
    const error = new TypeError(message, failure instanceof HostcallError ? { cause: failure } : undefined);
    this.dispatchEvent(new ErrorEvent(error));
    this.dispatchEvent(new CloseEvent("close", { wasClean: false, code: 1006, reason: "" }));
  }

  send(data: Data): void {
    if (arguments.length === 0) throw new TypeError("WebSocket.send: 1 argument required, but only 0 present.");
    if (this.#state === 0) throw domException("Sent before connected.", "InvalidStateError");
    if (this.#state !== 1) return;
    if (data instanceof Blob) {
      const size = data.size;
      this.#waiting += size;
      this.#order(data.arrayBuffer().then((buffer: ArrayBuffer) => ({ bytes: new Uint8Array(buffer) })), size);
      return;
    }
    const isBytes = data instanceof ArrayBuffer || ArrayBuffer.isView(data);
    if (!isBytes) {
      const text = String(data).toWellFormed();
      this.#waiting += text.length;
      this.#order(Promise.resolve({ text }), text.length);
      return;
    }
    const view = ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data as ArrayBuffer);
    // Copies the bytes, since the caller may reuse its buffer.
    const bytes = view.slice();
    this.#waiting += bytes.length;
    this.#order(Promise.resolve({ bytes }), bytes.length);
  }

  #order(content: Promise<{ text?: string; bytes?: Uint8Array }>, size: number): void {
    const before = this.#sending;
    this.#sending = content.then(async ({ text, bytes }) => {
      await before;
      const attached: Uint8Array[] = [];
      const message = bytes ? { data: attach(attached, bytes) } : { text };
      try {
        await call("websocket", "http", { op: "send", socket: this.#name, ...message }, { bytes: attached });
      } catch {
        // The end of the connection has its own event.
      }
      this.#waiting -= size;
    });
  }

  close(code?: number, reason: string = ""): void {
    if (code !== undefined && code !== 1000 && !(code >= 3000 && code <= 4999)) throw domException("invalid code", "InvalidAccessError");
    const text = String(reason).toWellFormed();
    if (new (globalThis as any).TextEncoder().encode(text).length > 123) {
      throw domException("Reason must be less than 123 bytes", "SyntaxError");
    }
    if (this.#state > 1) return;
    const wasOpen = this.#state === 1;
    this.#state = 2;
    if (!wasOpen) {
      this.#abort.abort();
      queueTick(() => this.#failed(undefined));
      return;
    }
    const params: Params<"websocket"> = { op: "close", socket: this.#name, ...(code === undefined ? {} : { code, reason: text }) };
    void this.#sending.then(() => call("websocket", "http", params)).catch(() => {});
  }

  get url(): string {
    return this.#url;
  }
  get readyState(): number {
    return this.#state;
  }
  get bufferedAmount(): number {
    return this.#waiting;
  }
  get protocol(): string {
    return this.#protocol;
  }
  get extensions(): string {
    return "";
  }
  get binaryType(): "blob" | "arraybuffer" {
    return this.#binary;
  }
  set binaryType(type: "blob" | "arraybuffer") {
    this.#binary = type === "arraybuffer" ? type : "blob";
  }

  #handler(name: string): ((event: Event) => void) | null {
    return this.#handlers.get(name) ?? null;
  }
  #handle(name: string, handler: unknown): void {
    const old = this.#handlers.get(name);
    if (old) this.removeEventListener(name, old as any);
    this.#handlers.delete(name);
    if (typeof handler !== "function") return;
    this.#handlers.set(name, handler as any);
    this.addEventListener(name, handler as any);
  }
  get onopen(): any {
    return this.#handler("open");
  }
  set onopen(handler: any) {
    this.#handle("open", handler);
  }
  get onerror(): any {
    return this.#handler("error");
  }
  set onerror(handler: any) {
    this.#handle("error", handler);
  }
  get onclose(): any {
    return this.#handler("close");
  }
  set onclose(handler: any) {
    this.#handle("close", handler);
  }
  get onmessage(): any {
    return this.#handler("message");
  }
  set onmessage(handler: any) {
    this.#handle("message", handler);
  }
}

defineHidden(WebSocket.prototype, { CONNECTING: 0, OPEN: 1, CLOSING: 2, CLOSED: 3 });
Object.defineProperty(WebSocket.prototype, Symbol.toStringTag, { value: "WebSocket", configurable: true });
