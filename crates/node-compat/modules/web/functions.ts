/**
 * `pi:web/functions`: the text of a function.
 *
 * A realm has bytecode; where a function begins is all that the engine keeps of its text. The host has that text and is
 * asked for it, once for each function. What it does not have is told as V8 tells its own.
 */

import { callSync } from "pi:engine";
import { defineHidden } from "pi:web/lazy";

const call = Reflect.apply;
const { exec } = RegExp.prototype;
const { toString } = Function.prototype;
const reader = (name: string) => Object.getOwnPropertyDescriptor(Function.prototype, name)!.get!;
const [fileOf, lineOf, columnOf] = [reader("fileName"), reader("lineNumber"), reader("columnNumber")];

/** What the engine says of a function whose text it does not have; its name is the first thing found. */
const NATIVE = /^([^(]*\()\) \{\n    \[native code\]\n\}$/;
const BOUND = /^function bound /;
/** By the places they come from. */
const texts: Record<string, string | null> = Object.create(null);

function textAt(module: string, line: number, column: number): string | null {
  const place = `${module}:${line}:${column}`;
  const known = texts[place];
  if (known !== undefined) return known;
  let found: string | null = null;
  try {
    // Without a prototype: what an extension gave to all objects is not asked for.
    found = (callSync("module", "module", { __proto__: null, op: "source", module, line, column }).output as { text: string | null }).text;
  } catch {
    // A host without texts.
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
    // V8 tells no name of a bound function.
    return own ?? `${call(exec, BOUND, [text]) === null ? found[1] : "function ("}) { [native code] }`;
  },
});
