/**
 * `pi:pi/constants`: what `extc` puts where the extension assigns to a constant.
 *
 *     limit = 2   →   __pi_constant(limit).held = 2
 */

/** What stands where a constant is assigned to: it is what it was, and throws what the language throws. */
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
