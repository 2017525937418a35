/**
 * `pi:pi/models`: `ctx.modelRegistry`.
 *
 * The catalogue is the session's, from the readable state. A key of the session's is never in a realm:
 * what `getApiKeyAndHeaders` gives is a name for it (`pijs-session-key:PROVIDER`), which the host
 * understands and no server does. A request goes through the host, which adds the real key.
 */

import { send, state } from "pi:engine";
import { call } from "pi:hostcall";
import { complete, stream } from "pi:pi/asking";
import type { Model } from "pi:pi/asking";
import { sessionRuntimeOf } from "pi:pi/session-runtime";
import { configOf, forget, localModels, nativeOf, providerSpecOf } from "pi:pi/providers";

export type { Model };

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

/** What stands for a key of the session's. */
export const KEY_NAME = "pijs-session-key:";

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
  const own = {
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
  // In pi a private member, which extensions hand to their sub-agents all the same.
  return Object.defineProperty(own, "runtime", { value: sessionRuntimeOf(own) }) as typeof own & { readonly runtime: object };
}

export { registry as modelRegistry };
