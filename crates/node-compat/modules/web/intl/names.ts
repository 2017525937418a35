/**
 * `pi:web/intl/names`: `Intl.DisplayNames`: languages, regions, scripts and currencies in English. An unknown code is its own
 * name.
 */

import { canonical, canonicalList, option, parse } from "pi:web/intl/locale";

const REGIONS: Record<string, string> = {
  AC: "Ascension Island", AD: "Andorra", AE: "United Arab Emirates", AF: "Afghanistan", AG: "Antigua & Barbuda", AI: "Anguilla", AL: "Albania",
  AM: "Armenia", AO: "Angola", AQ: "Antarctica", AR: "Argentina", AS: "American Samoa", AT: "Austria", AU: "Australia", AW: "Aruba",
  AX: "Åland Islands", AZ: "Azerbaijan", BA: "Bosnia & Herzegovina", BB: "Barbados", BD: "Bangladesh", BE: "Belgium", BF: "Burkina Faso",
  BG: "Bulgaria", BH: "Bahrain", BI: "Burundi", BJ: "Benin", BL: "St. Barthélemy", BM: "Bermuda", BN: "Brunei", BO: "Bolivia",
  BQ: "Caribbean Netherlands", BR: "Brazil", BS: "Bahamas", BT: "Bhutan", BV: "Bouvet Island", BW: "Botswana", BY: "Belarus", BZ: "Belize",
  CA: "Canada", CC: "Cocos (Keeling) Islands", CD: "Congo - Kinshasa", CF: "Central African Republic", CG: "Congo - Brazzaville", CH: "Switzerland",
  CI: "Côte d’Ivoire", CK: "Cook Islands", CL: "Chile", CM: "Cameroon", CN: "China", CO: "Colombia", CP: "Clipperton Island", CQ: "Sark",
  CR: "Costa Rica", CU: "Cuba", CV: "Cape Verde", CW: "Curaçao", CX: "Christmas Island", CY: "Cyprus", CZ: "Czechia", DE: "Germany",
  DG: "Diego Garcia", DJ: "Djibouti", DK: "Denmark", DM: "Dominica", DO: "Dominican Republic", DZ: "Algeria", EA: "Ceuta & Melilla", EC: "Ecuador",
  EE: "Estonia", EG: "Egypt", EH: "Western Sahara", ER: "Eritrea", ES: "Spain", ET: "Ethiopia", FI: "Finland", FJ: "Fiji", FK: "Falkland Islands",
  FM: "Micronesia", FO: "Faroe Islands", FR: "France", GA: "Gabon", GB: "United Kingdom", GD: "Grenada", GE: "Georgia", GF: "French Guiana",
  GG: "Guernsey", GH: "Ghana", GI: "Gibraltar", GL: "Greenland", GM: "Gambia", GN: "Guinea", GP: "Guadeloupe", GQ: "Equatorial Guinea", GR: "Greece",
  GS: "South Georgia & South Sandwich Islands", GT: "Guatemala", GU: "Guam", GW: "Guinea-Bissau", GY: "Guyana", HK: "Hong Kong SAR China",
  HM: "Heard & McDonald Islands", HN: "Honduras", HR: "Croatia", HT: "Haiti", HU: "Hungary", IC: "Canary Islands", ID: "Indonesia", IE: "Ireland",
  IL: "Israel", IM: "Isle of Man", IN: "India", IO: "British Indian Ocean Territory", IQ: "Iraq", IR: "Iran", IS: "Iceland", IT: "Italy",
  JE: "Jersey", JM: "Jamaica", JO: "Jordan", JP: "Japan", KE: "Kenya", KG: "Kyrgyzstan", KH: "Cambodia", KI: "Kiribati", KM: "Comoros",
  KN: "St. Kitts & Nevis", KP: "North Korea", KR: "South Korea", KW: "Kuwait", KY: "Cayman Islands", KZ: "Kazakhstan", LA: "Laos", LB: "Lebanon",
  LC: "St. Lucia", LI: "Liechtenstein", LK: "Sri Lanka", LR: "Liberia", LS: "Lesotho", LT: "Lithuania", LU: "Luxembourg", LV: "Latvia", LY: "Libya",
  MA: "Morocco", MC: "Monaco", MD: "Moldova", ME: "Montenegro", MF: "St. Martin", MG: "Madagascar", MH: "Marshall Islands", MK: "North Macedonia",
  ML: "Mali", MM: "Myanmar (Burma)", MN: "Mongolia", MO: "Macao SAR China", MP: "Northern Mariana Islands", MQ: "Martinique", MR: "Mauritania",
  MS: "Montserrat", MT: "Malta", MU: "Mauritius", MV: "Maldives", MW: "Malawi", MX: "Mexico", MY: "Malaysia", MZ: "Mozambique", NA: "Namibia",
  NC: "New Caledonia", NE: "Niger", NF: "Norfolk Island", NG: "Nigeria", NI: "Nicaragua", NL: "Netherlands", NO: "Norway", NP: "Nepal", NR: "Nauru",
  NU: "Niue", NZ: "New Zealand", OM: "Oman", PA: "Panama", PE: "Peru", PF: "French Polynesia", PG: "Papua New Guinea", PH: "Philippines",
  PK: "Pakistan", PL: "Poland", PM: "St. Pierre & Miquelon", PN: "Pitcairn Islands", PR: "Puerto Rico", PS: "Palestinian Territories", PT: "Portugal",
  PW: "Palau", PY: "Paraguay", QA: "Qatar", RE: "Réunion", RO: "Romania", RS: "Serbia", RU: "Russia", RW: "Rwanda", SA: "Saudi Arabia",
  SB: "Solomon Islands", SC: "Seychelles", SD: "Sudan", SE: "Sweden", SG: "Singapore", SH: "St. Helena", SI: "Slovenia", SJ: "Svalbard & Jan Mayen",
  SK: "Slovakia", SL: "Sierra Leone", SM: "San Marino", SN: "Senegal", SO: "Somalia", SR: "Suriname", SS: "South Sudan", ST: "São Tomé & Príncipe",
  SV: "El Salvador", SX: "Sint Maarten", SY: "Syria", SZ: "Eswatini", TA: "Tristan da Cunha", TC: "Turks & Caicos Islands", TD: "Chad",
  TF: "French Southern Territories", TG: "Togo", TH: "Thailand", TJ: "Tajikistan", TK: "Tokelau", TL: "Timor-Leste", TM: "Turkmenistan",
  TN: "Tunisia", TO: "Tonga", TR: "Türkiye", TT: "Trinidad & Tobago", TV: "Tuvalu", TW: "Taiwan", TZ: "Tanzania", UA: "Ukraine", UG: "Uganda",
  UM: "U.S. Outlying Islands", US: "United States", UY: "Uruguay", UZ: "Uzbekistan", VA: "Vatican City", VC: "St. Vincent & Grenadines",
  VE: "Venezuela", VG: "British Virgin Islands", VI: "U.S. Virgin Islands", VN: "Vietnam", VU: "Vanuatu", WF: "Wallis & Futuna", WS: "Samoa",
  XK: "Kosovo", YE: "Yemen", YT: "Mayotte", ZA: "South Africa", ZM: "Zambia", ZW: "Zimbabwe", "001": "world", "150": "Europe", "419": "Latin America",
};
const LANGUAGES: Record<string, string> = {
  aa: "Afar", ab: "Abkhazian", ae: "Avestan", af: "Afrikaans", ak: "Akan", am: "Amharic", an: "Aragonese", ar: "Arabic", as: "Assamese", av: "Avaric",
  ay: "Aymara", az: "Azerbaijani", ba: "Bashkir", be: "Belarusian", bg: "Bulgarian", bi: "Bislama", bm: "Bambara", bn: "Bangla", bo: "Tibetan",
  br: "Breton", bs: "Bosnian", ca: "Catalan", ce: "Chechen", ch: "Chamorro", co: "Corsican", cr: "Cree", cs: "Czech", cu: "Church Slavic",
  cv: "Chuvash", cy: "Welsh", da: "Danish", de: "German", dv: "Divehi", dz: "Dzongkha", ee: "Ewe", el: "Greek", en: "English", eo: "Esperanto",
  es: "Spanish", et: "Estonian", eu: "Basque", fa: "Persian", ff: "Fula", fi: "Finnish", fj: "Fijian", fo: "Faroese", fr: "French",
  fy: "Western Frisian", ga: "Irish", gd: "Scottish Gaelic", gl: "Galician", gn: "Guarani", gu: "Gujarati", gv: "Manx", ha: "Hausa", he: "Hebrew",
  hi: "Hindi", ho: "Hiri Motu", hr: "Croatian", ht: "Haitian Creole", hu: "Hungarian", hy: "Armenian", hz: "Herero", ia: "Interlingua",
  id: "Indonesian", ie: "Interlingue", ig: "Igbo", ii: "Sichuan Yi", ik: "Inupiaq", io: "Ido", is: "Icelandic", it: "Italian", iu: "Inuktitut",
  ja: "Japanese", jv: "Javanese", ka: "Georgian", kg: "Kongo", ki: "Kikuyu", kj: "Kuanyama", kk: "Kazakh", kl: "Kalaallisut", km: "Khmer",
  kn: "Kannada", ko: "Korean", kr: "Kanuri", ks: "Kashmiri", ku: "Kurdish", kv: "Komi", kw: "Cornish", ky: "Kyrgyz", la: "Latin", lb: "Luxembourgish",
  lg: "Ganda", li: "Limburgish", ln: "Lingala", lo: "Lao", lt: "Lithuanian", lu: "Luba-Katanga", lv: "Latvian", mg: "Malagasy", mh: "Marshallese",
  mi: "Māori", mk: "Macedonian", ml: "Malayalam", mn: "Mongolian", mr: "Marathi", ms: "Malay", mt: "Maltese", my: "Burmese", na: "Nauru",
  nb: "Norwegian Bokmål", nd: "North Ndebele", ne: "Nepali", ng: "Ndonga", nl: "Dutch", nn: "Norwegian Nynorsk", no: "Norwegian", nr: "South Ndebele",
  nv: "Navajo", ny: "Nyanja", oc: "Occitan", oj: "Ojibwa", om: "Oromo", or: "Odia", os: "Ossetic", pa: "Punjabi", pi: "Pali", pl: "Polish",
  ps: "Pashto", pt: "Portuguese", qu: "Quechua", rm: "Romansh", rn: "Rundi", ro: "Romanian", ru: "Russian", rw: "Kinyarwanda", sa: "Sanskrit",
  sc: "Sardinian", sd: "Sindhi", se: "Northern Sami", sg: "Sango", si: "Sinhala", sk: "Slovak", sl: "Slovenian", sm: "Samoan", sn: "Shona",
  so: "Somali", sq: "Albanian", sr: "Serbian", ss: "Swati", st: "Southern Sotho", su: "Sundanese", sv: "Swedish", sw: "Swahili", ta: "Tamil",
  te: "Telugu", tg: "Tajik", th: "Thai", ti: "Tigrinya", tk: "Turkmen", tn: "Tswana", to: "Tongan", tr: "Turkish", ts: "Tsonga", tt: "Tatar",
  ty: "Tahitian", ug: "Uyghur", uk: "Ukrainian", ur: "Urdu", uz: "Uzbek", ve: "Venda", vi: "Vietnamese", vo: "Volapük", wa: "Walloon", wo: "Wolof",
  xh: "Xhosa", yi: "Yiddish", yo: "Yoruba", za: "Zhuang", zh: "Chinese", zu: "Zulu", ast: "Asturian", chr: "Cherokee",
  ckb: "Central Kurdish", fil: "Filipino", haw: "Hawaiian", yue: "Cantonese", "zh-Hans": "Simplified Chinese", "zh-Hant": "Traditional Chinese",
  "en-US": "American English", "en-GB": "British English", "en-AU": "Australian English", "en-CA": "Canadian English", "de-AT": "Austrian German",
  "de-CH": "Swiss High German", "es-419": "Latin American Spanish", "es-ES": "European Spanish", "es-MX": "Mexican Spanish",
  "fr-CA": "Canadian French", "fr-CH": "Swiss French", "pt-BR": "Brazilian Portuguese", "pt-PT": "European Portuguese", "nl-BE": "Flemish",
};
const SCRIPTS: Record<string, string> = {
  Arab: "Arabic", Armn: "Armenian", Beng: "Bangla", Bopo: "Bopomofo", Cher: "Cherokee", Cyrl: "Cyrillic", Deva: "Devanagari", Ethi: "Ethiopic",
  Geor: "Georgian", Grek: "Greek", Gujr: "Gujarati", Guru: "Gurmukhi", Hang: "Hangul", Hani: "Han", Hans: "Simplified", Hant: "Traditional",
  Hebr: "Hebrew", Hira: "Hiragana", Jpan: "Japanese", Kana: "Katakana", Khmr: "Khmer", Knda: "Kannada", Kore: "Korean", Laoo: "Lao", Latn: "Latin",
  Mlym: "Malayalam", Mong: "Mongolian", Mymr: "Myanmar", Orya: "Odia", Sinh: "Sinhala", Taml: "Tamil", Telu: "Telugu", Thaa: "Thaana", Thai: "Thai",
  Tibt: "Tibetan",
};
const CURRENCIES: Record<string, string> = {
  AED: "United Arab Emirates Dirham", ARS: "Argentine Peso", AUD: "Australian Dollar", BDT: "Bangladeshi Taka", BGN: "Bulgarian Lev",
  BHD: "Bahraini Dinar", BRL: "Brazilian Real", CAD: "Canadian Dollar", CHF: "Swiss Franc", CLP: "Chilean Peso", CNY: "Chinese Yuan",
  COP: "Colombian Peso", CZK: "Czech Koruna", DKK: "Danish Krone", EGP: "Egyptian Pound", EUR: "Euro", GBP: "British Pound", GEL: "Georgian Lari",
  GHS: "Ghanaian Cedi", HKD: "Hong Kong Dollar", HUF: "Hungarian Forint", IDR: "Indonesian Rupiah", ILS: "Israeli New Shekel", INR: "Indian Rupee",
  ISK: "Icelandic Króna", JPY: "Japanese Yen", KES: "Kenyan Shilling", KRW: "South Korean Won", KWD: "Kuwaiti Dinar", KZT: "Kazakhstani Tenge",
  LKR: "Sri Lankan Rupee", MAD: "Moroccan Dirham", MXN: "Mexican Peso", MYR: "Malaysian Ringgit", NGN: "Nigerian Naira", NOK: "Norwegian Krone",
  NZD: "New Zealand Dollar", PEN: "Peruvian Sol", PHP: "Philippine Peso", PKR: "Pakistani Rupee", PLN: "Polish Zloty", QAR: "Qatari Riyal",
  RON: "Romanian Leu", RSD: "Serbian Dinar", RUB: "Russian Ruble", SAR: "Saudi Riyal", SEK: "Swedish Krona", SGD: "Singapore Dollar",
  THB: "Thai Baht", TRY: "Turkish Lira", TWD: "New Taiwan Dollar", UAH: "Ukrainian Hryvnia", USD: "US Dollar", UYU: "Uruguayan Peso",
  VND: "Vietnamese Dong", ZAR: "South African Rand",
};
const CALENDARS: Record<string, string> = {
  buddhist: "Buddhist Calendar", chinese: "Chinese Calendar", gregory: "Gregorian Calendar", hebrew: "Hebrew Calendar", indian: "Indian National Calendar",
  iso8601: "Gregorian Calendar (ISO 8601 Weeks)", japanese: "Japanese Calendar", persian: "Persian Calendar", roc: "Minguo Calendar",
};
const FIELDS: Record<string, string> = {
  era: "era", year: "year", quarter: "quarter", month: "month", weekOfYear: "week", weekday: "day of the week", day: "day", dayPeriod: "AM/PM", hour: "hour",
  minute: "minute", second: "second", timeZoneName: "time zone",
};

