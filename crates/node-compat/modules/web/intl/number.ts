/**
 * `pi:web/intl/number`: numbers in American English, whatever the requested locale.
 *
 * Rounding works on the shortest decimal form of a number, half away from zero by default, as in ICU; so
 * 1.005 with two digits is 1.01.
 */

import { canonicalList, option } from "pi:web/intl/locale";

/** Digits without a decimal point, and the position of the point: 12.5 is `{digits: "125", point: 2}`. */
interface Decimal {
  negative: boolean;
  digits: string;
  point: number;
}

function decimalOf(value: number | bigint | string): Decimal {
  const text = Object.is(value, -0) ? "-0" : String(value);
  const negative = text.startsWith("-");
  const [mantissa, exponent = "0"] = text.replace(/^[-+]/, "").split(/e/i);
  const [whole, fraction = ""] = mantissa!.split(".");
  const digits = (whole! + fraction).replace(/^0+/, "");
  const lost = (whole! + fraction).length - digits.length;
  return { negative, digits, point: digits === "" ? 0 : whole!.length - lost + Number(exponent) };
}

/**
 * Whether the remainder rounds away from zero, by mode: the sign, less than, exactly or more than half, and whether the last
 * digit is odd.
 */
const ROUNDING: Record<string, (negative: boolean, half: number, odd: boolean) => boolean> = {
  ceil: (negative) => !negative,
  floor: (negative) => negative,
  expand: () => true,
  trunc: () => false,
  halfCeil: (negative, half) => half > 0 || (half === 0 && !negative),
  halfFloor: (negative, half) => half > 0 || (half === 0 && negative),
  halfExpand: (_, half) => half >= 0,
  halfTrunc: (_, half) => half > 0,
  halfEven: (_, half, odd) => half > 0 || (half === 0 && odd),
};

/** Keeps `count` digits of `digits`, from the left, in steps of `increment` in the last digit. */
function rounded(decimal: Decimal, count: number, mode: string, increment = 1): Decimal {
  if (increment === 1 && count >= decimal.digits.length) return decimal;
  const scale = 10n ** BigInt(Math.max(0, decimal.digits.length - count));
  const all = BigInt((decimal.digits || "0") + "0".repeat(Math.max(0, count - decimal.digits.length)));
  const step = scale * BigInt(increment);
  const [kept, rest] = [all / step, all % step];
  const half = rest * 2n === step ? 0 : rest * 2n > step ? 1 : -1;
  const up = rest > 0n && ROUNDING[mode]!(decimal.negative, half, kept % 2n === 1n);
  const raised = String((kept + (up ? 1n : 0n)) * BigInt(increment));
  if (raised === "0") return { ...decimal, digits: "", point: 0 };
  return { ...decimal, digits: raised.replace(/0+$/, ""), point: decimal.point + (raised.length - count) };
}

interface Digits {
  minimumIntegerDigits: number;
  minimumFractionDigits: number;
  maximumFractionDigits: number;
  minimumSignificantDigits?: number | undefined;
  maximumSignificantDigits?: number | undefined;
  roundingMode: string;
  roundingIncrement: number;
  roundingPriority: string;
  trailingZeroDisplay: string;
}

function spell(decimal: Decimal, settings: Digits): { whole: string; fraction: string } {
  const { minimumSignificantDigits: least, maximumSignificantDigits: most, roundingMode, roundingIncrement, roundingPriority } = settings;
  const byPlaces = decimal.point + settings.maximumFractionDigits;
  const isFiner = most !== undefined && most > byPlaces;
  const bySignificance = most !== undefined && (roundingPriority === "auto" || (roundingPriority === "morePrecision") === isFiner);
  const cut = bySignificance ? rounded(decimal, most, roundingMode) : rounded(decimal, byPlaces, roundingMode, roundingIncrement);
  const whole = cut.point > 0 ? cut.digits.slice(0, cut.point).padEnd(cut.point, "0") : "";
  let fraction = cut.point >= 0 ? cut.digits.slice(cut.point) : "0".repeat(-cut.point) + cut.digits;
  const wanted = bySignificance ? Math.max(0, (least ?? 1) - (cut.digits === "" ? 1 : cut.point)) : settings.minimumFractionDigits;
  if (settings.trailingZeroDisplay === "auto" || fraction !== "") fraction = fraction.padEnd(wanted, "0");
  return { whole: whole.padStart(settings.minimumIntegerDigits, "0"), fraction };
}

