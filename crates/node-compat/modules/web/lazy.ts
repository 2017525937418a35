/**
 * `pi:web/lazy`: globals that load their module on first read.
 *
 * A realm starts with the few globals that nearly every extension touches; URL, fetch, Buffer and
 * the like are accessors that call `importSync` once and then become ordinary data properties, so
 * that an extension that never reads one never pays for it. Assigning to one replaces it, as in Node.
 */

import { importSync } from "pi:engine";

/** Defines `name` on `target` as the export `name` of `specifier`, loaded at the first read. */
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

/** Defines plain, hidden properties, as the platform's globals are. */
export function defineHidden(target: object, members: Record<string, unknown>): void {
  for (const name of Object.keys(members)) {
    Object.defineProperty(target, name, { value: members[name], writable: true, enumerable: false, configurable: true });
  }
}
