/** `pi:web/performance`: `performance` on the driver's clock. Marks are kept in order and reported to observers. */

import { elapsedMs, epochMs } from "pi:engine";
import { setImmediate } from "pi:web/timers";

const BUILD = Symbol("build");

export class PerformanceEntry {
  readonly name: string;
  readonly entryType: string;
  readonly startTime: number;
  readonly duration: number;

  constructor(key: unknown, name: string, entryType: string, startTime: number, duration: number) {
    if (key !== BUILD) throw Object.assign(new TypeError("Illegal constructor"), { code: "ERR_ILLEGAL_CONSTRUCTOR" });
    this.name = name;
    this.entryType = entryType;
    this.startTime = startTime;
    this.duration = duration;
  }
  toJSON(): object {
    return { ...this };
  }
}

export class PerformanceMark extends PerformanceEntry {
  readonly detail: unknown;

  constructor(name: string, options: { startTime?: number; detail?: unknown } = {}) {
    super(BUILD, String(name), "mark", options.startTime ?? elapsedMs(), 0);
    this.detail = options.detail ?? null;
  }
}

export class PerformanceMeasure extends PerformanceEntry {
  readonly detail: unknown;

  constructor(key: unknown, name: string, startTime: number, duration: number, detail: unknown) {
    super(key, name, "measure", startTime, duration);
    this.detail = detail ?? null;
  }
}

/** Never created: nothing is fetched without the extension. */
export class PerformanceResourceTiming extends PerformanceEntry {}

let entries: PerformanceEntry[] = [];
let origin: number | undefined;

const ordered = (list: PerformanceEntry[]) => [...list].sort((one, other) => one.startTime - other.startTime);
const named = (list: PerformanceEntry[], name: string, type?: string) =>
  list.filter((entry) => entry.name === name && (type === undefined || entry.entryType === type));

export class PerformanceObserverEntryList {
  #list: PerformanceEntry[];

  constructor(list: PerformanceEntry[]) {
    this.#list = ordered(list);
  }
  getEntries(): PerformanceEntry[] {
    return [...this.#list];
  }
  getEntriesByType(type: string): PerformanceEntry[] {
    return this.#list.filter((entry) => entry.entryType === type);
  }
  getEntriesByName(name: string, type?: string): PerformanceEntry[] {
    return named(this.#list, name, type);
  }
}

const observers = new Set<PerformanceObserver>();

/** Receives marks and measures in a task after they were created. */
export class PerformanceObserver {
  static readonly supportedEntryTypes: readonly string[] = ["mark", "measure"];
  #callback: (list: PerformanceObserverEntryList, observer: PerformanceObserver) => void;
  #types = new Set<string>();
  #waiting: PerformanceEntry[] = [];

  constructor(callback: (list: PerformanceObserverEntryList, observer: PerformanceObserver) => void) {
    this.#callback = callback;
  }
  observe(options: { entryTypes?: string[]; type?: string; buffered?: boolean }): void {
    if (options.entryTypes) this.#types = new Set(options.entryTypes);
    else if (options.type !== undefined) {
      this.#types.add(options.type);
      if (options.buffered) for (const entry of entries) this._hear(entry);
    }
    observers.add(this);
  }
  disconnect(): void {
    observers.delete(this);
    this.#types.clear();
    this.#waiting = [];
  }
  takeRecords(): PerformanceEntry[] {
    return this.#waiting.splice(0);
  }

  _hear(entry: PerformanceEntry): void {
    if (!this.#types.has(entry.entryType)) return;
    this.#waiting.push(entry);
    if (this.#waiting.length > 1) return;
    setImmediate(() => {
      if (this.#waiting.length > 0) this.#callback(new PerformanceObserverEntryList(this.takeRecords()), this);
    });
  }
}

class Performance {
  now(): number {
    return elapsedMs();
  }

  /** Wall-clock time at which `now()` was 0, in milliseconds. */
  get timeOrigin(): number {
    return (origin ??= epochMs() - elapsedMs());
  }

  mark(name: string, options: { startTime?: number; detail?: unknown } = {}): PerformanceMark {
    return this.#add(new PerformanceMark(name, options));
  }

  measure(name: string, start?: string | { start?: string | number; end?: string | number; duration?: number; detail?: unknown }, end?: string): PerformanceMeasure {
    const range = typeof start === "object" && start !== null ? start : { start, end, detail: undefined };
    const length = (range as { duration?: number }).duration;
    let to = this.#at(range.end);
    const from = this.#at(range.start) ?? (to !== undefined && length !== undefined ? to - length : 0);
    to ??= length !== undefined ? from + length : elapsedMs();
    return this.#add(new PerformanceMeasure(BUILD, String(name), from, to - from, range.detail));
  }

  getEntries(): PerformanceEntry[] {
    return ordered(entries);
  }
  getEntriesByName(name: string, type?: string): PerformanceEntry[] {
    return named(ordered(entries), name, type);
  }
  getEntriesByType(type: string): PerformanceEntry[] {
    return ordered(entries).filter((entry) => entry.entryType === type);
  }
  clearMarks(name?: string): void {
    this.#clear("mark", name);
  }
  clearMeasures(name?: string): void {
    this.#clear("measure", name);
  }
  clearResourceTimings(): void {}
  setResourceTimingBufferSize(): void {}
  timerify<F extends (...args: any[]) => any>(callback: F): F {
    return callback;
  }
  eventLoopUtilization(): { idle: number; active: number; utilization: number } {
    return { idle: 0, active: 0, utilization: 0 };
  }
  toJSON(): object {
    return { timeOrigin: this.timeOrigin };
  }

  get [Symbol.toStringTag](): string {
    return "Performance";
  }

  #add<E extends PerformanceEntry>(entry: E): E {
    entries.push(entry);
    for (const observer of observers) observer._hear(entry);
    return entry;
  }

  #at(mark: string | number | undefined): number | undefined {
    if (mark === undefined || typeof mark === "number") return mark;
    const found = entries.findLast((entry) => entry.entryType === "mark" && entry.name === mark);
    if (!found) throw new DOMException(`The "${mark}" performance mark has not been set`, "SyntaxError");
    return found.startTime;
  }

  #clear(type: string, name: string | undefined): void {
    entries = entries.filter((entry) => entry.entryType !== type || (name !== undefined && entry.name !== name));
  }
}

export const performance = new Performance();
export { Performance };
