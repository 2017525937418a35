// Moments in named time zones, in American English.
const moments = [Date.UTC(2024, 0, 15, 12, 30, 5), Date.UTC(2024, 6, 15, 12, 30, 5), Date.UTC(1999, 11, 31, 23, 59, 59), Date.UTC(2050, 6, 1)];
const zones = ["UTC", "America/New_York", "America/Los_Angeles", "Europe/Berlin", "Europe/London", "Asia/Tokyo", "Asia/Kolkata", "Australia/Sydney", "America/Sao_Paulo", "Pacific/Auckland", "africa/cairo", "+02:00", "-0330"];
for (const timeZone of zones) {
  for (const moment of moments) {
    const date = new Date(moment);
    console.log(timeZone, date.toLocaleString("en-US", { timeZone }), date.toLocaleString("en-US", { timeZone, timeZoneName: "short", hour: "numeric" }), date.toLocaleTimeString("en-US", { timeZone, hour12: false, hour: "2-digit", minute: "2-digit" }));
  }
}
const long = (timeZone, form = "long") => new Intl.DateTimeFormat("en-US", { timeZone, timeZoneName: form }).formatToParts(moments[1]).at(-1).value;
console.log(["UTC", "America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles", "Europe/Berlin", "Europe/London", "Europe/Helsinki", "Asia/Tokyo", "Asia/Kolkata", "Australia/Sydney"].map((zone) => long(zone)));
console.log(long("Asia/Kolkata", "shortOffset"), long("Asia/Kolkata", "longOffset"), long("UTC", "longOffset"), long("America/New_York", "shortOffset"));
console.log(new Intl.DateTimeFormat("en-US", { timeZone: "europe/berlin", dateStyle: "full", timeStyle: "long" }).format(moments[1]));
console.log(Object.fromEntries(new Intl.DateTimeFormat("en-US", { timeZone: "Asia/Tokyo", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", hour12: false }).formatToParts(moments[2]).map((part) => [part.type, part.value])));
console.log(new Intl.DateTimeFormat("en-US", { timeZone: "america/new_york" }).resolvedOptions().timeZone, Intl.DateTimeFormat().resolvedOptions().timeZone);
for (const timeZone of ["Nope/Zone", "", "EST5"]) {
  try {
    new Intl.DateTimeFormat("en-US", { timeZone });
    console.log("known", timeZone);
  } catch (error) {
    console.log(error.name, error.message);
  }
}
console.log(String(new Date(moments[0])), new Date(moments[0]).toTimeString(), String(new Date(NaN)), new Date(moments[0]).toDateString());
