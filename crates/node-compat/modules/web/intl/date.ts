/**
 * `pi:web/intl/date`: dates and times in American English, in any time zone (`pi:web/intl/zone`); numeric dates have the order
 * of their locale (`pi:web/intl/order`).
 */

import { canonicalList, option } from "pi:web/intl/locale";
import { orderOf } from "pi:web/intl/order";
import type { Order } from "pi:web/intl/order";
import { Zone } from "pi:web/intl/zone";

export type Part = { type: string; value: string };

const WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
/** The separator between a time and AM or PM. In whole texts, V8 uses the plain space of older data. */
const SPACE = " ";
const NARROW_SPACE = "\u202f";

const DATE_STYLES: Record<string, object> = {
  full: { weekday: "long", month: "long", day: "numeric", year: "numeric" },
  long: { month: "long", day: "numeric", year: "numeric" },
  medium: { month: "short", day: "numeric", year: "numeric" },
  short: { month: "numeric", day: "numeric", year: "2-digit" },
};
const TIME_STYLES: Record<string, object> = {
  full: { hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "long" },
  long: { hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "short" },
  medium: { hour: "numeric", minute: "2-digit", second: "2-digit" },
  short: { hour: "numeric", minute: "2-digit" },
};
const DATE_FIELDS = ["weekday", "year", "month", "day"];
const TIME_FIELDS = ["dayPeriod", "hour", "minute", "second", "fractionalSecondDigits"];
const WORDS = ["narrow", "short", "long"];
const NUMBERS = ["2-digit", "numeric"];
/** Allowed values of each field. */
const ALLOWED: Record<string, string[]> = {
  weekday: WORDS, era: WORDS, year: NUMBERS, month: [...NUMBERS, ...WORDS], day: NUMBERS, dayPeriod: WORDS, hour: NUMBERS, minute: NUMBERS, second: NUMBERS,
  timeZoneName: ["short", "long", "shortOffset", "longOffset", "shortGeneric", "longGeneric"], hourCycle: ["h11", "h12", "h23", "h24"],
};
const ERAS: Record<string, [string, string]> = { long: ["Anno Domini", "Before Christ"], short: ["AD", "BC"], narrow: ["A", "B"] };

/** Default fields of a formatter and of the three methods of Date. */
type Wanted = "any" | "all" | "date" | "time";

export class DateTimeFormat {
  #options: any;
  #zone: Zone;
  #order: Order;
  #styles: { dateStyle?: string; timeStyle?: string };

  /** `wanted`: default fields, which a method of Date adds unless the options name such a field. */
  constructor(locales: unknown = undefined, options: any = {}, wanted: Wanted = "any") {
    const given = { ...(options ?? {}) };
    this.#order = orderOf(canonicalList(locales));
    for (const name of Object.keys(ALLOWED)) option("DateTimeFormat", given, name, ALLOWED[name]!);
    const { dateStyle, timeStyle } = given;
    this.#zone = new Zone(given.timeZone);
    this.#styles = { ...(dateStyle && { dateStyle }), ...(timeStyle && { timeStyle }) };
    if (dateStyle || timeStyle) {
      for (const field of [...DATE_FIELDS, "era", ...TIME_FIELDS]) {
        if (given[field] !== undefined) throw new TypeError(`Can't set option ${field} when ${dateStyle ? "dateStyle" : "timeStyle"} is used`);
      }
      if (dateStyle && !DATE_STYLES[dateStyle]) throw new RangeError(`Value ${dateStyle} out of range for Intl.DateTimeFormat options property dateStyle`);
      if (timeStyle && !TIME_STYLES[timeStyle]) throw new RangeError(`Value ${timeStyle} out of range for Intl.DateTimeFormat options property timeStyle`);
      if (timeStyle && wanted === "date") throw new TypeError("Invalid option : timeStyle");
      if (dateStyle && wanted === "time") throw new TypeError("Invalid option : dateStyle");
      Object.assign(given, dateStyle && DATE_STYLES[dateStyle], timeStyle && TIME_STYLES[timeStyle]);
    } else {
      const has = (fields: string[]) => fields.some((field) => given[field] !== undefined);
      const isNamed = (wanted !== "time" && has(DATE_FIELDS)) || (wanted !== "date" && has(TIME_FIELDS));
      if (!isNamed && wanted !== "time") Object.assign(given, { year: "numeric", month: "numeric", day: "numeric" });
      if (!isNamed && (wanted === "time" || wanted === "all")) Object.assign(given, { hour: "numeric", minute: "2-digit", second: "2-digit" });
    }
    const cycle = given.hour12 === true ? "h12" : given.hour12 === false ? "h23" : (given.hourCycle ?? this.#order.hours);
    this.#options = { ...given, cycle };
  }

  static supportedLocalesOf(locales?: unknown): string[] {
    return canonicalList(locales);
  }

  get format(): (date?: Date | number) => string {
    return (date) => this.#parts(date, SPACE).map((part) => part.value).join("");
  }
  formatRange(from: Date | number, to: Date | number): string {
    const shown = (date: Date | number) => this.formatToParts(date).map((part) => part.value).join("");
    const [left, right] = [shown(from), shown(to)];
    return left === right ? left : `${left}\u2009–\u2009${right}`;
  }
  formatToParts(date?: Date | number): Part[] {
    return this.#parts(date, NARROW_SPACE);
  }

  #parts(date: Date | number | undefined, space: string): Part[] {
    const given = date === undefined ? new Date() : new Date(date as number);
    if (Number.isNaN(given.getTime())) throw new RangeError("Invalid time value");
    const moment = this.#zone.wall(given);
    const day = this.#date(moment);
    const time = this.#time(moment, given, space);
    if (day.length === 0) return time;
    if (time.length === 0) return day;
    const { dateStyle, timeStyle } = this.#styles;
    const wordy = dateStyle ? (dateStyle === "full" || dateStyle === "long") && timeStyle : this.#options.month === "long";
    // V8 formats "Tue 3 PM", but "Tue, 15".
    const isWeekday = day.length === 1 && day[0]!.type === "weekday" && time.length > 1 && time.some((part) => part.type === "dayPeriod");
    const join = wordy ? " at " : isWeekday ? " " : this.#isNumeric() ? this.#order.join : ", ";
    return [...day, { type: "literal", value: join }, ...time];
  }

