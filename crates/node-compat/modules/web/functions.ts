/**
 * `pi:web/functions`: the source text of functions.
 *
 * A realm runs bytecode, and the engine keeps only the start position of a function. The host has the text and is called once for
 * each function. Functions without a text are formatted like V8's native ones.
 */

import { callSync } from "pi:engine";
import { defineHidden } from "pi:web/lazy";

const call = Reflect.apply;
const { exec } = RegExp.prototype;
const { toString } = Function.prototype;
const reader = (name: string) => Object.getOwnPropertyDescriptor(Function.prototype, name)!.get!;
const [fileOf, lineOf, columnOf] = [reader("fileName"), reader("lineNumber"), reader("columnNumber")];

/** The text that the engine returns for a function without source; the first group contains the name. */
const NATIVE = /^([^(]*\()\) \{\n    \[native code\]\n\}$/;
const BOUND = /^function bound /;
/** Source texts by the functions' positions. */
const texts: Record<string, string | null> = Object.create(null);

function textAt(module: string, line: number, column: number): string | null {
  const place = `${module}:${line}:${column}`;
  const known = texts[place];
  if (known !== undefined) return known;
  let found: string | null = null;
  try {
    // Has no prototype, so that members that an extension added to all objects are not read.
    found = (callSync("module", "module", { __proto__: null, op: "source", module, line, column }).output as { text: string | null }).text;
  } catch {
    // The host has no source texts.
  }
  return (texts[place] = found);
}

defineHidden(Function.prototype, {
  toString(this: unknown): string {
    const text: string = call(toString, this, []);
    const found = call(exec, NATIVE, [text]) as string[] | null;
    if (found === null) return text;
    const module: unknown = call(fileOf, this, []);
    const own = typeof module === "string" ? textAt(module, call(lineOf, this, []), call(columnOf, this, [])) : null;
    // V8 omits the name of a bound function.
    return own ?? `${call(exec, BOUND, [text]) === null ? found[1] : "function ("}) { [native code] }`;
  },
});
