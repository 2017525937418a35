const log = (...args) => console.log(...args);
const attempt = (call) => {
  try {
    log(call());
  } catch (error) {
    log(error.name);
  }
};
const en = (options) => new Intl.NumberFormat("en-US", options);

for (const value of [0, -0, 1, 12, 123, 1234, 1234567.891, -5.5, 0.1 + 0.2, 1e21, 1e-7, 1.005, 999.9995, NaN, Infinity, -Infinity, 123456789n]) log(en().format(value));
log(en({ maximumFractionDigits: 2 }).format(1.005), en({ minimumFractionDigits: 2 }).format(3), en({ maximumSignificantDigits: 3 }).format(123456), en({ minimumIntegerDigits: 2 }).format(5), en({ useGrouping: false }).format(12345));
for (const value of [0, 0.5, 0.256, 12.3456, 1, -0.1]) log(en({ style: "percent" }).format(value), en({ style: "percent", maximumFractionDigits: 1 }).format(value));
for (const value of [0, 1, 1234.5, -2.345]) log(en({ style: "currency", currency: "USD" }).format(value), en({ style: "currency", currency: "EUR" }).format(value), en({ style: "currency", currency: "JPY" }).format(value), en({ style: "currency", currency: "USD", minimumFractionDigits: 4 }).format(value), en({ style: "currency", currency: "USD", currencyDisplay: "code" }).format(value));
for (const value of [0, 1, 950, 999.9, 1000, 1234, 12345, 99950, 999999, 1500000, 2.5e9, 7e12, 1.23, 15.7]) log(en({ notation: "compact" }).format(value), en({ notation: "compact", compactDisplay: "long" }).format(value), en({ notation: "compact", maximumFractionDigits: 1 }).format(value));
log(en({ style: "unit", unit: "kilobyte" }).format(12.5), en({ style: "unit", unit: "second", unitDisplay: "long" }).format(1), en({ style: "unit", unit: "second", unitDisplay: "long" }).format(2), en({ style: "unit", unit: "hour", unitDisplay: "narrow" }).format(3), en({ style: "unit", unit: "megabyte-per-second" }).format(3));
log(en({ signDisplay: "always" }).format(5), en({ signDisplay: "exceptZero" }).format(0), en({ signDisplay: "never" }).format(-5), en({ notation: "scientific" }).format(12345));
log(en({ style: "currency", currency: "USD" }).formatToParts(-1234.5));
log((1234567.891).toLocaleString(), (0.5).toLocaleString("en-US", { style: "percent" }), (12345678901234567890n).toLocaleString(), Intl.NumberFormat("en").format(1e6), new Intl.NumberFormat().resolvedOptions().locale);
attempt(() => en({ style: "currency" }));
attempt(() => en({ maximumFractionDigits: 200 }));
attempt(() => en({ style: "nope" }));

const moment = new Date(Date.UTC(2024, 0, 2, 15, 4, 5, 67));
const midnight = new Date(Date.UTC(2023, 10, 30, 0, 30, 0));
const UTC = { timeZone: "UTC" };
const show = (options) => log([moment, midnight].map((date) => new Intl.DateTimeFormat("en-US", { ...UTC, ...options }).format(date)).join(" | "));
show({});
for (const dateStyle of ["full", "long", "medium", "short"]) {
  show({ dateStyle });
  show({ timeStyle: dateStyle });
  show({ dateStyle, timeStyle: "short" });
}
show({ weekday: "long", year: "numeric", month: "long", day: "numeric" });
show({ weekday: "short", month: "short", day: "numeric" });
show({ month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
show({ month: "long", day: "numeric", year: "numeric", hour: "numeric", minute: "2-digit" });
show({ year: "numeric", month: "2-digit", day: "2-digit" });
show({ year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
show({ year: "numeric", month: "long" });
show({ month: "numeric", day: "numeric" });
show({ year: "numeric" });
show({ month: "long" });
show({ weekday: "long" });
show({ weekday: "short", year: "numeric", month: "numeric", day: "numeric" });
show({ hour: "numeric" });
show({ hour: "numeric", minute: "2-digit" });
show({ hour: "2-digit", minute: "2-digit", hour12: false });
show({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
show({ hour: "numeric", minute: "numeric", second: "numeric", fractionalSecondDigits: 3 });
show({ hour: "numeric", minute: "2-digit", timeZoneName: "short" });
log(moment.toLocaleString("en-US", UTC), moment.toLocaleDateString("en-US", UTC), moment.toLocaleTimeString("en-US", UTC), moment.toLocaleTimeString("en-US", { ...UTC, hour12: false }), moment.toLocaleTimeString([], { ...UTC, hour: "2-digit", minute: "2-digit" }), moment.toLocaleDateString(undefined, { ...UTC, month: "short", day: "numeric" }), new Date(NaN).toLocaleString());
log(new Intl.DateTimeFormat("en-US", UTC).formatToParts(moment), Intl.DateTimeFormat().resolvedOptions().calendar);
attempt(() => new Intl.DateTimeFormat("en-US", { timeZone: "Not/AZone" }));
attempt(() => new Intl.DateTimeFormat("en-US", UTC).format(NaN));

const plural = new Intl.PluralRules("en-US");
const ordinal = new Intl.PluralRules("en-US", { type: "ordinal" });
log([0, 1, 2, 1.5].map((n) => plural.select(n)), [1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 101, 111].map((n) => ordinal.select(n)));
const relative = new Intl.RelativeTimeFormat("en");
const auto = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
for (const [value, unit] of [[-1, "day"], [1, "day"], [0, "day"], [-3, "hours"], [2, "weeks"], [1, "month"], [-1, "year"], [10, "seconds"], [0, "second"], [1234, "minute"], [-2, "quarter"]]) log(relative.format(value, unit), auto.format(value, unit), new Intl.RelativeTimeFormat("en", { style: "short" }).format(value, unit), new Intl.RelativeTimeFormat("en", { style: "narrow" }).format(value, unit));
attempt(() => relative.format(1, "fortnight"));
log(new Intl.ListFormat("en").format(["a", "b", "c"]), new Intl.ListFormat("en", { type: "disjunction" }).format(["a", "b"]), new Intl.ListFormat("en", { style: "short" }).format(["a", "b", "c"]), new Intl.ListFormat("en").format(["a"]), new Intl.ListFormat("en", { type: "unit" }).format(["a", "b"]));
const words = ["banana", "Apple", "apple", "éclair", "Zebra", "eclair", "file10", "file2", "_x", "-y", "10", "9", "a b", "ab", "", "cote", "côte", "ñ", "n", "o", "Ä", "z"];
log([...words].sort((a, b) => a.localeCompare(b)).join(" "));
log([...words].sort(new Intl.Collator("en", { numeric: true }).compare).join(" "));
log("a".localeCompare("A"), "a".localeCompare("A", undefined, { sensitivity: "base" }), "a".localeCompare("á", "en", { sensitivity: "accent" }), "a".localeCompare("b"), "b".localeCompare("a"), "a".localeCompare("a"), "résumé".localeCompare("resume"), "file2".localeCompare("file10", undefined, { numeric: true }));
log(Object.prototype.toString.call(new Intl.NumberFormat()), typeof Intl.getCanonicalLocales);
// A whole text has the plain space of older data before AM and PM; its parts have the narrow space
{
  const time = new Intl.DateTimeFormat("en-US", { ...UTC, hour: "numeric", minute: "numeric" });
  log(JSON.stringify([time.format(moment), time.formatToParts(moment).map((part) => part.value)]).replace(/[^ -~]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16)}`));
}
