/**
 * `pi:pi/unsupported`: members of pi 0.87.1 that PiJS does not support yet.
 *
 * The members exist, so that code that only mentions them runs, and throw when they are used. Feature tests with `in` or `typeof`
 * give pi's results.
 */

/** Returns the error about a member that is not supported. */
export function unsupported(member: string): Error {
  return Object.assign(new Error(`${member} is not supported by PiJS yet`), { code: "ERR_PIJS_UNSUPPORTED" });
}

/** Adds methods that throw. */
export function defineUnsupported(target: object, path: string, names: readonly string[], before?: () => void): void {
  for (const name of names) {
    const method = () => {
      before?.();
      throw unsupported(`${path}.${name}`);
    };
    Object.defineProperty(method, "name", { value: name });
    Object.defineProperty(target, name, { value: method, writable: true, enumerable: true, configurable: true });
  }
}

/** Adds properties whose reading throws. */
export function defineUnsupportedGetters(target: object, path: string, names: readonly string[]): void {
  for (const name of names) {
    Object.defineProperty(target, name, {
      get(): never {
        throw unsupported(`${path}.${name}`);
      },
      enumerable: true,
      configurable: true,
    });
  }
}
