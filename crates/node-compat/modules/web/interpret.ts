/**
 * `pi:web/interpret`: functions from text, for libraries that write code and have it compiled.
 *
 * A realm has no compiler: `eval` and `new Function` throw, and stay so. Ajv turns each schema into the text of a function
 * and calls `new Function`, and makers of templates do so, too; `extc` puts the function of this module in the place of such
 * a call. The text is read and carried out here, by code that the realm has anyway, so it can do what the extension that
 * wrote it can do. It takes some hundred times as long as compiled code, which is right for a schema that is asked now and then.
 *
 * ```text
 * text → tokens → nodes (parser, reader) → steps (code, waits) and expressions → a function (functions, machine)
 * ```
 *
 * Understood is the language without classes, generators, modules and tagged templates; those are a `SyntaxError`.
 */

import { Code } from "pi:web/interpret/code";
import { functionOf } from "pi:web/interpret/functions";
import { parse } from "pi:web/interpret/parser";

/** Stands for `Function` in `new Function(...params, text)`. */
export function __pi_interpret(...args: unknown[]): unknown {
  const texts = args.map(String);
  const text = texts.pop() ?? "";
  const made = parse(texts.join(","), text);
  const program = new Code(made).program();
  return functionOf(made, program)([]);
}
