/**
 * `pi:web/growing`: idioms over text that grows, answered without reading all of it again.
 *
 * A handler of `stream_text` is called for every few characters of a reply, with the whole reply so far. What it says
 * then is nearly always the same sentence, and takes longer the longer the reply is. `extc` rewrites two forms of it:
 *
 * ```text
 * text.split("\n").some((line) => rule.re.test(line))
 *   →  __pi_growing.narrow(__pi_growing.split(text, "\n"), "some", rule, "re").some((line) => rule.re.test(line))
 *
 * rule.re.test(event.accumulated)
 *   →  __pi_growing.test(rule, "re", event.accumulated)
 * ```
 *
 * `narrow` leaves out lines that are known not to match; the author's own code runs over the rest, so the answer is
 * that of the original. Known is a line that the expression itself refused when it was complete, or that an automaton
 * with a carried state (`prefilter` of the engine) cannot match. Wherever something is not as the language ships it (a patched method,
 * a getter, an expression with the flag `g` or `y`), nothing is left out.
 */

import { prefilter } from "pi:engine";
import { defineHidden } from "pi:web/lazy";

type Method = "some" | "find" | "filter";
type Filter = (text: string, isNew: boolean) => boolean;

const { split, startsWith, indexOf, slice } = String.prototype;
const { test, exec } = RegExp.prototype;
const { some, find, filter } = Array.prototype;
const METHODS: Record<Method, unknown> = { some, find, filter };
const describe = Object.getOwnPropertyDescriptor;
const reader = (name: "global" | "sticky" | "source" | "flags") => describe(RegExp.prototype, name)!.get!;
const readers = { global: reader("global"), sticky: reader("sticky"), source: reader("source"), flags: reader("flags") };
const call = Reflect.apply;

/** Replies that are looked at side by side: text, thinking and arguments of tools. */
const TEXTS = 4;
/** A longer text is no reply, and would be kept here with all its lines. */
const LONGEST = 256 * 1024;
/** Expressions that are made anew for every call must not pile up. */
const EXPRESSIONS = 2000;
/** How often an expression is asked before an automaton is made of it: that takes as long as some hundred questions. */
const WORTH_AN_AUTOMATON = 64;

/** What one expression makes of one line, or of a whole text, that grows. */
class Watch {
  readonly #pattern: RegExp;
  #filter: Filter | undefined;
  #asked = 0;
  #fed = 0;
  #may = true;

  constructor(pattern: RegExp) {
    this.#pattern = pattern;
  }

