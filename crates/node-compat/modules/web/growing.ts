/**
 * `pi:web/growing`: common expressions over accumulated text, answered without reading the whole text again.
 *
 * A handler of `stream_text` is called for every few characters of a reply, with the whole reply so far. It repeats nearly the
 * same work each time, which grows with the reply. `extc` rewrites two forms of it:
 *
 * ```text
 * text.split("\n").some((line) => rule.re.test(line))
 *   →  (__pi_growing.none(__pi_growing.split(text, "\n"), "some", rule, "re") ? false
 *        : __pi_growing.rest().some((line) => rule.re.test(line)))
 *
 * rule.re.test(event.accumulated)
 *   →  __pi_growing.test(rule, "re", event.accumulated)
 * ```
 *
 * This also applies to `exec`, `match`, `matchAll`, `search` and `includes` on the whole text, and to loops over lines that stop
 * at the first match (`among`, `amongAll`).
 *
 * Lines that cannot match are skipped: `none` returns whether all lines are, and the author's code runs over the `rest`, so the
 * result equals that of the original. A complete line cannot match if the expression itself rejected it, or if an automaton with
 * a carried state (`prefilters` of the engine) excludes it: all automata of a text read a piece in one call. If any involved
 * member is modified (a patched method, a getter, an expression with the flag `g` or `y`), no line is skipped.
 *
 * The cost per call matters: each rule is called for each delta, and the engine has no JIT. So all automata run in one call;
 * the state of a delta is kept until the next; for an expected expression without a line to match, `none` answers before any
 * other call; and members are `private`, not `#`, which takes four times as long; no extension gets these objects.
 */

import { isSame, prefilters } from "pi:engine";
import { defineHidden } from "pi:web/lazy";

type Method = "some" | "find" | "filter";

const StringPrototype = String.prototype;
const ArrayPrototype = Array.prototype;
const { split, indexOf, slice, match, matchAll, search, includes: contains } = StringPrototype;
const { test, exec } = RegExp.prototype;
const { some, find, filter, includes } = ArrayPrototype;
const METHODS: Record<Method, unknown> = { some, find, filter };
const { split: splitSymbol } = Symbol;
const iterator: typeof Symbol.iterator = Symbol.iterator;
const matchSymbol: typeof Symbol.match = Symbol.match;
const matchAllSymbol: typeof Symbol.matchAll = Symbol.matchAll;
const searchSymbol: typeof Symbol.search = Symbol.search;
const { [matchSymbol]: matchBy, [matchAllSymbol]: matchAllBy, [searchSymbol]: searchBy } = RegExp.prototype;
const { [iterator]: items } = ArrayPrototype;
const describe = Object.getOwnPropertyDescriptor;
const reader = (name: "global" | "sticky" | "source" | "flags") => describe(RegExp.prototype, name)!.get!;
const readers = { global: reader("global"), sticky: reader("sticky"), source: reader("source"), flags: reader("flags") };
const call = Reflect.apply;

/** Maximum number of concurrent texts of a reply: text, thinking and arguments of tools. */
const TEXTS = 4;
/** Maximum length of a tracked text, since all its lines are kept. */
const LONGEST = 256 * 1024;
/** Maximum number of tracked expressions: those that are created in each call must not accumulate. */
const EXPRESSIONS = 2000;
/** Number of matches after which an expression gets an automaton, whose construction takes as long as a few hundred matches. */
const WORTH_AN_AUTOMATON = 64;

/** The state of one expression on the lines of a text, or on the whole text. */
class Question {
  readonly pattern: RegExp;
  /** Whether the expression has a state (`lastIndex`), so that its results vary. Only its automaton is used, on a whole text. */
  readonly remembers: boolean;
  asked = 0;
  /** Number of its automaton; undefined while the expression itself is matched. */
  number: number | undefined;
  /** Number of complete lines that were processed. */
  seen = 0;
  /** Complete lines that its automaton did not exclude and that have not been matched yet. */
  suspects: string[] = [];
  /** Complete lines that match. */
  kept: string[] = [];
  /** Whether its automaton has excluded every complete line. */
  isQuiet = false;

