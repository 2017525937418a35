/** `pi:web/websocket/frames`: the frames of RFC 6455, as a client makes and reads them. */

import { fillRandom } from "pi:engine";

export const CONTINUATION = 0;
export const TEXT = 1;
export const BINARY = 2;
export const CLOSE = 8;
export const PING = 9;
export const PONG = 10;

/** Longest message that is put together. */
const LONGEST = 64 << 20;

/** A frame with its mask, which a client has to put on. */
export function frame(opcode: number, payload: Uint8Array): Uint8Array {
  const { length } = payload;
  const extra = length < 126 ? 0 : length < 65_536 ? 2 : 8;
  const bytes = new Uint8Array(2 + extra + 4 + length);
  const view = new DataView(bytes.buffer);
  bytes[0] = 0x80 | opcode;
  bytes[1] = 0x80 | (extra === 0 ? length : extra === 2 ? 126 : 127);
  if (extra === 2) view.setUint16(2, length);
  if (extra === 8) view.setBigUint64(2, BigInt(length));
  const mask = bytes.subarray(2 + extra, 6 + extra);
  fillRandom(mask);
  const body = 6 + extra;
  for (let at = 0; at < length; at++) bytes[body + at] = payload[at]! ^ mask[at & 3]!;
  return bytes;
}

/** What a connection broke off with: the code that is said to the server. */
export class Violation extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** A whole message, or a control frame. */
export interface Received {
  opcode: number;
  payload: Uint8Array;
}

/** Puts frames together from bytes as they come. */
export class Reader {
  #pending = new Uint8Array(0);
  #opcode = 0;
  #parts: Uint8Array[] = [];
  #size = 0;

  /** Everything that is complete now. Throws a {@link Violation} at what the protocol does not allow. */
  *read(bytes: Uint8Array): Generator<Received> {
    const joined = new Uint8Array(this.#pending.length + bytes.length);
    joined.set(this.#pending);
    joined.set(bytes, this.#pending.length);
    let at = 0;
    for (;;) {
      const found = this.#frame(joined, at);
      if (!found) break;
      at = found.end;
      this.#pending = joined.subarray(at);
      const message = this.#take(found.isLast, found.opcode, found.payload);
      if (message) yield message;
    }
    this.#pending = joined.slice(at);
  }

  #frame(bytes: Uint8Array, from: number): { isLast: boolean; opcode: number; payload: Uint8Array; end: number } | undefined {
    if (bytes.length < from + 2) return undefined;
    const [first, second] = [bytes[from]!, bytes[from + 1]!];
    const opcode = first & 0x0f;
    const isLast = (first & 0x80) !== 0;
    if (first & 0x70) throw new Violation(1002, "reserved bits are set");
    if (second & 0x80) throw new Violation(1002, "the server masked a frame");
    if (![CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG].includes(opcode)) throw new Violation(1002, `opcode ${opcode} is unknown`);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let length = second & 0x7f;
    let body = from + 2;
    if (opcode >= CLOSE && (length > 125 || !isLast)) throw new Violation(1002, "a control frame is too long or in parts");
    if (length === 126) {
      if (bytes.length < body + 2) return undefined;
      length = view.getUint16(body);
      body += 2;
    } else if (length === 127) {
      if (bytes.length < body + 8) return undefined;
      const long = view.getBigUint64(body);
      if (long > BigInt(LONGEST)) throw new Violation(1009, "the message is too long");
      length = Number(long);
      body += 8;
    }
    if (this.#size + length > LONGEST) throw new Violation(1009, "the message is too long");
    if (bytes.length < body + length) return undefined;
    return { isLast, opcode, payload: bytes.slice(body, body + length), end: body + length };
  }

  #take(isLast: boolean, opcode: number, payload: Uint8Array): Received | undefined {
    if (opcode >= CLOSE) return { opcode, payload };
    if (opcode === CONTINUATION && this.#opcode === 0) throw new Violation(1002, "a continuation of nothing");
    if (opcode !== CONTINUATION && this.#opcode !== 0) throw new Violation(1002, "a message inside another");
    if (opcode !== CONTINUATION) this.#opcode = opcode;
    this.#parts.push(payload);
    this.#size += payload.length;
    if (!isLast) return undefined;
    const whole = new Uint8Array(this.#size);
    let at = 0;
    for (const part of this.#parts) {
      whole.set(part, at);
      at += part.length;
    }
    const message = { opcode: this.#opcode, payload: whole };
    this.#opcode = 0;
    this.#parts = [];
    this.#size = 0;
    return message;
  }
}
