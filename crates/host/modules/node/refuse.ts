/**
 * `pi:node/refuse`: members of modules that a realm does not offer.
 *
 * Importing such a module, reading its members and extending its classes work, since packages do that
 * while they load. Calling or constructing one throws an error that names it and what to do instead.
 */

import { notSupported } from "pi:node/errors";

type Refused = (new (...args: any[]) => any) & ((...args: any[]) => never);

/** One function per name. */
export function refuse<N extends string>(module: string, advice: string, names: readonly N[]): Record<N, Refused> {
  const members = {} as Record<N, Refused>;
  for (const name of names) {
    const member = function (): never {
      throw notSupported(`${module}.${name}`, advice);
    };
    Object.defineProperty(member, "name", { value: name });
    members[name] = member as unknown as Refused;
  }
  return members;
}
