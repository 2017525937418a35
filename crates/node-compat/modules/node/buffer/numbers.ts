/**
 * `pi:node/buffer/numbers`: readInt32LE, writeDoubleBE and the other number methods, defined by one table.
 *
 * Fixed sizes use a DataView; integers of 1 to 6 bytes (`readUIntBE(offset, byteLength)`) use
 * arithmetic, since they can exceed 32 bits.
 */

import { coded, invalidArgType, outOfRange } from "pi:node/errors";

type Kind = "Int8" | "Uint8" | "Int16" | "Uint16" | "Int32" | "Uint32" | "BigInt64" | "BigUint64" | "Float32" | "Float64";

/** Node's name, the DataView's name, and the size in bytes. */
const FIXED: [string, Kind, number][] = [
  ["Int8", "Int8", 1],
  ["UInt8", "Uint8", 1],
  ["Int16", "Int16", 2],
  ["UInt16", "Uint16", 2],
  ["Int32", "Int32", 4],
  ["UInt32", "Uint32", 4],
  ["BigInt64", "BigInt64", 8],
  ["BigUInt64", "BigUint64", 8],
  ["Float", "Float32", 4],
  ["Double", "Float64", 8],
];

function checkOffset(bytes: Uint8Array, offset: unknown, size: number): asserts offset is number {
  if (typeof offset !== "number") throw invalidArgType("offset", "of type number", offset);
  if (Number.isInteger(offset) && offset >= 0 && offset + size <= bytes.length) return;
  if (!Number.isInteger(offset)) throw outOfRange("offset", "an integer", offset);
  if (bytes.length < size) throw coded(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", "Attempt to access memory outside buffer bounds");
  throw outOfRange("offset", `>= 0 and <= ${bytes.length - size}`, offset);
}

function view(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function checkValue(value: unknown, kind: Kind, size: number): void {
  if (kind.startsWith("Float")) return;
  const signed = !kind.includes("U");
  if (kind.startsWith("Big")) {
    if (typeof value !== "bigint") throw invalidArgType("value", "of type bigint", value);
    const low = signed ? -(2n ** 63n) : 0n;
    const high = signed ? 2n ** 63n : 2n ** 64n;
    if (value >= low && value < high) return;
    throw outOfRange("value", signed ? ">= -(2n ** 63n) and < 2n ** 63n" : ">= 0n and < 2n ** 64n", value);
  }
  checkRange(Number(value), size, signed);
}

function checkRange(value: number, size: number, signed: boolean): void {
  const bits = size * 8;
  const low = signed ? -(2 ** (bits - 1)) : 0;
  const high = signed ? 2 ** (bits - 1) - 1 : 2 ** bits - 1;
  if (!(value < low) && !(value > high)) return;
  const power = signed ? bits - 1 : bits;
  const range = size > 4 ? (signed ? `>= -(2 ** ${power}) and < 2 ** ${power}` : `>= 0 and < 2 ** ${power}`) : `>= ${low} and <= ${high}`;
  throw outOfRange("value", range, value);
}

function checkSize(size: unknown): asserts size is number {
  if (typeof size !== "number") throw invalidArgType("byteLength", "of type number", size);
  if (!Number.isInteger(size)) throw outOfRange("byteLength", "an integer", size);
  if (size < 1 || size > 6) throw outOfRange("byteLength", ">= 1 and <= 6", size);
}

function readInteger(bytes: Uint8Array, offset: unknown, size: unknown, little: boolean, signed: boolean): number {
  checkSize(size);
  checkOffset(bytes, offset, size);
  let value = 0;
  for (let step = 0; step < size; step++) value = value * 256 + bytes[little ? offset + size - 1 - step : offset + step]!;
  return signed && value >= 2 ** (size * 8 - 1) ? value - 2 ** (size * 8) : value;
}

function writeInteger(bytes: Uint8Array, value: unknown, offset: unknown, size: unknown, little: boolean, signed: boolean): number {
  checkSize(size);
  checkRange(Number(value), size, signed);
  checkOffset(bytes, offset, size);
  let rest = Math.trunc(Number(value)) || 0;
  if (rest < 0) rest += 2 ** (size * 8);
  for (let step = 0; step < size; step++) {
    bytes[little ? offset + step : offset + size - 1 - step] = rest % 256;
    rest = Math.floor(rest / 256);
  }
  return offset + size;
}

/** Adds every number method, with the `Uint` spellings as aliases. */
export function defineNumbers(prototype: object): void {
  const define = (name: string, method: Function) => {
    for (const spelling of new Set([name, name.replace("UInt", "Uint")])) {
      Object.defineProperty(prototype, spelling, { value: method, writable: true, configurable: true, enumerable: true });
    }
  };
  for (const [name, kind, size] of FIXED) {
    for (const end of size === 1 ? [""] : ["LE", "BE"]) {
      const little = end === "LE";
      define(`read${name}${end}`, function (this: Uint8Array, offset: unknown = 0) {
        checkOffset(this, offset, size);
        return view(this)[`get${kind}`](offset, little);
      });
      define(`write${name}${end}`, function (this: Uint8Array, value: any, offset: unknown = 0) {
        checkValue(value, kind, size);
        checkOffset(this, offset, size);
        (view(this)[`set${kind}`] as any)(offset, kind.startsWith("Big") ? value : Number(value), little);
        return offset + size;
      });
    }
  }
  for (const signed of [true, false]) {
    for (const end of ["LE", "BE"]) {
      const name = `${signed ? "Int" : "UInt"}${end}`;
      define(`read${name}`, function (this: Uint8Array, offset: unknown, size: unknown) {
        return readInteger(this, offset, size, end === "LE", signed);
      });
      define(`write${name}`, function (this: Uint8Array, value: unknown, offset: unknown, size: unknown) {
        return writeInteger(this, value, offset, size, end === "LE", signed);
      });
    }
  }
}
