/**
 * `@earendil-works/pi-ai/compat`: the older, global interface of pi-ai. What needs no authority comes from
 * the real package beside this module; calls of a model by an extension itself are not there yet, and the
 * catalogue of models is the session's.
 */

import { unsupported } from "pi:pi/unsupported";

/** A function of the real module that is not here yet. */
function absent(name: string): (...args: unknown[]) => never {
  const method = () => {
    throw unsupported(`${name} of @earendil-works/pi-ai/compat`);
  };
  return Object.defineProperty(method, "name", { value: name });
}

export const complete = absent("complete");
export const completeSimple = absent("completeSimple");
export const stream = absent("stream");
export const streamSimple = absent("streamSimple");
export const getModel = absent("getModel");
export const getModels = absent("getModels");
export const getProviders = absent("getProviders");
export const getEnvApiKey = absent("getEnvApiKey");
export const anthropicMessagesApi = absent("anthropicMessagesApi");
export const googleGenerativeAIApi = absent("googleGenerativeAIApi");
export const openAICompletionsApi = absent("openAICompletionsApi");
export const openAIResponsesApi = absent("openAIResponsesApi");
