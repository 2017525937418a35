/**
 * `pi:web/sets`: regular expressions with the flag `v`, which the engine reads too strictly.
 *
 * What `v` forbids inside of a class, the engine forbids everywhere: a hyphen, a slash, two of some signs in a row. Outside of a
 * class they are plain characters, so the first is escaped. `extc` does the same for the literals of an extension.
 */

/** Signs that `v` keeps for itself where two of them stand in a class. */
const DOUBLED = "&!#%,:;<=>@`~";

/** The expression as the engine takes it. */
export function readable(pattern: string): string {
  let written = "";
  let depth = 0;
  for (let at = 0; at < pattern.length; at++) {
    const sign = pattern[at]!;
    if (sign === "\\") {
      written += sign + (pattern[++at] ?? "");
      continue;
    }
    if (sign === "[") depth++;
    else if (sign === "]") depth = Math.max(depth - 1, 0);
    if (depth > 0) written += sign;
    else if (sign === "/") written += "\\/";
    else if (sign === "-" || (DOUBLED.includes(sign) && pattern[at + 1] === sign)) written += `\\x${sign.charCodeAt(0).toString(16)}`;
    else written += sign;
  }
  return written;
}
