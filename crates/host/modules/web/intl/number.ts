/**
 * `pi:web/intl/number`: numbers the way American English writes them, whatever locale is asked for.
 *
 * Rounding works on the shortest decimal form of a number, half away from zero, as ICU does; so 1.005
 * with two digits is 1.01.
 */

/** Digits without a point, and where the point is: 12.5 is `{digits: "125", point: 2}`. */
interface Decimal {
  negative: boolean;
  digits: string;
  point: number;
}

function decimalOf(value: number | bigint): Decimal {
  const text = typeof value === "bigint" ? String(value) : String(Math.abs(value));
  const negative = typeof value === "bigint" ? value < 0n : value < 0 || Object.is(value, -0);
  const [mantissa, exponent = "0"] = text.replace(/^-/, "").split("e");
  const [whole, fraction = ""] = mantissa!.split(".");
  const digits = (whole! + fraction).replace(/^0+/, "");
  const lost = (whole! + fraction).length - digits.length;
  return { negative, digits, point: digits === "" ? 0 : whole!.length - lost + Number(exponent) };
}

/** Keeps `count` digits (of `digits`, from the left); half goes away from zero. */
function rounded(decimal: Decimal, count: number): Decimal {
  if (count >= decimal.digits.length) return decimal;
  if (count < 0) return { ...decimal, digits: "", point: 0 };
  const up = decimal.digits[count]! >= "5";
  const kept = decimal.digits.slice(0, count);
  if (!up) return { ...decimal, digits: kept.replace(/0+$/, ""), point: kept === "" ? 0 : decimal.point };
  const raised = String(BigInt(kept || "0") + 1n).padStart(kept.length, "0");
  return { ...decimal, digits: raised.replace(/0+$/, ""), point: decimal.point + (raised.length - kept.length) };
}

interface Digits {
  minimumIntegerDigits: number;
  minimumFractionDigits: number;
  maximumFractionDigits: number;
  minimumSignificantDigits?: number | undefined;
  maximumSignificantDigits?: number | undefined;
}

function spell(decimal: Decimal, settings: Digits): { whole: string; fraction: string } {
  const { minimumSignificantDigits: least, maximumSignificantDigits: most } = settings;
  const cut = most !== undefined ? rounded(decimal, most) : rounded(decimal, decimal.point + settings.maximumFractionDigits);
  const whole = cut.point > 0 ? cut.digits.slice(0, cut.point).padEnd(cut.point, "0") : "";
  let fraction = cut.point >= 0 ? cut.digits.slice(cut.point) : "0".repeat(-cut.point) + cut.digits;
  const wanted = most !== undefined ? Math.max(0, (least ?? 1) - (cut.digits === "" ? 1 : cut.point)) : settings.minimumFractionDigits;
  fraction = fraction.padEnd(wanted, "0");
  return { whole: whole.padStart(settings.minimumIntegerDigits, "0"), fraction };
}

const grouped = (whole: string) => whole.replace(/\B(?=(\d{3})+$)/g, ",");

const SYMBOLS: Record<string, string> = {
  USD: "$", EUR: "€", GBP: "£", JPY: "¥", INR: "₹", CNY: "CN¥", KRW: "₩", BRL: "R$", CAD: "CA$", AUD: "A$", MXN: "MX$", NZD: "NZ$", HKD: "HK$", TWD: "NT$", ILS: "₪",
  VND: "₫", XAF: "FCFA", XOF: "F\u202fCFA", PHP: "₱",
};
const NAMES: Record<string, [string, string]> = {
  USD: ["US dollar", "US dollars"], EUR: ["euro", "euros"], GBP: ["British pound", "British pounds"], JPY: ["Japanese yen", "Japanese yen"],
};
const WHOLE_CURRENCIES = new Set(["JPY", "KRW", "VND", "CLP", "ISK", "XAF", "XOF", "UGX", "PYG", "RWF"]);

