/**
 * Subscribers of hooks, in ascending priority; subscribers of equal priority in the order of subscription.
 *
 * A subscriber that throws is isolated: the fault is kept for the driver, the next subscriber runs, and a filter's value is
 * unchanged. A faithful registry passes the error on instead, like rummy: then an emit ends at the first subscriber that throws.
 */

export type Callback = (...args: any[]) => any;

interface Subscriber {
  callback: Callback;
  priority: number;
  plugin: string;
}

/** Range of priorities that one delivery calls, including both ends; a missing end means no bound. */
export interface Band {
  from?: number | null;
  to?: number | null;
}

const isIn = (priority: number, { from, to }: Band): boolean => priority >= (from ?? -Infinity) && priority <= (to ?? Infinity);

/** Returns the distinct priorities of a list, in ascending order. */
export const prioritiesOf = (list: readonly { priority: number }[]): number[] => [...new Set(list.map(({ priority }) => priority))];

/** An exception of a subscriber. */
export interface Fault {
  plugin: string;
  hook: string;
  message: string;
}

export const DEFAULT_PRIORITY = 10;

/** Inserts an item after all others of its priority. */
export function insertByPriority<T extends { priority: number }>(list: T[], item: T): void {
  const at = list.findIndex((other) => other.priority > item.priority);
  list.splice(at < 0 ? list.length : at, 0, item);
}

/** Returns the priority of a registration. Fails if the callback is not a function or the priority is not a number. */
export function placeOf(what: string, callback: unknown, priority: unknown): number {
  if (typeof callback !== "function") throw new TypeError(`${what}: the callback is ${kindOf(callback)}, it has to be a function`);
  const place = Number(priority);
  if (!Number.isFinite(place)) throw new TypeError(`${what}: the priority "${priority}" is no number`);
  return place;
}

/** Hooks whose values the host reads, so that a filter has to return the same kind of value. */
const TYPED = new Set([
  "run.config", "assembly.system", "assembly.user", "instructions.toolDocs", "llm.messages", "llm.response", "entry.recording",
  "turn.beforeDispatch", "turn.verdict",
]);

const kindOf = (value: unknown): string => {
  if (value === null || value === undefined) return "nothing";
  return Array.isArray(value) ? "a list" : `${typeof value === "object" ? "an" : "a"} ${typeof value}`;
};

