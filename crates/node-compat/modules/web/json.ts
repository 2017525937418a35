/**
 * `pi:web/json`: `JSON.parse` and `JSON.stringify` with Node's error messages.
 *
 * The engine parses and formats. If it refuses a text or a value, this module searches the reason again, so that an extension
 * that shows `error.message` shows the message that its author saw. If no mistake or cycle is found, the engine's message stays.
 */

const engine = { parse: JSON.parse, stringify: JSON.stringify };

/** Length of the quoted text on each side of a mistake. */
const CONTEXT = 10;
const SPECIAL = ["undefined", "NaN", "Infinity", "[object Object]"];

class Mistake {
  readonly message: string;

  constructor(message: string) {
    this.message = message;
  }
}

/** Follows the grammar up to the first mistake and throws it. */
class Scanner {
  readonly text: string;
  #at = 0;

  constructor(text: string) {
    this.text = text;
  }

  run(): void {
    this.#value();
    this.#blank();
    if (this.#at < this.text.length) this.#fail("Unexpected non-whitespace character after JSON");
  }

  #fail(words: string): never {
    const before = this.text.slice(0, this.#at).split(/\r\n|\n|\r/);
    throw new Mistake(`${words}${words.endsWith("JSON") ? "" : " in JSON"} at position ${this.#at} (line ${before.length} column ${before.at(-1)!.length + 1})`);
  }

  #unexpected(): never {
    const { text } = this;
    const at = this.#at;
    if (at >= text.length) throw new Mistake("Unexpected end of JSON input");
    const token = text[at]!;
    if (token === '"') this.#fail("Unexpected string");
    if (/[0-9-]/.test(token)) this.#fail("Unexpected number");
    if (SPECIAL.includes(text)) throw new Mistake(`"${text}" is not valid JSON`);
    let shown = `"${text}"`;
    if (text.length > 2 * CONTEXT) {
      const [head, tail] = [at >= CONTEXT, at < CONTEXT || at < text.length - CONTEXT];
      shown = `${head ? "..." : ""}"${text.slice(head ? at - CONTEXT : 0, tail ? at + CONTEXT : undefined)}"${tail ? "..." : ""}`;
    }
    throw new Mistake(`Unexpected token '${token}', ${shown} is not valid JSON`);
  }

