/**
 * `pi:pi/clients`: clients of single APIs. A request goes through the session, which has the key and connects to the server. Only
 * Bedrock's client may be the extension's own, as pi allows.
 */

import { stream } from "pi:pi/asking";
import type { AskOptions, Model, Reply } from "pi:pi/asking";
import type { Context } from "pi:pi/transcript";

type Stream = (model: Model, context: Context, options?: AskOptions) => Reply;

export interface Client {
  stream: Stream;
  streamSimple: Stream;
}

const client = (): Client => ({ stream, streamSimple: stream });
export const anthropicMessagesApi = client;
export const azureOpenAIResponsesApi = client;
export const googleGenerativeAIApi = client;
export const googleVertexApi = client;
export const mistralConversationsApi = client;
export const openAICodexResponsesApi = client;
export const openAICompletionsApi = client;
export const openAIResponsesApi = client;
export const piMessagesApi = client;

/** The extension's replacement of Bedrock's client. */
let bedrock: Client | undefined;

export function setBedrockProviderModule(module: Client | undefined): void {
  bedrock = module;
}

/** The client is selected for each request; pi loads it with the first one. */
export const bedrockConverseStreamApi = (): Client => ({
  stream: (model, context, options) => (bedrock?.stream ?? stream)(model, context, options),
  streamSimple: (model, context, options) => (bedrock?.streamSimple ?? stream)(model, context, options),
});
