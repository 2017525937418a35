/**
 * `pi:web/weak`: `WeakRef` and `FinalizationRegistry` of a realm.
 *
 * When memory is collected must not be seen, or two runs would differ. So a reference keeps its target for as long as it
 * is there itself, and a registry never calls: the language allows both. What a realm may hold is bounded elsewhere.
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
