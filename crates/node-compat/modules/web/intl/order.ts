/**
 * `pi:web/intl/order`: how locales order and separate the numbers of a date.
 *
 * Words are American English everywhere (`pi:web/intl/date`). But extensions name a locale for the sake of its
 * numbers: `sv-SE` and `en-CA` to write ISO dates, `en-GB` for a clock of 24 hours. Those stand here, as data.
 */

export interface Order {
  /** `y`, `m` and `d`, as they follow each other. */
  fields: string;
  between: string;
  /** Whether day and month always have two digits where a year stands beside them. */
  padded: boolean;
  /** How the short style writes the year; day and month have two digits in it. */
  shortYear: "numeric" | "2-digit";
  /** Between date and time. */
  join: string;
  hours: "h12" | "h23";
  /** Before and after noon. */
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

/** The first of the locales that is known here, by its region or its language; else the American one. */
export function orderOf(locales: unknown): Order {
  for (const locale of ([] as unknown[]).concat(locales ?? [])) {
    const name = String(locale);
    const known = ORDERS[name] ?? ORDERS[name.split("-")[0]!];
    if (known) return known;
    if (name.startsWith("en")) break;
  }
  return american;
}
