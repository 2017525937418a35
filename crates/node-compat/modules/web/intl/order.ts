/**
 * `pi:web/intl/order`: the order and separators of numeric dates by locale.
 *
 * All text is American English (`pi:web/intl/date`). But extensions select a locale for its numbers: `sv-SE` and `en-CA` to
 * write ISO dates, `en-GB` for a 24-hour clock. This module has the data of these locales.
 */

export interface Order {
  /** `y`, `m` and `d`, in the order of the locale. */
  fields: string;
  between: string;
  /** Whether day and month always have two digits next to a year. */
  padded: boolean;
  /** Form of the year in the short style, in which day and month have two digits. */
  shortYear: "numeric" | "2-digit";
  /** Separator between date and time. */
  join: string;
  hours: "h12" | "h23";
  /** Names for AM and PM. */
  halves: [string, string];
}

const american: Order = { fields: "mdy", between: "/", padded: false, shortYear: "numeric", join: ", ", hours: "h12", halves: ["AM", "PM"] };
const ORDERS: Record<string, Order> = {
  "en-CA": { ...american, fields: "ymd", between: "-", padded: true, halves: ["a.m.", "p.m."] },
  "en-GB": { ...american, fields: "dmy", padded: true, hours: "h23", halves: ["am", "pm"] },
  de: { ...american, fields: "dmy", between: ".", shortYear: "2-digit", hours: "h23" },
  fr: { ...american, fields: "dmy", padded: true, join: " ", hours: "h23" },
  sv: { ...american, fields: "ymd", between: "-", padded: true, join: " ", hours: "h23", halves: ["fm", "em"] },
};

/** Returns the data of the first known locale, by its region or language; by default, American data. */
export function orderOf(locales: unknown): Order {
  for (const locale of ([] as unknown[]).concat(locales ?? [])) {
    const name = String(locale);
    const known = ORDERS[name] ?? ORDERS[name.split("-")[0]!];
    if (known) return known;
    if (name.startsWith("en")) break;
  }
  return american;
}