  constructor(pattern: RegExp) {
    this.pattern = pattern;
    this.remembers = call(readers.global, pattern, []) || call(readers.sticky, pattern, []);
  }

  matches(text: string): boolean {
    return call(test, this.pattern, [text]);
  }

  look(line: string): void {
    if (this.matches(line)) this.kept.push(line);
  }

  /** Matches the lines that its automaton did not exclude. */
  lookAtSuspects(): void {
    const { suspects } = this;
    this.suspects = [];
    for (let index = 0; index < suspects.length; index++) this.look(suspects[index]!);
    this.isQuiet = this.kept.length === 0;
  }
}

/** The path of an expression, and its state. */
interface Asked {
  holder: unknown;
  path: string;
  question: Question;
}

/** A growing text, or its last line, as read by the automata of its expressions. */
class Reading {
  private text = "";
  /** Length that the automata have read; undefined before the first read. */
  private read: number | undefined;
  private readonly automata = prefilters();
  /** States by the numbers of their automata. */
  private readonly members: Question[] = [];
  /** Numbers of the automata that may match. */
  suspected: number[] | undefined;
  private readonly questions = new Map<RegExp, Question>();
  /** Expressions matched at one delta, in order: they are expected again, in the same order, at the next. */
  readonly asked: Asked[] = [];
  next = 0;

  /** Replaces the text with one that continues it. */
  grow(text: string): void {
    this.text = text;
    if (this.members.length > 0) this.catchUp();
  }

  private catchUp(): void {
    // A complete line may be shorter than before: the first characters of the separator were counted as part of it.
    if (this.read === undefined || this.text.length < this.read) {
      this.automata.begin();
      this.read = 0;
    }
    this.suspected = this.automata.read(call(slice, this.text, [this.read]));
    this.read = this.text.length;
  }

  /** Ends the text; the next one is different. */
  end(): void {
    this.text = "";
    this.read = undefined;
  }

  /** Adds the text to the suspects of expressions that may match it. */
  suspect(): void {
    if (this.suspected === undefined) return;
    for (let index = 0; index < this.suspected.length; index++) {
      const question = this.members[this.suspected[index]!]!;
      question.suspects.push(this.text);
      question.isQuiet = false;
    }
  }

  /** Returns whether the expression may match the text. */
  may(question: Question): boolean {
    const { number } = question;
    if (number !== undefined) return this.suspected !== undefined && call(includes, this.suspected, [number]);
    if (question.asked < WORTH_AN_AUTOMATON && ++question.asked === WORTH_AN_AUTOMATON) this.join(question);
    return true;
  }

  private join(question: Question): void {
    const { pattern } = question;
    question.number = this.automata.add(call(readers.source, pattern, []), matchingFlags(pattern));
    if (question.number === undefined) return;
    this.members.push(question);
    question.isQuiet = question.kept.length === 0;
    this.read = undefined;
    this.catchUp();
  }

  /** Ends a delta. Its expressions are expected again, in the same order. */
  nextRound(): void {
    this.next = 0;
  }

  /** Returns the state of the expression at the end of a path; undefined if none can be kept. */
  question(holder: any, path: string): Question | undefined {
    const asked = this.asked[this.next];
    if (asked !== undefined && asked.holder === holder && asked.path === path) {
      // It was a plain property when it was first matched.
      const { question } = asked;
      if ((path === "" ? holder : holder[path]) === question.pattern && isAsShipped(question.pattern)) {
        this.next++;
        return question;
      }
    }
    const pattern = expression(holder, path);
    const question = pattern && this.questionOf(pattern);
    if (question !== undefined && this.next < EXPRESSIONS && keysOf(path).length < 2) {
      this.asked[this.next++] = { holder, path, question };
    }
    return question;
  }