/** Returns the message of a thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export class HookRegistry {
  readonly #events = new Map<string, Subscriber[]>();
  readonly #filters = new Map<string, Subscriber[]>();
  readonly #processors: Subscriber[] = [];
  readonly #faithful: boolean;
  #faults: Fault[] = [];
  /** Name of the plugin whose code is registering. */
  registering = "";
  /** Notified of each emit of a plugin, because the host calls subscribers in other realms. */
  onEmit: ((hook: string, args: unknown[]) => void) | undefined;
  /** Number of changes of the lists. */
  version = 0;

  constructor(faithful = false) {
    this.#faithful = faithful;
  }

  addEvent(hook: string, callback: Callback, priority: unknown = DEFAULT_PRIORITY): void {
    this.#add(this.#events, hook, callback, priority);
  }

  addFilter(hook: string, callback: Callback, priority: unknown = DEFAULT_PRIORITY): void {
    this.#add(this.#filters, hook, callback, priority);
  }

  removeEvent(hook: string, callback: Callback): void {
    this.version += 1;
    remove(this.#events.get(hook), callback);
  }

  removeFilter(hook: string, callback: Callback): void {
    this.version += 1;
    remove(this.#filters.get(hook), callback);
  }

  /** Calls each subscriber and waits for it before the next one. */
  async emitEvent(hook: string, ...args: unknown[]): Promise<void> {
    await this.emitBand(hook, {}, args);
    this.onEmit?.(hook, args);
  }

  /** Calls the subscribers of a band. */
  async emitBand(hook: string, band: Band, args: unknown[]): Promise<void> {
    // Iterates over the list itself, so that subscribers added during the emit are called, too.
    for (const subscriber of this.#events.get(hook) ?? []) {
      if (!isIn(subscriber.priority, band)) continue;
      await this.guarded(subscriber.plugin, hook, undefined, () => subscriber.callback(...args));
    }
  }

  /** Passes a value through the subscribers. */
  async applyFilters(hook: string, value: unknown, ...args: unknown[]): Promise<any> {
    return this.filterBand(hook, {}, value, args);
  }

  /** Passes a value through the subscribers of a band. */
  async filterBand(hook: string, band: Band, value: unknown, args: unknown[]): Promise<any> {
    let threaded = value;
    for (const subscriber of this.#filters.get(hook) ?? []) {
      if (!isIn(subscriber.priority, band)) continue;
      const before = threaded;
      const after = await this.guarded(subscriber.plugin, hook, before, () => subscriber.callback(before, ...args));
      threaded = this.#fitting(subscriber.plugin, hook, before, after);
    }
    return threaded;
  }

  /** Keeps the previous value if a filter returns another kind, with which later filters would fail. */
  #fitting(plugin: string, hook: string, before: unknown, after: unknown): unknown {
    const [was, is] = [kindOf(before), kindOf(after)];
    if (this.#faithful || was === "nothing" || was === is || !TYPED.has(hook)) return after;
    this.fault(plugin, hook, new TypeError(`the filter returned ${is}, it has to return ${was}`));
    return before;
  }

  onTurn(callback: Callback, priority: unknown = DEFAULT_PRIORITY): void {
    insertByPriority(this.#processors, { callback, priority: placeOf("onTurn", callback, priority), plugin: this.registering });
  }

  async processTurn(rummy: unknown): Promise<void> {
    for (const processor of this.#processors) {
      await this.guarded(processor.plugin, "onTurn", undefined, () => processor.callback(rummy));
    }
  }

  /** Runs code of a plugin. If it throws, records a fault and returns `otherwise`. */
  async guarded<T>(plugin: string, hook: string, otherwise: T, run: () => T | Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      if (this.#faithful) throw error;
      this.fault(plugin, hook, error);
      return otherwise;
    }
  }

  /** Records a fault and logs it. */
  fault(plugin: string, hook: string, error: unknown): void {
    const fault = { plugin, hook, message: messageOf(error) };
    this.#faults.push(fault);
    console.error(`[rummy] ${plugin || "a plugin"}, ${hook}: ${fault.message}`);
  }

  /** Returns the faults since the last call. */
  takeFaults(): Fault[] {
    const taken = this.#faults;
    this.#faults = [];
    return taken;
  }

  /** Returns the number of subscribers of each hook, by name. */
  counts(): Record<string, number> {
    const all = [...this.#events, ...this.#filters].filter(([, list]) => list.length > 0);
    return Object.fromEntries(all.map(([hook, list]): [string, number] => [hook, list.length]).sort());
  }

  /** Returns the priorities of the subscribers of each hook. */
  priorities(): { events: Record<string, number[]>; filters: Record<string, number[]> } {
    const of = (lists: Map<string, Subscriber[]>) =>
      Object.fromEntries([...lists].filter(([, list]) => list.length > 0).map(([hook, list]) => [hook, prioritiesOf(list)]));
    return { events: of(this.#events), filters: of(this.#filters) };
  }

  #add(to: Map<string, Subscriber[]>, hook: string, callback: Callback, priority: unknown): void {
    const place = placeOf(hook, callback, priority);
    let list = to.get(hook);
    if (!list) to.set(hook, (list = []));
    insertByPriority(list, { callback, priority: place, plugin: this.registering });
    this.version += 1;
  }
}

function remove(list: Subscriber[] | undefined, callback: Callback): void {
  const at = list?.findIndex((subscriber) => subscriber.callback === callback) ?? -1;
  if (at >= 0) list!.splice(at, 1);
}