/** For each type, the pattern of valid codes, and the names. */
const KINDS: Record<string, [RegExp, Record<string, string>]> = {
  region: [/^(?:[a-z]{2}|\d{3})$/i, REGIONS],
  script: [/^[a-z]{4}$/i, SCRIPTS],
  currency: [/^[a-z]{3}$/i, CURRENCIES],
  calendar: [/^[a-z\d]{3,8}(?:-[a-z\d]{3,8})*$/i, CALENDARS],
  dateTimeField: [/./, FIELDS],
};

const found = (names: Record<string, string>, code: string): string | undefined => (Object.hasOwn(names, code) ? names[code] : undefined);

export class DisplayNames {
  #type: string;
  #style: string;
  #fallback: string;
  #dialects: boolean;

  constructor(locales?: unknown, options?: any) {
    canonicalList(locales);
    if (options === undefined || options === null) throw new TypeError("invalid_argument");
    const read = (name: string, allowed: string[], usual?: string) => option("DisplayNames", options, name, allowed, usual);
    this.#style = read("style", ["narrow", "short", "long"], "long")!;
    const type = read("type", ["language", ...Object.keys(KINDS)]);
    if (type === undefined) throw new TypeError("Required option \"type\" must not be undefined");
    this.#type = type;
    this.#fallback = read("fallback", ["code", "none"], "code")!;
    this.#dialects = read("languageDisplay", ["dialect", "standard"], "dialect") === "dialect";
  }
  static supportedLocalesOf(locales?: unknown): string[] {
    return canonicalList(locales);
  }