  private questionOf(pattern: RegExp): Question | undefined {
    let question = this.questions.get(pattern);
    if (question === undefined && this.questions.size < EXPRESSIONS) {
      this.questions.set(pattern, (question = new Question(pattern)));
    }
    return question;
  }
}

/** The lines of a growing text. */
class Lines {
  private readonly separator: string;
  /** Lines before the current one. */
  private readonly complete: string[] = [];
  private current = "";
  private start = 0;
  /** Earliest possible start of the next separator. */
  private from = 0;
  readonly reading = new Reading();
  private present: Split | undefined;

  constructor(separator: string) {
    this.separator = separator;
  }

  grow(text: string): void {
    this.present = undefined;
    this.reading.nextRound();
    for (;;) {
      const end = call(indexOf, text, [this.separator, this.from]);
      if (end < 0) break;
      const line = call(slice, text, [this.start, end]);
      this.complete.push(line);
      this.reading.grow(line);
      this.reading.suspect();
      this.reading.end();
      this.start = this.from = end + this.separator.length;
    }
    this.from = Math.max(this.start, text.length - this.separator.length + 1);
    this.current = call(slice, text, [this.start]);
    this.reading.grow(this.current);
  }

  /** Returns an object that replaces the array of lines. */
  split(text: string): Split {
    return (this.present ??= new Split(text, this.separator, this));
  }

  /** Narrows the lines for each expression of a list. */
  narrowedAll(split: Split, rules: unknown[], path: string): string[] | undefined {
    let isCurrent = false;
    for (let index = 0; index < rules.length; index++) {
      const narrowed = this.narrowed(split, rules[index], path);
      if (narrowed === undefined) return undefined;
      if (narrowed.length === 0) continue;
      if (narrowed.length > 1 || narrowed[0] !== this.current) return undefined;
      isCurrent = true;
    }
    return isCurrent ? [this.current] : [];
  }

  /** Discards all states. */
  forget(): void {
    if (latest === this.present) latest = undefined;
    this.present = undefined;
  }

  /**
   * Returns the lines that may match the expression at the end of a path, in order; undefined if all have to be matched, such as
   * those of a text that has grown since it was split.
   */
  narrowed(split: Split, holder: any, path: string): string[] | undefined {
    const question = split === this.present ? this.reading.question(holder, path) : undefined;
    if (question === undefined || question.remembers) return undefined;
    if (question.number === undefined) {
      for (; question.seen < this.complete.length; question.seen++) question.look(this.complete[question.seen]!);
    } else if (question.suspects.length > 0) {
      question.lookAtSuspects();
    }
    return this.reading.may(question) ? [...question.kept, this.current] : question.kept;
  }
}

/** The lines of a text at one moment. Replaces the array that `split` returns. */
class Split {
  readonly text: string;
  readonly separator: string;
  readonly reading: Reading;
  private readonly lines: Lines;

  constructor(text: string, separator: string, lines: Lines) {
    this.text = text;
    this.separator = separator;
    this.reading = lines.reading;
    this.lines = lines;
  }

  narrowed(holder: unknown, path: string): string[] {
    return this.lines.narrowed(this, holder, path) ?? this.all();
  }

  narrowedAll(rules: unknown[], path: string): string[] {
    return this.lines.narrowedAll(this, rules, path) ?? this.all();
  }

  all(): string[] {
    return call(split, this.text, [this.separator]);
  }
}

/** A text that may grow from call to call. It is tracked once it has grown. */
class Growing {
  text: string;
  hasGrown = false;
  private readonly bySeparator = new Map<string, Lines>();
  readonly reading = new Reading();
  /** For each word, the length of the text that was searched without finding it; -1 if the word was found. */
  private readonly searched = new Map<string, number>();

  constructor(text: string) {
    this.text = text;
  }

  grow(text: string): void {
    this.text = text;
    this.hasGrown = true;
    this.reading.nextRound();
    this.reading.grow(text);
    for (const lines of this.bySeparator.values()) lines.grow(text);
  }

