/**
 * `pi:pi/models`: `ctx.modelRegistry`, and the models that an extension asks by itself.
 *
 * The catalogue is the session's, from the readable state. A key of the session's is never in a realm:
 * what `getApiKeyAndHeaders` gives is a name for it (`pijs-session-key:PROVIDER`), which the host
 * understands and no server does. A request goes through the host, which adds the real key.
 */

import { send, state } from "pi:engine";
import { call } from "pi:hostcall";
import { configOf, forget, localModels, nativeOf, providerSpecOf } from "pi:pi/providers";
import type { AbortSignal } from "pi:web/abort";

export interface Model {
  id: string;
  provider: string;
  api?: string;
  [member: string]: any;
}

interface ProviderState {
  displayName: string;
  configured: boolean;
  registered: boolean;
}

interface Catalogue {
  all: Model[];
  available: [string, string][];
  providers: Record<string, ProviderState>;
}

const KEY_NAME = "pijs-session-key:";

function catalogue(): Catalogue {
  return state().set.models ?? { all: [], available: [], providers: {} };
}

/** The catalogue with what this realm registered a moment ago. */
function all(): Model[] {
  const local = localModels();
  const replaced = new Set(local.map((model) => model.provider));
  return [...catalogue().all.filter((model) => !replaced.has(model.provider)), ...local];
}

function isConfigured(provider: string): boolean {
  return catalogue().providers[provider]?.configured ?? localModels().some((model) => model.provider === provider);
}

/** Options of a request that cross; functions and the signal stay here. */
function plainOptions(options: Record<string, any> = {}): Record<string, unknown> {
  const { apiKey, headers, maxTokens, reasoning, temperature } = options;
  return JSON.parse(JSON.stringify({ apiKey, headers, maxTokens, reasoning, temperature }));
}

/** One reply of a model, as an `AssistantMessage`. Like pi's `complete` it never rejects for the model's sake. */
export async function complete(model: Model, context: object, options?: Record<string, any>): Promise<any> {
  if (typeof model?.id !== "string" || typeof model.provider !== "string") {
    throw new TypeError("a model has an id and a provider");
  }
  const signal: AbortSignal | undefined = options?.signal;
  try {
    const params = {
      op: "ask_model",
      model: JSON.parse(JSON.stringify(model)),
      context: JSON.parse(JSON.stringify(context ?? {})),
      options: plainOptions(options),
    };
    return (await call("session", "session.inject", params, { signal })).output;
  } catch (error) {
    return failure(model, error, signal?.aborted ? "aborted" : "error");
  }
}

function failure(model: Model, error: unknown, stopReason: string): object {
  return {
    role: "assistant",
    content: [],
    api: model.api ?? "",
    provider: model.provider,
    model: model.id,
    usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } },
    stopReason,
    errorMessage: stopReason === "aborted" ? "Request was aborted" : error instanceof Error ? error.message : String(error),
    timestamp: Date.now(),
  };
}

/** The events of a reply that is complete. */
function* eventsOf(message: any): Generator<object> {
  const partial = { ...message, content: [] as any[] };
  yield { type: "start", partial };
  for (const [contentIndex, block] of message.content.entries()) {
    partial.content = message.content.slice(0, contentIndex + 1);
    if (block.type === "text") {
      yield { type: "text_start", contentIndex, partial };
      yield { type: "text_delta", contentIndex, delta: block.text, partial };
      yield { type: "text_end", contentIndex, content: block.text, partial };
    } else if (block.type === "thinking") {
      yield { type: "thinking_start", contentIndex, partial };
      yield { type: "thinking_delta", contentIndex, delta: block.thinking, partial };
      yield { type: "thinking_end", contentIndex, content: block.thinking, partial };
    } else if (block.type === "toolCall") {
      yield { type: "toolcall_start", contentIndex, partial };
      yield { type: "toolcall_delta", contentIndex, delta: JSON.stringify(block.arguments), partial };
      yield { type: "toolcall_end", contentIndex, toolCall: block, partial };
    }
  }
  const failed = message.stopReason === "error" || message.stopReason === "aborted";
  yield failed
    ? { type: "error", reason: message.stopReason, error: message }
    : { type: "done", reason: message.stopReason, message };
}

/**
 * The reply as a stream of pi's events: `for await`, and `result()` for the message.
 *
 * The events of a block come together, when the reply is complete: what a model says to an extension
 * alone crosses the host in one piece.
 */
export function stream(model: Model, context: object, options?: Record<string, any>): object {
  const reply = complete(model, context, options);
  return {
    async *[Symbol.asyncIterator](): AsyncGenerator<object> {
      yield* eventsOf(await reply);
    },
    result: () => reply,
  };
}

const registry = {
  getAll: (): Model[] => all(),
  getAvailable: (): Model[] => all().filter((model) => isConfigured(model.provider)),
  find: (provider: string, id: string): Model | undefined =>
    all().find((model) => model.provider === provider && model.id === id),
  hasConfiguredAuth: (model: Model): boolean => isConfigured(model.provider),

  async getApiKeyAndHeaders(model: Model): Promise<object> {
    if (!isConfigured(model.provider)) return { ok: false, error: `No API key found for "${model.provider}"` };
    return { ok: true, apiKey: `${KEY_NAME}${model.provider}`, headers: model.headers };
  },
  getApiKeyForProvider: async (provider: string): Promise<string | undefined> =>
    isConfigured(provider) ? `${KEY_NAME}${provider}` : undefined,
  getProviderAuth: async (provider: string): Promise<object | undefined> =>
    isConfigured(provider) ? { auth: { apiKey: `${KEY_NAME}${provider}` } } : undefined,

  getProviderAuthStatus: (provider: string): object =>
    isConfigured(provider) ? { configured: true, source: "runtime" } : { configured: false },
  getProviderDisplayName: (provider: string): string => catalogue().providers[provider]?.displayName ?? provider,
  getProvider(provider: string): object | undefined {
    const models = all().filter((model) => model.provider === provider);
    return models.length === 0 ? undefined : { id: provider, name: registry.getProviderDisplayName(provider), models };
  },
  isUsingOAuth: (): boolean => false,
  getError: (): string | undefined => undefined,
  refresh: async (): Promise<object> => ({ models: all(), errors: [] }),

  stream,
  streamSimple: stream,
  complete,
  completeSimple: complete,

  getRegisteredProviderIds: (): string[] =>
    Object.entries(catalogue().providers).filter(([, provider]) => provider.registered).map(([name]) => name),
};

/** `ctx.modelRegistry` of an entry: what it registers here is registered as with `pi.registerProvider`. */
export function modelRegistryOf(entry: number) {
  const register = (registration: object) => {
    send({ type: "register", payload: { entry, ready: false, registrations: [registration] } });
    call("session", "session", { op: "refresh_providers" }).then(undefined, () => {});
  };
  return {
    ...registry,
    registerProvider(provider: string | Record<string, any>, config: Record<string, any> = {}): void {
      register(providerSpecOf(provider, config));
    },
    unregisterProvider(provider: string): void {
      forget(String(provider));
      register({ kind: "provider_removed", name: String(provider) });
    },
    getRegisteredProviderConfig: (provider: string): object | undefined => configOf(provider),
    getRegisteredNativeProvider: (provider: string): object | undefined => nativeOf(provider),
  };
}

export { registry as modelRegistry };
