/** `pi:web/intl/text`: collation, lists and relative times in American English. */

import { canonicalList, option } from "pi:web/intl/locale";
import { NumberFormat, PluralRules } from "pi:web/intl/number";

/** Returns a character's rank in the root collation: spaces, punctuation, symbols, digits, letters. */
function rank(character: string): number {
  if (/\s/.test(character)) return 0;
  if (/\p{P}/u.test(character)) return 1;
  if (/\p{S}/u.test(character)) return 2;
  if (/\p{N}/u.test(character)) return 3;
  return 4;
}

/** The order of ASCII punctuation and symbols in the root collation. */
const SIGNS = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";

interface Unit {
  rank: number;
  primary: string;
  accents: string;
  upper: boolean;
}

function units(text: string, numeric: boolean): Unit[] {
  const list: Unit[] = [];
  const source = text.normalize("NFD");
  const pattern = numeric ? /\p{Nd}+|\P{M}\p{M}*|\p{M}+/gu : /\P{M}\p{M}*|\p{M}+/gu;
  for (const [cluster] of source.matchAll(pattern)) {
    const base = numeric && /^\p{Nd}/u.test(cluster) ? cluster.replace(/^0+(?=\d)/, "") : String.fromCodePoint(cluster.codePointAt(0)!);
    const lower = base.toLowerCase();
    list.push({ rank: rank(base[0]!), primary: lower, accents: cluster.slice(base.length), upper: base !== lower });
  }
  return list;
}

function comparePrimary(a: Unit, b: Unit): number {
  if (a.rank !== b.rank) return a.rank - b.rank;
  if (a.rank === 3 && a.primary.length !== b.primary.length && /^\d+$/.test(a.primary + b.primary)) return a.primary.length - b.primary.length;
  if (a.primary === b.primary) return 0;
  if (a.rank === 1 || a.rank === 2) {
    const [left, right] = [SIGNS.indexOf(a.primary), SIGNS.indexOf(b.primary)];
    if (left >= 0 && right >= 0) return left - right;
  }
  return a.primary < b.primary ? -1 : 1;
}

export class Collator {
  #numeric: boolean;
  #sensitivity: string;
  #upperFirst: boolean;
  #ignorePunctuation: boolean;

  constructor(locales: unknown = undefined, options: any = {}) {
    canonicalList(locales);
    this.#numeric = Boolean(options?.numeric);
    this.#sensitivity = option("Collator", options, "sensitivity", ["base", "accent", "case", "variant"], "variant")!;
    this.#upperFirst = option("Collator", options, "caseFirst", ["upper", "lower", "false"], "false") === "upper";
    this.#ignorePunctuation = Boolean(options?.ignorePunctuation);
  }
  static supportedLocalesOf = NumberFormat.supportedLocalesOf;

