/**
 * `pi:web/intl`: `Intl`. This module contains Segmenter; the formatters are separate modules and use American English.
 *
 * Grapheme clusters follow Unicode's extended rules (UAX 29: GB3 to GB13), with one regular expression per
 * cluster; ASCII, which is most of the text on a terminal, takes a path without it. Words follow the
 * default rules without a dictionary, so that a run of Han or Kana is cut by characters and scripts.
 * The result does not depend on a locale.
 */

import { importSync } from "pi:engine";

/** Captured when `Intl` is first read, because the extension may replace it later. */
const { RegExp } = globalThis;

const canonicalList = (locales: unknown): string[] => importSync("pi:web/intl/locale").canonicalList(locales);

type Granularity = "grapheme" | "word" | "sentence";

interface SegmentData {
  segment: string;
  index: number;
  input: string;
  isWordLike?: boolean;
}

/** Text in which every code unit is a cluster. CR is left out, since CR LF is one cluster. */
const PLAIN_ASCII = /^[\0-\x0c\x0e-\x7f]*$/;

/** GB9, GB9a: characters that extend the preceding one. */
const TRAIL = String.raw`[\p{Grapheme_Extend}\p{Emoji_Modifier}\p{Mc}\u0e33\u0eb3\u200d]`;

/** GB9c: consonants of the scripts in which a virama joins them. */
const CONJOINING = String.raw`[\p{L}&&[\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gujarati}\p{Script=Oriya}\p{Script=Telugu}\p{Script=Malayalam}]]`;
const VIRAMA = String.raw`[\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d]`;

/** Compiles an expression when it is first used: pi-tui creates a segmenter, and few of its users segment text. */
function lazily(source: string): () => RegExp {
  let compiled: RegExp | undefined;
  return () => (compiled ??= new RegExp(source, "vy"));
}

const GRAPHEME = lazily(
  [
    String.raw`\r\n`, // GB3
    String.raw`[\p{Cc}\p{Zl}\p{Zp}]`, // GB4, GB5
    String.raw`\p{Regional_Indicator}{2}${TRAIL}*`, // GB12, GB13
    String.raw`[\u1100-\u115f\ua960-\ua97c]*(?:[\uac00-\ud7a3][\u1160-\u11a7\ud7b0-\ud7c6]*|[\u1160-\u11a7\ud7b0-\ud7c6]+)[\u11a8-\u11ff\ud7cb-\ud7fb]*${TRAIL}*`, // GB6 to GB8
    String.raw`\p{Extended_Pictographic}(?:[\p{Grapheme_Extend}\p{Emoji_Modifier}]*\u200d\p{Extended_Pictographic})*${TRAIL}*`, // GB11
    String.raw`${CONJOINING}(?:${TRAIL}*${VIRAMA}${TRAIL}*${CONJOINING})+${TRAIL}*`,
    String.raw`[^\p{Cc}\p{Zl}\p{Zp}]${TRAIL}*`,
  ].join("|"),
);

const WORD = lazily(
  [
    String.raw`\r\n|[\n\v\f\r\x85\u2028\u2029]`,
    String.raw`(?<word>[\p{Script=Han}\p{Script=Hiragana}]\p{M}*|[\p{Script=Katakana}\u30fc]+|(?:[[\p{L}\p{N}_]--[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\u30fc]][\p{M}\u200d]*|(?<=\p{L})['’.:·](?=\p{L})|(?<=\p{N})['.,;](?=\p{N}))+)`,
    String.raw`[\p{Zs}--[\xa0\u202f\u2007]]+`,
    String.raw`\p{Regional_Indicator}{2}${TRAIL}*`,
    String.raw`\p{Extended_Pictographic}(?:[\p{Grapheme_Extend}\p{Emoji_Modifier}]*\u200d\p{Extended_Pictographic})*${TRAIL}*`,
    String.raw`[^][\p{M}\u200d]*`,
  ].join("|"),
);

/** UAX 29 without abbreviations: up to a sentence terminator and its trailing characters, or the end of a line. */
const SENTENCE = lazily(
  [
    String.raw`(?:[^.!?…。！？\n]|[.!?…](?![.!?…"'”’\)\]]*(?:\s|$))|\.+(?=["'”’\)\]]*[ \t]+\p{Ll}))*`,
    String.raw`(?:[.!?…。！？]+["'”’\)\]]*[ \t]*\n?|\n|$)`,
  ].join(""),
);

class Segments {
  readonly #input: string;
  readonly #granularity: Granularity;

  constructor(input: string, granularity: Granularity) {
    this.#input = input;
    this.#granularity = granularity;
  }

