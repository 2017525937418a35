/** `pi:node/v8/wire`: tags of V8's serialization format (`value-serializer.cc`), version 15. */

export const VERSION = 15;
/** The oldest version with the same encoding of strings and objects as `VERSION`. */
export const OLDEST = 13;

const letter = (text: string) => text.charCodeAt(0);

export const Tag = {
  version: 0xff, padding: 0, undefined: letter("_"), null: letter("0"), true: letter("T"), false: letter("F"), int: letter("I"),
  unsigned: letter("U"), double: letter("N"), bigint: letter("Z"), utf8: letter("S"), oneByte: letter('"'), twoByte: letter("c"),
  reference: letter("^"), object: letter("o"), objectEnd: letter("{"), dense: letter("A"), denseEnd: letter("$"), sparse: letter("a"),
  sparseEnd: letter("@"), hole: letter("-"), date: letter("D"), trueObject: letter("y"), falseObject: letter("x"),
  numberObject: letter("n"), bigintObject: letter("z"), stringObject: letter("s"), regexp: letter("R"), map: letter(";"),
  mapEnd: letter(":"), set: letter("'"), setEnd: letter(","), buffer: letter("B"), view: letter("V"), error: letter("r"),
  host: letter("\\"),
} as const;

/** Tags of an error: its kind, then its members, then the end. */
export const ErrorTag = { message: letter("m"), stack: letter("s"), cause: letter("c"), end: letter(".") } as const;

export const ERRORS: readonly [number, ErrorConstructor][] = [
  [letter("E"), EvalError], [letter("R"), RangeError], [letter("F"), ReferenceError], [letter("S"), SyntaxError],
  [letter("T"), TypeError], [letter("U"), URIError],
];

/** Views by tag, for views that are written with their whole buffer. */
export const VIEWS: readonly [number, any][] = [
  [letter("b"), Int8Array], [letter("B"), Uint8Array], [letter("C"), Uint8ClampedArray], [letter("w"), Int16Array],
  [letter("W"), Uint16Array], [letter("d"), Int32Array], [letter("D"), Uint32Array], [letter("f"), Float32Array],
  [letter("F"), Float64Array], [letter("q"), BigInt64Array], [letter("Q"), BigUint64Array], [letter("?"), DataView],
];

/** Views by number, for views that Node's own classes write as bytes only. 10 is a Buffer. */
export const HOST_VIEWS: readonly any[] = [
  Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array, DataView,
  undefined, BigInt64Array, BigUint64Array,
];
export const HOST_BUFFER = 10;

/** Flags of regular expressions, with the bit of each. */
export const FLAGS: readonly [string, number][] = [
  ["g", 1], ["i", 2], ["m", 4], ["y", 8], ["u", 16], ["s", 32], ["d", 128], ["v", 256],
];
