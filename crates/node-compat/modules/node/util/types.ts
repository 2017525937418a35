/** `node:util/types`: the kinds of built-in objects, independent of their prototypes where the engine exposes them. */

import { proxyParts } from "pi:engine";

const classOf = (value: unknown) => Object.prototype.toString.call(value).slice(8, -1);
const typedTag = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)!.get!;

/** Returns whether a method that needs an internal slot accepts the value. */
function accepts(method: Function, value: unknown, ...args: unknown[]): boolean {
  if (typeof value !== "object" || value === null) return false;
  try {
    method.call(value, ...args);
    return true;
  } catch {
    return false;
  }
}

const getter = (prototype: object, name: PropertyKey) => Object.getOwnPropertyDescriptor(prototype, name)!.get!;
const mapSize = getter(Map.prototype, "size");
const setSize = getter(Set.prototype, "size");
const bufferLength = getter(ArrayBuffer.prototype, "byteLength");
const viewLength = getter(DataView.prototype, "byteLength");

export const isDate = (value: unknown) => accepts(Date.prototype.getTime, value);
export const isRegExp = (value: unknown) => value instanceof RegExp && classOf(value) === "RegExp";
export const isMap = (value: unknown) => accepts(mapSize, value);
export const isSet = (value: unknown) => accepts(setSize, value);
export const isWeakMap = (value: unknown) => accepts(WeakMap.prototype.has, value, {});
export const isWeakSet = (value: unknown) => accepts(WeakSet.prototype.has, value, {});
export const isMapIterator = (value: unknown) => classOf(value) === "Map Iterator";
export const isSetIterator = (value: unknown) => classOf(value) === "Set Iterator";
export const isArrayBuffer = (value: unknown) => accepts(bufferLength, value);
export const isAnyArrayBuffer = isArrayBuffer;
export const isSharedArrayBuffer = () => false;
export const isDataView = (value: unknown) => accepts(viewLength, value);
export const isArrayBufferView = (value: unknown) => ArrayBuffer.isView(value);
export const isTypedArray = (value: unknown) => ArrayBuffer.isView(value) && typedTag.call(value) !== undefined;
const typed = (name: string) => (value: unknown) => ArrayBuffer.isView(value) && typedTag.call(value) === name;
export const isUint8Array = typed("Uint8Array");
export const isUint8ClampedArray = typed("Uint8ClampedArray");
export const isUint16Array = typed("Uint16Array");
export const isUint32Array = typed("Uint32Array");
export const isInt8Array = typed("Int8Array");
export const isInt16Array = typed("Int16Array");
export const isInt32Array = typed("Int32Array");
export const isFloat32Array = typed("Float32Array");
export const isFloat64Array = typed("Float64Array");
export const isBigInt64Array = typed("BigInt64Array");
export const isBigUint64Array = typed("BigUint64Array");
export const isPromise = (value: unknown) => value instanceof Promise;
export const isNativeError = (value: unknown) => value instanceof Error;
export const isAsyncFunction = (value: any) => typeof value === "function" && /^Async/.test(value[Symbol.toStringTag] ?? "");
export const isGeneratorFunction = (value: any) => typeof value === "function" && /GeneratorFunction$/.test(value[Symbol.toStringTag] ?? "");
export const isGeneratorObject = (value: unknown) => /^(?:Async)?Generator$|^Generator$|^AsyncGenerator$/.test(classOf(value));
export const isArgumentsObject = (value: unknown) => classOf(value) === "Arguments";
export const isNumberObject = (value: unknown) => typeof value === "object" && value instanceof Number;
export const isStringObject = (value: unknown) => typeof value === "object" && value instanceof String;
export const isBooleanObject = (value: unknown) => typeof value === "object" && value instanceof Boolean;
export const isBigIntObject = (value: unknown) => typeof value === "object" && value instanceof BigInt;
export const isSymbolObject = (value: unknown) => typeof value === "object" && value instanceof Symbol;
export const isBoxedPrimitive = (value: unknown) =>
  isNumberObject(value) || isStringObject(value) || isBooleanObject(value) || isBigIntObject(value) || isSymbolObject(value);
export const isModuleNamespaceObject = (value: any) => typeof value === "object" && value !== null && Object.getPrototypeOf(value) === null && value[Symbol.toStringTag] === "Module";
export const isProxy = (value: unknown) => proxyParts(value) !== undefined;
export const isExternal = () => false;
/** Tests marks on keys, so that the check does not load the classes of keys. */
export const isCryptoKey = (value: any) => typeof value === "object" && value !== null && ["pijs.key.bytes", "pijs.key.pair"].some((mark) => Object.hasOwn(value, Symbol.for(mark)));
export const isKeyObject = (value: any) => typeof value === "object" && value !== null && value[Symbol.for("pijs.key.object")] === true;

export default {
  isDate, isRegExp, isMap, isSet, isWeakMap, isWeakSet, isMapIterator, isSetIterator, isArrayBuffer, isAnyArrayBuffer, isSharedArrayBuffer,
  isDataView, isArrayBufferView, isTypedArray, isUint8Array, isUint8ClampedArray, isUint16Array, isUint32Array, isInt8Array, isInt16Array,
  isInt32Array, isFloat32Array, isFloat64Array, isBigInt64Array, isBigUint64Array, isPromise, isNativeError, isAsyncFunction,
  isGeneratorFunction, isGeneratorObject, isArgumentsObject, isNumberObject, isStringObject, isBooleanObject, isBigIntObject, isSymbolObject,
  isBoxedPrimitive, isModuleNamespaceObject, isProxy, isExternal, isCryptoKey, isKeyObject,
};