  *[Symbol.iterator](): Generator<SegmentData> {
    const input = this.#input;
    if (this.#granularity === "grapheme" && PLAIN_ASCII.test(input)) {
      for (let index = 0; index < input.length; index++) yield { segment: input[index]!, index, input };
      return;
    }
    for (let index = 0; index < input.length; ) {
      const data = segmentAt(input, index, this.#granularity);
      yield data;
      index += data.segment.length;
    }
  }

  /** Returns the segment that contains a code unit; undefined outside of the text. */
  containing(codeUnit = 0): SegmentData | undefined {
    const wanted = Math.trunc(Number(codeUnit)) || 0;
    if (wanted < 0 || wanted >= this.#input.length) return undefined;
    for (const data of this) if (wanted < data.index + data.segment.length) return data;
    return undefined;
  }
}

function segmentAt(input: string, index: number, granularity: Granularity): SegmentData {
  const pattern = (granularity === "grapheme" ? GRAPHEME : granularity === "word" ? WORD : SENTENCE)();
  pattern.lastIndex = index;
  const found = pattern.exec(input);
  // A lone surrogate is a separate segment.
  const segment = found?.[0] || input[index]!;
  if (granularity !== "word") return { segment, index, input };
  return { segment, index, input, isWordLike: found?.groups?.word !== undefined };
}

class Segmenter {
  readonly #granularity: Granularity;

  constructor(locales: unknown = undefined, options: { granularity?: Granularity } = {}) {
    if (locales !== undefined && locales !== "en") canonicalList(locales);
    const granularity = options?.granularity ?? "grapheme";
    if (!["grapheme", "word", "sentence"].includes(granularity)) {
      throw new RangeError(`Value ${granularity} out of range for Intl.Segmenter options property granularity`);
    }
    this.#granularity = granularity;
  }

  segment(input: unknown): Segments {
    return new Segments(String(input), this.#granularity);
  }

  resolvedOptions(): { locale: string; granularity: Granularity } {
    return { locale: "en-US", granularity: this.#granularity };
  }

  static supportedLocalesOf(locales?: unknown): string[] {
    return canonicalList(locales);
  }
}

Object.defineProperty(Segmenter.prototype, Symbol.toStringTag, { value: "Intl.Segmenter", configurable: true });

/** Supported values. The host knows all time zones, but only the one that always exists is listed. */
const VALUES: Record<string, string[]> = { calendar: ["gregory"], collation: ["default"], currency: [], numberingSystem: ["latn"], timeZone: ["UTC"], unit: [] };

function supportedValuesOf(key: unknown): string[] {
  const name = String(key);
  if (!Object.hasOwn(VALUES, name)) throw new RangeError(`Invalid key : ${name}`);
  return name === "unit" || name === "currency" ? importSync("pi:web/intl/number").known(name) : [...VALUES[name]!];
}

const Intl: any = Object.defineProperties({}, {
  Segmenter: { value: Segmenter, writable: true, configurable: true },
  getCanonicalLocales: { value: (locales: unknown) => canonicalList(locales), writable: true, configurable: true },
  supportedValuesOf: { value: supportedValuesOf, writable: true, configurable: true },
  [Symbol.toStringTag]: { value: "Intl", configurable: true },
});

/** Formatters load on first read, and can be called without `new`, as the standard's older ones. */
const FORMATTERS: Record<string, string[]> = {
  "pi:web/intl/number": ["NumberFormat", "PluralRules"],
  "pi:web/intl/date": ["DateTimeFormat"],
  "pi:web/intl/locale": ["Locale"],
  "pi:web/intl/names": ["DisplayNames"],
  "pi:web/intl/text": ["Collator", "ListFormat", "RelativeTimeFormat"],
};
for (const [specifier, names] of Object.entries(FORMATTERS)) {
  for (const name of names) {
    const settle = (value: unknown) => {
      Object.defineProperty(Intl, name, { value, writable: true, enumerable: false, configurable: true });
      return value;
    };
    Object.defineProperty(Intl, name, {
      get: () => {
        const Class = importSync(specifier)[name];
        const callable = name === "NumberFormat" || name === "DateTimeFormat" || name === "Collator";
        const exposed = callable ? new Proxy(Class, { apply: (target, _self, args) => Reflect.construct(target, args) }) : Class;
        if (callable) Object.defineProperty(Class.prototype, "constructor", { value: exposed, writable: true, configurable: true });
        return settle(exposed);
      },
      set: settle,
      enumerable: false,
      configurable: true,
    });
  }
}

export { Intl };
