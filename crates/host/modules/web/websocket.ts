/**
 * `pi:web/websocket`: WebSocket as a client, over connections of the host (`ws:` plain, `wss:` encrypted). The gate
 * decides the host and the port, as for any connection. Extensions of the protocol, such as compression, are not offered.
 */

import { decodeUtf8, encodeUtf8, fillRandom } from "pi:engine";
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { Blob } from "pi:web/blob";
import { Event, EventTarget } from "pi:web/events";
import { BINARY, CLOSE, PING, PONG, Reader, TEXT, Violation, frame } from "pi:web/websocket/frames";
import { clearTimeout, setTimeout } from "pi:web/timers";
import { URL } from "pi:web/url";
import { connect as plain } from "node:net";
import { connect as secure } from "node:tls";

/** RFC 6455, 1.3. */
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/** Longest head of an answer. */
const LONGEST_HEAD = 64 << 10;
/** How long the server has to end the connection after both sides said good-bye. */
const GOODBYE_MS = 3_000;
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

export class MessageEvent extends Event {
  readonly data: unknown;
  readonly origin: string;
  readonly lastEventId: string;
  readonly source = null;
  readonly ports: unknown[] = [];

  constructor(type: string, init: { data?: unknown; origin?: string; lastEventId?: string } = {}) {
    super(type, init as object);
    this.data = init.data ?? null;
    this.origin = init.origin ?? "";
    this.lastEventId = init.lastEventId ?? "";
  }
}

export class CloseEvent extends Event {
  readonly wasClean: boolean;
  readonly code: number;
  readonly reason: string;

  constructor(type: string, init: { wasClean?: boolean; code?: number; reason?: string } = {}) {
    super(type, init as object);
    this.wasClean = Boolean(init.wasClean);
    this.code = init.code ?? 0;
    this.reason = init.reason ?? "";
  }
}

export class ErrorEvent extends Event {
  readonly message: string;
  readonly error: unknown;

  constructor(type: string, init: { message?: string; error?: unknown } = {}) {
    super(type, init as object);
    this.message = init.message ?? "";
    this.error = init.error;
  }
}

function domError(name: string, message: string): Error {
  const error: any = new Error(message);
  Object.defineProperty(error, "name", { value: name, configurable: true });
  error.code = name === "SyntaxError" ? 12 : name === "InvalidStateError" ? 11 : 0;
  return error;
}

function address(input: unknown): InstanceType<typeof URL> {
  let url;
  try {
    url = new URL(String(input));
  } catch {
    throw domError("SyntaxError", "Invalid URL");
  }
  if (url.protocol === "http:") url.protocol = "ws:";
  if (url.protocol === "https:") url.protocol = "wss:";
  if (url.protocol !== "ws:" && url.protocol !== "wss:") throw domError("SyntaxError", `Expected a ws: or wss: protocol, got ${url.protocol}`);
  if (url.hash || url.href.endsWith("#")) throw domError("SyntaxError", "Got fragment");
  return url;
}

type Handler = ((event: any) => void) | null;

interface Settings {
  protocols?: string | string[];
  headers?: Record<string, string> | Iterable<[string, string]>;
}

export class WebSocket extends EventTarget {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSING = 2;
  static readonly CLOSED = 3;
  readonly CONNECTING = 0;
  readonly OPEN = 1;
  readonly CLOSING = 2;
  readonly CLOSED = 3;

  readonly url: string;
  readyState = 0;
  protocol = "";
  readonly extensions = "";
  bufferedAmount = 0;
  #binaryType: "blob" | "arraybuffer" = "blob";
  #socket: any;
  #reader = new Reader();
  #head: Uint8Array | undefined = new Uint8Array(0);
  #accept = "";
  #offered: string[];
  #close: { code: number; reason: string } | undefined;
  #saidGoodbye = false;
  #timer: unknown;
  #sending: Promise<unknown> = Promise.resolve();
  readonly #handlers = new Map<string, Handler>();

