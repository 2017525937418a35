/**
 * `@earendil-works/pi-ai/providers/all`: the session's providers, which replace pi's catalogue. Their
 * keys stay with the host, which handles requests.
 */

import { complete, stream } from "pi:pi/asking";
import type { Model } from "pi:pi/asking";
import { KEY_NAME, modelRegistry } from "pi:pi/models";

function catalogue(): Model[] {
  const registered = new Set(modelRegistry.getRegisteredProviderIds());
  return modelRegistry.getAll().filter((model) => !registered.has(model.provider));
}

export const getBuiltinModel = (provider: string, id: string): Model | undefined =>
  catalogue().find((model) => model.provider === provider && model.id === id);
export const getBuiltinModels = (provider: string): Model[] => catalogue().filter((model) => model.provider === provider);
export const getBuiltinProviders = (): string[] => [...new Set(catalogue().map((model) => model.provider))];
export const getBuiltinModelDataGeneratedAt = (): number | undefined => undefined;

/** Returns a provider's key: a stored key, or the placeholder of the session's. */
function apiKeyAuth(provider: string, name: string) {
  const known = (): boolean => modelRegistry.hasConfiguredAuth({ provider, id: "" });
  return {
    name,
    async resolve({ credential }: { credential?: { key?: string } }): Promise<object | undefined> {
      const key = credential?.key ?? (known() ? `${KEY_NAME}${provider}` : undefined);
      return key === undefined ? undefined : { auth: { apiKey: key }, source: credential ? "stored credential" : "session" };
    },
  };
}

function providerOf(id: string) {
  const name = modelRegistry.getProviderDisplayName(id);
  return {
    id,
    name,
    auth: { apiKey: apiKeyAuth(id, name) },
    getModels: (): Model[] => getBuiltinModels(id),
    stream,
    streamSimple: stream,
    complete,
  };
}

export const builtinProviders = (): object[] => getBuiltinProviders().map(providerOf);
