/**
 * `pi:node/http/parser`: parses HTTP/1.1 messages from pieces of bytes (RFC 9112).
 *
 * Ambiguous input is an error: two different lengths, a length with a coding, folded headers. The head is bounded; a body's end
 * follows from its length, its chunks, or the end of the connection. However small the pieces are, each byte is read and copied a
 * few times at most.
 */

import { coded } from "pi:node/errors";
import { Buffer } from "node:buffer";

export const MAX_HEAD = 16 * 1024;

export interface Head {
  /** The start line: `GET /path HTTP/1.1` or `HTTP/1.1 200 OK`. */
  start: string;
  rawHeaders: string[];
}

export interface Listener {
  /** Handles the head. The result selects the body; `none` means that there is no body, whatever the headers say. */
  head(head: Head): "body" | "none" | "upgrade";
  body(bytes: Buffer): void;
  /** Handles the end of the message. */
  end(trailers: string[]): void;
}

const failure = (code: string, message: string): Error => coded(Error, code, `Parse Error: ${message}`);
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const LF = 10;
const CR = 13;

type Phase = "head" | "length" | "chunk-size" | "chunk" | "chunk-end" | "trailers" | "until-end" | "upgraded";

export class Parser {
  #listener: Listener;
  /** Unused input: the last piece, or the used part of `#room`. */
  #held: Buffer = Buffer.alloc(0);
  /** Buffer for joining pieces; its contents are never overwritten. */
  #room: Buffer | undefined;
  #end = 0;
  /** Length of the prefix of `#held` that was searched without a match. */
  #seen = 0;
  #phase: Phase = "head";
  #left = 0;
  #answers: boolean;

  /** Creates a parser. With `answers`, messages are responses, whose body may end with the connection. */
  constructor(listener: Listener, answers: boolean) {
    this.#listener = listener;
    this.#answers = answers;
  }

  /** Returns the bytes after the head of an upgrade. */
  get rest(): Buffer {
    return this.#held;
  }
  get isBetween(): boolean {
    return this.#phase === "head" && this.#held.length === 0;
  }

