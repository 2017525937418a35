/**
 * `pi:web/expressions`: gives errors of regular expressions that are created at run time Node's messages. `pi:web/wording` calls
 * it if one fails to compile.
 */

import { readable } from "pi:web/sets";

type Arguments = [string, string?];

/** Returns the error under its own name, or the expression if it can be compiled. */
export function mended(error: unknown, args: Arguments, make: (args: Arguments) => RegExp): RegExp {
  const [pattern, flags] = args as [unknown, unknown?];
  if (error instanceof SyntaxError && typeof pattern === "string" && typeof flags === "string" && flags.includes("v")) {
    try {
      return make([readable(pattern), flags]);
    } catch (again) {
      throw worded(again, pattern, flags);
    }
  }
  throw worded(error, pattern, flags);
}

/** Node's messages by the engine's. */
const EXPRESSIONS: Record<string, string> = {
  "back reference out of range in regular expression": "Invalid escape",
  "duplicate group name": "Duplicate capture group name",
  "expecting ')'": "Unterminated group",
  "expecting '{' after \\p": "Invalid property name",
  "expecting '}'": "Invalid property name",
  "expecting group name": "Invalid named reference",
  "extraneous characters at the end": "Unmatched ')'",
  "group name not defined": "Invalid named capture referenced",
  "invalid character in class in regular expression": "Invalid character in character class",
  "invalid class range": "Range out of order in character class",
  "invalid class set operation in regular expression": "Invalid set operation in character class",
  "invalid decimal escape in regular expression": "Invalid decimal escape",
  "invalid escape sequence in regular expression": "Invalid escape",
  "invalid group": "Invalid group",
  "invalid group name": "Invalid capture group name",
  "invalid modifiers": "Invalid flags",
  "invalid repetition count": "numbers out of order in {} quantifier",
  "malformed unicode char": "Invalid Unicode escape",
  "nothing to repeat": "Nothing to repeat",
  "syntax error": "Lone quantifier brackets",
  "too many captures": "Too many captures",
  "unknown unicode general category": "Invalid property name",
  "unknown unicode property name": "Invalid property name",
  "unknown unicode property value": "Invalid property name",
  "unknown unicode script": "Invalid property name",
};

function worded(error: any, pattern: unknown, flags: unknown): unknown {
  if (!(error instanceof SyntaxError)) return error;
  const { message } = error;
  const source = pattern instanceof RegExp ? pattern.source : pattern === undefined ? "" : `${pattern}`;
  if (message === "invalid regular expression flags") {
    error.message = `Invalid flags supplied to RegExp constructor '${flags}'`;
    return error;
  }
  const known = Object.hasOwn(EXPRESSIONS, message) ? EXPRESSIONS[message] : message === "unexpected end" ? ended(source) : undefined;
  const shown = flags === undefined && pattern instanceof RegExp ? pattern.flags : flags === undefined ? "" : `${flags}`;
  if (known !== undefined) error.message = `Invalid regular expression: /${source}/${shown}: ${known}`;
  return error;
}

/** Returns the message of an expression that ends too early. */
function ended(source: string): string {
  let inClass = false;
  for (let at = 0; at < source.length; at++) {
    if (source[at] === "\\" && ++at >= source.length) return "\\ at end of pattern";
    else if (source[at] === "[") inClass = true;
    else if (source[at] === "]") inClass = false;
  }
  return inClass ? "Unterminated character class" : "Unterminated group";
}
