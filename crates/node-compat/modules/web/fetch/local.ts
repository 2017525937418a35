/** `pi:web/fetch/local`: URLs without a server: `data:`, and schemes that fetch does not support. */

import { encodeUtf8 } from "pi:engine";
import { HostcallError } from "pi:hostcall";
import { atob } from "pi:web/base64";
import { encodeText } from "pi:node/buffer/codec";

const WORDS: Record<string, string> = {
  "about:": "about scheme is not supported",
  "file:": "not implemented... yet...",
};

/** Returns the `http` hostcall's error for an invalid address. */
export function invalidUrl(url: string, problem: string): HostcallError {
  const shown = url.length > 200 ? `${url.slice(0, 200)}...` : url;
  return new HostcallError({ code: "invalid_request", message: `fetch: ${problem}: ${JSON.stringify(shown)}`, details: { reason: "url" } });
}

export interface Local {
  type: string;
  bytes: Uint8Array;
}

/** Decodes `%` escapes. Other characters stay unchanged. */
function percentDecoded(text: string): Uint8Array {
  const bytes = encodeUtf8(text);
  const found: number[] = [];
  for (let at = 0; at < bytes.length; at++) {
    const digits = bytes[at] === 0x25 ? String.fromCharCode(bytes[at + 1] ?? 0, bytes[at + 2] ?? 0) : "";
    if (/^[0-9a-f]{2}$/i.test(digits)) {
      found.push(parseInt(digits, 16));
      at += 2;
    } else found.push(bytes[at]!);
  }
  return Uint8Array.from(found);
}

/** Returns the content of a `data:` URL; undefined if it has no comma, or invalid Base64. */
function dataOf(href: string): Local | undefined {
  const [, head, body] = /^data:([^,]*),([^#]*)/.exec(href) ?? [];
  if (head === undefined || body === undefined) return undefined;
  const encoded = /; *base64 *$/i.exec(head);
  const type = (encoded ? head.slice(0, encoded.index) : head).trim();
  const bytes = percentDecoded(body);
  try {
    const isType = /^[^/;\s]+\/[^/;\s]+/.test(type);
    return {
      type: isType ? type : type.startsWith(";") ? `text/plain${type}` : "text/plain;charset=US-ASCII",
      bytes: encoded ? encodeText(atob(String.fromCharCode(...bytes)), "latin1") : bytes,
    };
  } catch {
    return undefined;
  }
}

/** Returns the content of a `data:` URL, or the error for another URL without a server; undefined for http(s). */
export function localAnswer(href: string): Local | Error | undefined {
  const scheme = href.slice(0, href.indexOf(":") + 1);
  if (scheme === "http:" || scheme === "https:") return undefined;
  if (scheme === "data:") return dataOf(href) ?? new Error("failed to fetch the data URL");
  return new Error(WORDS[scheme] ?? "unknown scheme", { cause: invalidUrl(href, `the scheme ${JSON.stringify(scheme)} is not http or https`) });
}
