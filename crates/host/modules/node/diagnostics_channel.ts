/** `node:diagnostics_channel`: named channels inside one realm. */

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
/** The five channels of one traced operation. */
export function tracingChannel(name: string): Record<string, Channel | boolean> {
  const names = ["start", "end", "asyncStart", "asyncEnd", "error"];
  return Object.fromEntries(names.map((part) => [part, channel(`tracing:${name}:${part}`)]));
}

export default { Channel, channel, hasSubscribers, subscribe, unsubscribe, tracingChannel };