const grouped = (whole: string) => whole.replace(/\B(?=(\d{3})+$)/g, ",");

const SYMBOLS: Record<string, string> = {
  USD: "$", EUR: "€", GBP: "£", JPY: "¥", INR: "₹", CNY: "CN¥", KRW: "₩", BRL: "R$", CAD: "CA$", AUD: "A$", MXN: "MX$", NZD: "NZ$", HKD: "HK$", TWD: "NT$", ILS: "₪",
  VND: "₫", XAF: "FCFA", XOF: "F\u202fCFA", PHP: "₱", XCD: "EC$", XPF: "CFPF",
};
const NAMES: Record<string, [string, string]> = {
  AED: ["UAE dirham", "UAE dirhams"], ARS: ["Argentine peso", "Argentine pesos"], AUD: ["Australian dollar", "Australian dollars"],
  BDT: ["Bangladeshi taka", "Bangladeshi takas"], BGN: ["Bulgarian lev", "Bulgarian leva"], BHD: ["Bahraini dinar", "Bahraini dinars"],
  BRL: ["Brazilian real", "Brazilian reals"], CAD: ["Canadian dollar", "Canadian dollars"], CHF: ["Swiss franc", "Swiss francs"],
  CLP: ["Chilean peso", "Chilean pesos"], CNY: ["Chinese yuan", "Chinese yuan"], COP: ["Colombian peso", "Colombian pesos"],
  CZK: ["Czech koruna", "Czech korunas"], DKK: ["Danish krone", "Danish kroner"], EGP: ["Egyptian pound", "Egyptian pounds"], EUR: ["euro", "euros"],
  GBP: ["British pound", "British pounds"], GEL: ["Georgian lari", "Georgian laris"], GHS: ["Ghanaian cedi", "Ghanaian cedis"],
  HKD: ["Hong Kong dollar", "Hong Kong dollars"], HUF: ["Hungarian forint", "Hungarian forints"], IDR: ["Indonesian rupiah", "Indonesian rupiahs"],
  ILS: ["Israeli new shekel", "Israeli new shekels"], INR: ["Indian rupee", "Indian rupees"], ISK: ["Icelandic króna", "Icelandic krónur"],
  JPY: ["Japanese yen", "Japanese yen"], KES: ["Kenyan shilling", "Kenyan shillings"], KRW: ["South Korean won", "South Korean won"],
  KWD: ["Kuwaiti dinar", "Kuwaiti dinars"], KZT: ["Kazakhstani tenge", "Kazakhstani tenges"], LKR: ["Sri Lankan rupee", "Sri Lankan rupees"],
  MAD: ["Moroccan dirham", "Moroccan dirhams"], MXN: ["Mexican peso", "Mexican pesos"], MYR: ["Malaysian ringgit", "Malaysian ringgits"],
  NGN: ["Nigerian naira", "Nigerian nairas"], NOK: ["Norwegian krone", "Norwegian kroner"], NZD: ["New Zealand dollar", "New Zealand dollars"],
  PEN: ["Peruvian sol", "Peruvian soles"], PHP: ["Philippine peso", "Philippine pesos"], PKR: ["Pakistani rupee", "Pakistani rupees"],
  PLN: ["Polish zloty", "Polish zlotys"], QAR: ["Qatari riyal", "Qatari riyals"], RON: ["Romanian leu", "Romanian lei"],
  RSD: ["Serbian dinar", "Serbian dinars"], RUB: ["Russian ruble", "Russian rubles"], SAR: ["Saudi riyal", "Saudi riyals"],
  SEK: ["Swedish krona", "Swedish kronor"], SGD: ["Singapore dollar", "Singapore dollars"], THB: ["Thai baht", "Thai baht"],
  TRY: ["Turkish lira", "Turkish Lira"], TWD: ["New Taiwan dollar", "New Taiwan dollars"], UAH: ["Ukrainian hryvnia", "Ukrainian hryvnias"],
  USD: ["US dollar", "US dollars"], UYU: ["Uruguayan peso", "Uruguayan pesos"], VND: ["Vietnamese dong", "Vietnamese dong"],
  ZAR: ["South African rand", "South African rand"],
};
/** Narrow currency symbols, where they differ from the short ones. */
const NARROW: Record<string, string> = {
  ARS: "$", AUD: "$", BDT: "৳", BRL: "R$", CAD: "$", CLP: "$", CNY: "¥", COP: "$", CZK: "Kč", DKK: "kr", EGP: "E£",
  EUR: "€", GBP: "£", GEL: "₾", GHS: "GH₵", HKD: "$", HUF: "Ft", IDR: "Rp", ILS: "₪", INR: "₹", ISK: "kr", JPY: "¥",
  KRW: "₩", KZT: "₸", LKR: "Rs", MXN: "$", MYR: "RM", NGN: "₦", NOK: "kr", NZD: "$", PHP: "₱", PKR: "Rs", PLN: "zł",
  RON: "lei", RUB: "₽", SEK: "kr", SGD: "$", THB: "฿", TRY: "₺", TWD: "$", UAH: "₴", USD: "$", UYU: "$", VND: "₫",
};
/** Currencies without minor units. */
const WHOLE = new Set("AFN ALL BIF CLP COP DJF GNF HUF IDR IQD IRR ISK JPY KMF KPW KRW LAK LBP MGA MMK PKR PYG RWF SLL SOS SYP UGX VND VUV XAF XOF XPF YER".split(" "));
const THOUSANDTHS = new Set(["BHD", "JOD", "KWD", "LYD", "OMR", "TND"]);