/** Units: short, narrow, long in the singular and in the plural. */
const UNITS: Record<string, [string, string, string, string]> = {
  bit: [" bit", "bit", " bit", " bits"], byte: [" byte", "B", " byte", " bytes"], kilobit: [" kb", "kb", " kilobit", " kilobits"], kilobyte: [" kB", "kB", " kilobyte", " kilobytes"],
  megabit: [" Mb", "Mb", " megabit", " megabits"], megabyte: [" MB", "MB", " megabyte", " megabytes"], gigabit: [" Gb", "Gb", " gigabit", " gigabits"],
  gigabyte: [" GB", "GB", " gigabyte", " gigabytes"], terabyte: [" TB", "TB", " terabyte", " terabytes"], petabyte: [" PB", "PB", " petabyte", " petabytes"],
  millisecond: [" ms", "ms", " millisecond", " milliseconds"], second: [" sec", "s", " second", " seconds"], minute: [" min", "m", " minute", " minutes"],
  hour: [" hr", "h", " hour", " hours"], day: [" day", "d", " day", " days"], week: [" wk", "w", " week", " weeks"], month: [" mth", "m", " month", " months"],
  year: [" yr", "y", " year", " years"], percent: ["%", "%", " percent", " percent"], celsius: ["°C", "°C", " degree Celsius", " degrees Celsius"],
  fahrenheit: ["°F", "°", " degree Fahrenheit", " degrees Fahrenheit"], meter: [" m", "m", " meter", " meters"], kilometer: [" km", "km", " kilometer", " kilometers"],
  mile: [" mi", "mi", " mile", " miles"], gram: [" g", "g", " gram", " grams"], kilogram: [" kg", "kg", " kilogram", " kilograms"], liter: [" L", "L", " liter", " liters"],
};
const PLURAL_SHORT: Record<string, string> = { byte: " byte", bit: " bit", day: " days", week: " wks", month: " mths", year: " yrs" };

export type Part = { type: string; value: string };

function within(name: string, value: unknown, least: number, most: number): number | undefined {
  if (value === undefined) return undefined;
  const number = Number(value);
  if (!(number >= least && number <= most)) throw new RangeError(`${name} value is out of range.`);
  return Math.floor(number);
}

export class NumberFormat {
  #settings: any;

