/** `node:readline/promises`: reads a stream line by line; questions return promises. */

import { abortError, invalidArgType } from "pi:node/errors";
import { isWritableNode } from "pi:node/stream/state";
import { Interface as Base, clearLine, clearScreenDown, cursorTo, moveCursor } from "pi:node/readline/interface";

export class Interface extends Base {
  override question(query: string, options: any = {}): any {
    return new Promise((resolve, reject) => {
      const { signal } = options ?? {};
      if (signal?.aborted) return reject(abortError(signal));
      signal?.addEventListener("abort", () => reject(abortError(signal)), { once: true });
      try {
        super.question(query, options, resolve);
      } catch (error) {
        reject(error);
      }
    });
  }
}

export const createInterface = (input: any, output?: any, completer?: unknown, terminal?: boolean): Interface => new Interface(input, output, completer, terminal);

/** Collects cursor movements and writes them together. */
export class Readline {
  #stream: any;
  #pending: string[] = [];
  #autoCommit: boolean;
  constructor(stream: any, options: { autoCommit?: boolean } = {}) {
    if (!isWritableNode(stream)) throw invalidArgType("stream", "an instance of Writable", stream);
    this.#stream = stream;
    this.#autoCommit = Boolean(options.autoCommit);
  }
  #add(write: (target: { write(text: string): boolean }) => unknown): this {
    write({ write: (text) => (this.#autoCommit ? this.#stream.write(text) : Boolean(this.#pending.push(text))) });
    return this;
  }
  clearLine(direction: number): this {
    return this.#add((target) => clearLine(target, direction));
  }
  clearScreenDown(): this {
    return this.#add((target) => clearScreenDown(target));
  }
  cursorTo(x: number, y?: number): this {
    return this.#add((target) => cursorTo(target, x, y));
  }
  moveCursor(dx: number, dy: number): this {
    return this.#add((target) => moveCursor(target, dx, dy));
  }
  rollback(): this {
    this.#pending = [];
    return this;
  }
  commit(): Promise<void> {
    const text = this.#pending.splice(0).join("");
    return new Promise((resolve) => this.#stream.write(text, () => resolve()));
  }
}

export default { Interface, Readline, createInterface };
