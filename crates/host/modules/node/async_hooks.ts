/**
 * `node:async_hooks`: contexts that hold during a synchronous call.
 *
 * The engine gives no hook into promises, so a store is not carried over an `await`: `run` restores the
 * outer store when its callback returns. Binding a function (`AsyncResource.bind`, `snapshot`) keeps the
 * store explicitly and works everywhere.
 */

type AnyFunction = (...args: any[]) => any;

const storages: AsyncLocalStorage<any>[] = [];

export class AsyncLocalStorage<T> {
  #store: T | undefined;
  #known = false;

  static bind<F extends AnyFunction>(callback: F): F {
    const restore = AsyncLocalStorage.snapshot();
    return ((...args: unknown[]) => restore(callback, ...args)) as F;
  }
  static snapshot(): (callback: AnyFunction, ...args: unknown[]) => any {
    const kept = storages.map((storage) => [storage, storage.#store] as const);
    return (callback, ...args) => {
      const outer = kept.map(([storage]) => storage.#store);
      for (const [storage, store] of kept) storage.#store = store;
      try {
        return callback(...args);
      } finally {
        for (const [at, [storage]] of kept.entries()) storage.#store = outer[at];
      }
    };
  }

  getStore(): T | undefined {
    return this.#store;
  }
  enterWith(store: T): void {
    this.#remember();
    this.#store = store;
  }
  run<R>(store: T, callback: (...args: any[]) => R, ...args: unknown[]): R {
    this.#remember();
    const outer = this.#store;
    this.#store = store;
    try {
      return callback(...args);
    } finally {
      this.#store = outer;
    }
  }
  exit<R>(callback: (...args: any[]) => R, ...args: unknown[]): R {
    return this.run(undefined as T, callback, ...args);
  }
  disable(): void {
    this.#store = undefined;
  }

  #remember(): void {
    if (this.#known) return;
    this.#known = true;
    storages.push(this);
  }
}

export class AsyncResource {
  readonly type: string;
  #restore = AsyncLocalStorage.snapshot();

  constructor(type: string) {
    this.type = type;
  }
  static bind<F extends AnyFunction>(callback: F): F {
    return AsyncLocalStorage.bind(callback);
  }
  bind<F extends AnyFunction>(callback: F): F {
    return ((...args: unknown[]) => this.runInAsyncScope(callback, undefined, ...args)) as F;
  }
  runInAsyncScope<R>(callback: (...args: any[]) => R, self?: unknown, ...args: unknown[]): R {
    return this.#restore(() => Reflect.apply(callback, self, args));
  }
  emitDestroy(): this {
    return this;
  }
  asyncId(): number {
    return 1;
  }
  triggerAsyncId(): number {
    return 0;
  }
}

export function createHook(): { enable(): object; disable(): object } {
  const hook = { enable: () => hook, disable: () => hook };
  return hook;
}
export function executionAsyncId(): number {
  return 1;
}
export function triggerAsyncId(): number {
  return 0;
}
export function executionAsyncResource(): object {
  return {};
}

export default { AsyncLocalStorage, AsyncResource, createHook, executionAsyncId, triggerAsyncId, executionAsyncResource };
