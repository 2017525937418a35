/**
 * `pi:pi/models`: `ctx.modelRegistry`.
 *
 * The session owns the catalogue. The readable state has registered and usable models; for others it names the providers,
 * whose models are fetched on demand. A realm never has a key of the session: `getApiKeyAndHeaders` returns a name for it
 * (`pijs-session-key:PROVIDER`) that only the host understands. A request goes through the host, which adds the
 * real key.
 */

import { send, state } from "pi:engine";
import { call, callSync } from "pi:hostcall";
import { KEY_NAME, complete, stream } from "pi:pi/asking";
import type { Model } from "pi:pi/asking";
import { jsonOf } from "pi:pi/plain";
import { ofThisPi } from "pi:pi/profile";
import { sessionRuntimeOf } from "pi:pi/session-runtime";
import { authOf, bringsKey, configOf, forget, isWithdrawn, localModels, nativeOf, offerProvider, ownAuth } from "pi:pi/providers";
import { statusOf } from "pi:pi/provider-values";

export { KEY_NAME };
export type { Model };

interface ProviderState {
  displayName: string;
  configured: boolean;
  registered: boolean;
  /** pi's `AuthStatus`, if the session has a key for the provider. */
  status?: object;
  oauth?: boolean;
}

interface Catalogue {
  all: Model[];
  /** Providers whose models are not in `all`. */
  asked: string[];
  providers: Record<string, ProviderState>;
  /** The error found in `models.json`. */
  error?: string;
}

function catalogue(): Catalogue {
  return state().set.models ?? { all: [], asked: [], providers: {} };
}

/** Fetched models, which do not change during a session. */
const asked = new Map<string, Model[]>();
/** Fetched models of pi's own catalogue, without the user's changes. */
const builtin = new Map<string, Model[]>();

function ask(providers: string[], into: Map<string, Model[]>): void {
  const missing = providers.filter((provider) => !into.has(provider));
  if (missing.length === 0) return;
  const params = { op: "list_models", providers: missing, builtin: into === builtin };
  const { models } = callSync("session", "session", params).output as { models: Record<string, Model[]> };
  for (const provider of missing) into.set(provider, models[provider] ?? []);
}

/** Returns the models of these providers, in this order, including new registrations of this realm. */
function modelsOf(providers: string[]): Model[] {
  const { all, asked: known } = catalogue();
  const local = localModels();
  ask(providers.filter((provider) => known.includes(provider)), asked);
  return providers.flatMap((provider) => {
    const own = local.filter((model) => model.provider === provider);
    if (own.length > 0) return own;
    if (isWithdrawn(provider)) return builtinModels(provider);
    return known.includes(provider) ? asked.get(provider)! : all.filter((model) => model.provider === provider);
  });
}

function providers(): string[] {
  return [...new Set([...Object.keys(catalogue().providers), ...localModels().map((model) => model.provider)])];
}

const all = (): Model[] => modelsOf(providers());

/** Names of the providers in pi's own catalogue. */
let builtinProviders: string[] | undefined;
export function builtinProviderNames(): string[] {
  builtinProviders ??= callSync("session", "session", { op: "list_models", builtin: true }).output.providers as string[];
  return builtinProviders;
}

/** Returns models of pi's own catalogue, which is available before any session and equal in all of them. */
export function builtinModels(provider: string): Model[] {
  ask([provider], builtin);
  return builtin.get(provider)!;
}

function isConfigured(provider: string): boolean {
  return catalogue().providers[provider]?.configured ?? localModels().some((model) => model.provider === provider);
}

interface RefreshOptions {
  allowNetwork?: boolean;
  providers?: readonly string[];
  force?: boolean;
  signal?: { aborted: boolean };
}

/** Makes providers refresh their models, including those of other extensions. A provider's exception is one of the errors. */
export async function refreshAll({ allowNetwork, providers, force, signal }: RefreshOptions = {}): Promise<object> {
  if (signal?.aborted) return { aborted: true, errors: new Map() };
  const params = { op: "refresh_providers", look: providers ? [...providers] : true, allowNetwork, force };
  const { errors } = (await call("session", "session", jsonOf(params))).output as { errors?: Record<string, string> };
  const thrown = Object.entries(errors ?? {}).map(([name, message]) => [name, new Error(message)] as const);
  return { aborted: signal?.aborted ?? false, errors: new Map(thrown) };
}

