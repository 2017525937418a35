/** `pi:web/intl/text`: order, lists and relative times in American English. */

import { NumberFormat, PluralRules } from "pi:web/intl/number";

/** Where a character comes in the root collation: spaces, punctuation, symbols, digits, letters. */
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

  constructor(_locales?: unknown, options: any = {}) {
    this.#numeric = Boolean(options?.numeric);
    this.#sensitivity = options?.sensitivity ?? "variant";
    this.#upperFirst = options?.caseFirst === "upper";
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
  constructor(_locales?: unknown, options: any = {}) {
    this.#type = options?.type ?? "conjunction";
    this.#style = options?.style ?? "long";
  }
  static supportedLocalesOf = NumberFormat.supportedLocalesOf;
  format(items: Iterable<string>): string {
    return this.formatToParts(items).map((part) => part.value).join("");
  }
  formatToParts(items: Iterable<string>): { type: string; value: string }[] {
    const list = [...items];
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

  constructor(_locales?: unknown, options: any = {}) {
    this.#numeric = options?.numeric ?? "always";
    this.#style = options?.style ?? "long";
  }
  static supportedLocalesOf = NumberFormat.supportedLocalesOf;

  format(given: number, unit: string): string {
    const value = Number(given);
    const name = String(unit).replace(/s$/, "");
    const words = SHORT[name];
    if (!words) throw new RangeError(`Invalid unit argument for format() '${unit}'`);
    if (!Number.isFinite(value)) throw new RangeError("The value needs to be finite number for Intl.RelativeTimeFormat.prototype.format()");
    if (this.#numeric === "auto" && (value === 0 || value === 1 || value === -1)) {
      const word = AUTO[name]![value + 1];
      const short = this.#style === "long" ? word : word?.replace("month", "mo.").replace("week", "wk.").replace("year", "yr.").replace("quarter", "qtr.");
      if (short) return short;
    }
    const isPast = value < 0 || Object.is(value, -0);
    const amount = this.#format.format(Math.abs(value));
    const isOne = this.#plural.select(Math.abs(value)) === "one";
    let shown: string;
    if (this.#style === "narrow") shown = `${amount}${words[1]}`;
    else if (this.#style === "short") shown = `${amount} ${name === "day" ? (isOne ? "day" : "days") : name === "quarter" && !isOne ? "qtrs." : words[0]}`;
    else shown = `${amount} ${name}${isOne ? "" : "s"}`;
    return isPast ? `${shown} ago` : `in ${shown}`;
  }
  formatToParts(value: number, unit: string): { type: string; value: string }[] {
    return [{ type: "literal", value: this.format(value, unit) }];
  }
  resolvedOptions(): Record<string, unknown> {
    return { locale: "en-US", style: this.#style, numeric: this.#numeric, numberingSystem: "latn" };
  }
  get [Symbol.toStringTag](): string {
    return "Intl.RelativeTimeFormat";
  }
}