  /** Whether the text, of which an earlier part was seen, may match. */
  may(text: string): boolean {
    if (this.#asked < WORTH_AN_AUTOMATON && ++this.#asked === WORTH_AN_AUTOMATON) {
      this.#filter = prefilter(call(readers.source, this.#pattern, []), call(readers.flags, this.#pattern, []));
      this.#fed = 0;
    }
    // A line that is complete may be shorter than it was: the beginning of the separator was taken for a part of it.
    if (text.length < this.#fed) this.#fed = 0;
    if (this.#filter !== undefined && (text.length > this.#fed || this.#fed === 0)) {
      this.#may = this.#filter(call(slice, text, [this.#fed]), this.#fed === 0);
      this.#fed = text.length;
    }
    return this.#may;
  }

  /** Whether it does match. */
  matches(text: string): boolean {
    return this.may(text) && call(test, this.#pattern, [text]);
  }

  /** The next text is another one. */
  restart(): void {
    this.#fed = 0;
  }
}

/** Watches by their expression; `undefined` for one that remembers where it was, and so does not always say the same. */
class Watches<T> {
  #known = new Map<RegExp, T | undefined>();
  readonly #make: (watch: Watch) => T;

  constructor(make: (watch: Watch) => T) {
    this.#make = make;
  }

  of(pattern: RegExp): T | undefined {
    const known = this.#known.get(pattern);
    if (known !== undefined || this.#known.has(pattern)) return known;
    if (this.#known.size === EXPRESSIONS) this.forget();
    const remembers = call(readers.global, pattern, []) || call(readers.sticky, pattern, []);
    const made = remembers ? undefined : this.#make(new Watch(pattern));
    this.#known.set(pattern, made);
    return made;
  }

  forget(): void {
    this.#known.clear();
  }
}

/** The lines of a growing text. */
class Lines {
  readonly separator: string;
  /** How often it grew. */
  age = 0;
  /** Lines before the current one. */
  #complete: string[] = [];
  #current = "";
  #start = 0;
  /** Where a separator may begin. */
  #from = 0;
  readonly watches = new Watches((watch) => ({ watch, seen: 0, kept: [] as string[] }));

  constructor(separator: string) {
    this.separator = separator;
  }

  grow(text: string): void {
    this.age++;
    for (;;) {
      const end = call(indexOf, text, [this.separator, this.#from]);
      if (end < 0) break;
      this.#complete.push(call(slice, text, [this.#start, end]));
      this.#start = this.#from = end + this.separator.length;
    }
    this.#from = Math.max(this.#start, text.length - this.separator.length + 1);
    this.#current = call(slice, text, [this.#start]);
  }

  /** The lines that may match, in order. */
  narrowed(pattern: RegExp): string[] | undefined {
    const known = this.watches.of(pattern);
    if (known === undefined) return undefined;
    const { watch, kept } = known;
    for (; known.seen < this.#complete.length; known.seen++) {
      const line = this.#complete[known.seen]!;
      if (watch.matches(line)) kept.push(line);
      watch.restart();
    }
    return watch.may(this.#current) ? [...kept, this.#current] : kept;
  }
}

/** The lines of a text as it was at one moment: what stands for the array that `split` returns. */
class Split {
  readonly #text: string;
  readonly #lines: Lines;
  readonly #age: number;

  constructor(text: string, lines: Lines) {
    this.#text = text;
    this.#lines = lines;
    this.#age = lines.age;
  }

  narrowed(pattern: RegExp): string[] | undefined {
    return this.#age === this.#lines.age ? this.#lines.narrowed(pattern) : undefined;
  }

  all(): string[] {
    return call(split, this.#text, [this.#lines.separator]);
  }
}

/** A text that may grow from call to call. Nothing is known of it before it does. */
class Growing {
  text: string;
  hasGrown = false;
  #lines = new Map<string, Lines>();
  #watches = new Watches((watch) => watch);

  constructor(text: string) {
    this.text = text;
  }

  grow(text: string): void {
    this.text = text;
    this.hasGrown = true;
    for (const lines of this.#lines.values()) lines.grow(text);
  }

  lines(separator: string): Lines {
    let lines = this.#lines.get(separator);
    if (lines === undefined) {
      lines = new Lines(separator);
      lines.grow(this.text);
      this.#lines.set(separator, lines);
    }
    return lines;
  }

  /** Whether the whole of it matches; `undefined` when the expression has to be asked. */
  matches(pattern: RegExp): boolean | undefined {
    return this.#watches.of(pattern)?.matches(this.text);
  }

  forget(): void {
    this.#watches.forget();
    for (const lines of this.#lines.values()) lines.watches.forget();
  }
}

/** The one that grew last comes first. */
let texts: Growing[] = [];

/** The growing text that this one is now; `undefined` for one that does not continue another. */
function growing(text: string): Growing | undefined {
  if (text.length > LONGEST) return undefined;
  let found = texts[0];
  if (found?.text !== text) {
    // Every text begins with the empty one, so that says nothing.
    const known = texts.find((other) => other.text !== "" && call(startsWith, text, [other.text]));
    if (known !== undefined && known.text !== text) known.grow(text);
    const latest = known ?? new Growing(text);
    texts = [latest, ...texts.filter((other) => other !== latest)].slice(0, TEXTS);
    found = latest;
  }
  return found.hasGrown ? found : undefined;
}

const paths = new Map<string, string[]>();

function keysOf(path: string): string[] {
  let keys = paths.get(path);
  if (keys === undefined) paths.set(path, (keys = path === "" ? [] : path.split(".")));
  return keys;
}

/** The expression at the end of a path of plain properties, if it is as the language ships it. */
function expression(holder: any, path: string): RegExp | undefined {
  let value = holder;
  for (const key of keysOf(path)) {
    if (typeof value !== "object" || value === null) return undefined;
    const property = describe(value, key);
    if (property === undefined || !("value" in property)) return undefined;
    value = property.value;
  }
  const isPlain = isRegExp(value) && value.test === test && value.exec === exec && typeof value.lastIndex === "number";
  return isPlain ? value : undefined;
}

function isRegExp(value: any): value is RegExp {
  // The own property that every expression has and nothing else that inherits from `RegExp.prototype`.
  return value instanceof RegExp && Object.hasOwn(value, "lastIndex");
}

const isSplitPlain = () => String.prototype.split === split && (String.prototype as any)[Symbol.split] === undefined;

const literals = new Map<string, RegExp>();

export const __pi_growing = Object.freeze({
  /** The expression that a literal of the source stands for: one, however often the literal is evaluated. */
  literal(source: string, flags: string): RegExp {
    const key = `${flags}/${source}`;
    let pattern = literals.get(key);
    if (pattern === undefined) literals.set(key, (pattern = new RegExp(source, flags)));
    return pattern;
  },

  /** `text.split(separator)`, whose lines are made when they are asked for. The separator is not empty. */
  split(text: any, separator: string): unknown {
    const known = typeof text === "string" && isSplitPlain() ? growing(text) : undefined;
    return known === undefined ? text.split(separator) : new Split(text, known.lines(separator));
  },

  /** What `lines[method]((line) => expression.test(line))` has to look at. */
  narrow(lines: unknown, method: Method, holder: unknown, path: string): unknown {
    if (!(lines instanceof Split)) return lines;
    const found = Array.prototype[method] === METHODS[method] ? expression(holder, path) : undefined;
    return (found && lines.narrowed(found)) ?? lines.all();
  },

  /** `expression.test(text)`. */
  test(holder: any, path: string, text: any): unknown {
    const found = typeof text === "string" ? expression(holder, path) : undefined;
    const answer = found && growing(text)?.matches(found);
    if (answer !== undefined) return answer;
    let receiver = holder;
    for (const key of keysOf(path)) receiver = receiver[key];
    return receiver.test(text);
  },
});

// An expression can be given another source, and then everything known of it is void.
const { compile } = RegExp.prototype;
defineHidden(RegExp.prototype, {
  compile(this: RegExp, pattern: string, flags?: string): unknown {
    texts.forEach((known) => known.forget());
    return call(compile, this, [pattern, flags as string]);
  },
});
