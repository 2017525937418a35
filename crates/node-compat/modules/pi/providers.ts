/**
 * `pi:pi/providers`: model providers that this extension registers.
 *
 * The configuration goes to the host as data; keys and functions stay here. For a request the host fetches the key ({@link
 * credentials}).
 *
 * | module | contains |
 * |---|---|
 * | `native-providers` | providers that pi-ai created |
 * | `provider-values` | keys and headers in configurations |
 * | `provider-streams` | stream functions of providers |
 * | `accounts`, `refreshing` | log-ins to providers, and refreshed model lists |
 */

import { send, state } from "pi:engine";
import { type ModelAuth, type OAuth, type Stored, adapted, logIn, storedFor, takeStored } from "pi:pi/accounts";
import { sendError } from "pi:pi/errors";
import { issueHandle, withHandles } from "pi:pi/handles";
import { builtinModels } from "pi:pi/models";
import { asking, nativeConfig } from "pi:pi/native-providers";
import { type Credentials, copied, reply, streamThrough } from "pi:pi/provider-streams";
import { isCommand, isConfigured, valueOf, variablesOf } from "pi:pi/provider-values";
import { refreshThrough } from "pi:pi/refreshing";
import { AbortSignal } from "pi:web/abort";

type Config = Record<string, any>;

/** Registrations, which the catalogue may not contain yet. */
const registered = new Map<string, Config>();

/** Returns the models of registered providers, completed as in pi. Headers are added when a request is made. */
export function localModels(): any[] {
  const models: any[] = [];
  for (const [provider, config] of registered) {
    for (const model of modelsIn(config)) {
      const { api, baseUrl } = placeOf(provider, config, model);
      models.push({ ...copied(model), api, provider, baseUrl, headers: undefined });
    }
  }
  return models;
}

const modelsIn = (config: Config): any[] => (Array.isArray(config.models) ? config.models : []);

/** Returns the API and the server of a model. Missing values come from a similar model of pi. */
function placeOf(provider: string, config: Config, model: any): { api: unknown; baseUrl: unknown } {
  const own = { api: model.api ?? config.api, baseUrl: model.baseUrl ?? config.baseUrl };
  if (own.api && own.baseUrl) return own;
  const all = builtinModels(provider);
  const like =
    all.find(({ id }) => id === model.id) ??
    (own.api ? all.find(({ api }) => api === own.api) : undefined) ??
    all.find(({ api }) => api === "openai-completions") ??
    all[0];
  return { api: own.api ?? like?.api, baseUrl: own.baseUrl ?? like?.baseUrl };
}

/** Returns the error of an incomplete configuration, with pi's message. */
function lacking(provider: string, config: Config): string | undefined {
  if (typeof config.streamSimple === "function" && !config.api) {
    return `Provider ${provider}: "api" is required when registering streamSimple.`;
  }
  for (const model of modelsIn(config)) {
    const { api, baseUrl } = placeOf(provider, config, model);
    if (!api) return `Provider ${provider}, model ${model.id}: no "api" specified. Set at provider or model level.`;
    if (!baseUrl) return `Provider ${provider}: "baseUrl" is required when defining custom models.`;
  }
  return undefined;
}

/** Objects of pi-ai that are registered unchanged. */
const natives = new Map<string, Config>();
/** Native providers whose `auth` has found a key. */
const withKey = new WeakSet<object>();

/** Returns the configuration that was registered under a name; undefined for a native provider. */
export const configOf = (name: string): Config | undefined => (natives.has(name) ? undefined : registered.get(name));
export const nativeOf = (name: string): object | undefined => natives.get(name);
/** Returns whether a provider is registered, in either form. */
export const isRegistered = (name: string): boolean => registered.has(name);
/** Returns whether a provider has its own key or a stored one. */
export const bringsKey = (name: string): boolean =>
  typeof registered.get(name)?.apiKey === "string" || withKey.has(natives.get(name) ?? {}) || storedFor(name) !== undefined;

/** Sends a provider's current state to the host. */
type Offer = (spec: { kind: string }) => void;

/**
 * Offers a provider, by name and configuration or as a native object, now and whenever its list changes. While the
 * factory runs, it is not used yet, and the host reports its errors after loading.
 */
