/** `pi:web/fetch/form`: encoded forms, `multipart/form-data` (RFC 7578) and urlencoded. */

import { decodeUtf8 } from "pi:engine";
import { File, FormData } from "pi:web/blob";
import { URLSearchParams } from "pi:web/url";

/** Returns the index of `wanted` in `bytes`, or -1. */
function find(bytes: Uint8Array, wanted: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(wanted[0]!, from); at >= 0 && at + wanted.length <= bytes.length; at = bytes.indexOf(wanted[0]!, at + 1)) {
    let same = 1;
    while (same < wanted.length && bytes[at + same] === wanted[same]) same++;
    if (same === wanted.length) return at;
  }
  return -1;
}

const ascii = (text: string) => Uint8Array.from(text, (character) => character.charCodeAt(0));
const unquote = (text: string) => text.replaceAll("%0D", "\r").replaceAll("%0A", "\n").replaceAll("%22", '"');
const broken = () => new TypeError("Failed to parse body as FormData.");

function parts(bytes: Uint8Array, boundary: string): FormData {
  const form = new FormData();
  const delimiter = ascii(`--${boundary}`);
  const gap = ascii("\r\n\r\n");
  let at = find(bytes, delimiter, 0);
  if (at < 0) throw broken();
  for (;;) {
    at += delimiter.length;
    if (bytes[at] === 45 && bytes[at + 1] === 45) return form;
    const head = find(bytes, gap, at);
    const end = find(bytes, ascii(`\r\n--${boundary}`), head);
    if (head < 0 || end < 0) throw broken();
    const headers = decodeUtf8(bytes.subarray(at + 2, head), false, true);
    const name = /\bname="([^"]*)"/i.exec(headers)?.[1];
    if (name === undefined) throw broken();
    const filename = /\bfilename="([^"]*)"/i.exec(headers)?.[1];
    const content = bytes.subarray(head + gap.length, end);
    if (filename === undefined) form.append(unquote(name), decodeUtf8(content, false, false));
    else {
      const type = /^content-type:\s*(.+)$/im.exec(headers)?.[1]?.trim() ?? "text/plain";
      form.append(unquote(name), new File([content], unquote(filename), { type }));
    }
    at = end + 2;
  }
}

export function readForm(bytes: Uint8Array, type: string): FormData {
  const essence = type.split(";")[0]!.trim().toLowerCase();
  if (essence === "multipart/form-data") {
    const boundary = /boundary=(?:"([^"]+)"|([^;]+))/i.exec(type);
    if (!boundary) throw broken();
    return parts(bytes, (boundary[1] ?? boundary[2]!).trim());
  }
  if (essence !== "application/x-www-form-urlencoded") {
    throw new TypeError('Content-Type was not one of "multipart/form-data" or "application/x-www-form-urlencoded".');
  }
  const form = new FormData();
  for (const [name, value] of new URLSearchParams(decodeUtf8(bytes, false, false))) form.append(name, value);
  return form;
}
