/**
 * `pi:web`: the globals of a realm. `pi:runtime` imports it first; it exports nothing.
 *
 * Timers, console and abort signals are defined at once, since the hostcall layer needs two of them; all other globals load on
 * first read. There is no `Bun`, and no part of a browser's document.
 */

import { enqueueJob, importSync } from "pi:engine";
import { checkFunction } from "pi:node/errors";
import { AbortController, AbortSignal } from "pi:web/abort";
import { console } from "pi:web/console";
import { bind } from "pi:web/contexts";
import { CustomEvent, Event, EventTarget } from "pi:web/events";
import { defineHidden, defineLazy } from "pi:web/lazy";
import { guarded } from "pi:web/ticks";
import "pi:web/functions";
import "pi:web/json";
import "pi:web/wording";
import { clearImmediate, clearInterval, clearTimeout, setImmediate, setInterval, setTimeout } from "pi:web/timers";

function queueMicrotask(callback: () => void): void {
  checkFunction("callback", callback);
  const bound = bind(callback);
  enqueueJob(() => guarded(bound));
}

defineHidden(globalThis, {
  global: globalThis,
  console,
  setTimeout,
  clearTimeout,
  setInterval,
  clearInterval,
  setImmediate,
  clearImmediate,
  queueMicrotask,
  AbortController,
  AbortSignal,
  Event,
  EventTarget,
  CustomEvent,
});

const LAZY: Record<string, string[]> = {
  "pi:web/encoding": ["TextEncoder", "TextDecoder"],
  "pi:web/base64": ["atob", "btoa"],
  "pi:web/url": ["URL", "URLSearchParams"],
  "pi:web/clone": ["structuredClone"],
  "pi:web/performance": [
    "performance", "Performance", "PerformanceEntry", "PerformanceMark", "PerformanceMeasure", "PerformanceObserver",
    "PerformanceObserverEntryList", "PerformanceResourceTiming",
  ],
  "pi:web/channels": ["MessageChannel", "MessagePort", "BroadcastChannel"],
  "pi:web/navigator": ["navigator", "Navigator"],
  "pi:web/crypto": ["crypto", "Crypto"],
  "pi:web/subtle": ["CryptoKey", "SubtleCrypto"],
  "pi:web/headers": ["Headers"],
  "pi:web/blob": ["Blob", "File", "FormData"],
  "pi:web/streams": [
    "ByteLengthQueuingStrategy", "CountQueuingStrategy", "ReadableByteStreamController", "ReadableStream", "ReadableStreamBYOBReader",
    "ReadableStreamBYOBRequest", "ReadableStreamDefaultController", "ReadableStreamDefaultReader", "TextDecoderStream", "TextEncoderStream",
    "TransformStream", "TransformStreamDefaultController", "WritableStream", "WritableStreamDefaultController", "WritableStreamDefaultWriter",
  ],
  "pi:web/compression": ["CompressionStream", "DecompressionStream"],
  "pi:web/intl": ["Intl"],
  "pi:web/growing": ["__pi_growing"],
  "pi:web/weak": ["WeakRef", "FinalizationRegistry"],
  "pi:web/atomics": ["SharedArrayBuffer", "Atomics"],
  "pi:web/fetch": ["fetch", "Request", "Response"],
  "pi:web/webassembly": ["WebAssembly"],
  "pi:web/websocket": ["WebSocket", "MessageEvent"],
  "node:buffer": ["Buffer"],
  "node:process": ["process"],
};

// Replaces locale-dependent methods, for which the engine's results differ from Node's.
const number = () => importSync("pi:web/intl/number").NumberFormat;
const date = () => importSync("pi:web/intl/date").DateTimeFormat;
const text = () => importSync("pi:web/intl/text").Collator;
let collator: { compare(a: string, b: string): number } | undefined;

function defineLocale(prototype: object, members: Record<string, (...args: any[]) => unknown>): void {
  for (const name of Object.keys(members)) Object.defineProperty(members[name], "name", { value: name });
  defineHidden(prototype, members);
}
defineLocale(Number.prototype, {
  toLocaleString(this: number, ...args: unknown[]) {
    return new (number())(...args).format(Number(this));
  },
});
defineLocale(BigInt.prototype, {
  toLocaleString(this: bigint, ...args: unknown[]) {
    return new (number())(...args).format(BigInt(this));
  },
});
function localeDate(needed: string) {
  return function (this: Date, locales?: unknown, options?: unknown) {
    return Number.isNaN(this.getTime()) ? "Invalid Date" : new (date())(locales, options, needed).format(this);
  };
}
defineLocale(Date.prototype, { toLocaleString: localeDate("all"), toLocaleDateString: localeDate("date"), toLocaleTimeString: localeDate("time") });
/** Returns a method that appends the name of the zone to the engine's text. */
function named(write: (this: Date) => string) {
  return function (this: Date) {
    const text = write.call(this);
    return Number.isNaN(this.getTime()) ? text : `${text} (${new (importSync("pi:web/intl/zone").Zone)().nameAt(this, "long")})`;
  };
}
defineLocale(Date.prototype, { toString: named(Date.prototype.toString), toTimeString: named(Date.prototype.toTimeString) });
defineLocale(String.prototype, {
  localeCompare(this: string, other: unknown, locales?: unknown, options?: unknown) {
    const order = options === undefined ? (collator ??= new (text())()) : new (text())(locales, options);
    return order!.compare(String(this), String(other));
  },
});

// The engine's own class does not support a cause.
const Plain = DOMException;
const Described = function (message?: string, options?: string | { name?: string; cause?: unknown }): DOMException {
  const { name = "Error", ...rest } = typeof options === "object" && options !== null ? options : options === undefined ? {} : { name: String(options) };
  const error: DOMException = Reflect.construct(Plain, [message, name], new.target ?? Plain);
  if ("cause" in rest) Object.defineProperty(error, "cause", { value: rest.cause, writable: true, enumerable: false, configurable: true });
  return error;
};
Object.defineProperty(Described, "name", { value: "DOMException" });
Object.setPrototypeOf(Described, Plain);
Described.prototype = Plain.prototype;
defineHidden(Plain.prototype, { constructor: Described });
defineHidden(globalThis, { DOMException: Described });

for (const specifier of Object.keys(LAZY)) {
  for (const name of LAZY[specifier]!) defineLazy(globalThis, name, specifier);
}
