/**
 * `pi:web/events`: Event, CustomEvent and EventTarget (DOM standard, without a tree).
 *
 * A target has no parent, so an event visits its target only. As in Node, a listener that throws does
 * not stop the others; its error is reported like an unhandled rejection.
 */

import { coded, invalidArgType } from "pi:node/errors";

const DISPATCH = Symbol("dispatch");
const STOPPED = Symbol("stopped");

interface EventInit {
  bubbles?: boolean;
  cancelable?: boolean;
  composed?: boolean;
}

export class Event {
  static readonly NONE = 0;
  static readonly CAPTURING_PHASE = 1;
  static readonly AT_TARGET = 2;
  static readonly BUBBLING_PHASE = 3;

  readonly type: string;
  readonly bubbles: boolean;
  readonly cancelable: boolean;
  readonly composed: boolean;
  readonly timeStamp = 0;
  readonly isTrusted = false;
  #target: EventTarget | null = null;
  #current: EventTarget | null = null;
  #prevented = false;
  #propagates = true;
  [STOPPED] = false;

  constructor(type: string, init: EventInit = {}) {
    if (arguments.length === 0) throw coded(TypeError, "ERR_MISSING_ARGS", 'The "type" argument must be specified');
    this.type = String(type);
    this.bubbles = Boolean(init?.bubbles);
    this.cancelable = Boolean(init?.cancelable);
    this.composed = Boolean(init?.composed);
  }

  get target(): EventTarget | null {
    return this.#target;
  }
  get srcElement(): EventTarget | null {
    return this.#target;
  }
  get currentTarget(): EventTarget | null {
    return this.#current;
  }
  get eventPhase(): number {
    return this.#current ? Event.AT_TARGET : Event.NONE;
  }
  get defaultPrevented(): boolean {
    return this.#prevented;
  }
  get returnValue(): boolean {
    return !this.#prevented;
  }
  get cancelBubble(): boolean {
    return !this.#propagates;
  }

  composedPath(): EventTarget[] {
    return this.#current ? [this.#current] : [];
  }
  preventDefault(): void {
    if (this.cancelable) this.#prevented = true;
  }
  stopPropagation(): void {
    this.#propagates = false;
  }
  stopImmediatePropagation(): void {
    this.#propagates = false;
    this[STOPPED] = true;
  }

  [DISPATCH](target: EventTarget | null): void {
    if (target) this.#target = target;
    this.#current = target;
  }

  get [Symbol.toStringTag](): string {
    return "Event";
  }
}

export class CustomEvent<T = unknown> extends Event {
  readonly detail: T | null;

  constructor(type: string, init: EventInit & { detail?: T } = {}) {
    super(type, init);
    this.detail = init?.detail ?? null;
  }

  override get [Symbol.toStringTag](): string {
    return "CustomEvent";
  }
}

type Listener = ((event: any) => void) | { handleEvent(event: any): void };

interface Entry {
  listener: Listener;
  capture: boolean;
  once: boolean;
  removed: boolean;
}

interface ListenerOptions {
  capture?: boolean;
  once?: boolean;
  passive?: boolean;
  signal?: EventTarget & { aborted: boolean };
}

/** The listeners for one type. Adding or removing one takes constant time. */
class Listeners {
  #ordered = new Set<Entry>();
  #capturing = new Map<Listener, Entry>();
  #others = new Map<Listener, Entry>();

  /** Adds a listener. Returns false if it is already present. */
  add(entry: Entry): boolean {
    const known = entry.capture ? this.#capturing : this.#others;
    if (known.has(entry.listener)) return false;
    known.set(entry.listener, entry);
    this.#ordered.add(entry);
    return true;
  }
  remove(listener: Listener, capture: boolean): void {
    const known = capture ? this.#capturing : this.#others;
    const entry = known.get(listener);
    if (!entry) return;
    entry.removed = true;
    known.delete(listener);
    this.#ordered.delete(entry);
  }
  inOrder(): Entry[] {
    return [...this.#ordered];
  }
}

export class EventTarget {
  #listeners: Map<string, Listeners> | undefined;

  addEventListener(type: string, listener: Listener | null, options?: boolean | ListenerOptions): void {
    if (arguments.length < 2) throw coded(TypeError, "ERR_MISSING_ARGS", 'The "type" and "listener" arguments must be specified');
    if (listener === null || listener === undefined) return;
    if (typeof listener !== "function" && typeof listener !== "object") throw invalidArgType("listener", "an instance of EventListener", listener);
    const settings = typeof options === "object" && options !== null ? options : { capture: Boolean(options) };
    if (settings.signal?.aborted) return;
    const capture = Boolean(settings.capture);
    this.#listeners ??= new Map();
    let listeners = this.#listeners.get(String(type));
    if (!listeners) this.#listeners.set(String(type), (listeners = new Listeners()));
    if (!listeners.add({ listener, capture, once: Boolean(settings.once), removed: false })) return;
    settings.signal?.addEventListener("abort", () => this.removeEventListener(type, listener, capture), { once: true });
  }

  removeEventListener(type: string, listener: Listener | null, options?: boolean | ListenerOptions): void {
    const capture = typeof options === "object" && options !== null ? Boolean(options.capture) : Boolean(options);
    if (listener) this.#listeners?.get(String(type))?.remove(listener, capture);
  }

  /** Calls the listeners in the order of addition. Returns false if one of them prevented the default. */
  dispatchEvent(event: Event): boolean {
    if (arguments.length === 0) throw coded(TypeError, "ERR_MISSING_ARGS", 'The "event" argument must be specified');
    if (!(event instanceof Event)) throw invalidArgType("event", "an instance of Event", event);
    if (event.currentTarget) throw coded(Error, "ERR_EVENT_RECURSION", `The event "${event.type}" is already being dispatched`);
    event[DISPATCH](this);
    for (const entry of (this.#listeners?.get(event.type)?.inOrder() ?? [])) {
      if (entry.removed) continue;
      if (entry.once) this.removeEventListener(event.type, entry.listener, entry.capture);
      try {
        const { listener } = entry;
        if (typeof listener === "function") listener.call(this, event);
        else listener.handleEvent(event);
      } catch (error) {
        void Promise.reject(error);
      }
      if (event[STOPPED]) break;
    }
    event[DISPATCH](null);
    return !event.defaultPrevented;
  }

  get [Symbol.toStringTag](): string {
    return "EventTarget";
  }
}
