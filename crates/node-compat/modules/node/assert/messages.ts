/** `pi:node/assert/messages`: the message of an AssertionError about two values. */

import { ONLY_ACTUAL, ONLY_EXPECTED, SAME, difference } from "pi:node/util/difference";
import type { Step } from "pi:node/util/difference";
import { inspect } from "pi:node/util/inspect";

const HEADS: Record<string, string> = {
  deepStrictEqual: "Expected values to be strictly deep-equal:",
  strictEqual: "Expected values to be strictly equal:",
  strictEqualObject: 'Expected "actual" to be reference-equal to "expected":',
  deepEqual: "Expected values to be loosely deep-equal:",
  notDeepStrictEqual: 'Expected "actual" not to be strictly deep-equal to:',
  notStrictEqual: 'Expected "actual" to be strictly unequal to:',
  notStrictEqualObject: 'Expected "actual" not to be reference-equal to "expected":',
  notDeepEqual: 'Expected "actual" not to be loosely deep-equal to:',
  notIdentical: "Values have same structure but are not reference-equal:",
};

/** Maximum total length of two texts that are shown side by side. */
const SHORT = 12;
/** Longer texts get no mark under the first difference, or are truncated. */
const LONG = 512;
/** A difference before this position gets no mark. */
const UNMARKED = 2;
/** Number of equal lines that are shown before the others are left out. */
const KEPT = 5;
const MAX_LINES = 50;

const isObject = (value: unknown): boolean => (typeof value === "object" && value !== null) || typeof value === "function";

const shown = (value: unknown): string =>
  inspect(value, { compact: false, customInspect: false, depth: 1000, maxArrayLength: Infinity, showHidden: false, showProxy: false, sorted: true, getters: true });

/** Formats the message of `strictEqual` and `deepStrictEqual`; the caller's message replaces the first line. */
export function unequal(operator: "strictEqual" | "deepStrictEqual", actual: unknown, expected: unknown, own?: string): string {
  const [left, right] = [shown(actual), shown(expected)];
  const [lines, others] = [left.split("\n"), right.split("\n")];
  let kind: string = operator === "strictEqual" && isObject(actual) && isObject(expected) ? "strictEqualObject" : operator;
  let header = "+ actual - expected";
  let body: string;
  let isCut = false;
  const isPlain = (value: unknown) => typeof value !== "object" || value === null;
  if (lines.length === 1 && others.length === 1 && (isPlain(actual) || isPlain(expected))) {
    const length = left.length + right.length - (typeof actual === "string" ? 2 : 0) - (typeof expected === "string" ? 2 : 0);
    if (length <= SHORT) {
      [header, body] = ["", `${left} !== ${right}`];
    } else {
      body = `\n+ ${left}\n- ${right}`;
      if (left.length + right.length <= LONG) {
        let first = 0;
        while (first < left.length && left[first] === right[first]) first++;
        if (first > UNMARKED && first < left.length) body += `\n${" ".repeat(first + 2)}^`;
      }
    }
  } else if (left === right) {
    [kind, header] = ["notIdentical", ""];
    isCut = lines.length > MAX_LINES;
    body = isCut ? `${lines.slice(0, MAX_LINES).join("\n")}\n...` : lines.join("\n");
  } else {
    // Ignores trailing commas when lines are compared.
    const loosely = isObject(actual) && typeof actual === "object";
    const isSame = (one: string, other: string) => one === other || (loosely && (`${one},` === other || one === `${other},`));
    const steps = difference(lines, others, isSame, (one, other) => (loosely && !one.endsWith(",") ? other : one));
    [body, isCut] = printed(steps);
  }
  return `${own ?? HEADS[kind]}\n${header}${isCut ? "\n... Skipped lines" : ""}\n${body}\n`;
}

/** Formats the steps as lines. Of many equal lines, only the first and the last ones are shown. */
function printed(steps: Step[]): [string, boolean] {
  let text = "";
  let isCut = false;
  let same = 0;
  for (let index = 0; index < steps.length; index++) {
    const [operation, value] = steps[index]!;
    if (operation !== SAME && same > 0) {
      const before = (back: number) => `  ${steps[index - back]![1]}\n`;
      if (same === KEPT + 1) text += before(1);
      else if (same === KEPT + 2) text += before(2) + before(1);
      else if (same > KEPT + 2) {
        text += `...\n${before(1)}`;
        isCut = true;
      }
      same = 0;
    }
    if (operation === ONLY_ACTUAL) text += `+ ${value}\n`;
    else if (operation === ONLY_EXPECTED) text += `- ${value}\n`;
    else {
      if (same < KEPT) text += `  ${value}\n`;
      same++;
    }
  }
  return [`\n${text.trimEnd()}`, isCut];
}

/** Formats the message of `notStrictEqual` and `notDeepStrictEqual`. */
export function tooEqual(operator: "notStrictEqual" | "notDeepStrictEqual", actual: unknown): string {
  const head = HEADS[operator === "notStrictEqual" && isObject(actual) ? "notStrictEqualObject" : operator]!;
  let lines = shown(actual).split("\n");
  if (lines.length > MAX_LINES) lines = [...lines.slice(0, 46), "..."];
  if (lines.length === 1) return `${head}${lines[0]!.length > 5 ? "\n\n" : " "}${lines[0]}`;
  return `${head}\n\n${lines.join("\n")}\n`;
}

const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 3)}...` : text);

/** Formats the message of `equal` and `notEqual`. */
export function compared(actual: unknown, sign: "==" | "!=", expected: unknown): string {
  return `${cut(shown(actual), LONG)} ${sign} ${cut(shown(expected), LONG)}`;
}
export function looselyUnequal(actual: unknown, expected: unknown): string {
  return `${HEADS.deepEqual}\n\n${cut(shown(actual), LONG)}\n\nshould loosely deep-equal\n\n${cut(shown(expected), LONG)}`;
}
export function looselyEqual(actual: unknown, expected: unknown): string {
  const [left, right] = [shown(actual), shown(expected)];
  if (left === right) return cut(`${HEADS.notDeepEqual}\n\n${left}`, 1024);
  return `Expected values not to be loosely deep-equal:\n\n${cut(left, LONG)}\n\nshould not loosely deep-equal\n\n${cut(right, LONG)}`;
}
