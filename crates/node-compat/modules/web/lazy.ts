/**
 * `pi:web/lazy`: globals that load their module on first read.
 *
 * A realm starts with the few globals that nearly every extension uses. URL, fetch, Buffer and
 * others are accessors that call `importSync` once and then become ordinary data properties, so
 * that an extension that does not read one has no cost. Assigning to one replaces it, as in Node.
 */

import { importSync } from "pi:engine";

/** Defines `name` on `target` as the export `exported` of `specifier`, which is loaded at the first read. */
export function defineLazy(target: object, name: string, specifier: string, exported: string = name): void {
  const settle = (value: unknown) => {
    Object.defineProperty(target, name, { value, writable: true, enumerable: false, configurable: true });
    return value;
  };
  Object.defineProperty(target, name, {
    get: () => settle(importSync(specifier)[exported]),
    set: settle,
    enumerable: false,
    configurable: true,
  });
}

/** Defines plain properties that are not enumerable, like the platform's globals. */
export function defineHidden(target: object, members: Record<string, unknown>): void {
  for (const name of Object.keys(members)) {
    Object.defineProperty(target, name, { value: members[name], writable: true, enumerable: false, configurable: true });
  }
}
