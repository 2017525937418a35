/**
 * `pi:node/readline/interface`: reads lines of a stream, and asks questions.
 *
 * A realm has no terminal, so lines cannot be edited; history, completion and cursor keys do
 * nothing. A line ends with `\n`, `\r\n` or `\r`.
 */

import { checkFunction, coded, invalidArgType } from "pi:node/errors";
import { EventEmitter, on } from "node:events";
import { StringDecoder } from "node:string_decoder";
import { queueTick } from "pi:web/ticks";

interface Options {
  input?: any;
  output?: any;
  prompt?: string;
  crlfDelay?: number;
  terminal?: boolean;
  signal?: any;
  [other: string]: unknown;
}

const closedError = () => coded(Error, "ERR_USE_AFTER_CLOSE", "readline was closed");

export class Interface extends EventEmitter {
  readonly terminal: boolean;
  readonly input: any;
  readonly output: any;
  line = "";
  cursor = 0;
  closed = false;
  paused = false;
  history: string[] = [];
  #prompt: string;
  #decoder = new StringDecoder("utf8");
  #held = "";
  #afterReturn = false;
  #waiting: ((line: string) => void) | undefined;
  #detach: () => void = () => {};

  constructor(input: any, output?: any, _completer?: unknown, terminal?: boolean) {
    super();
    const options: Options = typeof input?.on === "function" ? { input, output, ...(terminal !== undefined && { terminal }) } : (input ?? {});
    if (typeof options.input?.on !== "function") throw invalidArgType("input", "an instance of Stream", options.input);
    this.input = options.input;
    this.output = options.output;
    this.terminal = Boolean(options.terminal ?? false);
    this.#prompt = options.prompt ?? "> ";
    const { signal } = options;
    if (signal?.aborted) queueTick(() => this.close());
    else signal?.addEventListener("abort", () => this.close(), { once: true });
    const onData = (chunk: any) => this.#take(typeof chunk === "string" ? chunk : this.#decoder.write(chunk));
    const onEnd = () => {
      this.#take(this.#decoder.end());
      if (this.#held !== "") this.#line(this.#held);
      this.#held = "";
      this.close();
    };
    const onError = (error: unknown) => this.emit("error", error);
    this.input.on("error", onError);
    this.input.on("data", onData);
    this.input.on("end", onEnd);
    this.#detach = () => {
      this.input.removeListener("data", onData);
      this.input.removeListener("end", onEnd);
      this.input.removeListener("error", onError);
    };
    this.input.resume?.();
  }

  get [Symbol.toStringTag](): string {
    return "Interface";
  }
  getPrompt(): string {
    return this.#prompt;
  }
  setPrompt(prompt: string): void {
    this.#prompt = String(prompt);
  }
  prompt(_preserveCursor?: boolean): void {
    if (this.closed) return;
    if (this.paused) this.resume();
    this.output?.write(this.#prompt);
  }
  question(query: string, options: any, done?: any): void {
    if (typeof options === "function") [done, options] = [options, {}];
    if (this.closed) throw closedError();
    checkFunction("cb", done);
    const { signal } = options ?? {};
    if (signal?.aborted) return;
    if (this.#waiting) return this.prompt();
    const abort = () => {
      this.#waiting = undefined;
    };
    signal?.addEventListener("abort", abort, { once: true });
    this.#waiting = (line) => {
      signal?.removeEventListener("abort", abort);
      done(line);
    };
    if (this.paused) this.resume();
    this.output?.write(query);
  }
  pause(): this {
    if (this.paused) return this;
    this.input.pause?.();
    this.paused = true;
    this.emit("pause");
    return this;
  }
  resume(): this {
    if (!this.paused) return this;
    this.input.resume?.();
    this.paused = false;
    this.emit("resume");
    return this;
  }
  /** Treats written data as typed input. */
  write(data: string | null | undefined, _key?: object): void {
    if (this.closed) throw closedError();
    if (this.paused) this.resume();
    if (data !== null && data !== undefined) this.#take(String(data));
  }
  close(): void {
    if (this.closed) return;
    this.pause();
    this.#detach();
    this.closed = true;
    this.emit("close");
  }
  getCursorPos(): { rows: number; cols: number } {
    return { rows: 0, cols: this.#prompt.length + this.#held.length };
  }
  [Symbol.dispose ?? Symbol.for("dispose")](): void {
    this.close();
  }
  async *[Symbol.asyncIterator](): AsyncGenerator<string> {
    // The listener buffers lines that arrive before the first read, so it is created at once.
    for await (const [line] of this.#lines()) yield line;
  }

  #iterator: AsyncIterableIterator<any[]> | undefined;
  #lines(): AsyncIterableIterator<any[]> {
    return (this.#iterator ??= this.closed ? ([][Symbol.iterator]() as any) : on(this, "line", { close: ["close"] }));
  }

  #take(text: string): void {
    if (text === "") return;
    if (this.#afterReturn && text[0] === "\n") text = text.slice(1);
    this.#afterReturn = false;
    const all = this.#held + text;
    const lines = all.split(/\r\n|\n|\r/);
    this.#afterReturn = all.endsWith("\r");
    this.#held = lines.pop()!;
    for (const line of lines) this.#line(line);
  }
  #line(line: string): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting) waiting(line);
    else this.emit("line", line);
  }
}

export const createInterface = (input: any, output?: any, completer?: unknown, terminal?: boolean): Interface => new Interface(input, output, completer, terminal);

// Control sequences for terminal outputs

type Done = () => void;

function put(stream: any, text: string, done: Done | undefined): boolean {
  if (done !== undefined) checkFunction("callback", done);
  if (text === "" || stream === null || stream === undefined) {
    if (typeof done === "function") queueTick(() => (done as any)(null));
    return true;
  }
  return stream.write(text, done);
}

export function clearLine(stream: any, direction: number, done?: Done): boolean {
  return put(stream, direction < 0 ? "\x1b[1K" : direction > 0 ? "\x1b[0K" : "\x1b[2K", done);
}
export function clearScreenDown(stream: any, done?: Done): boolean {
  return put(stream, "\x1b[0J", done);
}
export function cursorTo(stream: any, x: number, y?: number | Done, done?: Done): boolean {
  if (typeof y === "function") [done, y] = [y, undefined];
  if (Number.isNaN(x) || Number.isNaN(y)) throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument '${Number.isNaN(x) ? "x" : "y"}' is invalid. Received NaN`);
  if (typeof x !== "number" && typeof y !== "number") return put(stream, "", done);
  if (typeof x !== "number") throw coded(TypeError, "ERR_INVALID_CURSOR_POS", "Cannot set cursor row without setting its column");
  return put(stream, typeof y !== "number" ? `\x1b[${x + 1}G` : `\x1b[${y + 1};${x + 1}H`, done);
}
export function moveCursor(stream: any, dx: number, dy: number, done?: Done): boolean {
  const across = dx < 0 ? `\x1b[${-dx}D` : dx > 0 ? `\x1b[${dx}C` : "";
  const down = dy < 0 ? `\x1b[${-dy}A` : dy > 0 ? `\x1b[${dy}B` : "";
  return put(stream, across + down, done);
}
/** Does nothing: a realm's stdin is at its end. */
export function emitKeypressEvents(): void {}