  execute(bytes: Buffer): void {
    this.#hold(bytes);
    while (this.#held.length > 0 && this.#phase !== "upgraded" && this.#step());
  }

  /** Handles the end of the connection. */
  finish(): void {
    if (this.#phase === "until-end") this.#complete([]);
    else if (!this.isBetween && this.#phase !== "upgraded") throw failure("HPE_INVALID_EOF_STATE", "Invalid EOF state");
  }

  #hold(bytes: Buffer): void {
    const size = this.#held.length + bytes.length;
    if (this.#held.length === 0) {
      this.#held = bytes;
      this.#room = undefined;
      return;
    }
    if (!this.#room || this.#room.length - this.#end < bytes.length) {
      this.#room = Buffer.alloc(size + Math.min(size, MAX_HEAD));
      this.#end = this.#held.copy(this.#room);
    }
    this.#end += bytes.copy(this.#room, this.#end);
    this.#held = this.#room.subarray(this.#end - size, this.#end) as Buffer;
  }

  #take(count: number): Buffer {
    const taken = this.#held.subarray(0, count);
    this.#held = this.#held.subarray(count);
    this.#seen = 0;
    return taken as Buffer;
  }

  /** Returns one line without its line end; undefined if the line is incomplete. */
  #line(limit: number): string | undefined {
    const at = this.#held.indexOf(LF, this.#seen);
    if (at < 0) {
      if (this.#held.length > limit) throw failure("HPE_HEADER_OVERFLOW", "Header overflow");
      this.#seen = this.#held.length;
      return undefined;
    }
    return this.#take(at + 1).toString("latin1").replace(/\r?\n$/, "");
  }

  #step(): boolean {
    switch (this.#phase) {
      case "head":
        return this.#head();
      case "length": {
        const piece = this.#take(Math.min(this.#left, this.#held.length));
        this.#left -= piece.length;
        this.#listener.body(piece);
        if (this.#left === 0) this.#complete([]);
        return true;
      }
      case "until-end":
        this.#listener.body(this.#take(this.#held.length));
        return true;
      case "chunk-size": {
        const line = this.#line(MAX_HEAD);
        if (line === undefined) return false;
        const size = /^([0-9a-fA-F]{1,13})\s*(?:;.*)?$/.exec(line);
        if (!size) throw failure("HPE_INVALID_CHUNK_SIZE", "Invalid character in chunk size");
        this.#left = Number.parseInt(size[1]!, 16);
        this.#phase = this.#left === 0 ? "trailers" : "chunk";
        return true;
      }
      case "chunk": {
        const piece = this.#take(Math.min(this.#left, this.#held.length));
        this.#left -= piece.length;
        this.#listener.body(piece);
        if (this.#left === 0) this.#phase = "chunk-end";
        return true;
      }
      case "chunk-end": {
        const line = this.#line(2);
        if (line === undefined) return false;
        if (line !== "") throw failure("HPE_STRICT", "Expected LF after chunk data");
        this.#phase = "chunk-size";
        return true;
      }
      case "trailers": {
        const text = this.#headText(true);
        if (text === undefined) return false;
        this.#complete(headers(text.split(/\r?\n/).filter((line) => line !== "")));
        return true;
      }
      default:
        return false;
    }
  }

  #headText(trailers: boolean): string | undefined {
    if (trailers && /^\r?\n/.test(this.#held.subarray(0, 2).toString("latin1"))) {
      this.#take(this.#held[0] === 13 ? 2 : 1);
      return "";
    }
    const end = this.#emptyLine();
    if (end === undefined || end > MAX_HEAD + 4) {
      if (this.#held.length > MAX_HEAD) throw failure("HPE_HEADER_OVERFLOW", "Header overflow");
      return undefined;
    }
    return this.#take(end).toString("latin1").replace(/\r?\n\r?\n$/, "");
  }

  /** Returns the end of the first empty line. */
  #emptyLine(): number | undefined {
    const held = this.#held;
    for (;;) {
      const at = held.indexOf(LF, this.#seen);
      if (at < 0) {
        this.#seen = held.length;
        return undefined;
      }
      const next = held[at + 1] === CR ? at + 2 : at + 1;
      if (held[next] === LF) return next + 1;
      // Searches the end of the last line again, since an empty line may follow.
      this.#seen = next < held.length ? at + 1 : at;
      if (next >= held.length) return undefined;
    }
  }

  #head(): boolean {
    // Skips empty lines between messages.
    while (this.#held[0] === 10 || (this.#held[0] === 13 && this.#held[1] === 10)) this.#take(this.#held[0] === 13 ? 2 : 1);
    if (this.#held.length === 0) return false;
    const text = this.#headText(false);
    if (text === undefined) return false;
    const [start, ...lines] = text.split(/\r?\n/);
    const rawHeaders = headers(lines);
    const framing = this.#framing(rawHeaders);
    const verdict = this.#listener.head({ start: start!, rawHeaders });
    if (verdict === "upgrade") this.#phase = "upgraded";
    else if (verdict === "none") this.#complete([]);
    else if (framing.chunked) this.#phase = "chunk-size";
    else if (framing.length !== undefined && framing.length > 0) [this.#phase, this.#left] = ["length", framing.length];
    else if (framing.length === undefined && this.#answers) this.#phase = "until-end";
    else this.#complete([]);
    return true;
  }

  #framing(raw: string[]): { length?: number; chunked: boolean } {
    let length: number | undefined;
    let chunked = false;
    for (let at = 0; at < raw.length; at += 2) {
      const name = raw[at]!.toLowerCase();
      const value = raw[at + 1]!;
      if (name === "content-length") {
        if (!/^\d{1,15}$/.test(value)) throw failure("HPE_INVALID_CONTENT_LENGTH", "Invalid character in Content-Length");
        if (length !== undefined && length !== Number(value)) throw failure("HPE_UNEXPECTED_CONTENT_LENGTH", "Content-Length can't be present twice");
        length = Number(value);
      } else if (name === "transfer-encoding") {
        if (value.trim().toLowerCase() !== "chunked") throw failure("HPE_INVALID_TRANSFER_ENCODING", "Request has invalid `Transfer-Encoding`");
        chunked = true;
      }
    }
    if (chunked && length !== undefined) throw failure("HPE_INVALID_TRANSFER_ENCODING", "Transfer-Encoding can't be present with Content-Length");
    return { chunked, ...(length !== undefined && { length }) };
  }

  #complete(trailers: string[]): void {
    this.#phase = "head";
    this.#listener.end(trailers);
  }
}

function headers(lines: string[]): string[] {
  const raw: string[] = [];
  for (const line of lines) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon);
    if (colon <= 0 || !TOKEN.test(name)) throw failure("HPE_INVALID_HEADER_TOKEN", "Invalid header token");
    const value = line.slice(colon + 1).replace(/^[ \t]+|[ \t]+$/g, "");
    if (/[\0\r\n]/.test(value)) throw failure("HPE_INVALID_HEADER_TOKEN", "Invalid header value char");
    raw.push(name, value);
  }
  return raw;
}