  constructor(_locales?: unknown, options: any = {}) {
    const given = options ?? {};
    const style = given.style ?? "decimal";
    if (!["decimal", "percent", "currency", "unit"].includes(style)) throw new RangeError(`Value ${style} out of range for Intl.NumberFormat options property style`);
    if (style === "currency" && given.currency === undefined) throw new TypeError("Currency code is required with currency style.");
    if (style === "unit" && given.unit === undefined) throw new TypeError("Unit is required with unit style.");
    const currency = given.currency?.toUpperCase();
    if (currency !== undefined && !/^[A-Z]{3}$/.test(currency)) throw new RangeError(`Invalid currency code : ${given.currency}`);
    const compact = given.notation === "compact";
    const usual = style === "currency" ? (WHOLE_CURRENCIES.has(currency) ? [0, 0] : [2, 2]) : style === "percent" ? [0, 0] : [0, 3];
    const least = within("minimumFractionDigits", given.minimumFractionDigits, 0, 100);
    const most = within("maximumFractionDigits", given.maximumFractionDigits, 0, 100);
    if (least !== undefined && most !== undefined && least > most) throw new RangeError("maximumFractionDigits value is out of range.");
    const bySignificance = given.minimumSignificantDigits !== undefined || given.maximumSignificantDigits !== undefined;
    this.#settings = {
      style, currency, unit: given.unit, compact, notation: given.notation ?? "standard", compactDisplay: given.compactDisplay ?? "short",
      currencyDisplay: given.currencyDisplay ?? "symbol", currencySign: given.currencySign ?? "standard", unitDisplay: given.unitDisplay ?? "short", signDisplay: given.signDisplay ?? "auto",
      useGrouping: given.useGrouping ?? (compact ? "min2" : "auto"), minimumIntegerDigits: within("minimumIntegerDigits", given.minimumIntegerDigits, 1, 21) ?? 1,
      minimumFractionDigits: least ?? Math.min(usual[0]!, most ?? usual[0]!), maximumFractionDigits: most ?? Math.max(usual[1]!, least ?? 0),
      ...(bySignificance && {
        minimumSignificantDigits: within("minimumSignificantDigits", given.minimumSignificantDigits, 1, 21) ?? 1,
        maximumSignificantDigits: within("maximumSignificantDigits", given.maximumSignificantDigits, 1, 21) ?? 21,
      }),
      rounds: compact && !bySignificance && least === undefined && most === undefined,
    };
  }

  static supportedLocalesOf(locales?: unknown): string[] {
    return locales === undefined ? [] : ([] as string[]).concat(locales as string);
  }

  get format(): (value: number | bigint) => string {
    return (value) => this.formatToParts(value).map((part) => part.value).join("");
  }
  formatRange(from: number | bigint, to: number | bigint): string {
    const [left, right] = [this.format(from), this.format(to)];
    return left === right ? `~${left}` : `${left}–${right}`;
  }

  formatToParts(given: number | bigint): Part[] {
    const value = typeof given === "bigint" ? given : Number(given);
    const settings = this.#settings;
    if (typeof value === "number" && Number.isNaN(value)) return this.#dress([{ type: "nan", value: "NaN" }], false, false, "other");
    const negative = typeof value === "bigint" ? value < 0n : value < 0 || Object.is(value, -0);
    if (value === Infinity || value === -Infinity) return this.#dress([{ type: "infinity", value: "∞" }], negative, false, "other");
    let decimal = decimalOf(value);
    if (settings.style === "percent" && decimal.digits !== "") decimal = { ...decimal, point: decimal.point + 2 };
    const parts: Part[] = [];
    if (settings.notation === "scientific" || settings.notation === "engineering") {
      const exponent = decimal.digits === "" ? 0 : settings.notation === "scientific" ? decimal.point - 1 : Math.floor((decimal.point - 1) / 3) * 3;
      const { whole, fraction } = spell({ ...decimal, point: decimal.point - exponent }, settings);
      push(parts, whole, fraction);
      parts.push({ type: "exponentSeparator", value: "E" });
      if (exponent < 0) parts.push({ type: "exponentMinusSign", value: "-" });
      parts.push({ type: "exponentInteger", value: String(Math.abs(exponent)) });
      return this.#dress(parts, negative, decimal.digits === "", "other");
    }
    let suffix: [string, string] | undefined;
    let digits: Digits = settings;
    if (settings.compact) {
      const step = (point: number) => Math.min(4, Math.max(0, Math.floor((point - 1) / 3)));
      let size = step(decimal.point);
      const at = (chosen: number): Digits => (settings.rounds ? (decimal.point - chosen * 3 >= 2 || decimal.digits === "" ? { ...settings, minimumFractionDigits: 0, maximumFractionDigits: 0 } : { ...settings, minimumSignificantDigits: 1, maximumSignificantDigits: 2 }) : settings);
      digits = at(size);
      const tried = spell({ ...decimal, point: decimal.point - size * 3 }, digits);
      if (tried.whole.length > 3 && size < 4) digits = at((size = step(decimal.point + 1)));
      decimal = decimal.digits === "" ? decimal : { ...decimal, point: decimal.point - size * 3 };
      suffix = [["", ""], ["K", " thousand"], ["M", " million"], ["B", " billion"], ["T", " trillion"]][size] as [string, string];
    }
    const { whole, fraction } = spell(decimal, digits);
    const group = settings.useGrouping;
    const shown = group === false || group === "false" || (group === "min2" && whole.length < 5) ? whole : grouped(whole);
    push(parts, shown, fraction);
    if (suffix?.[0]) {
      if (settings.compactDisplay === "long") parts.push({ type: "literal", value: " " }, { type: "compact", value: suffix[1].trim() });
      else parts.push({ type: "compact", value: suffix[0] });
    }
    const isZero = /^[0,]*$/.test(shown) && /^0*$/.test(fraction);
    const plural = whole === "1" && fraction === "" && !suffix?.[0] ? "one" : "other";
    return this.#dress(parts, negative, isZero, plural);
  }

  /** Sign, currency, unit. */
  #dress(number: Part[], negative: boolean, isZero: boolean, plural: string): Part[] {
    const { style, signDisplay, currency, currencyDisplay, currencySign, unit, unitDisplay } = this.#settings;
    const parts = [...number];
    if (style === "percent") parts.push({ type: "percentSign", value: "%" });
    if (style === "unit") {
      const [base, per] = String(unit).split("-per-");
      const known = UNITS[base!];
      if (!known || (per && !UNITS[per])) throw new RangeError(`Invalid unit argument for Intl.NumberFormat() '${unit}'`);
      const short = plural === "other" ? (PLURAL_SHORT[base!] ?? known[0]) : known[0];
      let text = unitDisplay === "long" ? known[plural === "one" ? 2 : 3] : unitDisplay === "narrow" ? known[1] : short;
      if (per) text += unitDisplay === "long" ? ` per${UNITS[per]![2]}` : `/${per === "second" ? "s" : per === "hour" ? "h" : UNITS[per]![1]}`;
      const space = text.startsWith(" ");
      if (space) parts.push({ type: "literal", value: " " });
      parts.push({ type: "unit", value: space ? text.slice(1) : text });
    }
    if (style === "currency") {
      if (currencyDisplay === "name") parts.push({ type: "literal", value: " " }, { type: "currency", value: NAMES[currency]?.[plural === "one" ? 0 : 1] ?? currency });
      else {
        const symbol = currencyDisplay === "code" ? currency : currencyDisplay === "narrowSymbol" ? (SYMBOLS[currency]?.replace(/^(?:CA|A|MX|NZ|HK|NT|CN)(?=\S)/, "") ?? currency) : (SYMBOLS[currency] ?? currency);
        parts.unshift({ type: "currency", value: symbol }, ...(/[A-Z]$/.test(symbol) ? [{ type: "literal", value: "\u00a0" }] : []));
      }
    }
    const shows = signDisplay === "never" ? "" : negative && !(isZero && (signDisplay === "exceptZero" || signDisplay === "negative")) ? "-" : !negative && (signDisplay === "always" || (signDisplay === "exceptZero" && !isZero)) ? "+" : "";
    if (shows === "-" && currencySign === "accounting" && style === "currency") return [{ type: "literal", value: "(" }, ...parts, { type: "literal", value: ")" }];
    if (shows) parts.unshift({ type: shows === "-" ? "minusSign" : "plusSign", value: shows });
    return parts;
  }

  resolvedOptions(): Record<string, unknown> {
    const { style, currency, unit, notation, signDisplay, useGrouping, minimumIntegerDigits, minimumFractionDigits, maximumFractionDigits } = this.#settings;
    return {
      locale: "en-US", numberingSystem: "latn", style, ...(currency && { currency }), ...(unit && { unit }), minimumIntegerDigits, minimumFractionDigits,
      maximumFractionDigits, useGrouping, notation, signDisplay, roundingIncrement: 1, roundingMode: "halfExpand", roundingPriority: "auto", trailingZeroDisplay: "auto",
    };
  }
  get [Symbol.toStringTag](): string {
    return "Intl.NumberFormat";
  }
}

