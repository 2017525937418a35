/**
 * `pi:web/sets`: regular expressions with the flag `v`, some of which the engine wrongly rejects.
 *
 * Some characters that `v` forbids only in a class, the engine forbids everywhere: hyphen, slash, doubled characters. They are
 * literal outside, so the first is escaped. `extc` does the same for the literals of an extension.
 */

/** Characters that `v` reserves if two of them are adjacent in a class. */
const DOUBLED = "&!#%,:;<=>@`~";

/** Returns the expression in the engine's syntax. */
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