  constructor(url: string | URL, settings: string | string[] | Settings = []) {
    super();
    const target = address(url);
    const given: Settings = typeof settings === "string" || Array.isArray(settings) ? { protocols: settings } : settings;
    const offered = typeof given.protocols === "string" ? [given.protocols] : [...(given.protocols ?? [])].map(String);
    const lower = offered.map((name) => name.toLowerCase());
    if (new Set(lower).size !== lower.length || offered.some((name) => !TOKEN.test(name))) {
      throw domError("SyntaxError", "Invalid Sec-WebSocket-Protocol value");
    }
    this.url = target.href;
    this.#offered = offered;
    this.#open(target, given.headers);
  }

  #open(url: InstanceType<typeof URL>, headers: Settings["headers"]): void {
    const isSecure = url.protocol === "wss:";
    const port = url.port === "" ? (isSecure ? 443 : 80) : Number(url.port);
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const bytes = new Uint8Array(16);
    fillRandom(bytes);
    const key = Buffer.from(bytes).toString("base64");
    this.#accept = createHash("sha1").update(key + GUID).digest("base64");
    const lines = [
      `GET ${url.pathname}${url.search} HTTP/1.1`, `Host: ${url.host}`, "Connection: Upgrade", "Upgrade: websocket",
      "Sec-WebSocket-Version: 13", `Sec-WebSocket-Key: ${key}`,
    ];
    if (this.#offered.length > 0) lines.push(`Sec-WebSocket-Protocol: ${this.#offered.join(", ")}`);
    if (url.username || url.password) {
      const login = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
      lines.push(`Authorization: Basic ${Buffer.from(login).toString("base64")}`);
    }
    const entries = headers && Symbol.iterator in (headers as object) ? [...(headers as Iterable<[string, string]>)] : Object.entries(headers ?? {});
    for (const [name, value] of entries) {
      if (!TOKEN.test(name) || /[\r\n\0]/.test(String(value))) throw new TypeError(`Invalid header: ${name}`);
      lines.push(`${name}: ${value}`);
    }
    const socket: any = isSecure ? secure({ host, port, ALPNProtocols: ["http/1.1"] }) : plain({ host, port });
    this.#socket = socket;
    socket.once(isSecure ? "secureConnect" : "connect", () => socket.write(`${lines.join("\r\n")}\r\n\r\n`));
    socket.on("data", (chunk: Uint8Array) => this.#arrived(chunk));
    socket.once("error", (error: unknown) => this.#failed(error));
    socket.once("close", () => this.#closed());
  }

  #arrived(chunk: Uint8Array): void {
    try {
      let bytes: Uint8Array = chunk;
      if (this.#head) {
        const rest = this.#answered(chunk);
        if (!rest) return;
        bytes = rest;
      }
      for (const { opcode, payload } of this.#reader.read(bytes)) {
        if (this.readyState === 3) return;
        this.#take(opcode, payload);
      }
    } catch (error) {
      this.#broken(error instanceof Violation ? error : new Violation(1002, String((error as Error)?.message ?? error)));
    }
  }

  /** The head of the server's answer; what follows it once it is complete. */
  #answered(chunk: Uint8Array): Uint8Array | undefined {
    const joined = Buffer.concat([this.#head!, chunk]);
    const end = joined.indexOf("\r\n\r\n");
    if (end < 0) {
      if (joined.length > LONGEST_HEAD) throw new Violation(1002, "the server's answer is too long");
      this.#head = joined;
      return undefined;
    }
    this.#head = undefined;
    const [status = "", ...lines] = joined.toString("latin1", 0, end).split("\r\n");
    const headers = new Map<string, string>();
    for (const line of lines) {
      const at = line.indexOf(":");
      const name = line.slice(0, at).trim().toLowerCase();
      const value = line.slice(at + 1).trim();
      headers.set(name, headers.has(name) ? `${headers.get(name)}, ${value}` : value);
    }
    const has = (name: string, value: string) => (headers.get(name) ?? "").toLowerCase().split(",").some((part) => part.trim() === value);
    if (!/^HTTP\/1\.1 101(?: |$)/.test(status)) throw new Violation(1002, "Received network error or non-101 status code.");
    if (!has("upgrade", "websocket")) throw new Violation(1002, "Server did not set Upgrade header to \"websocket\".");
    if (!has("connection", "upgrade")) throw new Violation(1002, "Server did not set Connection header to \"upgrade\".");
    if (headers.get("sec-websocket-accept") !== this.#accept) throw new Violation(1002, "Incorrect hash received in Sec-WebSocket-Accept header.");
    if (headers.has("sec-websocket-extensions")) throw new Violation(1002, "The server uses an extension that was not offered.");
    const chosen = headers.get("sec-websocket-protocol");
    if (chosen !== undefined && !this.#offered.includes(chosen)) throw new Violation(1002, "Protocol was not set in the opening handshake.");
    this.protocol = chosen ?? "";
    if (this.readyState === 0) {
      this.readyState = 1;
      this.#say(new Event("open"));
    }
    return joined.subarray(end + 4);
  }

  #take(opcode: number, payload: Uint8Array): void {
    switch (opcode) {
      case TEXT:
      case BINARY: {
        if (this.readyState !== 1) return;
        const data = opcode === TEXT ? text(payload) : this.#binaryType === "blob" ? new Blob([payload]) : payload.buffer;
        this.#say(new MessageEvent("message", { data, origin: new URL(this.url).origin }));
        return;
      }
      case PING:
        this.#send(frame(PONG, payload));
        return;
      case CLOSE: {
        if (payload.length === 1) throw new Violation(1002, "a close frame with half a code");
        const code = payload.length === 0 ? 1005 : (payload[0]! << 8) | payload[1]!;
        if (payload.length > 0 && !isCode(code)) throw new Violation(1002, `close code ${code}`);
        this.#close ??= { code, reason: text(payload.subarray(2)) };
        if (!this.#saidGoodbye) this.#goodbye(payload.subarray(0, 2));
        this.#socket.end();
        return;
      }
    }
  }

  #send(bytes: Uint8Array): Promise<void> {
    const sent = new Promise<void>((done) => this.#socket.write(bytes, () => done()));
    this.#sending = sent;
    return sent;
  }

  #goodbye(payload: Uint8Array): void {
    this.#saidGoodbye = true;
    this.readyState = 2;
    this.#send(frame(CLOSE, payload));
    this.#timer = setTimeout(() => this.#socket.destroy(), GOODBYE_MS);
  }

  /** The other side broke the rules: it is told so, and the connection ends. */
  #broken(violation: Violation): void {
    if (this.readyState === 3) return;
    if (this.readyState === 1) this.#send(frame(CLOSE, new Uint8Array([violation.code >> 8, violation.code & 0xff])));
    this.#close = { code: 1006, reason: "" };
    this.readyState = 2;
    this.#say(new ErrorEvent("error", { message: violation.message, error: new TypeError(violation.message) }));
    this.#sending.then(() => this.#socket.destroy());
  }

  #failed(error: unknown): void {
    if (this.readyState === 3) return;
    const wasOpen = this.readyState !== 0;
    this.#close ??= { code: 1006, reason: "" };
    this.readyState = 2;
    const message = wasOpen ? String((error as Error)?.message ?? error) : "Received network error or non-101 status code.";
    const shown: any = new TypeError(message);
    Object.defineProperty(shown, "cause", { value: error, writable: true, configurable: true });
    this.#say(new ErrorEvent("error", { message, error: shown }));
  }

  #closed(): void {
    if (this.readyState === 3) return;
    clearTimeout(this.#timer);
    const unfinished = this.#head !== undefined && this.readyState === 0;
    if (unfinished) this.#failed(new Error("the server closed the connection"));
    const { code, reason } = this.#close ?? { code: 1006, reason: "" };
    this.readyState = 3;
    this.#say(new CloseEvent("close", { wasClean: this.#saidGoodbye && code !== 1006, code, reason }));
  }

  send(data: unknown): void {
    if (this.readyState === 0) throw domError("InvalidStateError", "Sent before connected.");
    if (typeof data === "object" && data instanceof Blob) {
      this.bufferedAmount += data.size;
      const size = data.size;
      this.#sending = Promise.all([data.arrayBuffer(), this.#sending]).then(([bytes]) => {
        if (this.readyState === 1) return this.#queue(BINARY, new Uint8Array(bytes), size);
      });
      return;
    }
    const isBytes = data instanceof ArrayBuffer || ArrayBuffer.isView(data);
    const bytes = !isBytes ? encodeUtf8(String(data))
      : data instanceof ArrayBuffer ? new Uint8Array(data.slice(0))
      : new Uint8Array((data as ArrayBufferView).buffer, (data as ArrayBufferView).byteOffset, (data as ArrayBufferView).byteLength).slice();
    this.bufferedAmount += bytes.length;
    // What is sent while it closes goes nowhere, and counts as waiting for ever.
    if (this.readyState === 1) this.#queue(isBytes ? BINARY : TEXT, bytes, bytes.length);
  }

