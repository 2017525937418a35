/** `node:dns/promises`: can be imported and extended; using it says what to do instead. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:dns/promises", "the host resolves names itself when fetch is called", [
  "lookup", "lookupService", "resolve", "resolve4", "resolve6", "resolveAny", "resolveCaa", "resolveCname", "resolveMx", "resolveNaptr",
  "resolveNs", "resolvePtr", "resolveSoa", "resolveSrv", "resolveTxt", "reverse", "setServers", "getServers", "setDefaultResultOrder",
  "getDefaultResultOrder", "Resolver",
]);

export const {
  lookup, lookupService, resolve, resolve4, resolve6, resolveAny, resolveCaa, resolveCname, resolveMx, resolveNaptr, resolveNs,
  resolvePtr, resolveSoa, resolveSrv, resolveTxt, reverse, setServers, getServers, setDefaultResultOrder, getDefaultResultOrder,
  Resolver,
} = refused;

export default refused;