  lines(separator: string): Lines {
    let lines = this.bySeparator.get(separator);
    if (lines === undefined) {
      lines = new Lines(separator);
      lines.grow(this.text);
      this.bySeparator.set(separator, lines);
    }
    return lines;
  }

  forget(): void {
    for (const lines of this.bySeparator.values()) lines.forget();
  }

  /** Returns the state of an expression if it cannot match anywhere in the text. */
  excluded(holder: unknown, path: string): Question | undefined {
    const question = this.reading.question(holder, path);
    return question && !this.reading.may(question) ? question : undefined;
  }

  /** Returns whether the text contains a word. Until it does, only new text is searched. */
  contains(word: string): boolean {
    const searched = this.searched.get(word) ?? 0;
    if (searched < 0) return true;
    const isThere = call(indexOf, this.text, [word, Math.max(0, searched - word.length + 1)]) >= 0;
    if (this.searched.size < EXPRESSIONS || searched > 0) this.searched.set(word, isThere ? -1 : this.text.length);
    return isThere;
  }
}

/** Tracked texts, latest first. */
let texts: Growing[] = [];
/** The lines requested last, since successive rules request the same ones. */
let latest: Split | undefined;
/** Lines that the last call of `none` could not exclude. */
let left: unknown;

/** Returns the growing text that this text continues; undefined if there is none. */
function growing(text: string): Growing | undefined {
  if (text.length > LONGEST) return undefined;
  const first = texts[0];
  // `isSame` comes first, because the engine compares even identical strings character by character.
  if (first !== undefined && (isSame(first.text, text) || first.text === text)) return first.hasGrown ? first : undefined;
  let at = 0;
  while (at < texts.length && !continues(text, texts[at]!.text)) at++;
  const known = texts[at];
  if (known !== undefined && known.text !== text) {
    known.grow(text);
    latest = undefined;
  }
  const found = known ?? new Growing(text);
  const kept = [found];
  for (let index = 0; index < texts.length; index++) {
    if (index === at) continue;
    if (kept.length < TEXTS) kept.push(texts[index]!);
    else texts[index]!.forget();
  }
  texts = kept;
  return found.hasGrown ? found : undefined;
}

/** Returns whether a text begins with an earlier one. An empty earlier text does not count, since every text begins with it. */
function continues(text: string, earlier: string): boolean {
  // Compares a slice as a whole, because the engine's `startsWith` compares slowly, character by character.
  return earlier !== "" && text.length >= earlier.length && call(slice, text, [0, earlier.length]) === earlier;
}

const paths = new Map<string, string[]>();

function keysOf(path: string): string[] {
  let keys = paths.get(path);
  if (keys === undefined) paths.set(path, (keys = path === "" ? [] : path.split(".")));
  return keys;
}

/** Returns the expression at the end of a path of plain properties, if it is unmodified. */
function expression(holder: any, path: string): RegExp | undefined {
  const value = plainValue(holder, path);
  return isRegExp(value) && isAsShipped(value) ? value : undefined;
}

/** Returns the value at the end of a path of plain properties; undefined if one is missing or is an accessor. */
function plainValue(holder: any, path: string): any {
  let value = holder;
  const keys = keysOf(path);
  for (let index = 0; index < keys.length; index++) {
    if (typeof value !== "object" || value === null) return undefined;
    const property = describe(value, keys[index]!);
    if (property === undefined || !("value" in property)) return undefined;
    value = property.value;
  }
  return value;
}

/** Returns the value that the author's code would read at the end of a path. */
function valueAt(holder: any, path: string): any {
  const keys = keysOf(path);
  let value = holder;
  for (let index = 0; index < keys.length; index++) value = value[keys[index]!];
  return value;
}

/** Returns the flags that affect matches, without those that affect positions and results. */
function matchingFlags(pattern: RegExp): string {
  const flags = call(readers.flags, pattern, []);
  let matching = "";
  for (let index = 0; index < flags.length; index++) {
    const flag = flags[index]!;
    if (flag !== "g" && flag !== "y" && flag !== "d") matching += flag;
  }
  return matching;
}