  of(given: unknown): string | undefined {
    const code = String(given);
    return this.#type === "language" ? this.#language(code) : this.#plain(code);
  }

  #plain(code: string): string | undefined {
    const [pattern, names] = KINDS[this.#type]!;
    if (!pattern.test(code) || (this.#type === "dateTimeField" && !(code in FIELDS))) throw new RangeError("invalid_argument");
    const usual = this.#type === "currency" || this.#type === "region" ? code.toUpperCase() : this.#type === "script" ? code[0]!.toUpperCase() + code.slice(1).toLowerCase() : code;
    return found(names, usual) ?? (this.#fallback === "code" ? usual : undefined);
  }

  #language(code: string): string | undefined {
    let tag: string;
    try {
      tag = canonical(code);
    } catch {
      throw new RangeError("invalid_argument");
    }
    const { language, script, region, variants } = parse(tag)!;
    const whole = [language, script, region].filter(Boolean).join("-");
    const dialect = this.#dialects && whole !== language ? found(LANGUAGES, whole) : undefined;
    const name = dialect ?? found(LANGUAGES, language);
    const parts = dialect !== undefined ? variants : [script && (found(SCRIPTS, script) ?? script), region && (found(REGIONS, region) ?? region), ...variants];
    if (name === undefined) return this.#fallback === "code" ? tag : undefined;
    const short = this.#style === "long" ? name : name.replace(/^American (?=English)/, "US ").replace(/^British (?=English)/, "UK ");
    const more = parts.filter(Boolean).map((part) => part!.replace(/^(Simplified|Traditional) Han$/, "$1"));
    return more.length > 0 ? `${short} (${more.join(", ")})` : short;
  }

  resolvedOptions(): Record<string, unknown> {
    const shown = { locale: "en-US", style: this.#style, type: this.#type, fallback: this.#fallback };
    return this.#type === "language" ? { ...shown, languageDisplay: this.#dialects ? "dialect" : "standard" } : shown;
  }
  get [Symbol.toStringTag](): string {
    return "Intl.DisplayNames";
  }
}

Object.defineProperty(DisplayNames, "length", { value: 2, configurable: true });