  /** Reads a field of `moment`, whose UTC fields contain the local time. */
  #read(moment: Date, what: "FullYear" | "Month" | "Date" | "Day" | "Hours" | "Minutes" | "Seconds" | "Milliseconds"): number {
    return moment[`getUTC${what}`]();
  }

  /** Returns whether all parts of the date are numbers. */
  #isNumeric(): boolean {
    const { weekday, month } = this.#options;
    return weekday === undefined && (month === undefined || month === "numeric" || month === "2-digit");
  }

  /** Formats a numeric date in the locale's order. */
  #numbers(moment: Date): Part[] {
    const { year, month, day } = this.#options;
    const { fields, between, padded, shortYear } = this.#order;
    const isShort = this.#styles.dateStyle === "short";
    const values: Record<string, [string, number, string | undefined]> = {
      y: ["year", this.#yearOf(moment), isShort ? shortYear : year],
      m: ["month", this.#read(moment, "Month") + 1, month],
      d: ["day", this.#read(moment, "Date"), day],
    };
    const shown = [...fields].map((field) => values[field]!).filter(([, , form]) => form !== undefined);
    const parts = shown.map(([type, value, form]): Part => {
      const short = form === "2-digit" ? value % 100 : value;
      const isWide = form === "2-digit" || ((padded || isShort) && shown.length > 1 && type !== "year");
      return { type, value: isWide ? String(short).padStart(2, "0") : String(short) };
    });
    return parts.flatMap((part, at) => (at === 0 ? [part] : [{ type: "literal", value: between }, part]));
  }

  #date(moment: Date): Part[] {
    const { weekday, year, month, day } = this.#options;
    const era = this.#era(moment);
    if (this.#order.fields !== "mdy" && this.#isNumeric()) return [...this.#numbers(moment), ...era];
    const name = (list: string[], index: number, form: string) => (form === "long" ? list[index]! : form === "narrow" ? list[index]![0]! : list[index]!.slice(0, 3));
    const number = (value: number, form: string) => (form === "2-digit" ? String(value % 100).padStart(2, "0") : String(value));
    const parts: Record<string, Part | undefined> = {
      weekday: weekday && { type: "weekday", value: name(WEEKDAYS, this.#read(moment, "Day"), weekday) },
      year: year && { type: "year", value: number(this.#yearOf(moment), year) },
      day: day && { type: "day", value: number(this.#read(moment, "Date"), day) },
      month: month && { type: "month", value: month === "numeric" || month === "2-digit" ? number(this.#read(moment, "Month") + 1, month) : name(MONTHS, this.#read(moment, "Month"), month) },
    };
    const isNumeric = month === undefined || month === "numeric" || month === "2-digit";
    const out: Part[] = [];
    const add = (part: Part | undefined, before: string) => {
      if (!part) return;
      if (out.length > 0) out.push({ type: "literal", value: before });
      out.push(part);
    };
    if (month === undefined && day !== undefined && weekday !== undefined && year === undefined) {
      add(parts.day, "");
      add(parts.weekday, " ");
      return [...out, ...era];
    }
    add(parts.weekday, "");
    if (isNumeric) {
      add(parts.month, ", ");
      add(parts.day, parts.month ? "/" : ", ");
      add(parts.year, parts.month ? "/" : parts.day ? " " : ", ");
    } else {
      add(parts.month, ", ");
      add(parts.day, " ");
      add(parts.year, parts.day ? ", " : " ");
    }
    return out.length === 0 ? era.slice(1) : [...out, ...era];
  }

  /** Returns the year of the era. */
  #yearOf(moment: Date): number {
    const year = this.#read(moment, "FullYear");
    return year > 0 ? year : 1 - year;
  }
  #era(moment: Date): Part[] {
    const names = ERAS[this.#options.era];
    return names ? [{ type: "literal", value: " " }, { type: "era", value: names[this.#read(moment, "FullYear") > 0 ? 0 : 1] }] : [];
  }

  /** Returns the day period for a 12-hour clock. */
  #partOfDay(hours: number, minutes: number, form: string): string {
    if (hours < 12) return "in the morning";
    const { minute, second } = this.#options;
    if (hours === 12 && (minutes === 0 || (minute === undefined && second === undefined))) return form === "narrow" ? "n" : "noon";
    return hours < 18 ? "in the afternoon" : hours < 21 ? "in the evening" : "at night";
  }

  #time(moment: Date, given: Date, space: string): Part[] {
    const { hour, minute, second, fractionalSecondDigits: fraction, timeZoneName, cycle, dayPeriod } = this.#options;
    const out: Part[] = [];
    const add = (part: Part, before: string) => {
      if (out.length > 0) out.push({ type: "literal", value: before });
      out.push(part);
    };
    const two = (value: number) => String(value).padStart(2, "0");
    const hours = this.#read(moment, "Hours");
    const twelve = cycle === "h12" || cycle === "h11";
    if (hour !== undefined) {
      const value = cycle === "h12" ? hours % 12 || 12 : cycle === "h11" ? hours % 12 : cycle === "h24" ? hours || 24 : hours;
      add({ type: "hour", value: hour === "2-digit" || !twelve ? two(value) : String(value) }, "");
    }
    const alone = hour === undefined && second === undefined;
    if (minute !== undefined) add({ type: "minute", value: alone && minute !== undefined && hour === undefined ? String(this.#read(moment, "Minutes")) : two(this.#read(moment, "Minutes")) }, ":");
    if (second !== undefined) {
      const value = this.#read(moment, "Seconds");
      add({ type: "second", value: minute === undefined && hour === undefined && second !== "2-digit" ? String(value) : minute === undefined && hour === undefined ? String(value) : two(value) }, ":");
    }
    if (fraction) add({ type: "fractionalSecond", value: String(this.#read(moment, "Milliseconds")).padStart(3, "0").slice(0, fraction) }, ".");
    if (dayPeriod && (hour === undefined || twelve)) add({ type: "dayPeriod", value: this.#partOfDay(hours, this.#read(moment, "Minutes"), dayPeriod) }, " ");
    else if (hour !== undefined && twelve) add({ type: "dayPeriod", value: this.#order.halves[hours < 12 ? 0 : 1] }, space);
    if (timeZoneName !== undefined) add({ type: "timeZoneName", value: this.#zone.nameAt(given, timeZoneName) }, out.length > 0 ? " " : "");
    return out;
  }

  resolvedOptions(): Record<string, unknown> {
    const { cycle, ...options } = this.#options;
    const shown: Record<string, unknown> = { locale: "en-US", calendar: "gregory", numberingSystem: "latn", timeZone: this.#zone.name };
    if (options.hour !== undefined) Object.assign(shown, { hourCycle: cycle, hour12: cycle === "h12" || cycle === "h11" });
    if (this.#styles.dateStyle || this.#styles.timeStyle) return Object.assign(shown, this.#styles);
    for (const field of ["weekday", "era", "year", "month", "day", "dayPeriod", "hour", "minute", "second", "fractionalSecondDigits", "timeZoneName"]) if (options[field] !== undefined) shown[field] = options[field];
    return shown;
  }
  get [Symbol.toStringTag](): string {
    return "Intl.DateTimeFormat";
  }
}
