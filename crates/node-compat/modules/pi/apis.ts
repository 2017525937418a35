/**
 * `pi:pi/apis`: the global interface of pi-ai, in which a model's `api` selects its functions.
 *
 * APIs that the extension registers take precedence. Requests to models of the session and of well-known APIs go through
 * the host.
 */

import { complete as ask, stream as askInPieces } from "pi:pi/asking";
import type { AskOptions, Model, Reply } from "pi:pi/asking";
import { modelRegistry } from "pi:pi/models";
import { withSystemMessage } from "pi:pi/transcript";
import type { Context } from "pi:pi/transcript";

type Stream = (model: Model, context: any, options?: AskOptions) => Reply;

export interface ApiProvider {
  api: string;
  stream: Stream;
  streamSimple: Stream;
}

const WELL_KNOWN = [
  "anthropic-messages",
  "openai-completions",
  "openai-responses",
  "openai-codex-responses",
  "azure-openai-responses",
  "google-generative-ai",
  "google-vertex",
  "mistral-conversations",
  "bedrock-converse-stream",
  "pi-messages",
];

const registered = new Map<string, { provider: ApiProvider; sourceId: string | undefined }>();

function only(api: string, stream: Stream): Stream {
  return (model, context, options) => {
    if (model.api !== api) throw new Error(`Mismatched api: ${model.api} expected ${api}`);
    return stream(model, context, options);
  };
}

const hosted = (api: string): ApiProvider => ({ api, stream: only(api, askInPieces), streamSimple: only(api, askInPieces) });

export function registerApiProvider(provider: ApiProvider, sourceId?: string): void {
  const { api, stream, streamSimple } = provider;
  registered.set(api, { provider: { api, stream: only(api, stream), streamSimple: only(api, streamSimple) }, sourceId });
}

export function getApiProvider(api: string): ApiProvider | undefined {
  const own = registered.get(api)?.provider;
  if (own) return own;
  const known = WELL_KNOWN.includes(api) || modelRegistry.getAll().some((model) => model.api === api);
  return known ? hosted(api) : undefined;
}

export function getApiProviders(): ApiProvider[] {
  const others = WELL_KNOWN.filter((api) => !registered.has(api)).map(hosted);
  return [...others, ...[...registered.values()].map(({ provider }) => provider)];
}

export function unregisterApiProviders(sourceId: string): void {
  for (const [api, entry] of registered) {
    if (entry.sourceId === sourceId) registered.delete(api);
  }
}

export const registerBuiltInApiProviders = (): void => {};
export const resetApiProviders = (): void => registered.clear();

function providerOf(model: Model): ApiProvider {
  const api = String(model?.api);
  const known = getApiProvider(api) ?? (modelRegistry.find(model?.provider, model?.id) ? hosted(api) : undefined);
  if (!known) throw new Error(`No API provider registered for api: ${api}`);
  return known;
}

export function stream(model: Model, context: Context, options?: AskOptions): Reply {
  return providerOf(model).stream(model, withSystemMessage(context), options);
}

export function streamSimple(model: Model, context: Context, options?: AskOptions): Reply {
  return providerOf(model).streamSimple(model, withSystemMessage(context), options);
}

/** Returns whether a request goes to the host, so that its reply need not be streamed. */
const isHosted = (model: Model): boolean => !registered.has(String(model?.api));

export async function complete(model: Model, context: Context, options?: AskOptions): Promise<any> {
  return isHosted(model) && providerOf(model) ? ask(model, context, options) : stream(model, context, options).result();
}

export async function completeSimple(model: Model, context: Context, options?: AskOptions): Promise<any> {
  return isHosted(model) && providerOf(model) ? ask(model, context, options) : streamSimple(model, context, options).result();
}
