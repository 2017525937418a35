/** `pi:web/intl/locale`: validation and canonical form of locale tags (UTS 35), and `Intl.Locale`. */

const TAG = /^(?<language>[a-z]{2,3}|[a-z]{5,8})(?:-(?<script>[a-z]{4}))?(?:-(?<region>[a-z]{2}|\d{3}))?(?<variants>(?:-(?:[a-z\d]{5,8}|\d[a-z\d]{3}))*)(?<extensions>(?:-[a-wyz\d](?:-[a-z\d]{2,8})+)*)(?<own>-x(?:-[a-z\d]{1,8})+)?$/i;

/** Deprecated codes and their replacements. */
const NEWER: Record<string, string> = { iw: "he", in: "id", ji: "yi", jw: "jv", mo: "ro", sh: "sr-Latn", tl: "fil" };

export interface Tag {
  language: string;
  script: string | undefined;
  region: string | undefined;
  variants: string[];
  /** Extensions by singleton, except the keywords of `u`, which are in `keywords`. */
  extensions: [string, string][];
  attributes: string[];
  keywords: [string, string][];
  own: string;
}

/** Parses a tag, and converts each part to canonical case. */
export function parse(tag: string): Tag | undefined {
  const groups = TAG.exec(tag)?.groups;
  if (!groups) return undefined;
  const [language, script] = (NEWER[groups.language!.toLowerCase()] ?? groups.language!.toLowerCase()).split("-");
  const variants = groups.variants!.toLowerCase().split("-").filter(Boolean).sort();
  const extensions = [...groups.extensions!.toLowerCase().matchAll(/-([a-z\d])((?:-[a-z\d]{2,8})+)/g)].map(([, key, value]): [string, string] => [key!, value!.slice(1)]);
  const isTwice = (list: string[]) => new Set(list).size !== list.length;
  if (isTwice(variants) || isTwice(extensions.map(([key]) => key))) return undefined;
  const words = (extensions.find(([key]) => key === "u")?.[1] ?? "").split("-").filter(Boolean);
  const first = words.findIndex((word) => word.length === 2);
  const attributes = (first < 0 ? words : words.slice(0, first)).sort();
  const keywords: [string, string][] = [];
  for (const word of first < 0 ? [] : words.slice(first)) {
    if (word.length === 2) keywords.push([word, ""]);
    else keywords.at(-1)![1] += `${keywords.at(-1)![1] && "-"}${word}`;
  }
  const given = groups.script ?? script;
  return {
    language: language!,
    script: given && given[0]!.toUpperCase() + given.slice(1).toLowerCase(),
    region: groups.region?.toUpperCase(),
    variants,
    extensions: extensions.filter(([key]) => key !== "u"),
    attributes,
    keywords: keywords.map(([key, value]): [string, string] => [key, value === "true" ? "" : value]).filter(([key], at) => keywords.findIndex((other) => other[0] === key) === at),
    own: groups.own?.toLowerCase() ?? "",
  };
}

const baseOf = ({ language, script, region, variants }: Tag): string => [language, script, region, ...variants].filter(Boolean).join("-");

function write(tag: Tag): string {
  const keywords = [...tag.keywords].sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => (value ? `${key}-${value}` : key));
  const unicode = [...tag.attributes, ...keywords].join("-");
  const extensions = [...tag.extensions, ...(unicode ? [["u", unicode] as [string, string]] : [])].sort(([a], [b]) => (a < b ? -1 : 1));
  return [baseOf(tag), ...extensions.map((pair) => pair.join("-"))].join("-") + tag.own;
}

export function canonical(tag: string): string {
  const parsed = parse(tag);
  if (!parsed) throw new RangeError("Incorrect locale information provided");
  return write(parsed);
}

/** Returns the canonical list of the `locales` argument, without duplicates. */
export function canonicalList(locales: unknown): string[] {
  if (locales === undefined) return [];
  if (typeof locales === "string" || locales instanceof Locale) return [canonical(String(locales))];
  if (locales === null) throw new TypeError("Cannot convert undefined or null to object");
  const list = Array.from(Object(locales) as ArrayLike<unknown>, (locale) => {
    if (typeof locale !== "string" && (typeof locale !== "object" || locale === null)) throw new TypeError("Language ID should be string or object.");
    return canonical(String(locale));
  });
  return [...new Set(list)];
}

/** Returns an option that must have one of the allowed values. */
export function option(formatter: string, options: any, name: string, allowed: readonly unknown[], usual?: string): string | undefined {
  const value = options?.[name];
  if (value === undefined) return usual;
  const text = String(value);
  if (!allowed.includes(text)) throw new RangeError(`Value ${text} out of range for Intl.${formatter} options property ${name}`);
  return text;
}