const registry = {
  getAll: (): Model[] => all(),
  getAvailable: (): Model[] => modelsOf(providers().filter(isConfigured)),
  find: (provider: string, id: string): Model | undefined => modelsOf([provider]).find((model) => model.id === id),
  hasConfiguredAuth: (model: Model): boolean => isConfigured(model.provider),

  async getApiKeyAndHeaders(model: Model): Promise<object> {
    try {
      void model.provider;
    } catch (error) {
      return { ok: false, error: (error as Error).message };
    }
    if (bringsKey(model.provider)) return authOf(model.provider, model.id);
    if (!isConfigured(model.provider)) {
      // A provider that sends its key in a header cannot be used without a key.
      const { authHeader } = configOf(model.provider) ?? {};
      return authHeader ? { ok: false, error: `No API key found for "${model.provider}"` } : { ok: true, headers: undefined };
    }
    return { ok: true, apiKey: `${KEY_NAME}${model.provider}`, headers: model.headers, env: undefined };
  },
  async getApiKeyForProvider(provider: string): Promise<string | undefined> {
    const own = await ownAuth(provider);
    return own ? own.apiKey : isConfigured(provider) ? `${KEY_NAME}${provider}` : undefined;
  },
  async getProviderAuth(provider: string): Promise<object | undefined> {
    const own = await ownAuth(provider);
    if (own) return { auth: own };
    return isConfigured(provider) ? { auth: { apiKey: `${KEY_NAME}${provider}` } } : undefined;
  },

  getProviderAuthStatus(provider: string): object {
    const status = catalogue().providers[provider]?.status ?? statusOf(configOf(provider) ?? {});
    return status ?? (isConfigured(provider) ? { configured: true, source: "fallback" } : { configured: false });
  },
  getProviderDisplayName: (provider: string): string => catalogue().providers[provider]?.displayName ?? provider,
  getProvider(provider: string): object | undefined {
    const models = modelsOf([provider]);
    return models.length === 0 ? undefined : { id: provider, name: registry.getProviderDisplayName(provider), models };
  },
  isUsingOAuth: (model: Model): boolean => catalogue().providers[model.provider]?.oauth ?? false,
  getError: (): string | undefined => catalogue().error,
  refresh: refreshAll,

  stream,
  streamSimple: stream,
  complete,
  completeSimple: complete,

  getRegisteredProviderIds: (): string[] =>
    Object.entries(catalogue().providers).filter(([, provider]) => provider.registered).map(([name]) => name),
};

/** Returns `ctx.modelRegistry` for an entry. Registering through it is equivalent to `pi.registerProvider`. */
export function modelRegistryOf(entry: number) {
  const register = (registration: object) => {
    send({ type: "register", payload: { entry, ready: false, registrations: [registration] } });
    call("session", "session", { op: "refresh_providers" }).then(undefined, () => {});
  };
  const own = {
    ...registry,
    registerProvider(provider: string | Record<string, any>, config: Record<string, any> = {}): void {
      offerProvider(provider, config, register);
      const look = [typeof provider === "string" ? provider : String(provider?.id)];
      call("session", "session", { op: "refresh_providers", look }).then(undefined, () => {});
    },
    unregisterProvider(provider: string): void {
      forget(String(provider));
      register({ kind: "provider_removed", name: String(provider) });
    },
    getRegisteredProviderConfig: (provider: string): object | undefined => configOf(provider),
    getRegisteredNativeProvider: (provider: string): object | undefined => nativeOf(provider),
  };
  // Private in pi, but extensions pass this member to their sub-agents.
  return ofThisPi("modelRegistry", Object.defineProperty(own, "runtime", { value: sessionRuntimeOf(own), configurable: true })) as typeof own & { readonly runtime: object };
}

export { registry as modelRegistry };