/** Units: short in the singular and in the plural, narrow, long in the singular and in the plural. */
const UNITS: Record<string, [string, string, string, string, string]> = {
  acre: [" ac", " ac", "ac", " acre", " acres"], bit: [" bit", " bit", "bit", " bit", " bits"], byte: [" byte", " byte", "B", " byte", " bytes"],
  celsius: ["°C", "°C", "°C", " degree Celsius", " degrees Celsius"], centimeter: [" cm", " cm", "cm", " centimeter", " centimeters"],
  day: [" day", " days", "d", " day", " days"], degree: [" deg", " deg", "°", " degree", " degrees"],
  fahrenheit: ["°F", "°F", "°", " degree Fahrenheit", " degrees Fahrenheit"],
  "fluid-ounce": [" fl oz", " fl oz", "fl oz", " fluid ounce", " fluid ounces"], foot: [" ft", " ft", "′", " foot", " feet"],
  gallon: [" gal", " gal", "gal", " gallon", " gallons"], gigabit: [" Gb", " Gb", "Gb", " gigabit", " gigabits"],
  gigabyte: [" GB", " GB", "GB", " gigabyte", " gigabytes"], gram: [" g", " g", "g", " gram", " grams"],
  hectare: [" ha", " ha", "ha", " hectare", " hectares"], hour: [" hr", " hr", "h", " hour", " hours"],
  inch: [" in", " in", "″", " inch", " inches"], kilobit: [" kb", " kb", "kb", " kilobit", " kilobits"],
  kilobyte: [" kB", " kB", "kB", " kilobyte", " kilobytes"], kilogram: [" kg", " kg", "kg", " kilogram", " kilograms"],
  kilometer: [" km", " km", "km", " kilometer", " kilometers"], liter: [" L", " L", "L", " liter", " liters"],
  megabit: [" Mb", " Mb", "Mb", " megabit", " megabits"], megabyte: [" MB", " MB", "MB", " megabyte", " megabytes"],
  meter: [" m", " m", "m", " meter", " meters"], microsecond: [" μs", " μs", "μs", " microsecond", " microseconds"],
  mile: [" mi", " mi", "mi", " mile", " miles"], "mile-scandinavian": [" smi", " smi", "smi", " mile-scandinavian", " miles-scandinavian"],
  milliliter: [" mL", " mL", "mL", " milliliter", " milliliters"], millimeter: [" mm", " mm", "mm", " millimeter", " millimeters"],
  millisecond: [" ms", " ms", "ms", " millisecond", " milliseconds"], minute: [" min", " min", "m", " minute", " minutes"],
  month: [" mth", " mths", "m", " month", " months"], nanosecond: [" ns", " ns", "ns", " nanosecond", " nanoseconds"],
  ounce: [" oz", " oz", "oz", " ounce", " ounces"], percent: ["%", "%", "%", " percent", " percent"],
  petabyte: [" PB", " PB", "PB", " petabyte", " petabytes"], pound: [" lb", " lb", "#", " pound", " pounds"],
  second: [" sec", " sec", "s", " second", " seconds"], stone: [" st", " st", "st", " stone", " stones"],
  terabit: [" Tb", " Tb", "Tb", " terabit", " terabits"], terabyte: [" TB", " TB", "TB", " terabyte", " terabytes"],
  week: [" wk", " wks", "w", " week", " weeks"], yard: [" yd", " yd", "yd", " yard", " yards"], year: [" yr", " yrs", "y", " year", " years"],
};
/** Form of a unit after `per`, where it differs from the short form. */
const PER: Record<string, string> = { day: "d", gallon: "gal US", hour: "h", month: "m", second: "s", week: "w", year: "y" };

