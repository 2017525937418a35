/**
 * `pi:web/safe`: collections for internal state.
 *
 * An extension may replace any method of the built-in classes, for a polyfill or in bad faith. Collections that calls, timers
 * or handlers use have their own methods, captured before any extension runs.
 */

const METHODS = ["get", "set", "has", "delete"] as const;

/** A Map whose size and methods are not looked up on `Map.prototype`. */
export class SafeMap<K, V> extends Map<K, V> {}

for (const name of METHODS) {
  Object.defineProperty(SafeMap.prototype, name, { value: Map.prototype[name] });
}
Object.defineProperty(SafeMap.prototype, "size", Object.getOwnPropertyDescriptor(Map.prototype, "size")!);
Object.freeze(SafeMap.prototype);
