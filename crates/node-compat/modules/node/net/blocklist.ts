/**
 * `pi:node/net/blocklist`: `net.BlockList` and `net.SocketAddress`, lists of addresses that are compared as numbers.
 */

import { coded, invalidArgType } from "pi:node/errors";
import { isIPv4, isIPv6 } from "pi:node/net/addresses";

type Family = "ipv4" | "ipv6";

interface Rule {
  family: Family;
  from: bigint;
  to: bigint;
  text: string;
}

/** Length of an address in bits. */
const WIDTH: Record<Family, number> = { ipv4: 32, ipv6: 128 };

/** Prefix of IPv4 addresses mapped to IPv6: `::ffff:a.b.c.d`. */
const MAPPED = 0xffffn << 32n;

function familyOf(family: unknown): Family {
  const name = String(family).toLowerCase();
  if (name !== "ipv4" && name !== "ipv6") {
    throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'family' must be one of: 'ipv4', 'ipv6'. Received '${family}'`);
  }
  return name;
}

function parse(address: unknown, family: Family): bigint {
  if (typeof address !== "string") throw invalidArgType("address", "of type string", address);
  if (family === "ipv4" ? !isIPv4(address) : !isIPv6(address)) {
    throw coded(Error, "ERR_INVALID_ADDRESS", "Invalid address");
  }
  return family === "ipv4" ? parseV4(address) : parseV6(address.split("%")[0]!);
}

function parseV4(text: string): bigint {
  return text.split(".").reduce((value, part) => (value << 8n) | BigInt(part), 0n);
}

function parseV6(text: string): bigint {
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  if (dotted) {
    const v4 = parseV4(dotted[2]!);
    return parseV6(`${dotted[1]}${(v4 >> 16n).toString(16)}:${(v4 & 0xffffn).toString(16)}`);
  }
  const [head, tail] = text.split("::") as [string, string | undefined];
  const groups = (part: string | undefined) => (part ? part.split(":") : []);
  const [before, after] = [groups(head), groups(tail)];
  const missing = tail === undefined ? 0 : 8 - before.length - after.length;
  const all = [...before, ...Array<string>(missing).fill("0"), ...after];
  return all.reduce((value, group) => (value << 16n) | BigInt(`0x${group}`), 0n);
}

export class SocketAddress {
  readonly address: string;
  readonly family: Family;
  readonly port: number;
  readonly flowlabel: number;

  constructor(options: { address?: string; family?: Family; port?: number; flowlabel?: number } = {}) {
    this.family = familyOf(options.family ?? "ipv4");
    this.address = options.address ?? (this.family === "ipv4" ? "127.0.0.1" : "::");
    parse(this.address, this.family);
    this.port = options.port ?? 0;
    this.flowlabel = options.flowlabel ?? 0;
  }
}

/** Reads an address from arguments: text with its family, or an object that contains both. */
function read(address: string | SocketAddress, family: Family): [bigint, Family, string] {
  if (address instanceof SocketAddress) return [parse(address.address, address.family), address.family, address.address];
  const named = familyOf(family);
  return [parse(address, named), named, address];
}

export class BlockList {
  #rules: Rule[] = [];

  static isBlockList(value: unknown): value is BlockList {
    return value instanceof BlockList;
  }

  addAddress(address: string | SocketAddress, family: Family = "ipv4"): void {
    const [value, named, text] = read(address, family);
    this.#add(named, value, value, `Address: ${title(named)} ${text}`);
  }

  addRange(start: string | SocketAddress, end: string | SocketAddress, family: Family = "ipv4"): void {
    const [from, named, first] = read(start, family);
    const [to, , last] = read(end, family);
    if (from > to) {
      throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'start' must come before end. Received '${first}'`);
    }
    this.#add(named, from, to, `Range: ${title(named)} ${first}-${last}`);
  }

  addSubnet(network: string | SocketAddress, prefix: number, family: Family = "ipv4"): void {
    const [value, named, text] = read(network, family);
    const width = WIDTH[named];
    if (typeof prefix !== "number") throw invalidArgType("prefix", "of type number", prefix);
    if (!Number.isInteger(prefix) || prefix < 0 || prefix > width) {
      throw coded(RangeError, "ERR_OUT_OF_RANGE", `The value of "prefix" is out of range. It must be >= 0 && <= ${width}. Received ${prefix}`);
    }
    const rest = (1n << BigInt(width - prefix)) - 1n;
    this.#add(named, value & ~rest, value | rest, `Subnet: ${title(named)} ${text}/${prefix}`);
  }

  /** Returns whether a rule covers an address. An IPv4 address and its IPv6 form are equivalent. */
  check(address: string | SocketAddress, family: Family = "ipv4"): boolean {
    let value: bigint;
    let named: Family;
    try {
      [value, named] = read(address, family);
    } catch (error) {
      if ((error as { code?: string }).code === "ERR_INVALID_ADDRESS") return false;
      throw error;
    }
    const wide = named === "ipv4" ? value | MAPPED : value;
    return this.#rules.some((rule) => {
      const lift = rule.family === "ipv4" ? MAPPED : 0n;
      return wide >= (rule.from | lift) && wide <= (rule.to | lift);
    });
  }

  /** Returns the rules, latest first. */
  get rules(): string[] {
    return this.#rules.map((rule) => rule.text);
  }

  #add(family: Family, from: bigint, to: bigint, text: string): void {
    this.#rules.unshift({ family, from, to, text });
  }
}

function title(family: Family): string {
  return family === "ipv4" ? "IPv4" : "IPv6";
}
