/**
 * `node:async_hooks`: stores that follow the asynchronous flow. `pi:web/contexts` implements the flow.
 *
 * Hooks (`createHook`) are accepted and never called: a realm has no asynchronous ids.
 */

import { checkFunction } from "pi:node/errors";
import { bind, enter, now, runIn, track } from "pi:web/contexts";

type AnyFunction = (...args: any[]) => any;

export class AsyncLocalStorage<T> {
  static bind<F extends AnyFunction>(callback: F): F {
    checkFunction("fn", callback);
    track();
    return bind(callback);
  }
  static snapshot(): (callback: AnyFunction, ...args: unknown[]) => any {
    const context = now();
    return (callback, ...args) => runIn(context, callback, undefined, args);
  }

  getStore(): T | undefined {
    return now()?.get(this) as T | undefined;
  }
  enterWith(store: T): void {
    track();
    enter(new Map(now()).set(this, store));
  }
  run<R>(store: T, callback: (...args: any[]) => R, ...args: unknown[]): R {
    track();
    return runIn(new Map(now()).set(this, store), callback, undefined, args);
  }
  exit<R>(callback: (...args: any[]) => R, ...args: unknown[]): R {
    return this.run(undefined as T, callback, ...args);
  }
  disable(): void {
    const context = new Map(now());
    context.delete(this);
    enter(context);
  }
}

export class AsyncResource {
  readonly type: string;
  #context = now();

  constructor(type: string) {
    this.type = type;
  }
  static bind<F extends AnyFunction>(callback: F, type = "bound-anonymous-fn", self?: unknown): F {
    return new AsyncResource(type).bind(callback, self);
  }
  bind<F extends AnyFunction>(callback: F, self?: unknown): F {
    checkFunction("fn", callback);
    const resource = this;
    return function (this: unknown, ...args: unknown[]) {
      return resource.runInAsyncScope(callback, self ?? this, ...args);
    } as F;
  }
  runInAsyncScope<R>(callback: (...args: any[]) => R, self?: unknown, ...args: unknown[]): R {
    return runIn(this.#context, callback, self, args);
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
