/**
 * `pi:pi/session-runtime`: the session's models in the form of pi's `ModelRuntime`, as `ctx.modelRegistry.runtime`. A sub-agent
 * that receives it uses the session's servers.
 */

import type { Model } from "pi:pi/asking";

type Registry = Record<string, any>;

const refuse = (member: string) => async (): Promise<never> => {
  throw Object.assign(
    new Error(`ModelRuntime.${member}: the session's credentials are the person's to change; use /login in pi, or a ModelRuntime of your own (ModelRuntime.create)`),
    { code: "ERR_PIJS_SESSION_CREDENTIALS" },
  );
};

/** Rejects deferred replies, which no provider of the session supports. */
const noDeferred = (model: Model): never => {
  throw new Error(`Provider ${model.provider} does not support deferred responses`);
};

/** Returns the runtime of a registry. */
export function sessionRuntimeOf(registry: Registry): object {
  const providerIds = (): string[] => [...new Set<string>(registry.getAll().map((model: Model) => model.provider))];
  const configured = (provider: string): boolean => registry.hasConfiguredAuth({ provider, id: "" });
  const { stream, streamSimple, complete, completeSimple, getProvider, getProviderAuthStatus, getError } = registry;
  const { registerProvider, unregisterProvider, getRegisteredProviderConfig, getRegisteredProviderIds, getRegisteredNativeProvider } = registry;
  return {
    getProviders: (): object[] => providerIds().map((provider) => getProvider(provider)),
    getProvider,
    getModels: (provider?: string): Model[] =>
      registry.getAll().filter((model: Model) => provider === undefined || model.provider === provider),
    getModel: (provider: string, id: string): Model | undefined => registry.find(provider, id),
    checkAuth: async (provider: string): Promise<object | undefined> =>
      configured(provider) ? { type: "api_key", source: "session" } : undefined,
    getAvailable: async (provider?: string): Promise<Model[]> =>
      registry.getAvailable().filter((model: Model) => provider === undefined || model.provider === provider),
    getAvailableSnapshot: (): Model[] => registry.getAvailable(),
    getError,
    hasConfiguredAuth: configured,
    async getAuth(wanted: string | Model): Promise<object | undefined> {
      const model = typeof wanted === "string" ? { provider: wanted, id: "" } : wanted;
      const found = await registry.getApiKeyAndHeaders(model);
      return found.ok ? { auth: { apiKey: found.apiKey, headers: found.headers }, source: "session" } : undefined;
    },
    getProviderAuthStatus,
    getCompatibilityRequestConfig: (model: Model): object => ({ headers: model.headers, authHeader: false }),
    isUsingOAuth: (): boolean => false,
    isUsingSubscription: (): boolean => false,
    refresh: (options?: object): Promise<object> => registry.refresh(options),
    registerProvider,
    registerNativeProvider: (provider: object): void => registerProvider(provider),
    unregisterProvider,
    getRegisteredProviderConfig,
    getRegisteredProviderIds,
    getRegisteredNativeProvider,
    listCredentials: async (): Promise<object[]> =>
      providerIds().filter(configured).map((providerId) => ({ providerId, type: "api_key" })),
    setRuntimeApiKey: refuse("setRuntimeApiKey"),
    removeRuntimeApiKey: refuse("removeRuntimeApiKey"),
    login: refuse("login"),
    logout: refuse("logout"),
    stream,
    streamSimple,
    complete,
    completeSimple,
    streamDeferred: noDeferred,
    fetchDeferred: async (model: Model): Promise<never> => noDeferred(model),
    cancelDeferred: async (model: Model): Promise<never> => noDeferred(model),
  };
}
