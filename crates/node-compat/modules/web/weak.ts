/**
 * `pi:web/weak`: `WeakRef` and `FinalizationRegistry` of a realm.
 *
 * The time of garbage collection must not be observable, or two runs would differ. So a reference keeps its target alive while
 * it exists itself, and a registry never calls back: the language permits both. The realm's memory limit bounds the cost.
 */

const isKey = (value: unknown): boolean => (typeof value === "object" && value !== null) || typeof value === "function" || (typeof value === "symbol" && Symbol.keyFor(value) === undefined);

export class WeakRef<T extends object> {
  readonly #target: T;

  constructor(target: T) {
    if (!isKey(target)) throw new TypeError("WeakRef: target must be an object");
    this.#target = target;
  }
  deref(): T {
    return this.#target;
  }
  get [Symbol.toStringTag](): string {
    return "WeakRef";
  }
}

export class FinalizationRegistry {
  readonly #tokens = new WeakSet<object>();

  constructor(cleanup: unknown) {
    if (typeof cleanup !== "function") throw new TypeError("FinalizationRegistry: cleanup must be callable");
  }
  register(target: object, held: unknown, token?: object): void {
    if (!isKey(target)) throw new TypeError("FinalizationRegistry.prototype.register: invalid target");
    if (target === held) throw new TypeError("FinalizationRegistry.prototype.register: target and holdings must not be same");
    if (token !== undefined) this.#tokens.add(token);
  }
  unregister(token: object): boolean {
    if (!isKey(token)) throw new TypeError(`Invalid unregisterToken ('${String(token)}')`);
    return this.#tokens.delete(token);
  }
  get [Symbol.toStringTag](): string {
    return "FinalizationRegistry";
  }
}
