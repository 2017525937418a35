/**
 * `pi:web/fetch/body`: the content of requests and responses.
 *
 * Content is bytes, a stream of the extension, or data that is still arriving from the host. Web streams load on the first
 * use of `body` (or of a stream); `text()` of a response works without them.
 */

import { decodeUtf8, encodeUtf8, fillRandom, importSync } from "pi:engine";
import { BYTES, Blob, FormData, encodeForm } from "pi:web/blob";
import { viewOf } from "pi:web/encoding";
import { readForm } from "pi:web/fetch/form";
import type { Headers } from "pi:web/headers";
import { URLSearchParams } from "pi:web/url";

export type BodyInit = string | ArrayBuffer | ArrayBufferView | Blob | FormData | URLSearchParams | AsyncIterable<any> | object | null | undefined;

/** Content that arrives from the host in pieces. */
export class Arriving {
  pieces: Uint8Array[] = [];
  over = false;
  error: unknown = undefined;
  #wake: (() => void)[] = [];
  /** Tells the host to discard the remaining data. */
  readonly cancel: (reason: unknown) => void;

  constructor(cancel: (reason: unknown) => void) {
    this.cancel = cancel;
  }
  add(piece: Uint8Array): void {
    this.pieces.push(piece);
    this.#notify();
  }
  end(error?: unknown): void {
    if (this.over) return;
    this.over = true;
    this.error = error;
    this.#notify();
  }
  changed(): Promise<void> {
    return new Promise((resolve) => this.#wake.push(resolve));
  }
  #notify(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }
}

export type Content = { bytes: Uint8Array } | { arriving: Arriving } | { stream: any } | undefined;

const isStream = (value: any): boolean => typeof value?.getReader === "function" && typeof value.tee === "function";
const streams = () => importSync("pi:web/streams");

export function extract(body: BodyInit): { content: NonNullable<Content>; type: string | undefined } | undefined {
  if (body === null || body === undefined) return undefined;
  const bytes = (value: Uint8Array, type?: string) => ({ content: { bytes: value }, type });
  if (typeof body === "string") return bytes(encodeUtf8(body.toWellFormed()), "text/plain;charset=UTF-8");
  if (body instanceof URLSearchParams) return bytes(encodeUtf8(body.toString()), "application/x-www-form-urlencoded;charset=UTF-8");
  if (body instanceof Blob) return bytes(body[BYTES], body.type || undefined);
  if (body instanceof FormData) {
    const random = new Uint8Array(11);
    fillRandom(random);
    const boundary = `----formdata-pijs-0${[...random].map((byte) => byte % 10).join("")}`;
    return bytes(encodeForm(body, boundary), `multipart/form-data; boundary=${boundary}`);
  }
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return bytes(viewOf(body).slice());
  if (isStream(body)) {
    if ((body as any).locked || (body as any)[Symbol.for("nodejs.stream.disturbed")]) throw new TypeError("Response body object should not be disturbed or locked");
    return { content: { stream: body }, type: undefined };
  }
  if (typeof (body as any)[Symbol.asyncIterator] === "function") return { content: { stream: streams().ReadableStream.from(body) }, type: undefined };
  return bytes(encodeUtf8(String(body).toWellFormed()), "text/plain;charset=UTF-8");
}

/** Returns a byte stream of content. */
function streamOf(content: NonNullable<Content>): any {
  if ("stream" in content) return content.stream;
  const { ReadableStream } = streams();
  if ("bytes" in content) {
    return new ReadableStream({
      type: "bytes",
      start(controller: any) {
        if (content.bytes.length > 0) controller.enqueue(content.bytes.slice());
        controller.close();
      },
    });
  }
  const { arriving } = content;
  return new ReadableStream({
    type: "bytes",
    async pull(controller: any) {
      while (arriving.pieces.length === 0 && !arriving.over) await arriving.changed();
      const piece = arriving.pieces.shift();
      if (piece) controller.enqueue(piece);
      else if (arriving.error !== undefined) controller.error(arriving.error);
      else {
        controller.close();
        controller.byobRequest?.respond(0);
      }
    },
    cancel(reason: unknown) {
      arriving.cancel(reason);
    },
  });
}

function concat(pieces: Uint8Array[]): Uint8Array {
  if (pieces.length === 1) return pieces[0]!;
  const all = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

/** Base of Request and Response: content that can be read once. */
export class Body {
  #content: Content;
  #stream: any;
  #used = false;
  declare readonly headers: Headers;

  constructor(content: Content) {
    this.#content = content;
    if (content && "stream" in content) this.#stream = content.stream;
  }

  get bodyUsed(): boolean {
    return this.#used || Boolean(this.#stream?.[Symbol.for("nodejs.stream.disturbed")]);
  }
  get body(): any {
    if (!this.#content) return null;
    if (!this.#stream) {
      this.#stream = streamOf(this.#content);
      if (this.#used) void this.#stream.cancel();
    }
    return this.#stream;
  }

  async bytes(): Promise<Uint8Array> {
    return (await this.#take()).slice();
  }
  async arrayBuffer(): Promise<ArrayBuffer> {
    return (await this.#take()).slice().buffer as ArrayBuffer;
  }
  async text(): Promise<string> {
    return decodeUtf8(await this.#take(), false, false);
  }
  async json(): Promise<any> {
    return JSON.parse(decodeUtf8(await this.#take(), false, false));
  }
  async blob(): Promise<Blob> {
    return new Blob([await this.#take()], { type: this.headers.get("content-type") ?? "" });
  }
  async formData(): Promise<FormData> {
    return readForm(await this.#take(), this.headers.get("content-type") ?? "");
  }

  /** Returns the unread content for a copy. A stream is divided between original and copy. */
  _copy(): Content {
    this.#check();
    if (!this.#content || (!this.#stream && "bytes" in this.#content)) return this.#content;
    const [mine, other] = this.body.tee();
    this.#content = { stream: mine };
    this.#stream = mine;
    return { stream: other };
  }
  /** Returns the content for sending, and marks it as read. */
  _send(): Content {
    this.#check();
    this.#used = this.#content !== undefined;
    return this.#stream ? { stream: this.#stream } : this.#content;
  }

  #check(): void {
    if (this.bodyUsed || this.#stream?.locked) throw new TypeError("Body is unusable: Body has already been read");
  }

  async #take(): Promise<Uint8Array> {
    this.#check();
    const content = this.#content;
    this.#used = content !== undefined;
    if (!content) return new Uint8Array(0);
    if (this.#stream) return readAll(this.#stream);
    if ("bytes" in content) return content.bytes;
    const { arriving } = content as { arriving: Arriving };
    while (!arriving.over) await arriving.changed();
    if (arriving.error !== undefined) throw arriving.error;
    return concat(arriving.pieces.splice(0));
  }
}

async function readAll(stream: any): Promise<Uint8Array> {
  const reader = stream.getReader();
  const pieces: Uint8Array[] = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return concat(pieces);
    pieces.push(chunkBytes(value));
  }
}

/** Returns a chunk of a body stream, which must be bytes. */
export function chunkBytes(chunk: unknown): Uint8Array {
  if (chunk instanceof Uint8Array) return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  if (chunk instanceof ArrayBuffer || ArrayBuffer.isView(chunk)) return viewOf(chunk);
  if (typeof chunk === "string") return encodeUtf8(chunk.toWellFormed());
  throw new TypeError("Received non-Uint8Array chunk");
}