function isRegExp(value: any): value is RegExp {
  // Only genuine expressions have this own property.
  return value instanceof RegExp && Object.hasOwn(value, "lastIndex");
}

/** Returns whether `test` of this expression is unmodified. */
function isAsShipped(pattern: RegExp): boolean {
  return pattern.test === test && pattern.exec === exec && typeof pattern.lastIndex === "number";
}

/** Returns the lines that `lines[method]((line) => expression.test(line))` has to match. */
function narrow(lines: unknown, method: Method, holder: unknown, path: string): unknown {
  if (!(lines instanceof Split)) return lines;
  return ArrayPrototype[method] === METHODS[method] ? lines.narrowed(holder, path) : lines.all();
}

/**
 * Returns the state of the expression at the end of a path, if it cannot match anywhere in a growing text.
 *
 * Every delta calls this for every rule. If the expression is the expected one and no automaton may match the text, it only calls
 * `isSame`.
 */
function excluded(text: any, holder: any, path: string): Question | undefined {
  const first = texts[0];
  if (first !== undefined && isSame(first.text, text)) {
    const { reading } = first;
    const asked = reading.asked[reading.next];
    if (asked !== undefined && asked.holder === holder && asked.path === path && reading.suspected === undefined) {
      const { question } = asked;
      const { pattern } = question;
      // `isAsShipped` suffices: it was a plain property when it was first matched.
      if (
        question.number !== undefined && (path === "" ? holder : holder[path]) === pattern &&
        pattern.exec === exec && pattern.test === test && typeof pattern.lastIndex === "number"
      ) {
        reading.next++;
        return question;
      }
    }
  }
  return typeof text === "string" ? growing(text)?.excluded(holder, path) : undefined;
}

const nothing = /[]/g;
const noMatches = call(matchAll, "", [nothing]);
noMatches.next();

/** Returns whether `text.matchAll(expression)` is empty. */
function hasNoMatches(text: any, holder: any, path: string): boolean {
  const pattern = StringPrototype.matchAll === matchAll ? excluded(text, holder, path)?.pattern : undefined;
  return pattern !== undefined && pattern[matchAllSymbol] === matchAllBy && pattern.constructor === RegExp &&
    call(readers.global, pattern, []) && !Object.hasOwn(pattern, "flags");
}

const literals = new Map<string, RegExp>();

