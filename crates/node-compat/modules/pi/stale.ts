/**
 * `pi:pi/stale`: tracks which objects of this realm still belong to the session.
 *
 * After a reload, other realms replace this one; after a change of session, the factories run again here. Older code continues to
 * run; its `pi` and contexts throw, as in pi.
 */

const MESSAGE =
  "This extension ctx is stale after session replacement or reload. Do not use a captured pi or command ctx after " +
  "ctx.newSession(), ctx.fork(), ctx.switchSession(), or ctx.reload(). For newSession, fork, and switchSession, move " +
  "post-replacement work into withSession and use the ctx passed to withSession. For reload, do not use the old ctx " +
  "after await ctx.reload().";

let retirements = 0;

/** Handles `retired`: all existing objects become stale. */
export function retire(): void {
  retirements += 1;
}

/** Returns a check that throws once the existing objects are retired. */
export function currency(): () => void {
  const born = retirements;
  return () => {
    if (retirements !== born) throw new Error(MESSAGE);
  };
}

/** Returns a function that copies an object once per session, since extensions distinguish sessions by their objects. */
export function renewed<T extends object>(target: T): () => T {
  let of = -1;
  let copy = target;
  return () => {
    if (of !== retirements) {
      of = retirements;
      copy = Object.defineProperties({}, Object.getOwnPropertyDescriptors(target)) as T;
    }
    return copy;
  };
}

/** Returns a copy of an object whose members throw once it is stale. Getters stay getters. */
export function guarded<T extends object>(target: T): T {
  const assertCurrent = currency();
  const descriptors = Object.getOwnPropertyDescriptors(target) as Record<string, PropertyDescriptor>;
  for (const [name, descriptor] of Object.entries(descriptors)) {
    const { get, value } = descriptor;
    if (get) {
      descriptor.get = () => {
        assertCurrent();
        return get.call(target);
      };
    } else if (typeof value === "function") {
      descriptor.value = Object.defineProperty(
        (...args: unknown[]) => {
          assertCurrent();
          return value.apply(target, args);
        },
        "name",
        { value: name },
      );
    } else {
      descriptors[name] = {
        get: () => {
          assertCurrent();
          return value;
        },
        enumerable: descriptor.enumerable ?? true,
        configurable: true,
      };
    }
  }
  return Object.defineProperties({}, descriptors) as T;
}
