/**
 * `pi:web`: the globals of a realm. `pi:runtime` imports it first; it exports nothing.
 *
 * Timers, console and abort signals are there at once, since the hostcall layer needs two of them;
 * everything else loads at its first read. There is no `navigator`, no `Bun`,
 * and nothing of a browser's document.
 */

import { enqueueJob } from "pi:engine";
import { checkFunction } from "pi:node/errors";
import { AbortController, AbortSignal } from "pi:web/abort";
import { console } from "pi:web/console";
import { CustomEvent, Event, EventTarget } from "pi:web/events";
import { defineHidden, defineLazy } from "pi:web/lazy";
import { guarded } from "pi:web/ticks";
import { clearImmediate, clearInterval, clearTimeout, setImmediate, setInterval, setTimeout } from "pi:web/timers";

function queueMicrotask(callback: () => void): void {
  checkFunction("callback", callback);
  enqueueJob(() => guarded(callback));
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
  "pi:web/performance": ["performance", "Performance"],
  "pi:web/crypto": ["crypto", "Crypto", "SubtleCrypto"],
  "pi:web/headers": ["Headers"],
  "pi:web/blob": ["Blob", "File", "FormData"],
  "pi:web/intl": ["Intl"],
  "pi:web/atomics": ["SharedArrayBuffer", "Atomics"],
  "pi:web/fetch": ["fetch", "Request", "Response"],
  "node:buffer": ["Buffer"],
  "node:process": ["process"],
};

for (const specifier of Object.keys(LAZY)) {
  for (const name of LAZY[specifier]!) defineLazy(globalThis, name, specifier);
}