export const __pi_growing = Object.freeze({
  narrow,

  /**
   * Returns the expression of a literal in the source: the same object each time the literal is evaluated, with its `lastIndex`
   * reset.
   */
  literal(source: string, flags: string): RegExp {
    const key = `${flags}/${source}`;
    let pattern = literals.get(key);
    if (pattern === undefined) literals.set(key, (pattern = new RegExp(source, flags)));
    pattern.lastIndex = 0;
    return pattern;
  },

  /** Implements `text.split(separator)`. Lines are created on demand. The separator must not be empty. */
  split(text: any, separator: string): unknown {
    if (StringPrototype.split === split && (StringPrototype as any)[splitSymbol] === undefined && typeof text === "string") {
      if (latest !== undefined && isSame(latest.text, text) && latest.separator === separator) return latest;
      const known = growing(text);
      if (known !== undefined) return (latest = known.lines(separator).split(text));
    }
    return text.split(separator);
  },

  /**
   * Returns whether `lines[method]((line) => expression.test(line))` has no line to match; otherwise `rest` returns the remaining
   * ones.
   */
  none(lines: unknown, method: Method, holder: any, path: string): boolean {
    if (lines === latest && latest !== undefined) {
      const { reading } = latest;
      const asked = reading.asked[reading.next];
      if (
        asked !== undefined && asked.holder === holder && asked.path === path &&
        reading.suspected === undefined && asked.question.isQuiet && ArrayPrototype[method] === METHODS[method]
      ) {
        const { pattern } = asked.question;
        // `isAsShipped` suffices: it was a plain property when it was first matched.
        if (
          (path === "" ? holder : holder[path]) === pattern &&
          pattern.test === test && pattern.exec === exec && typeof pattern.lastIndex === "number"
        ) {
          reading.next++;
          return true;
        }
      }
    }
    const narrowed = narrow(lines, method, holder, path);
    if (narrowed !== lines && (narrowed as string[]).length === 0) return true;
    left = narrowed;
    return false;
  },

  /** Returns the lines that the last call of `none` could not exclude. */
  rest(): unknown {
    const rest = left;
    left = undefined;
    return rest;
  },

  /** Returns the lines of `for (const line of lines) { if (expression.test(line)) .. }` that have to be matched. */
  among(lines: unknown, holder: unknown, path: string): unknown {
    if (!(lines instanceof Split)) return lines;
    return ArrayPrototype[iterator] === items ? lines.narrowed(holder, path) : lines.all();
  },

  /**
   * Returns the lines of `for (const line of lines) for (const rule of rules) { if (rule.re.test(line)) .. }` that have to be
   * matched.
   */
  amongAll(lines: unknown, holder: unknown, list: string, path: string): unknown {
    if (!(lines instanceof Split)) return lines;
    const rules = plainValue(holder, list);
    const isList = Array.isArray(rules) && rules[iterator] === items && ArrayPrototype[iterator] === items;
    return isList ? lines.narrowedAll(rules, path) : lines.all();
  },

  /** Implements `expression.test(text)`. */
  test(holder: any, path: string, text: any): unknown {
    const question = excluded(text, holder, path);
    if (question === undefined) return valueAt(holder, path).test(text);
    if (question.remembers) question.pattern.lastIndex = 0;
    return false;
  },

  /** Implements `expression.exec(text)`. */
  exec(holder: any, path: string, text: any): unknown {
    const question = excluded(text, holder, path);
    if (question === undefined) return valueAt(holder, path).exec(text);
    if (question.remembers) question.pattern.lastIndex = 0;
    return null;
  },

  /** Implements `text.match(expression)`. */
  match(text: any, holder: any, path: string): unknown {
    const question = StringPrototype.match === match ? excluded(text, holder, path) : undefined;
    if (question === undefined || question.pattern[matchSymbol] !== matchBy) return text.match(valueAt(holder, path));
    if (question.remembers) question.pattern.lastIndex = 0;
    return null;
  },

  /** Implements `text.search(expression)`. */
  search(text: any, holder: any, path: string): unknown {
    const question = StringPrototype.search === search ? excluded(text, holder, path) : undefined;
    return question?.pattern[searchSymbol] === searchBy ? -1 : text.search(valueAt(holder, path));
  },

  /** Implements `text.matchAll(expression)`. */
  matchAll(text: any, holder: any, path: string): unknown {
    return hasNoMatches(text, holder, path) ? call(matchAll, "", [nothing]) : text.matchAll(valueAt(holder, path));
  },

  /** Implements `text.matchAll(expression)` where only the items are used: an empty result may be shared. */
  eachMatch(text: any, holder: any, path: string): unknown {
    return hasNoMatches(text, holder, path) ? noMatches : text.matchAll(valueAt(holder, path));
  },

  /** Implements `text.includes(word)`. */
  includes(text: any, word: any): unknown {
    if (typeof text === "string" && typeof word === "string" && StringPrototype.includes === contains) {
      const known = growing(text);
      if (known !== undefined) return known.contains(word);
    }
    return text.includes(word);
  },
});

const { compile } = RegExp.prototype;
defineHidden(RegExp.prototype, {
  compile(this: RegExp, pattern: string, flags?: string): unknown {
    try {
      return call(compile, this, [pattern, flags as string]);
    } finally {
      for (let index = 0; index < texts.length; index++) texts[index]!.forget();
      texts = [];
      latest = undefined;
    }
  },
});
