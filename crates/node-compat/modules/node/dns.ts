/** `node:dns`: address lookups with callbacks; other records throw a hint. */

import promises from "node:dns/promises";
import { lookupOptions } from "pi:node/dns/lookup";
import * as codes from "pi:node/dns/codes";
import { checkFunction } from "pi:node/errors";
import { refuse } from "pi:node/refuse";
import { queueTick } from "pi:web/ticks";

type Done = (error: unknown, ...values: any[]) => void;

const refused = refuse("node:dns", "ask a DNS-over-HTTPS service with fetch", [
  "lookupService", "resolveAny", "resolveCaa", "resolveCname", "resolveMx", "resolveNaptr", "resolveNs", "resolvePtr", "resolveSoa",
  "resolveSrv", "resolveTlsa", "resolveTxt", "reverse", "setServers",
]);

export const {
  lookupService, resolveAny, resolveCaa, resolveCname, resolveMx, resolveNaptr, resolveNs, resolvePtr, resolveSoa, resolveSrv,
  resolveTlsa, resolveTxt, reverse, setServers,
} = refused;

/** An exception of the callback must not reject the promise. */
function answer(promise: Promise<unknown>, done: Done, values: (found: any) => unknown[]): void {
  promise.then(
    (found) => queueTick(() => done(null, ...values(found))),
    (error) => queueTick(() => done(error)),
  );
}

export function lookup(hostname: string, ...rest: any[]): void {
  const done = rest.pop() as Done;
  checkFunction("callback", done);
  const [options] = rest;
  const { all } = lookupOptions(hostname, options);
  answer(promises.lookup(hostname, options), done, (found) => (all ? [found] : [found.address, found.family]));
}

const records = (find: (hostname: string) => Promise<string[]>) => (hostname: string, ...rest: any[]): void => {
  const done = rest.pop() as Done;
  checkFunction("callback", done);
  answer(find(hostname), done, (found) => [found]);
};
export const resolve4 = records(promises.resolve4);
export const resolve6 = records(promises.resolve6);

export function resolve(hostname: string, ...rest: any[]): void {
  const done = rest.pop() as Done;
  checkFunction("callback", done);
  answer(promises.resolve(hostname, rest[0]), done, (found) => [found]);
}

export const { getDefaultResultOrder, getServers, setDefaultResultOrder } = promises;

/** Resolves names like the functions, and refuses the same records. */
export class Resolver extends promises.Resolver {}
Object.assign(Resolver.prototype, refused, { resolve, resolve4, resolve6 });
export { promises };

export {
  NODATA, FORMERR, SERVFAIL, NOTFOUND, NOTIMP, REFUSED, BADQUERY, BADNAME, BADFAMILY, BADRESP, CONNREFUSED, TIMEOUT,
  EOF, FILE, NOMEM, DESTRUCTION, BADSTR, BADFLAGS, NONAME, BADHINTS, NOTINITIALIZED, LOADIPHLPAPI, ADDRGETNETWORKPARAMS,
  CANCELLED,
} from "pi:node/dns/codes";
/** Flags for the `hints` option of `lookup`. */
export const ADDRCONFIG = 32;
export const ALL = 16;
export const V4MAPPED = 8;

export default {
  ...refused, ...codes, ADDRCONFIG, ALL, Resolver, V4MAPPED, getServers, lookup, resolve, resolve4, resolve6, getDefaultResultOrder, setDefaultResultOrder, promises,
};
