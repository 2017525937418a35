/** `pi:web/base64`: atob and btoa (HTML standard). */

import { coded } from "pi:node/errors";
import { decodeText, encodeText } from "pi:node/buffer/codec";

function check(given: ArrayLike<unknown>): void {
  if (given.length === 0) throw coded(TypeError, "ERR_MISSING_ARGS", 'The "input" argument must be specified');
}

export function btoa(data: unknown): string {
  check(arguments);
  const text = String(data);
  if (/[^\0-\xff]/.test(text)) throw new DOMException("Invalid character", "InvalidCharacterError");
  return decodeText(encodeText(text, "latin1"), "base64");
}

/** Decodes Base64. White space and missing padding are accepted; wrong padding and other characters are not. */
export function atob(data: unknown): string {
  check(arguments);
  let text = String(data).replace(/[\t\n\f\r ]/g, "");
  if (text.length % 4 === 0) text = text.replace(/={1,2}$/, "");
  if (/[^A-Za-z0-9+/]/.test(text)) throw new DOMException("Invalid character", "InvalidCharacterError");
  if (text.length % 4 === 1) throw new DOMException("The string to be decoded is not correctly encoded.", "InvalidCharacterError");
  return decodeText(encodeText(text, "base64"), "latin1");
}
