/** `pi:web/performance`: the clock of the driver in the shape of `performance`. Marks are kept in order. */

import { elapsedMs, epochMs } from "pi:engine";

interface Entry {
  name: string;
  entryType: string;
  startTime: number;
  duration: number;
  detail: unknown;
}

let entries: Entry[] = [];
let origin: number | undefined;

class Performance {
  now(): number {
    return elapsedMs();
  }

  /** Wall-clock time at which `now()` was 0. */
  get timeOrigin(): number {
    return (origin ??= epochMs() - elapsedMs());
  }

  mark(name: string, options: { startTime?: number; detail?: unknown } = {}): Entry {
    return this.#add(name, "mark", options.startTime ?? elapsedMs(), 0, options.detail);
  }

  measure(name: string, start?: string | { start?: string | number; end?: string | number; detail?: unknown }, end?: string): Entry {
    const range = typeof start === "object" && start !== null ? start : { start, end, detail: undefined };
    const from = this.#at(range.start) ?? 0;
    const to = this.#at(range.end) ?? elapsedMs();
    return this.#add(name, "measure", from, to - from, range.detail);
  }

  getEntries(): Entry[] {
    return [...entries];
  }
  getEntriesByName(name: string, type?: string): Entry[] {
    return entries.filter((entry) => entry.name === name && (type === undefined || entry.entryType === type));
  }
  getEntriesByType(type: string): Entry[] {
    return entries.filter((entry) => entry.entryType === type);
  }
  clearMarks(name?: string): void {
    this.#clear("mark", name);
  }
  clearMeasures(name?: string): void {
    this.#clear("measure", name);
  }
  toJSON(): object {
    return { timeOrigin: this.timeOrigin };
  }

  get [Symbol.toStringTag](): string {
    return "Performance";
  }

  #add(name: string, entryType: string, startTime: number, duration: number, detail: unknown): Entry {
    const entry = { name: String(name), entryType, startTime, duration, detail: detail ?? null };
    entries.push(entry);
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
