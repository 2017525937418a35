/**
 * `pi:pi/stale`: whether this realm still takes part in the session.
 *
 * After a reload or a change of session other realms have taken its place. Code that still runs here
 * goes on; `pi` and the contexts it kept throw, as under pi.
 */

const MESSAGE =
  "This extension ctx is stale after session replacement or reload. Do not use a captured pi or command ctx after " +
  "ctx.newSession(), ctx.fork(), ctx.switchSession(), or ctx.reload(). For newSession, fork, and switchSession, move " +
  "post-replacement work into withSession and use the ctx passed to withSession. For reload, do not use the old ctx " +
  "after await ctx.reload().";

let retired = false;

/** `retired`: from now on nothing of this realm takes part. */
export function retire(): void {
  retired = true;
}

/** Throws when other realms have taken the place of this one. */
export function assertCurrent(): void {
  if (retired) throw new Error(MESSAGE);
}

/** A copy of an object whose members throw once this realm is stale. Getters stay getters. */
export function guarded<T extends object>(target: T): T {
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
