/**
 * `pi:web/abort`: AbortController and AbortSignal (DOM standard).
 *
 * `AbortSignal.timeout` uses the realm's timers. The listeners of `AbortSignal.any` keep its sources alive,
 * which is enough in a realm without finalisers.
 */

import { invalidArgType, outOfRange } from "pi:node/errors";
import { Event, EventTarget } from "pi:web/events";
import { setTimeout } from "pi:web/timers";

const BUILD = Symbol("build");
const ABORT = Symbol("abort");

/** A signal, with a reason, that an operation should stop. */
export class AbortSignal extends EventTarget {
  #aborted = false;
  #reason: unknown = undefined;
  #onabort: ((event: Event) => void) | null = null;

  constructor(key?: unknown) {
    super();
    if (key !== BUILD) throw Object.assign(new TypeError("Illegal constructor"), { code: "ERR_ILLEGAL_CONSTRUCTOR" });
  }

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): any {
    return this.#reason;
  }

  throwIfAborted(): void {
    if (this.#aborted) throw this.#reason;
  }

  get onabort(): ((event: Event) => void) | null {
    return this.#onabort;
  }

  set onabort(handler: ((event: Event) => void) | null) {
    if (this.#onabort) this.removeEventListener("abort", this.#onabort);
    this.#onabort = typeof handler === "function" ? handler : null;
    if (this.#onabort) this.addEventListener("abort", this.#onabort);
  }

  override get [Symbol.toStringTag](): string {
    return "AbortSignal";
  }

  [ABORT](reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason === undefined ? new DOMException("This operation was aborted", "AbortError") : reason;
    this.dispatchEvent(new Event("abort"));
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return `AbortSignal { aborted: ${this.#aborted} }`;
  }

  static abort(reason?: unknown): AbortSignal {
    const signal = new AbortSignal(BUILD);
    signal[ABORT](reason);
    return signal;
  }

  static timeout(ms: number): AbortSignal {
    if (typeof ms !== "number") throw invalidArgType("delay", "of type number", ms);
    if (!(ms >= 0 && ms <= 4294967295)) throw outOfRange("delay", ">= 0 && <= 4294967295", ms);
    const signal = new AbortSignal(BUILD);
    setTimeout(() => signal[ABORT](new DOMException("The operation was aborted due to timeout", "TimeoutError")), ms);
    return signal;
  }

  static any(sources: Iterable<AbortSignal>): AbortSignal {
    const signal = new AbortSignal(BUILD);
    const all = [...sources];
    const fired = all.find((source) => source.aborted);
    if (fired) {
      signal[ABORT](fired.reason);
      return signal;
    }
    const detach = () => {
      for (const source of all) source.removeEventListener("abort", follow);
    };
    const follow = (event: Event) => {
      detach();
      signal[ABORT]((event.target as AbortSignal).reason);
    };
    for (const source of all) source.addEventListener("abort", follow);
    return signal;
  }
}

/** Owns a signal and can abort it. */
export class AbortController {
  #signal = new AbortSignal(BUILD);

  get signal(): AbortSignal {
    return this.#signal;
  }

  abort(reason?: unknown): void {
    this.#signal[ABORT](reason);
  }

  get [Symbol.toStringTag](): string {
    return "AbortController";
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return `AbortController { signal: AbortSignal { aborted: ${this.#signal.aborted} } }`;
  }
}