export type Part = { type: string; value: string };

function within(name: string, value: unknown, least: number, most: number): number | undefined {
  if (value === undefined) return undefined;
  const number = Number(value);
  if (!(number >= least && number <= most)) throw new RangeError(`${name} value is out of range.`);
  return Math.floor(number);
}

const INCREMENTS = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 2500, 5000];

function isUnit(unit: string): boolean {
  const parts = unit.split("-per-");
  return parts.length <= 2 && parts.every((part) => Object.hasOwn(UNITS, part));
}

function groupingOf(given: any, compact: boolean): string | false {
  const { useGrouping } = given;
  const usual = compact ? "min2" : "auto";
  if (useGrouping === true) return "always";
  if (useGrouping === false || useGrouping === null || useGrouping === "" || useGrouping === 0) return false;
  return useGrouping === "true" || useGrouping === "false" ? usual : option("NumberFormat", given, "useGrouping", ["min2", "auto", "always"], usual)!;
}

export class NumberFormat {
  #settings: any;

  constructor(locales: unknown = undefined, options: any = {}) {
    canonicalList(locales);
    const given = options ?? {};
    const read = (name: string, allowed: readonly unknown[], usual: string) => option("NumberFormat", given, name, allowed, usual)!;
    read("localeMatcher", ["lookup", "best fit"], "");
    const style = read("style", ["decimal", "percent", "currency", "unit"], "decimal");
    if (style === "currency" && given.currency === undefined) throw new TypeError("Currency code is required with currency style.");
    const unit = given.unit === undefined ? undefined : String(given.unit);
    if (unit === undefined ? style === "unit" : !isUnit(unit)) {
      throw new (unit === undefined ? TypeError : RangeError)(`Invalid unit argument for Intl.NumberFormat() '${unit ?? ""}'`);
    }
    const roundingIncrement = Number(given.roundingIncrement ?? 1);
    if (!INCREMENTS.includes(roundingIncrement)) throw new RangeError("roundingIncrement value is out of range.");
    const currency = given.currency?.toUpperCase();
    if (currency !== undefined && !/^[A-Z]{3}$/.test(currency)) throw new RangeError(`Invalid currency code : ${given.currency}`);
    const compact = given.notation === "compact";
    const usual = style === "currency" ? (WHOLE.has(currency) ? [0, 0] : THOUSANDTHS.has(currency) ? [3, 3] : [2, 2]) : style === "percent" ? [0, 0] : [0, 3];
    const least = within("minimumFractionDigits", given.minimumFractionDigits, 0, 100);
    const most = within("maximumFractionDigits", given.maximumFractionDigits, 0, 100);
    if (least !== undefined && most !== undefined && least > most) throw new RangeError("maximumFractionDigits value is out of range.");
    const bySignificance = given.minimumSignificantDigits !== undefined || given.maximumSignificantDigits !== undefined;
    this.#settings = {
      style, currency, unit, compact, roundingIncrement,
      notation: read("notation", ["standard", "scientific", "engineering", "compact"], "standard"), compactDisplay: read("compactDisplay", ["short", "long"], "short"),
      currencyDisplay: read("currencyDisplay", ["code", "symbol", "narrowSymbol", "name"], "symbol"), currencySign: read("currencySign", ["standard", "accounting"], "standard"),
      unitDisplay: read("unitDisplay", ["short", "narrow", "long"], "short"), signDisplay: read("signDisplay", ["auto", "never", "always", "exceptZero", "negative"], "auto"),
      roundingMode: read("roundingMode", Object.keys(ROUNDING), "halfExpand"), roundingPriority: read("roundingPriority", ["auto", "morePrecision", "lessPrecision"], "auto"),
      trailingZeroDisplay: read("trailingZeroDisplay", ["auto", "stripIfInteger"], "auto"),
      useGrouping: groupingOf(given, compact), minimumIntegerDigits: within("minimumIntegerDigits", given.minimumIntegerDigits, 1, 21) ?? 1,
      minimumFractionDigits: least ?? Math.min(usual[0]!, most ?? usual[0]!), maximumFractionDigits: most ?? Math.max(usual[1]!, least ?? 0),
      ...(bySignificance && {
        minimumSignificantDigits: within("minimumSignificantDigits", given.minimumSignificantDigits, 1, 21) ?? 1,
        maximumSignificantDigits: within("maximumSignificantDigits", given.maximumSignificantDigits, 1, 21) ?? 21,
      }),
      rounds: compact && !bySignificance && least === undefined && most === undefined,
    };
  }

  static supportedLocalesOf(locales?: unknown): string[] {
    return canonicalList(locales);
  }

  get format(): (value: number | bigint) => string {
    return (value) => this.formatToParts(value).map((part) => part.value).join("");
  }
  formatRange(from: number | bigint, to: number | bigint): string {
    const [left, right] = [this.format(from), this.format(to)];
    return left === right ? `~${left}` : this.#settings.style === "currency" || this.#settings.style === "unit" ? `${left} – ${right}` : `${left}–${right}`;
  }

  formatToParts(given: number | bigint | string): Part[] {
    // A string can represent a number of any length.
    const isExact = typeof given === "string" && /^\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d{1,3})?\s*$/i.test(given);
    const value = typeof given === "bigint" ? given : Number(given);
    const settings = this.#settings;
    if (typeof value === "number" && Number.isNaN(value)) return this.#dress([{ type: "nan", value: "NaN" }], false, false, "other");
    const negative = typeof value === "bigint" ? value < 0n : value < 0 || Object.is(value, -0);
    if (value === Infinity || value === -Infinity) return this.#dress([{ type: "infinity", value: "∞" }], negative, false, "other");
    let decimal = decimalOf(isExact ? (given as string).trim() : value);
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

  /** Adds sign, currency and unit. */
  #dress(number: Part[], negative: boolean, isZero: boolean, plural: string): Part[] {
    const { style, signDisplay, currency, currencyDisplay, currencySign, unit, unitDisplay } = this.#settings;
    const parts = [...number];
    if (style === "percent") parts.push({ type: "percentSign", value: "%" });
    if (style === "unit") {
      const [base, per] = String(unit).split("-per-") as [string, string?];
      const [one, other, narrow, long, longs] = UNITS[base]!;
      let text = unitDisplay === "long" ? (plural === "one" ? long : longs) : unitDisplay === "narrow" ? narrow : plural === "one" ? one : other;
      if (unit === "mile-per-gallon" && unitDisplay !== "long") text = unitDisplay === "narrow" ? "mpg" : " mpg";
      else if (per) text += unitDisplay === "long" ? ` per${UNITS[per]![3]}` : `/${unitDisplay === "narrow" && per === "gallon" ? "gal" : (PER[per] ?? (unitDisplay === "narrow" && per !== "minute" ? UNITS[per]![2] : UNITS[per]![0].trim()))}`;
      const space = text.startsWith(" ");
      if (space) parts.push({ type: "literal", value: " " });
      parts.push({ type: "unit", value: space ? text.slice(1) : text });
    }
    if (style === "currency") {
      if (currencyDisplay === "name") parts.push({ type: "literal", value: " " }, { type: "currency", value: NAMES[currency]?.[plural === "one" ? 0 : 1] ?? currency });
      else {
        const symbol = currencyDisplay === "code" ? currency : currencyDisplay === "narrowSymbol" ? (NARROW[currency] ?? SYMBOLS[currency] ?? currency) : (SYMBOLS[currency] ?? currency);
        parts.unshift({ type: "currency", value: symbol }, ...(/[\p{L}.]$/u.test(symbol) ? [{ type: "literal", value: "\u00a0" }] : []));
      }
    }
    const shows = signDisplay === "never" ? "" : negative && !(isZero && (signDisplay === "exceptZero" || signDisplay === "negative")) ? "-" : !negative && (signDisplay === "always" || (signDisplay === "exceptZero" && !isZero)) ? "+" : "";
    if (shows === "-" && currencySign === "accounting" && style === "currency") return [{ type: "literal", value: "(" }, ...parts, { type: "literal", value: ")" }];
    if (shows) parts.unshift({ type: shows === "-" ? "minusSign" : "plusSign", value: shows });
    return parts;
  }

  resolvedOptions(): Record<string, unknown> {
    const {
      style, currency, currencyDisplay, currencySign, unit, unitDisplay, notation, compactDisplay, signDisplay, useGrouping, minimumIntegerDigits, minimumFractionDigits,
      maximumFractionDigits, minimumSignificantDigits, maximumSignificantDigits, rounds, roundingIncrement, roundingMode, roundingPriority, trailingZeroDisplay,
    } = this.#settings;
    const bySignificance = maximumSignificantDigits !== undefined;
    return {
      locale: "en-US", numberingSystem: "latn", style,
      ...(style === "currency" && { currency, currencyDisplay, currencySign }), ...(style === "unit" && { unit, unitDisplay }),
      minimumIntegerDigits,
      ...(!bySignificance && (rounds ? { minimumFractionDigits: 0, maximumFractionDigits: 0 } : { minimumFractionDigits, maximumFractionDigits })),
      ...(bySignificance && { minimumSignificantDigits, maximumSignificantDigits }), ...(rounds && { minimumSignificantDigits: 1, maximumSignificantDigits: 2 }),
      useGrouping, notation, ...(notation === "compact" && { compactDisplay }), signDisplay, roundingIncrement, roundingMode,
      roundingPriority: rounds ? "morePrecision" : roundingPriority, trailingZeroDisplay,
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

  constructor(locales: unknown = undefined, options: any = {}) {
    canonicalList(locales);
    this.#type = option("PluralRules", options, "type", ["cardinal", "ordinal"], "cardinal")!;
    this.#format = new NumberFormat("en", { ...(options ?? {}), style: "decimal", notation: "standard" });
  }
  static supportedLocalesOf(locales?: unknown): string[] {
    return canonicalList(locales);
  }
  select(value: number): string {
    if (this.#type === "ordinal") return ORDINALS(Math.abs(Number(value)));
    return this.#format.format(Math.abs(Number(value))) === "1" ? "one" : "other";
  }
  selectRange(from: number, to: number): string {
    if (from === undefined || to === undefined) throw new TypeError("startRange or endRange is undefined");
    if (Number.isNaN(Number(from)) || Number.isNaN(Number(to))) throw new RangeError("Invalid number value: NaN");
    return this.#type === "ordinal" ? this.select(to) : "other";
  }
  resolvedOptions(): Record<string, unknown> {
    const { numberingSystem: _, style: _style, useGrouping: _grouping, notation: _notation, signDisplay: _sign, locale, roundingIncrement, roundingMode, roundingPriority, trailingZeroDisplay, ...digits } =
      this.#format.resolvedOptions();
    const pluralCategories = this.#type === "ordinal" ? ["few", "one", "two", "other"] : ["one", "other"];
    return { locale, type: this.#type, ...digits, pluralCategories, roundingIncrement, roundingMode, roundingPriority, trailingZeroDisplay };
  }
  get [Symbol.toStringTag](): string {
    return "Intl.PluralRules";
  }
}

/** Returns the values for `Intl.supportedValuesOf`. */
export function known(what: "unit" | "currency"): string[] {
  return Object.keys(what === "unit" ? UNITS : NAMES).sort();
}
