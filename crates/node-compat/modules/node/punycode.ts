/**
 * `node:punycode`: ASCII encoding of names with other letters (RFC 3492), and strings as code points.
 *
 * Deltas between code points are written as numbers of varying base; `adapt` keeps them short.
 */

export const version = "2.1.0";

const BASE = 36;
const T_MIN = 1;
const T_MAX = 26;
const SKEW = 38;
const DAMP = 700;
const FIRST_BIAS = 72;
const FIRST_POINT = 128;
const LARGEST = 0x7fffffff;

const ERRORS = {
  overflow: "Overflow: input needs wider integers to process",
  "not-basic": "Illegal input >= 0x80 (not a basic code point)",
  "invalid-input": "Invalid input",
};

function wrong(kind: keyof typeof ERRORS): never {
  throw new RangeError(ERRORS[kind]);
}

/** Returns the code points of a string. Lone surrogates are kept. */
const decodePoints = (text: string): number[] => Array.from(text, (letter) => letter.codePointAt(0)!);
const encodePoints = (points: Iterable<number>): string => String.fromCodePoint(...points);

export const ucs2 = { decode: decodePoints, encode: encodePoints };

function adapt(delta: number, count: number, isFirst: boolean): number {
  let rest = isFirst ? Math.floor(delta / DAMP) : delta >> 1;
  rest += Math.floor(rest / count);
  let bias = 0;
  for (; rest > ((BASE - T_MIN) * T_MAX) >> 1; bias += BASE) rest = Math.floor(rest / (BASE - T_MIN));
  return Math.floor(bias + ((BASE - T_MIN + 1) * rest) / (rest + SKEW));
}

const threshold = (at: number, bias: number): number => Math.min(Math.max(at - bias, T_MIN), T_MAX);

/** `a` to `z` are 0 to 25, `0` to `9` are 26 to 35. */
function digitOf(unit: number): number {
  if (unit >= 0x30 && unit < 0x3a) return 26 + unit - 0x30;
  const letter = unit | 0x20;
  return letter >= 0x61 && letter < 0x7b ? letter - 0x61 : BASE;
}

const letterOf = (digit: number): string => String.fromCharCode(digit + (digit < 26 ? 0x61 : 0x30 - 26));

/** Returns the code points that an ASCII text encodes. */
export function decode(input: string): string {
  const points: number[] = [];
  const basic = Math.max(input.lastIndexOf("-"), 0);
  for (let at = 0; at < basic; at++) {
    if (input.charCodeAt(at) >= 0x80) wrong("not-basic");
    points.push(input.charCodeAt(at));
  }
  let point = FIRST_POINT;
  let index = 0;
  let bias = FIRST_BIAS;
  for (let at = basic > 0 ? basic + 1 : 0; at < input.length; ) {
    const before = index;
    for (let weight = 1, place = BASE; ; place += BASE) {
      if (at >= input.length) wrong("invalid-input");
      const digit = digitOf(input.charCodeAt(at++));
      if (digit >= BASE) wrong("invalid-input");
      if (digit > Math.floor((LARGEST - index) / weight)) wrong("overflow");
      index += digit * weight;
      const limit = threshold(place, bias);
      if (digit < limit) break;
      if (weight > Math.floor(LARGEST / (BASE - limit))) wrong("overflow");
      weight *= BASE - limit;
    }
    const count = points.length + 1;
    bias = adapt(index - before, count, before === 0);
    if (Math.floor(index / count) > LARGEST - point) wrong("overflow");
    point += Math.floor(index / count);
    index %= count;
    points.splice(index++, 0, point);
  }
  return encodePoints(points);
}

/** Encodes a string as ASCII. */
export function encode(input: string): string {
  const points = decodePoints(input);
  const basic = points.filter((point) => point < FIRST_POINT);
  let output = encodePoints(basic);
  if (basic.length > 0) output += "-";
  let done = basic.length;
  let point = FIRST_POINT;
  let delta = 0;
  let bias = FIRST_BIAS;
  while (done < points.length) {
    const next = Math.min(...points.filter((one) => one >= point));
    if (next - point > Math.floor((LARGEST - delta) / (done + 1))) wrong("overflow");
    delta += (next - point) * (done + 1);
    point = next;
    for (const one of points) {
      if (one < point && ++delta > LARGEST) wrong("overflow");
      if (one !== point) continue;
      let rest = delta;
      for (let place = BASE; ; place += BASE) {
        const limit = threshold(place, bias);
        if (rest < limit) break;
        output += letterOf(limit + ((rest - limit) % (BASE - limit)));
        rest = Math.floor((rest - limit) / (BASE - limit));
      }
      output += letterOf(rest);
      bias = adapt(delta, done + 1, done === basic.length);
      delta = 0;
      done++;
    }
    delta++;
    point++;
  }
  return output;
}

/** Applies a function to the labels of a domain, or of the part after the `@` of an address. */
function eachLabel(input: string, change: (label: string) => string): string {
  const at = input.lastIndexOf("@") + 1;
  const labels = input.slice(at).replace(/[\u002e\u3002\uff0e\uff61]/g, ".").split(".");
  return input.slice(0, at) + labels.map(change).join(".");
}

export const toUnicode = (input: string): string =>
  eachLabel(input, (label) => (label.startsWith("xn--") ? decode(label.slice(4).toLowerCase()) : label));

export const toASCII = (input: string): string =>
  eachLabel(input, (label) => (/[^\0-\x7f]/.test(label) ? `xn--${encode(label)}` : label));

export default { version, ucs2, decode, encode, toUnicode, toASCII };
