/** `node:dns/promises`: address lookups; other records throw a hint. */

import * as codes from "pi:node/dns/codes";
import { addressesOf, lookupOptions } from "pi:node/dns/lookup";
import type { Address, LookupOptions } from "pi:node/dns/lookup";
import { checkString } from "pi:node/errors";
import { refuse } from "pi:node/refuse";

const refused = refuse("node:dns/promises", "ask a DNS-over-HTTPS service with fetch", [
  "lookupService", "resolveAny", "resolveCaa", "resolveCname", "resolveMx", "resolveNaptr", "resolveNs", "resolvePtr", "resolveSoa",
  "resolveSrv", "resolveTlsa", "resolveTxt", "reverse", "setServers",
]);

export const {
  lookupService, resolveAny, resolveCaa, resolveCname, resolveMx, resolveNaptr, resolveNs, resolvePtr, resolveSoa, resolveSrv,
  resolveTlsa, resolveTxt, reverse, setServers,
} = refused;

let order = "verbatim";

export function lookup(hostname: string, options?: LookupOptions | number): Promise<Address | Address[]> {
  const { family, all, order: asked } = lookupOptions(hostname, options);
  if (!hostname) return Promise.resolve(all ? [] : ({ address: null, family: 4 } as unknown as Address));
  const chosen = typeof options === "object" && (options.order ?? options.verbatim) !== undefined ? asked : order;
  return addressesOf(hostname, family, chosen).then((found) => (all ? found : found[0]!));
}

const records = (name: string, family: 4 | 6) => async (hostname: string): Promise<string[]> => {
  checkString("name", hostname);
  return (await addressesOf(hostname, family, "verbatim", name)).map((each) => each.address);
};
export const resolve4 = records("queryA", 4);
export const resolve6 = records("queryAaaa", 6);

export function resolve(hostname: string, type: string = "A"): Promise<unknown> {
  if (type === "A") return resolve4(hostname);
  if (type === "AAAA") return resolve6(hostname);
  return (refused as any)[type === "ANY" ? "resolveAny" : `resolve${type[0]}${type.slice(1).toLowerCase()}`](hostname);
}

/** Returns no servers: the host uses the system's resolver, which does not expose its servers. */
export const getServers = (): string[] => [];

/** Resolves names like the functions, and refuses the same records. */
export class Resolver {
  cancel(): void {}
  setLocalAddress(): void {}
}
Object.assign(Resolver.prototype, refused, { getServers, resolve, resolve4, resolve6 });

export const getDefaultResultOrder = (): string => order;
export function setDefaultResultOrder(given: string): void {
  order = given;
}

export {
  NODATA, FORMERR, SERVFAIL, NOTFOUND, NOTIMP, REFUSED, BADQUERY, BADNAME, BADFAMILY, BADRESP, CONNREFUSED, TIMEOUT,
  EOF, FILE, NOMEM, DESTRUCTION, BADSTR, BADFLAGS, NONAME, BADHINTS, NOTINITIALIZED, LOADIPHLPAPI, ADDRGETNETWORKPARAMS,
  CANCELLED,
} from "pi:node/dns/codes";

export default {
  ...refused, ...codes, Resolver, getServers, lookup, resolve, resolve4, resolve6, getDefaultResultOrder, setDefaultResultOrder,
};
