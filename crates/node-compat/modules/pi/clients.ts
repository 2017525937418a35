/**
 * `pi:pi/clients`: the clients of single APIs. Whatever the API, a request goes through the session, which has the
 * key and speaks to the server; only Bedrock's may be the extension's own, as pi allows.
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

/** What an extension put in the place of Bedrock's client. */
let bedrock: Client | undefined;

export function setBedrockProviderModule(module: Client | undefined): void {
  bedrock = module;
}

/** Which client answers is asked with each request, as pi loads it with the first. */
export const bedrockConverseStreamApi = (): Client => ({
  stream: (model, context, options) => (bedrock?.stream ?? stream)(model, context, options),
  streamSimple: (model, context, options) => (bedrock?.streamSimple ?? stream)(model, context, options),
});