export function offerProvider(provider: string | Config, config: Config, offer: Offer, isLoading = false): void {
  if (typeof provider === "string") {
    const wrong = lacking(provider, config);
    if (wrong !== undefined && !isLoading) throw new Error(wrong);
    natives.delete(provider);
    offer(providerSpec(provider, config, offer, wrong === undefined));
    return;
  }
  const name = String(provider?.id);
  natives.set(name, provider);
  offer(providerSpec(name, nativeConfig(provider), offer));
  void lookForKey(name, provider, offer);
}


/** Offers a native provider again once its `auth` has found a key. */
async function lookForKey(name: string, provider: Config, offer: Offer): Promise<void> {
  const key = provider.auth?.apiKey;
  if (key === undefined) return;
  try {
    const found = await (typeof key.check === "function" ? key.check(asking(name)) : key.resolve(asking(name)));
    if (found === undefined || natives.get(name) !== provider) return;
    withKey.add(provider);
    offer(providerSpec(name, {}, offer));
  } catch (error) {
    sendError(error, "register_provider");
  }
}

/** Removed providers, with the list in the readable state that still contains them. */
const withdrawn = new Map<string, unknown>();

/** Removes a provider. */
export function forget(name: string): void {
  if (registered.delete(name)) withdrawn.set(name, state().set.models);
  natives.delete(name);
}

/** Drops all registrations, since the next session has its own. */
export function forgetAll(): void {
  registered.clear();
  natives.clear();
  withdrawn.clear();
}

/** Returns whether a provider in the readable state has been removed since. */
export const isWithdrawn = (name: string): boolean =>
  withdrawn.has(name) && withdrawn.get(name) === state().set.models && !registered.has(name);

/** Returns a provider's data for the host. */
function providerSpec(name: string, config: Config, offer: Offer, counts = true): { kind: string } {
  const known = registered.get(name);
  const merged = { ...known, ...Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined)) };
  if (counts) registered.set(name, merged);
  const spec: Config = {
    kind: "provider",
    name,
    config: withHandles(shown(name, merged, offer)),
    configured: isConfigured(merged) || withKey.has(natives.get(name) ?? merged),
    credentials: issueHandle((model?: { headers?: Record<string, string> }) => credentials(name, merged, model?.headers)),
    account: issueHandle((question: Question) => account(name, question, offer)),
  };
  if (typeof merged.streamSimple === "function") {
    spec.stream = issueHandle(streamThrough(name, merged, (ofModel) => credentials(name, merged, ofModel)));
    spec.reply = reply;
  }
  return spec as { kind: string };
}

/** A request from the host about an account. */
type Question = { op: "log_in" } | { op: "renew"; stored: Stored } | { op: "stored"; stored: Stored | null };

function account(name: string, question: Question, offer: Offer): unknown {
  if (question.op === "stored") {
    takeStored(name, question.stored);
    projectModels(name, registered.get(name)?.oauth, offer);
    return undefined;
  }
  const oauth = oauthOf(name);
  if (oauth === undefined) throw new Error(`the provider ${name} has no log-in`);
  return question.op === "log_in" ? logIn(oauth) : oauth.refresh(question.stored, AbortSignal.timeout(RENEW_TIME_MS));
}

/** Returns a provider's log-in functions, for either form of registration. */
function oauthOf(name: string): OAuth | undefined {
  const native = natives.get(name);
  if (native !== undefined) return native.auth?.oauth;
  const oauth = registered.get(name)?.oauth;
  return oauth && adapted(oauth);
}

/** Returns the authorisation of a request, from stored credentials or else the provider's own. */
async function authFor(name: string, config: Config): Promise<ModelAuth> {
  const known = storedFor(name);
  if (known?.type === "oauth") return (await oauthOf(name)?.toAuth(known)) ?? {};
  const native = natives.get(name)?.auth?.apiKey;
  if (native !== undefined) return (await native.resolve(asking(name)))?.auth ?? {};
  if (known !== undefined) return { apiKey: known.key };
  return { apiKey: typeof config.apiKey === "string" ? await valueOf(config.apiKey) : undefined };
}

/** Time limit of a renewal in milliseconds, as in pi. */
const RENEW_TIME_MS = 15_000;