  get compare(): (a: string, b: string) => number {
    return (first, second) => {
      const [a, b] = [String(first), String(second)];
      if (a === b) return 0;
      const clean = (text: string) => units(this.#ignorePunctuation ? text.replace(/[\p{P}\s]/gu, "") : text, this.#numeric);
      const [left, right] = [clean(a), clean(b)];
      const shared = Math.min(left.length, right.length);
      for (let at = 0; at < shared; at++) {
        const order = comparePrimary(left[at]!, right[at]!);
        if (order !== 0) return Math.sign(order);
      }
      if (left.length !== right.length) return Math.sign(left.length - right.length);
      if (this.#sensitivity === "base") return 0;
      if (this.#sensitivity !== "case") {
        for (let at = 0; at < shared; at++) {
          const [mine, other] = [left[at]!.accents, right[at]!.accents];
          if (mine !== other) return mine < other ? -1 : 1;
        }
        if (this.#sensitivity === "accent") return 0;
      }
      for (let at = 0; at < shared; at++) {
        if (left[at]!.upper !== right[at]!.upper) return left[at]!.upper === this.#upperFirst ? -1 : 1;
      }
      return 0;
    };
  }
  resolvedOptions(): Record<string, unknown> {
    return { locale: "en-US", usage: "sort", sensitivity: this.#sensitivity, ignorePunctuation: this.#ignorePunctuation, collation: "default", numeric: this.#numeric, caseFirst: this.#upperFirst ? "upper" : "false" };
  }
  get [Symbol.toStringTag](): string {
    return "Intl.Collator";
  }
}

export class ListFormat {
  #type: string;
  #style: string;
  constructor(locales: unknown = undefined, options: any = {}) {
    canonicalList(locales);
    this.#type = option("ListFormat", options, "type", ["conjunction", "disjunction", "unit"], "conjunction")!;
    this.#style = option("ListFormat", options, "style", ["long", "short", "narrow"], "long")!;
  }
  static supportedLocalesOf = NumberFormat.supportedLocalesOf;
  format(items: Iterable<string>): string {
    return this.formatToParts(items).map((part) => part.value).join("");
  }
  formatToParts(items?: Iterable<string>): { type: string; value: string }[] {
    const list = items === undefined ? [] : [...items];
    const odd = list.find((item) => typeof item !== "string");
    if (odd !== undefined || list.includes(undefined as never)) throw new TypeError(`Iterable yielded ${String(odd)} which is not a string`);
    const narrow = this.#style === "narrow";
    const word = this.#type === "disjunction" ? "or" : this.#type === "unit" ? "" : this.#style === "long" ? "and" : narrow ? "" : "&";
    const comma = this.#type === "unit" && narrow ? " " : ", ";
    return list.flatMap((value, at) => {
      const element = { type: "element", value };
      if (at === 0) return [element];
      const last = at === list.length - 1;
      const before = !last || word === "" ? comma : list.length === 2 ? ` ${word} ` : `, ${word} `;
      return [{ type: "literal", value: before }, element];
    });
  }
  resolvedOptions(): Record<string, unknown> {
    return { locale: "en-US", type: this.#type, style: this.#style };
  }
  get [Symbol.toStringTag](): string {
    return "Intl.ListFormat";
  }
}

const SHORT: Record<string, [string, string]> = {
  second: ["sec.", "s"], minute: ["min.", "m"], hour: ["hr.", "h"], day: ["day", "d"], week: ["wk.", "w"], month: ["mo.", "mo"], quarter: ["qtr.", "q"], year: ["yr.", "y"],
};
const AUTO: Record<string, [string, string, string]> = {
  second: ["", "now", ""], minute: ["", "this minute", ""], hour: ["", "this hour", ""], day: ["yesterday", "today", "tomorrow"], week: ["last week", "this week", "next week"],
  month: ["last month", "this month", "next month"], quarter: ["last quarter", "this quarter", "next quarter"], year: ["last year", "this year", "next year"],
};

export class RelativeTimeFormat {
  #numeric: string;
  #style: string;
  #format = new NumberFormat();
  #plural = new PluralRules();

  constructor(locales: unknown = undefined, options: any = {}) {
    canonicalList(locales);
    this.#numeric = option("RelativeTimeFormat", options, "numeric", ["always", "auto"], "always")!;
    this.#style = option("RelativeTimeFormat", options, "style", ["long", "short", "narrow"], "long")!;
  }
  static supportedLocalesOf = NumberFormat.supportedLocalesOf;

  format(given: number, unit: string): string {
    return this.#parts(given, unit, "format").map((part) => part.value).join("");
  }
  formatToParts(value: number, unit: string): { type: string; value: string; unit?: string }[] {
    return this.#parts(value, unit, "formatToParts");
  }

  #parts(given: number, unit: string, method: string): { type: string; value: string; unit?: string }[] {
    const value = Number(given);
    const name = String(unit).replace(/s$/, "");
    const literal = (text: string) => (text === "" ? [] : [{ type: "literal", value: text }]);
    const words = Object.hasOwn(SHORT, name) ? SHORT[name] : undefined;
    if (!words) throw new RangeError(`Invalid unit argument for Intl.RelativeTimeFormat.prototype.${method}() '${unit}'`);
    if (!Number.isFinite(value)) throw new RangeError(`Value need to be finite number for Intl.RelativeTimeFormat.prototype.${method}()`);
    if (this.#numeric === "auto" && (value === 0 || value === 1 || value === -1)) {
      const word = AUTO[name]![value + 1];
      const short = this.#style === "long" ? word : word?.replace("month", "mo.").replace("week", "wk.").replace("year", "yr.").replace("quarter", "qtr.");
      if (short) return literal(short);
    }
    const isPast = value < 0 || Object.is(value, -0);
    const amount = this.#format.formatToParts(Math.abs(value)).map((part) => ({ ...part, unit: name }));
    const isOne = this.#plural.select(Math.abs(value)) === "one";
    let shown: string;
    if (this.#style === "narrow") shown = words[1];
    else if (this.#style === "short") shown = ` ${name === "day" ? (isOne ? "day" : "days") : name === "quarter" && !isOne ? "qtrs." : words[0]}`;
    else shown = ` ${name}${isOne ? "" : "s"}`;
    return [...literal(isPast ? "" : "in "), ...amount, ...literal(isPast ? `${shown} ago` : shown)];
  }
  resolvedOptions(): Record<string, unknown> {
    return { locale: "en-US", style: this.#style, numeric: this.#numeric, numberingSystem: "latn" };
  }
  get [Symbol.toStringTag](): string {
    return "Intl.RelativeTimeFormat";
  }
}
