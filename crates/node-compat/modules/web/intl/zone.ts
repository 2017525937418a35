/**
 * `pi:web/intl/zone`: local times in time zones, and the American English names of zones.
 *
 * The program contains the tables (`pi:engine` `timeZone`), so that a zone is the same on every machine. Without a name, a zone
 * is the process's local zone, which `Date` reads from the system.
 */

import { facts, timeZone } from "pi:engine";

/** Zones whose short name is used instead of the offset. */
const AMERICAN = /^(?:America|US|Pacific\/Honolulu$|[CEMP]ST|EST5EDT|CST6CDT|MST7MDT|PST8PDT)/;
const SHORT = /^(?:AK|[CEMPH])[SD]T$/;

/** Long names by the abbreviation in the tables; ambiguous abbreviations include the place. */
const LONG: Record<string, string> = {
  EST: "Eastern Standard Time", EDT: "Eastern Daylight Time", CST: "Central Standard Time", CDT: "Central Daylight Time",
  MST: "Mountain Standard Time", MDT: "Mountain Daylight Time", PST: "Pacific Standard Time", PDT: "Pacific Daylight Time",
  AKST: "Alaska Standard Time", AKDT: "Alaska Daylight Time", HST: "Hawaii-Aleutian Standard Time", GMT: "Greenwich Mean Time",
  BST: "British Summer Time", WET: "Western European Standard Time", WEST: "Western European Summer Time",
  CET: "Central European Standard Time", CEST: "Central European Summer Time", EET: "Eastern European Standard Time",
  EEST: "Eastern European Summer Time", MSK: "Moscow Standard Time", JST: "Japan Standard Time", KST: "Korean Standard Time",
  AEST: "Australian Eastern Standard Time", AEDT: "Australian Eastern Daylight Time", ACST: "Australian Central Standard Time",
  ACDT: "Australian Central Daylight Time", AWST: "Australian Western Standard Time", NZST: "New Zealand Standard Time",
  NZDT: "New Zealand Daylight Time", HKT: "Hong Kong Standard Time", SAST: "South Africa Standard Time",
  "Asia/Kolkata": "India Standard Time", "Asia/Calcutta": "India Standard Time", "Asia/Shanghai": "China Standard Time",
  "Asia/Taipei": "Taipei Standard Time", "Asia/Singapore": "Singapore Standard Time", "America/Sao_Paulo": "Brasilia Standard Time",
  "Europe/Dublin": "Greenwich Mean Time", "Asia/Jerusalem": "Israel Standard Time", "Asia/Dubai": "Gulf Standard Time",
};

const two = (value: number) => String(value).padStart(2, "0");

function offsetText(seconds: number, isLong: boolean): string {
  if (seconds === 0) return isLong ? "GMT+00:00" : "GMT";
  const minutes = Math.trunc(Math.abs(seconds) / 60);
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  const shown = isLong ? `${two(hours)}:${two(rest)}` : `${hours}${rest ? `:${two(rest)}` : ""}`;
  return `GMT${seconds < 0 ? "-" : "+"}${shown}`;
}

export class Zone {
  readonly name: string;
  readonly #isUtc: boolean;
  /** Offset in seconds if the name is an offset; `local` if the system provides the local time, without a table. */
  readonly #fixed: number | "local" | undefined;

  constructor(given?: unknown) {
    const name = given === undefined ? (facts.time_zone ?? "UTC") : String(given);
    this.#isUtc = /^(?:utc|gmt|etc\/(?:utc|gmt|uct|zulu|greenwich)|zulu|uct)$/i.test(name);
    const offset = /^([+-])(\d{2}):?(\d{2})?$/.exec(name);
    if (offset) this.#fixed = (offset[1] === "-" ? -60 : 60) * (Number(offset[2]) * 60 + Number(offset[3] ?? 0));
    const known = this.#isUtc || offset ? undefined : timeZone(name, 0);
    if (!this.#isUtc && !offset && !known) {
      if (given !== undefined) throw new RangeError(`Invalid time zone specified: ${name}`);
      this.#fixed = "local";
    }
    this.name = this.#isUtc ? "UTC" : offset ? `${offset[1]}${offset[2]}:${offset[3] ?? "00"}` : (known?.name ?? name);
  }

  #at(moment: Date): { offset: number; abbreviation: string } {
    if (this.#isUtc) return { offset: 0, abbreviation: "UTC" };
    if (this.#fixed === "local") return { offset: -60 * moment.getTimezoneOffset(), abbreviation: "" };
    if (this.#fixed !== undefined) return { offset: this.#fixed, abbreviation: "" };
    return timeZone(this.name, moment.getTime())!;
  }

  /** Returns the local time as a date whose UTC fields contain it. */
  wall(moment: Date): Date {
    return new Date(moment.getTime() + this.#at(moment).offset * 1000);
  }

  /** Returns the name for a `timeZoneName`: `short`, `long`, `shortOffset`, `longOffset`, `shortGeneric`, `longGeneric`. */
  nameAt(moment: Date, form: string): string {
    const { offset, abbreviation } = this.#at(moment);
    if (form === "shortOffset" || form === "longOffset") return offsetText(offset, form === "longOffset");
    if (this.#isUtc) return form.startsWith("long") ? "Coordinated Universal Time" : "UTC";
    if (form.startsWith("long")) return LONG[this.name] ?? LONG[abbreviation] ?? offsetText(offset, true);
    return AMERICAN.test(this.name) && SHORT.test(abbreviation) ? abbreviation : offsetText(offset, false);
  }
}