function push(parts: Part[], whole: string, fraction: string): void {
  for (const [at, group] of whole.split(",").entries()) {
    if (at > 0) parts.push({ type: "group", value: "," });
    parts.push({ type: "integer", value: group });
  }
  if (fraction !== "") parts.push({ type: "decimal", value: "." }, { type: "fraction", value: fraction });
}

const ORDINALS = (n: number) => {
  const [ten, hundred] = [n % 10, n % 100];
  return ten === 1 && hundred !== 11 ? "one" : ten === 2 && hundred !== 12 ? "two" : ten === 3 && hundred !== 13 ? "few" : "other";
};

export class PluralRules {
  #type: string;
  #format: NumberFormat;

  constructor(_locales?: unknown, options: any = {}) {
    this.#type = options?.type ?? "cardinal";
    this.#format = new NumberFormat("en", options);
  }
  static supportedLocalesOf = NumberFormat.supportedLocalesOf;
  select(value: number): string {
    if (this.#type === "ordinal") return ORDINALS(Math.abs(Number(value)));
    return this.#format.format(Math.abs(Number(value))) === "1" ? "one" : "other";
  }
  resolvedOptions(): Record<string, unknown> {
    return { locale: "en-US", type: this.#type, pluralCategories: this.#type === "ordinal" ? ["few", "one", "two", "other"] : ["one", "other"] };
  }
  get [Symbol.toStringTag](): string {
    return "Intl.PluralRules";
  }
}
