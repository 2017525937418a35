/** `pi:node/net/addresses`: recognition of IP addresses. */

import { URL } from "pi:web/url";

export function isIPv4(text: string): boolean {
  return /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/.test(text);
}

export function isIPv6(text: string): boolean {
  const [address, zone, ...more] = String(text).split("%");
  if (more.length > 0 || zone === "" || !address!.includes(":") || /[^0-9a-fA-F:.]/.test(address!)) return false;
  return URL.canParse(`http://[${address}]/`);
}

export function isIP(text: string): 0 | 4 | 6 {
  return isIPv4(text) ? 4 : isIPv6(text) ? 6 : 0;
}
