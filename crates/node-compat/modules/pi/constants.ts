/**
 * `pi:pi/constants`: the target to which `extc` redirects assignments to constants.
 *
 *     limit = 2   →   __pi_constant(limit).held = 2
 */

/** Wraps a constant: reading `held` returns its value, and assigning throws the language's error. */
function constant<T>(value: T): { held: T } {
  return {
    get held(): T {
      return value;
    },
    set held(_: T) {
      throw new TypeError("Assignment to constant variable.");
    },
  };
}

Object.defineProperty(globalThis, "__pi_constant", { value: constant });