  #queue(opcode: number, bytes: Uint8Array, size: number): Promise<void> {
    return this.#send(frame(opcode, bytes)).then(() => void (this.bufferedAmount -= size));
  }

  close(code?: number, reason: string = ""): void {
    if (code !== undefined && code !== 1000 && !(code >= 3000 && code <= 4999)) {
      throw domError("InvalidAccessError", "invalid code");
    }
    const words = encodeUtf8(String(reason));
    if (words.length > 123) throw domError("SyntaxError", `Reason must be less than 123 bytes; received ${words.length}`);
    if (this.readyState >= 2) return;
    if (this.readyState === 0) {
      this.#failed(new Error("WebSocket was closed before the connection was established"));
      this.#socket.destroy();
      return;
    }
    const given = code ?? (words.length > 0 ? 1000 : undefined);
    const payload = given === undefined ? new Uint8Array(0) : new Uint8Array([given >> 8, given & 0xff, ...words]);
    this.#goodbye(payload);
  }

  get binaryType(): "blob" | "arraybuffer" {
    return this.#binaryType;
  }
  set binaryType(wanted: "blob" | "arraybuffer") {
    this.#binaryType = wanted === "blob" || wanted === "arraybuffer" ? wanted : "blob";
  }

  #say(event: Event): void {
    this.dispatchEvent(event);
  }
  #on(type: string, handler: unknown): void {
    const before = this.#handlers.get(type);
    if (before) this.removeEventListener(type, before);
    const next = typeof handler === "function" ? (handler as (event: any) => void) : null;
    this.#handlers.set(type, next);
    if (next) this.addEventListener(type, next);
  }
  get onopen(): Handler {
    return this.#handlers.get("open") ?? null;
  }
  set onopen(handler: Handler) {
    this.#on("open", handler);
  }
  get onmessage(): Handler {
    return this.#handlers.get("message") ?? null;
  }
  set onmessage(handler: Handler) {
    this.#on("message", handler);
  }
  get onerror(): Handler {
    return this.#handlers.get("error") ?? null;
  }
  set onerror(handler: Handler) {
    this.#on("error", handler);
  }
  get onclose(): Handler {
    return this.#handlers.get("close") ?? null;
  }
  set onclose(handler: Handler) {
    this.#on("close", handler);
  }

  override get [Symbol.toStringTag](): string {
    return "WebSocket";
  }
}

/** Text of a frame, which has to be valid. */
function text(bytes: Uint8Array): string {
  try {
    return decodeUtf8(bytes, true, true);
  } catch {
    throw new Violation(1007, "Received invalid UTF-8 in text frame.");
  }
}

/** Whether a server may close with this code. */
function isCode(code: number): boolean {
  return (code >= 3000 && code <= 4999) || (code >= 1000 && code <= 1014 && ![1004, 1005, 1006].includes(code));
}
