/** `node:readline`: reads a stream line by line. */

import promises from "node:readline/promises";
import { Interface, clearLine, clearScreenDown, createInterface, cursorTo, emitKeypressEvents, moveCursor } from "pi:node/readline/interface";
import { abortError } from "pi:node/errors";

Object.defineProperty(Interface.prototype.question, Symbol.for("nodejs.util.promisify.custom"), {
  value(this: Interface, query: string, options: any = {}): Promise<string> {
    if (options.signal?.aborted) return Promise.reject(abortError(options.signal));
    return new Promise((resolve, reject) => {
      options.signal?.addEventListener("abort", () => reject(abortError(options.signal)), { once: true });
      this.question(query, options, resolve);
    });
  },
});

export { Interface, clearLine, clearScreenDown, createInterface, cursorTo, emitKeypressEvents, moveCursor, promises };
export default { Interface, clearLine, clearScreenDown, createInterface, cursorTo, emitKeypressEvents, moveCursor, promises };
