/**
 * `pi:pi/plain`: converts a value to plain JSON, for records and display outside of this realm.
 *
 * Functions become `"<function>"`, a Date its ISO text, an Error `{error: message}`, a Map
 * `{"<map>": [[key, value]]}`, a Set `{"<set>": []}`, byte arrays `"<bytes:N>"`, symbols `"<symbol>"`,
 * cycles `"<cycle>"`, and numbers that JSON lacks their text; undefined members are left out, or `null`
 * in lists. (`oracle/format.md`, rule 1.)
 */

/**
 * Returns the JSON form of a value, whose text can be sent: a lone surrogate, which remains of a character that was cut in two,
 * becomes U+FFFD.
 */
export function jsonOf<T>(value: T): T {
  const text = JSON.stringify(value);
  if (text === undefined) return undefined as T;
  // `JSON.stringify` only escapes lone surrogates.
  return JSON.parse(text.includes("\\ud") ? text.replace(/\\(?:u(d[89a-f])[0-9a-f]{2}|.)/g, (escape, half) => (half ? "\ufffd" : escape)) : text);
}

/** Returns the plain copy. */
export function plain(value: any, above: readonly object[] = []): any {
  switch (typeof value) {
    case "function":
      return "<function>";
    case "bigint":
      return `<bigint:${value}>`;
    case "symbol":
      return "<symbol>";
    case "number":
      return Number.isFinite(value) ? value : String(value);
    case "string":
      return value.toWellFormed();
    case "object":
      break;
    default:
      return value;
  }
  if (value === null) return null;
  if (above.includes(value)) return "<cycle>";
  const path = [...above, value];
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Error) return { error: value.message };
  if (value instanceof Map) return { "<map>": [...value].map(([key, member]) => [plain(key, path), plain(member, path)]) };
  if (value instanceof Set) return { "<set>": [...value].map((member) => plain(member, path)) };
  if (ArrayBuffer.isView(value)) return `<bytes:${value.byteLength}>`;
  if (Array.isArray(value)) return value.map((member) => (member === undefined ? null : plain(member, path)));
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members.map(([key, member]) => [key, plain(member, path)]));
}