/** Lists that `modifyModels` returned, by source list. */
const projected = new WeakMap<object, any[]>();

/** Lets a provider change its list for the current log-in, or restores the list. */
function projectModels(name: string, oauth: Config | undefined, offer: Offer): void {
  const config = registered.get(name);
  const current = config && modelsIn(config);
  if (current === undefined || typeof oauth?.modifyModels !== "function") return;
  const listed = projected.get(current) ?? current;
  const credential = storedFor(name);
  if (credential?.type !== "oauth") {
    if (listed !== current) offer(providerSpec(name, { models: listed }, offer));
    return;
  }
  const headers = new Map(listed.map((model) => [model.id, model.headers]));
  const completed = listed.map((model) => ({ ...copied(model), ...placeOf(name, config!, model), provider: name, headers: undefined }));
  const models = [...oauth.modifyModels(completed, { ...credential })];
  for (const model of models) model.headers ??= headers.get(model.id);
  projected.set(models, listed);
  offer(providerSpec(name, { models }, offer));
}

/** Returns a configuration for the host, with wrapped functions for it to call. */
function shown(name: string, config: Config, offer: Offer): Config {
  if (typeof config.refreshModels !== "function") return config;
  const refreshModels = refreshThrough({
    provider: name,
    run: (context) => config.refreshModels(context),
    async credential() {
      const known = storedFor(name);
      if (known?.type === "oauth") return known;
      const { apiKey } = await credentials(name, config);
      return apiKey === undefined ? undefined : { type: "api_key", key: apiKey };
    },
    put(models) {
      // The result is obsolete if the provider was removed or registered again.
      if (registered.get(name)?.refreshModels === config.refreshModels && Array.isArray(models)) offer(providerSpec(name, { models }, offer));
    },
  });
  return { ...config, refreshModels };
}


/** Returns the key and headers of a request: first those for all models, including the key's, then the model's. */
export async function credentials(name: string, config: Config, ofModel: Record<string, string> = {}): Promise<Credentials> {
  const auth = await authFor(name, config);
  const { apiKey, baseUrl } = auth;
  const headers: Record<string, string> = {};
  const add = async (given: Record<string, unknown> = {}): Promise<void> => {
    for (const [name, value] of Object.entries(given)) {
      const resolved = await valueOf(String(value));
      if (resolved !== undefined) headers[name] = resolved;
    }
  };
  await add(config.headers);
  for (const [header, value] of Object.entries(auth.headers ?? {})) {
    if (typeof value === "string") headers[header] = value;
  }
  if (config.authHeader && apiKey !== undefined) headers.Authorization = `Bearer ${apiKey}`;
  await add(ofModel);
  return { apiKey, headers, baseUrl };
}

/** Returns the authorisation of a registered provider that has its own key. */
export async function ownAuth(name: string): Promise<ModelAuth | undefined> {
  const config = registered.get(name);
  if (config === undefined || !bringsKey(name)) return undefined;
  const { apiKey, headers } = await credentials(name, config);
  return { apiKey, headers };
}

/** Returns the result of `getApiKeyAndHeaders` for a model whose provider has its own key. */
export async function authOf(name: string, modelId: string): Promise<object> {
  const config = registered.get(name) ?? {};
  const { apiKey, headers } = await credentials(name, config, modelsIn(config).find(({ id }) => id === modelId)?.headers);
  if (apiKey !== undefined) {
    return { ok: true, apiKey, headers: Object.keys(headers).length === 0 ? undefined : headers, env: undefined };
  }
  const what = `Failed to resolve API key for provider "${name}"`;
  if (typeof config.apiKey !== "string") return { ok: false, error: what };
  const names = variablesOf(config.apiKey);
  const plural = names.length === 1 ? "" : "s";
  const from = isCommand(config.apiKey)
    ? `shell command: ${config.apiKey.slice(1)}`
    : `environment variable${plural}: ${names.join(", ")}`;
  return { ok: false, error: `${what} from ${from}` };
}

/** Sends an update of a callback. */
export function updater(callbackId: string): { update(value: unknown): void } {
  return {
    update(value) {
      send({ type: "callback_update", payload: { callback_id: callbackId, value } });
    },
  };
}
