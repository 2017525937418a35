/**
 * `pi:node/refuse`: members of modules that a realm does not support.
 *
 * Importing such a module, reading its members and extending its classes work, since packages do that while they load. Calling or
 * constructing one throws an error with its name and a hint.
 */

import { notSupported } from "pi:node/errors";

type Refused = (new (...args: any[]) => any) & ((...args: any[]) => never);

/** Marks a function that only throws, so that code and the coverage report recognise it without calling it. */
export const REFUSED: unique symbol = Symbol.for("pijs.refused") as any;

/** Returns a function that replaces a member, named as in `fs.chown`, and throws `advice`. */
export function absent(path: string, advice: string): Refused {
  const member = function (): never {
    throw notSupported(path, advice);
  };
  Object.defineProperty(member, "name", { value: path.slice(path.lastIndexOf(".") + 1) });
  Object.defineProperty(member, REFUSED, { value: true });
  return member as unknown as Refused;
}

/** Returns a function that replaces a member, and returns a rejected promise. */
export function absentAsync(path: string, advice: string): (...args: unknown[]) => Promise<never> {
  const refused = absent(path, advice);
  const member = async () => refused();
  Object.defineProperty(member, "name", { value: refused.name });
  Object.defineProperty(member, REFUSED, { value: true });
  return member;
}

/** Returns one such function for each name. */
export function refuse<N extends string>(module: string, advice: string, names: readonly N[]): Record<N, Refused> {
  const members = {} as Record<N, Refused>;
  for (const name of names) members[name] = absent(`${module}.${name}`, advice);
  return members;
}