/** Likely script and region of each language. */
const LIKELY =
  "aaLatnET abCyrlGE aeAvstIR afLatnZA akLatnGH amEthiET anLatnES arArabEG asBengIN avCyrlRU ayLatnBO azLatnAZ baCyrlRU beCyrlBY bgCyrlBG " +
  "biLatnVU bmLatnML bnBengBD boTibtCN brLatnFR bsLatnBA caLatnES ceCyrlRU chLatnGU coLatnFR crCansCA csLatnCZ cuCyrlRU cvCyrlRU cyLatnGB " +
  "daLatnDK deLatnDE dvThaaMV dzTibtBT eeLatnGH elGrekGR enLatnUS eoLatn001 esLatnES etLatnEE euLatnES faArabIR ffLatnSN fiLatnFI fjLatnFJ " +
  "foLatnFO frLatnFR fyLatnNL gaLatnIE gdLatnGB glLatnES gnLatnPY guGujrIN gvLatnIM haLatnNG heHebrIL hiDevaIN hoLatnPG hrLatnHR htLatnHT " +
  "huLatnHU hyArmnAM hzLatnNA iaLatn001 idLatnID ieLatnEE igLatnNG iiYiiiCN ikLatnUS ioLatn001 isLatnIS itLatnIT iuCansCA jaJpanJP jvLatnID " +
  "kaGeorGE kgLatnCD kiLatnKE kjLatnNA kkCyrlKZ klLatnGL kmKhmrKH knKndaIN koKoreKR krLatnNG ksArabIN kuLatnTR kvCyrlRU kwLatnGB kyCyrlKG " +
  "laLatnVA lbLatnLU lgLatnUG liLatnNL lnLatnCD loLaooLA ltLatnLT luLatnCD lvLatnLV mgLatnMG mhLatnMH miLatnNZ mkCyrlMK mlMlymIN mnCyrlMN " +
  "mrDevaIN msLatnMY mtLatnMT myMymrMM naLatnNR nbLatnNO ndLatnZW neDevaNP ngLatnNA nlLatnNL nnLatnNO noLatnNO nrLatnZA nvLatnUS nyLatnMW " +
  "ocLatnFR ojCansCA omLatnET orOryaIN osCyrlGE paGuruIN piLatnGB plLatnPL psArabAF ptLatnBR quLatnPE rmLatnCH rnLatnBI roLatnRO ruCyrlRU " +
  "rwLatnRW saDevaIN scLatnIT sdArabPK seLatnNO sgLatnCF siSinhLK skLatnSK slLatnSI smLatnWS snLatnZW soLatnSO sqLatnAL srCyrlRS ssLatnZA " +
  "stLatnZA suLatnID svLatnSE swLatnTZ taTamlIN teTeluIN tgCyrlTJ thThaiTH tiEthiET tkLatnTM tnLatnZA toLatnTO trLatnTR tsLatnZA ttCyrlRU " +
  "tyLatnPF ugArabCN ukCyrlUA urArabPK uzLatnUZ veLatnZA viLatnVN voLatn001 waLatnBE woLatnSN xhLatnZA yiHebrUA yoLatnNG zaLatnCN zhHansCN " +
  "zuLatnZA";

function likely({ language, region }: { language: string; region: string | undefined }): [string, string] | undefined {
  if (language === "zh" && region !== undefined && ["HK", "MO", "TW"].includes(region)) return ["Hant", region];
  const found = new RegExp(`(?:^| )${language}([A-Z][a-z]{3})([A-Z]{2}|\\d{3})(?: |$)`).exec(LIKELY);
  return found ? [found[1]!, found[2]!] : undefined;
}

const KEYWORDS: Record<string, string> = { calendar: "ca", collation: "co", hourCycle: "hc", caseFirst: "kf", numberingSystem: "nu" };

export class Locale {
  #tag: Tag;

  constructor(given: unknown, options: any = {}) {
    if (given === "" || (typeof given !== "string" && (typeof given !== "object" || given === null))) {
      throw new TypeError("First argument to Intl.Locale constructor can't be empty or missing");
    }
    const tag = parse(String(given));
    if (!tag) throw new RangeError("Incorrect locale information provided");
    for (const part of ["language", "script", "region"] as const) {
      const value = options?.[part];
      if (value === undefined) continue;
      const tried = parse([part === "language" ? value : "en", part === "script" && value, part === "region" && value].filter(Boolean).join("-"))?.[part];
      if (tried === undefined) throw new RangeError("Incorrect locale information provided");
      tag[part] = tried;
    }
    const keywords = new Map(tag.keywords);
    for (const [name, key] of Object.entries(KEYWORDS)) {
      const value = options?.[name];
      if (value === undefined) continue;
      if (!/^[a-z\d]{2,8}(?:-[a-z\d]{2,8})*$/i.test(String(value))) throw new RangeError("Incorrect locale information provided");
      keywords.set(key, String(value));
    }
    if (options?.numeric !== undefined) keywords.set("kn", options.numeric ? "" : "false");
    tag.keywords = [...keywords];
    this.#tag = tag;
  }

  #keyword(key: string): string | undefined {
    return this.#tag.keywords.find((pair) => pair[0] === key)?.[1];
  }
  get baseName(): string {
    return baseOf(this.#tag);
  }
  get language(): string {
    return this.#tag.language;
  }
  get script(): string | undefined {
    return this.#tag.script;
  }
  get region(): string | undefined {
    return this.#tag.region;
  }
  get calendar(): string | undefined {
    return this.#keyword("ca");
  }
  get collation(): string | undefined {
    return this.#keyword("co");
  }
  get hourCycle(): string | undefined {
    return this.#keyword("hc");
  }
  get caseFirst(): string | undefined {
    return this.#keyword("kf");
  }
  get numberingSystem(): string | undefined {
    return this.#keyword("nu");
  }
  get numeric(): boolean {
    return this.#keyword("kn") === "";
  }

  #with(parts: Partial<Tag>): Locale {
    return new Locale(write({ ...this.#tag, ...parts }));
  }
  maximize(): Locale {
    const more = likely(this);
    return more ? this.#with({ script: this.script ?? more[0], region: this.region ?? more[1] }) : this.#with({});
  }
  minimize(): Locale {
    const more = likely(this);
    if (!more) return this.#with({});
    const [script, region] = [this.script ?? more[0], this.region ?? more[1]];
    return this.#with({ script: script === more[0] ? undefined : script, region: region === more[1] ? undefined : region });
  }
  toString(): string {
    return write(this.#tag);
  }
  get [Symbol.toStringTag](): string {
    return "Intl.Locale";
  }
}
