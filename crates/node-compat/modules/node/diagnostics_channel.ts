/** `node:diagnostics_channel`: named channels inside one realm. */

import { checkFunction } from "pi:node/errors";

type Subscriber = (message: unknown, name: string | symbol) => void;

export class Channel {
  readonly name: string | symbol;
  #subscribers: Subscriber[] = [];

  constructor(name: string | symbol) {
    this.name = name;
  }
  get hasSubscribers(): boolean {
    return this.#subscribers.length > 0;
  }
  subscribe(subscriber: Subscriber): void {
    this.#subscribers = [...this.#subscribers, subscriber];
  }
  unsubscribe(subscriber: Subscriber): boolean {
    const at = this.#subscribers.indexOf(subscriber);
    if (at < 0) return false;
    this.#subscribers = this.#subscribers.toSpliced(at, 1);
    return true;
  }
  publish(message: unknown): void {
    for (const subscriber of this.#subscribers) subscriber(message, this.name);
  }
  bindStore(): void {}
  unbindStore(): void {}
  runStores<T>(message: unknown, body: (...args: any[]) => T, self?: unknown, ...args: unknown[]): T {
    this.publish(message);
    return Reflect.apply(body, self, args);
  }
}

const channels = new Map<string | symbol, Channel>();

export function channel(name: string | symbol): Channel {
  let found = channels.get(name);
  if (!found) channels.set(name, (found = new Channel(name)));
  return found;
}
export function hasSubscribers(name: string | symbol): boolean {
  return channels.get(name)?.hasSubscribers ?? false;
}
export function subscribe(name: string | symbol, subscriber: Subscriber): void {
  channel(name).subscribe(subscriber);
}
export function unsubscribe(name: string | symbol, subscriber: Subscriber): boolean {
  return channels.get(name)?.unsubscribe(subscriber) ?? false;
}
const PARTS = ["start", "end", "asyncStart", "asyncEnd", "error"] as const;
type Part = (typeof PARTS)[number];
type Subscribers = Partial<Record<Part, Subscriber>>;

/** The five channels of one traced operation. */
class TracingChannel {
  declare readonly start: Channel;
  declare readonly end: Channel;
  declare readonly asyncStart: Channel;
  declare readonly asyncEnd: Channel;
  declare readonly error: Channel;

  constructor(of: string | Record<Part, Channel>) {
    for (const part of PARTS) {
      Object.defineProperty(this, part, { value: typeof of === "string" ? channel(`tracing:${of}:${part}`) : of[part], enumerable: true });
    }
  }
  get hasSubscribers(): boolean {
    return PARTS.some((part) => this[part].hasSubscribers);
  }
  subscribe(subscribers: Subscribers): void {
    for (const part of PARTS) if (subscribers[part]) this[part].subscribe(subscribers[part]);
  }
  unsubscribe(subscribers: Subscribers): boolean {
    return PARTS.filter((part) => subscribers[part]).map((part) => this[part].unsubscribe(subscribers[part]!)).every(Boolean);
  }

  /** Runs the synchronous part of a traced operation. */
  #begun<T>(context: any, work: () => T): T {
    return this.start.runStores(context, () => {
      try {
        return work();
      } catch (error) {
        context.error = error;
        this.error.publish(context);
        throw error;
      } finally {
        this.end.publish(context);
      }
    });
  }

  traceSync<T>(body: (...args: any[]) => T, context: any = {}, self?: unknown, ...args: unknown[]): T {
    if (!this.hasSubscribers) return Reflect.apply(body, self, args);
    return this.#begun(context, () => (context.result = Reflect.apply(body, self, args)));
  }

  tracePromise(body: (...args: any[]) => any, context: any = {}, self?: unknown, ...args: unknown[]): Promise<any> {
    if (!this.hasSubscribers) return Reflect.apply(body, self, args);
    const settled = (key: "result" | "error", value: unknown) => {
      context[key] = value;
      if (key === "error") this.error.publish(context);
      this.asyncStart.publish(context);
      this.asyncEnd.publish(context);
      if (key === "error") throw value;
      return value;
    };
    return this.#begun(context, () => Promise.resolve(Reflect.apply(body, self, args)).then((value) => settled("result", value), (error) => settled("error", error)));
  }

  /** Traces a call whose callback is the argument at `position`, by default the last one. */
  traceCallback<T>(body: (...args: any[]) => T, position: number = -1, context: any = {}, self?: unknown, ...args: any[]): T {
    if (!this.hasSubscribers) return Reflect.apply(body, self, args);
    const callback = args.at(position);
    checkFunction("callback", callback);
    const { error: errors, asyncStart, asyncEnd } = this;
    args.splice(position, 1, function (this: unknown, error: unknown, result: unknown, ...rest: unknown[]) {
      if (error) {
        context.error = error;
        errors.publish(context);
      } else context.result = result;
      asyncStart.runStores(context, () => {
        try {
          return Reflect.apply(callback, this, [error, result, ...rest]);
        } finally {
          asyncEnd.publish(context);
        }
      });
    });
    return this.#begun(context, () => Reflect.apply(body, self, args));
  }
}
export function tracingChannel(of: string | Record<Part, Channel>): TracingChannel {
  return new TracingChannel(of);
}

export default { Channel, channel, hasSubscribers, subscribe, unsubscribe, tracingChannel };
