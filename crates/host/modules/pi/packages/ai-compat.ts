/**
 * `@earendil-works/pi-ai`, its `/compat` and the same under `@mariozechner`: for extensions both are the
 * global interface of pi-ai. What needs no authority comes from
 * the real package beside this module; models are asked through the session, which has the keys and the
 * catalogue.
 */

import { stream as ask } from "pi:pi/asking";
import type { Model } from "pi:pi/asking";
import { KEY_NAME, builtinModels, builtinProviderNames, modelRegistry } from "pi:pi/models";

export {
  complete,
  completeSimple,
  getApiProvider,
  getApiProviders,
  registerApiProvider,
  registerBuiltInApiProviders,
  resetApiProviders,
  stream,
  streamSimple,
  unregisterApiProviders,
} from "pi:pi/apis";

/** A model of pi's own catalogue, or of the session's. */
export function getModel(provider: string, id: string): Model | undefined {
  return builtinModels(provider).find((model) => model.id === id) ?? modelRegistry.find(provider, id);
}

export function getModels(provider: string): Model[] {
  const builtin = builtinModels(provider);
  return builtin.length > 0 ? builtin : modelRegistry.getAll().filter((model) => model.provider === provider);
}

export function getProviders(): string[] {
  return [...new Set([...builtinProviderNames(), ...modelRegistry.getAll().map((model) => model.provider)])];
}

/** Keys of the environment belong to the session: what is there is a name for one, or nothing. */
export function getEnvApiKey(provider: string): string | undefined {
  return modelRegistry.hasConfiguredAuth({ provider, id: "" }) ? `${KEY_NAME}${provider}` : undefined;
}

/** The clients of single APIs all go through the session. */
const client = () => ({ stream: ask, streamSimple: ask });
export const anthropicMessagesApi = client;
export const azureOpenAIResponsesApi = client;
export const bedrockConverseStreamApi = client;
export const googleGenerativeAIApi = client;
export const googleVertexApi = client;
export const mistralConversationsApi = client;
export const openAICodexResponsesApi = client;
export const openAICompletionsApi = client;
export const openAIResponsesApi = client;
export const piMessagesApi = client;
