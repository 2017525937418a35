/**
 * `pi:pi/faux`: `registerFauxProvider` of pi-ai, a scripted model for tests. The real package defines it, and it is registered
 * with the APIs of this extension.
 */

import { createFauxCore } from "@earendil-works/pi-ai/dist/providers/faux.js";
import { registerApiProvider, unregisterApiProviders } from "pi:pi/apis";

/** Distinguishes the providers of one extension. */
let count = 0;

export function registerFauxProvider(options: object = {}): object {
  const { api, models, getModel, state, setResponses, appendResponses, getPendingResponseCount, stream, streamSimple } = createFauxCore(options);
  const sourceId = `faux-provider-${++count}`;
  registerApiProvider({ api, stream, streamSimple }, sourceId);
  const unregister = (): void => unregisterApiProviders(sourceId);
  return { api, models, getModel, state, setResponses, appendResponses, getPendingResponseCount, unregister };
}
