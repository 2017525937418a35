/** `pi:node/dns/lookup`: name lookups by the host, which returns public addresses only. */

import { call } from "pi:hostcall";
import { coded, invalidArgType } from "pi:node/errors";
import { isIP } from "pi:node/net/addresses";
import { netError } from "pi:node/net/socket";

export interface Address {
  address: string;
  family: 4 | 6;
}

export interface LookupOptions {
  family?: number | string;
  all?: boolean;
  order?: string;
  verbatim?: boolean;
}

const FAMILIES: Record<string, 0 | 4 | 6> = { "0": 0, "4": 4, "6": 6, IPv4: 4, IPv6: 6 };

/** Checks `lookup`'s arguments as Node does. */
export function lookupOptions(hostname: unknown, options: unknown): { family: 0 | 4 | 6; all: boolean; order: string } {
  if (hostname && typeof hostname !== "string") throw invalidArgType("hostname", "of type string", hostname);
  const given: LookupOptions = typeof options === "number" ? { family: options } : ((options ?? {}) as LookupOptions);
  if (typeof given !== "object") throw invalidArgType("options", "of type object or one of integer", options);
  const family = FAMILIES[String(given.family ?? 0)];
  const what = typeof options === "number" ? "argument 'family'" : "property 'options.family'";
  if (family === undefined) throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The ${what} must be one of: 0, 4, 6. Received ${given.family}`);
  return { family, all: given.all === true, order: given.order ?? (given.verbatim === false ? "ipv4first" : "verbatim") };
}

/** Returns all addresses of a name. `family` 0 stands for both families. */
export async function addressesOf(hostname: string, family: 0 | 4 | 6, order = "verbatim", syscall = "getaddrinfo"): Promise<Address[]> {
  const literal = isIP(hostname);
  if (literal) return [{ address: hostname, family: literal }];
  let found: Address[];
  try {
    const { output } = await call("http", "http", { op: "lookup", url: `https://${hostname}/` });
    found = output.addresses;
  } catch (failure) {
    throw dnsError(failure, syscall, hostname);
  }
  if (family !== 0) found = found.filter((each) => each.family === family);
  if (found.length === 0) throw missing(syscall, hostname);
  const first = order === "ipv4first" ? 4 : order === "ipv6first" ? 6 : 0;
  return first === 0 ? found : found.toSorted((a, b) => Number(b.family === first) - Number(a.family === first));
}

function missing(syscall: string, hostname: string): Error {
  const error = coded(Error, "ENOTFOUND", `${syscall} ENOTFOUND ${hostname}`);
  return Object.assign(error, { errno: syscall === "getaddrinfo" ? -3008 : undefined, syscall, hostname });
}

function dnsError(failure: any, syscall: string, hostname: string): unknown {
  const errno = failure?.details?.errno;
  if (errno === "ENOTFOUND" || failure?.code === "invalid_request") return missing(syscall, hostname);
  if (errno !== "EAI_AGAIN") return netError(failure, syscall, { host: hostname });
  return Object.assign(coded(Error, "EAI_AGAIN", `${syscall} EAI_AGAIN ${hostname}`), { errno: -3001, syscall, hostname });
}
