/**
 * `@earendil-works/pi-ai`, its `/compat`, and both under `@mariozechner`: for extensions, they are the global interface of
 * pi-ai. Members without authority come from the real package; model requests go through the session, which has the keys and the
 * catalogue.
 */

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

/** Returns a model of pi's own catalogue, or of the session's. */
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

/** Returns a placeholder for a key in the session's environment; undefined if there is none. */
export function getEnvApiKey(provider: string): string | undefined {
  return modelRegistry.hasConfiguredAuth({ provider, id: "" }) ? `${KEY_NAME}${provider}` : undefined;
}

export {
  anthropicMessagesApi,
  azureOpenAIResponsesApi,
  bedrockConverseStreamApi,
  googleGenerativeAIApi,
  googleVertexApi,
  mistralConversationsApi,
  openAICodexResponsesApi,
  openAICompletionsApi,
  openAIResponsesApi,
  piMessagesApi,
  setBedrockProviderModule,
} from "pi:pi/clients";

/** Former names of the clients' functions. */
export {
  stream as streamAnthropic,
  stream as streamAzureOpenAIResponses,
  stream as streamGoogle,
  stream as streamGoogleVertex,
  stream as streamMistral,
  stream as streamOpenAICodexResponses,
  stream as streamOpenAICompletions,
  stream as streamOpenAIResponses,
  stream as streamSimpleAnthropic,
  stream as streamSimpleAzureOpenAIResponses,
  stream as streamSimpleGoogle,
  stream as streamSimpleGoogleVertex,
  stream as streamSimpleMistral,
  stream as streamSimpleOpenAICodexResponses,
  stream as streamSimpleOpenAICompletions,
  stream as streamSimpleOpenAIResponses,
} from "pi:pi/asking";
