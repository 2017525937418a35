/**
 * `pi:web/channels`: MessageChannel, MessagePort and BroadcastChannel (HTML standard), inside one realm.
 *
 * There is no other thread to send a port to, so both ends are here. A message is cloned at once and arrives in a separate task,
 * in the order of posting. Ports accept listeners in both styles, as in Node.
 */

import { importSync } from "pi:engine";
import { coded } from "pi:node/errors";
import { Event, EventTarget } from "pi:web/events";
import { setImmediate } from "pi:web/timers";

type Handler = ((event: any) => void) | null;

const clone = (value: unknown, options?: { transfer?: any[] }): unknown => importSync("pi:web/clone").structuredClone(value, options);

function message(type: string, data: unknown, ports: MessagePort[]): Event {
  const { MessageEvent } = importSync("pi:web/websocket");
  return new MessageEvent(type, { data, ports });
}

/** Defines `on...` properties, each of which holds one listener; assignment replaces it. */
abstract class Receiver extends EventTarget {
  #handlers = new Map<string, Handler>();

  _handler(type: string): Handler {
    return this.#handlers.get(type) ?? null;
  }
  _setHandler(type: string, handler: Handler): void {
    const old = this.#handlers.get(type);
    if (old) this.removeEventListener(type, old);
    const next = typeof handler === "function" ? handler : null;
    this.#handlers.set(type, next);
    if (next) this.addEventListener(type, next);
  }
  get onmessage(): Handler {
    return this._handler("message");
  }
  set onmessage(handler: Handler) {
    this._setHandler("message", handler);
  }
  get onmessageerror(): Handler {
    return this._handler("messageerror");
  }
  set onmessageerror(handler: Handler) {
    this._setHandler("messageerror", handler);
  }
}

const BUILD = Symbol("build");

interface Posted {
  data: unknown;
  ports: MessagePort[];
}

export class MessagePort extends Receiver {
  #other: MessagePort | undefined;
  #queue: Posted[] = [];
  #started = false;
  #closed = false;
  #wrapped = new Map<(...args: any[]) => void, (event: any) => void>();

  constructor(key?: unknown) {
    super();
    if (key !== BUILD) throw coded(TypeError, "ERR_CONSTRUCT_CALL_INVALID", "Constructor cannot be called");
  }

  static _pair(): [MessagePort, MessagePort] {
    const [one, two] = [new MessagePort(BUILD), new MessagePort(BUILD)];
    one.#other = two;
    two.#other = one;
    return [one, two];
  }

  postMessage(data: unknown, options?: any[] | { transfer?: any[] }): void {
    const transfer: any[] = (Array.isArray(options) ? options : options?.transfer) ?? [];
    const ports = transfer.filter((given) => given instanceof MessagePort);
    const buffers = transfer.filter((given) => !(given instanceof MessagePort));
    const posted = { data: ports.includes(data as MessagePort) ? data : clone(data, { transfer: buffers }), ports };
    const other = this.#other;
    if (this.#closed || !other) return;
    other.#queue.push(posted);
    if (other.#started) other.#arrange();
  }

  start(): void {
    if (this.#started || this.#closed) return;
    this.#started = true;
    for (let waiting = this.#queue.length; waiting > 0; waiting--) this.#arrange();
  }

  close(): void {
    if (this.#closed) return;
    const other = this.#other;
    for (const port of [this, other]) {
      if (!port || port.#closed) continue;
      port.#closed = true;
      setImmediate(() => port.dispatchEvent(new Event("close")));
    }
  }

  /** Returns one message that has arrived, without an event, for `receiveMessageOnPort`. */
  _take(): Posted | undefined {
    return this.#queue.shift();
  }

  override set onmessage(handler: Handler) {
    this._setHandler("message", handler);
    if (handler) this.start();
  }
  override get onmessage(): Handler {
    return this._handler("message");
  }

  on(type: string, listener: (...args: any[]) => void): this {
    const wrapped = (event: any) => listener(type === "message" ? event.data : event);
    this.#wrapped.set(listener, wrapped);
    this.addEventListener(type, wrapped);
    if (type === "message") this.start();
    return this;
  }
  once(type: string, listener: (...args: any[]) => void): this {
    const once = (value: unknown) => {
      this.off(type, once);
      listener(value);
    };
    return this.on(type, once);
  }
  off(type: string, listener: (...args: any[]) => void): this {
    const wrapped = this.#wrapped.get(listener);
    if (wrapped) this.removeEventListener(type, wrapped);
    this.#wrapped.delete(listener);
    return this;
  }
  addListener(type: string, listener: (...args: any[]) => void): this {
    return this.on(type, listener);
  }
  removeListener(type: string, listener: (...args: any[]) => void): this {
    return this.off(type, listener);
  }
  ref(): void {}
  unref(): void {}
  hasRef(): boolean {
    return false;
  }

  #arrange(): void {
    setImmediate(() => {
      const posted = this.#queue.shift();
      if (posted) this.dispatchEvent(message("message", posted.data, posted.ports));
    });
  }
}

export class MessageChannel {
  readonly port1: MessagePort;
  readonly port2: MessagePort;

  constructor() {
    [this.port1, this.port2] = MessagePort._pair();
  }
}

const listening = new Map<string, Set<BroadcastChannel>>();

/** A channel to all other channels of the same name in the realm. */
export class BroadcastChannel extends Receiver {
  readonly name: string;
  #closed = false;

  constructor(name: string) {
    super();
    if (arguments.length === 0) throw coded(TypeError, "ERR_MISSING_ARGS", 'The "name" argument must be specified');
    this.name = String(name);
    let group = listening.get(this.name);
    if (!group) listening.set(this.name, (group = new Set()));
    group.add(this);
  }

  postMessage(data: unknown): void {
    if (this.#closed) throw new DOMException("BroadcastChannel is closed.", "InvalidStateError");
    const copied = clone(data);
    for (const other of [...(listening.get(this.name) ?? [])]) {
      if (other === this) continue;
      const own = clone(copied);
      setImmediate(() => {
        if (!other.#closed) other.dispatchEvent(message("message", own, []));
      });
    }
  }

  close(): void {
    this.#closed = true;
    listening.get(this.name)?.delete(this);
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }

  override get [Symbol.toStringTag](): string {
    return "BroadcastChannel";
  }
}