  #blank(): void {
    while (/[ \t\n\r]/.test(this.text[this.#at] ?? "")) this.#at++;
  }

  #value(): void {
    this.#blank();
    const next = this.text[this.#at];
    if (next === "{") this.#object();
    else if (next === "[") this.#array();
    else if (next === '"') this.#string();
    else if (next !== undefined && /[-0-9]/.test(next)) this.#number();
    else this.#word();
  }

  #word(): void {
    const word = ["true", "false", "null"].find((name) => name[0] === this.text[this.#at]);
    if (!word) this.#unexpected();
    for (const letter of word) {
      if (this.text[this.#at] !== letter) this.#unexpected();
      this.#at++;
    }
  }

  #digits(missing: string): void {
    if (!/[0-9]/.test(this.text[this.#at] ?? "")) this.#fail(missing);
    while (/[0-9]/.test(this.text[this.#at] ?? "")) this.#at++;
  }

  #number(): void {
    if (this.text[this.#at] === "-") this.#at++;
    if (this.text[this.#at] === "0") {
      this.#at++;
      if (/[0-9]/.test(this.text[this.#at] ?? "")) this.#unexpected();
    } else this.#digits("No number after minus sign");
    if (this.text[this.#at] === ".") {
      this.#at++;
      this.#digits("Unterminated fractional number");
    }
    if (/[eE]/.test(this.text[this.#at] ?? "")) {
      this.#at++;
      if (/[+-]/.test(this.text[this.#at] ?? "")) this.#at++;
      this.#digits("Exponent part is missing a number");
    }
  }

  #string(): void {
    this.#at++;
    for (;;) {
      const next = this.text[this.#at];
      if (next === undefined) this.#fail("Unterminated string");
      if (next < " ") this.#fail("Bad control character in string literal");
      this.#at++;
      if (next === '"') return;
      if (next === "\\") this.#escape();
    }
  }

  #escape(): void {
    const next = this.text[this.#at];
    if (next === undefined) this.#unexpected();
    if (!/["\\/bfnrtu]/.test(next)) this.#fail("Bad escaped character");
    this.#at++;
    if (next !== "u") return;
    for (let digit = 0; digit < 4; digit++) {
      if (this.text[this.#at] === undefined) this.#fail("Bad Unicode escape");
      if (!/[0-9a-fA-F]/.test(this.text[this.#at]!)) this.#fail("Bad Unicode escape");
      this.#at++;
    }
  }

  #object(): void {
    this.#at++;
    this.#blank();
    if (this.text[this.#at] === "}") return void this.#at++;
    if (this.text[this.#at] !== '"') this.#fail("Expected property name or '}'");
    for (;;) {
      this.#string();
      this.#blank();
      if (this.text[this.#at] !== ":") this.#fail("Expected ':' after property name");
      this.#at++;
      this.#value();
      this.#blank();
      const next = this.text[this.#at];
      if (next !== "," && next !== "}") this.#fail("Expected ',' or '}' after property value");
      this.#at++;
      if (next === "}") return;
      this.#blank();
      if (this.text[this.#at] !== '"') this.#fail("Expected double-quoted property name");
    }
  }

  #array(): void {
    this.#at++;
    this.#blank();
    if (this.text[this.#at] === "]") return void this.#at++;
    for (;;) {
      this.#value();
      this.#blank();
      const next = this.text[this.#at];
      if (next !== "," && next !== "]") this.#fail("Expected ',' or ']' after array element");
      this.#at++;
      if (next === "]") return;
    }
  }
}

/** Returns V8's message for an invalid text; undefined if no mistake is found. */
function mistakeOf(text: string): string | undefined {
  try {
    new Scanner(text).run();
  } catch (found) {
    // Exceeding the stack is not a mistake in the text.
    if (found instanceof Mistake) return found.message;
  }
  return undefined;
}

interface Step {
  holder: object;
  key: string;
}

const classOf = (value: object): string => {
  const named = (value as { constructor?: { name?: unknown } }).constructor?.name;
  return typeof named === "string" && named !== "" ? named : "Object";
};
const keyText = ({ holder, key }: Step): string => (Array.isArray(holder) ? `index ${key}` : `property '${key}'`);

/** Returns the path from an object back to itself: its objects, each with the key to the next; undefined without a cycle. */
function cycleIn(root: object): Step[] | undefined {
  const trail: (Step & { rest: string[] })[] = [];
  const seen = new Set<object>();
  const enter = (holder: object) => {
    seen.add(holder);
    trail.push({ holder, key: "", rest: Object.keys(holder).reverse() });
  };
  enter(root);
  for (let step = trail.at(-1); step; step = trail.at(-1)) {
    const key = step.rest.pop();
    if (key === undefined) {
      trail.pop();
      continue;
    }
    step.key = key;
    const value = (step.holder as Record<string, unknown>)[key];
    if (typeof value !== "object" || value === null) continue;
    const start = trail.findIndex(({ holder }) => holder === value);
    if (start >= 0) return trail.slice(start);
    if (!seen.has(value)) enter(value);
  }
  return undefined;
}

function circleText(cycle: Step[]): string {
  const lines = [`--> starting at object with constructor '${classOf(cycle[0]!.holder)}'`];
  const line = (index: number) => lines.push(`|     ${keyText(cycle[index - 1]!)} -> object with constructor '${classOf(cycle[index]!.holder)}'`);
  for (let index = 1; index < Math.min(cycle.length, 3); index++) line(index);
  if (cycle.length > 4) lines.push("|     ...");
  if (cycle.length > 3) line(cycle.length - 1);
  lines.push(`--- ${keyText(cycle.at(-1)!)} closes the circle`);
  return `Converting circular structure to JSON\n    ${lines.join("\n    ")}`;
}

function reworded(error: unknown, message: string | undefined): unknown {
  if (message !== undefined) Object.defineProperty(error, "message", { value: message, writable: true, configurable: true });
  return error;
}

function parse(this: unknown, text: string, reviver?: (this: any, key: string, value: any) => any): any {
  let given: string | undefined;
  try {
    given = `${text as unknown}`;
    return engine.parse(given, reviver);
  } catch (error) {
    if (given === undefined || !(error instanceof SyntaxError)) throw error;
    throw reworded(error, mistakeOf(given));
  }
}

function stringify(this: unknown, value: any, replacer?: any, space?: string | number): string {
  try {
    return engine.stringify(value, replacer, space);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    if (error.message === "circular reference") {
      const cycle = cycleIn(value);
      throw reworded(error, cycle && circleText(cycle));
    }
    throw reworded(error, error.message.startsWith("BigInt are forbidden") ? "Do not know how to serialize a BigInt" : undefined);
  }
}

for (const [name, value] of [["parse", parse], ["stringify", stringify]] as const) {
  Object.defineProperty(JSON, name, { value, writable: true, enumerable: false, configurable: true });
}
