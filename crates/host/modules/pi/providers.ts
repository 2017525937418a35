/**
 * `pi:pi/providers`: model providers that this extension registers.
 *
 * The configuration goes to the host as data; keys and functions stay here. When a request is made the
 * host asks for the key ({@link credentials}): a variable is read through the `env` hostcall and a
 * command runs through `exec`, so both need what any use of them needs. A stream function runs here, and
 * each of its events crosses by itself.
 */

import { facts, send, state } from "pi:engine";
import { call, callSync } from "pi:hostcall";
import { type ModelAuth, type OAuth, type Stored, adapted, logIn, storedFor, takeStored } from "pi:pi/accounts";
import { issueHandle, withHandles } from "pi:pi/handles";
import { builtinModels } from "pi:pi/models";
import { hasTemplates } from "pi:pi/profile";
import { sendError } from "pi:pi/errors";
import { refreshThrough } from "pi:pi/refreshing";
import { AbortController, AbortSignal } from "pi:web/abort";

type Config = Record<string, any>;

/** What was registered here and may not be in the catalogue yet. */
const registered = new Map<string, Config>();

/** Models of providers that were registered here, as pi completes them: headers are added when a request is made. */
export function localModels(): any[] {
  const models: any[] = [];
  for (const [provider, config] of registered) {
    for (const model of modelsIn(config)) {
      const { api, baseUrl } = placeOf(provider, config, model);
      models.push({ ...plain(model), api, provider, baseUrl, headers: undefined });
    }
  }
  return models;
}

const modelsIn = (config: Config): any[] => (Array.isArray(config.models) ? config.models : []);

/** How and where a model is spoken to: what neither it nor its provider says is as with a model of pi's own that is like it. */
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

/** What a configuration lacks, in pi's words. */
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

/** Objects of pi-ai that were registered as they are. */
const natives = new Map<string, Config>();
/** Those of them whose `auth` has said that there is a key. */
const withKey = new WeakSet<object>();

/** What was registered here under a name. */
export const configOf = (name: string): Config | undefined => (natives.has(name) ? undefined : registered.get(name));
export const nativeOf = (name: string): object | undefined => natives.get(name);
/** Whether a provider was registered here, in either form. */
export const isRegistered = (name: string): boolean => registered.has(name);
/** Whether a provider brings its key, or somebody stored one for it. */
export const bringsKey = (name: string): boolean =>
  typeof registered.get(name)?.apiKey === "string" || withKey.has(natives.get(name) ?? {}) || storedFor(name) !== undefined;

/** How many stream functions of each provider are at work. */
const streaming = new Map<string, number>();
export const isStreaming = (name: string): boolean => (streaming.get(name) ?? 0) > 0;

/** Sends what a provider is now. */
type Offer = (spec: { kind: string }) => void;

/**
 * Offers a provider in either form, now and whenever its list changes: a name and its configuration, or a native one.
 * While the factory runs nobody looks at it yet: what is wrong with it is said by the host when all is loaded.
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

/** What a native provider finds its key with. */
const surroundings = {
  async env(name: string): Promise<string | undefined> {
    try {
      return callSync("env", "env", { op: "get", names: [name] }).output.values?.[name] || undefined;
    } catch {
      // Refused: then it is not there.
      return undefined;
    }
  },
  async fileExists(path: string): Promise<boolean> {
    try {
      callSync("fs", "read", { op: "access", path: path.replace(/^~(?=\/|$)/, facts.homedir) });
      return true;
    } catch {
      return false;
    }
  },
};

/** What its `auth` is asked with: what a person stored, if it is a key. */
function asking(name: string): object {
  const known = storedFor(name);
  const credential = known?.type === "api_key" ? known : undefined;
  return { ctx: surroundings, credential, signal: new AbortController().signal };
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

/** The list of a native provider as it is now. */
function nativeModels(provider: Config): any {
  if (typeof provider.getModels === "function") return provider.getModels();
  return typeof provider.models === "function" ? provider.models() : provider.models;
}

/** A native provider of pi-ai, as far as it can be one here: its models, its key, its stream function. */
function nativeConfig(provider: Config): Config {
  const models = nativeModels(provider);
  const streamSimple = provider.streamSimple ?? provider.api?.streamSimple;
  return {
    name: provider.name,
    baseUrl: provider.baseUrl ?? models?.[0]?.baseUrl ?? "http://localhost",
    apiKey: provider.apiKey ?? (provider.auth === undefined ? "native" : undefined),
    ...(provider.auth?.oauth ? { oauth: { name: provider.auth.oauth.name, login: provider.auth.oauth.login } } : {}),
    api: (typeof provider.api === "string" ? provider.api : models?.[0]?.api) ?? String(provider.id),
    models,
    ...(typeof streamSimple === "function" ? { streamSimple: streamSimple.bind(provider.api ?? provider) } : {}),
    ...(typeof provider.refreshModels === "function" ? { refreshModels: looksUp(provider) } : {}),
  };
}

/** A native provider keeps its list itself. */
function looksUp(provider: Config): (context: object) => Promise<unknown> {
  return async (context) => {
    await provider.refreshModels(context);
    return nativeModels(provider);
  };
}

/** Providers that were taken out, and the list of the state that still has them. */
const withdrawn = new Map<string, unknown>();

/** Takes a provider out again. */
export function forget(name: string): void {
  if (registered.delete(name)) withdrawn.set(name, state().set.models);
  natives.delete(name);
}

/** Forgets what was registered: the next session has providers of its own. */
export function forgetAll(): void {
  registered.clear();
  natives.clear();
  withdrawn.clear();
}

/** Whether what the state says of a provider was taken out since. */
export const isWithdrawn = (name: string): boolean =>
  withdrawn.has(name) && withdrawn.get(name) === state().set.models && !registered.has(name);

/** Questions of stream functions that wait for the host. */
const waiting = new Map<number, (answer: unknown) => void>();
let questions = 0;

const reply = issueHandle((number: number, answer: unknown) => {
  const resolve = waiting.get(number);
  waiting.delete(number);
  resolve?.(answer);
});

/** What goes to the host for a provider. */
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
    spec.stream = issueHandle(streamThrough(name, merged));
    spec.reply = reply;
  }
  return spec as { kind: string };
}

/** What the host asks about an account with a provider. */
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

/** The log-in of a provider, whichever way it was registered. */
function oauthOf(name: string): OAuth | undefined {
  const native = natives.get(name);
  if (native !== undefined) return native.auth?.oauth;
  const oauth = registered.get(name)?.oauth;
  return oauth && adapted(oauth);
}

/** What lets a request in: what is stored comes first, then what the provider brings along. */
async function authFor(name: string, config: Config): Promise<ModelAuth> {
  const known = storedFor(name);
  if (known?.type === "oauth") return (await oauthOf(name)?.toAuth(known)) ?? {};
  const native = natives.get(name)?.auth?.apiKey;
  if (native !== undefined) return (await native.resolve(asking(name)))?.auth ?? {};
  if (known !== undefined) return { apiKey: known.key };
  return { apiKey: typeof config.apiKey === "string" ? await valueOf(config.apiKey) : undefined };
}

/** Renewing takes no longer; pi's figure. */
const RENEW_TIME_MS = 15_000;

/** Lists that `modifyModels` made, and what of. */
const projected = new WeakMap<object, any[]>();

/** Has a provider change its list by who is logged in, or change it back. */
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
  const completed = listed.map((model) => ({ ...plain(model), ...placeOf(name, config!, model), provider: name, headers: undefined }));
  const models = [...oauth.modifyModels(completed, { ...credential })];
  for (const model of models) model.headers ??= headers.get(model.id);
  projected.set(models, listed);
  offer(providerSpec(name, { models }, offer));
}

/** A configuration as the host gets it: what it calls itself is wrapped. */
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
      // Withdrawn or registered anew meanwhile: then the list is of something that is gone.
      if (registered.get(name)?.refreshModels === config.refreshModels && Array.isArray(models)) offer(providerSpec(name, { models }, offer));
    },
  });
  return { ...config, refreshModels };
}

/** A text that is written into a configuration: literal pieces, and variables. */
type Piece = { text: string } | { variable: string };

/** Reads `$NAME` and `${NAME}`; `$$` and `$!` are one character each. pi 0.73 took the name of a variable, or the text. */
function piecesOf(text: string): Piece[] {
  if (!hasTemplates) return /^[A-Z][A-Z0-9]*_[A-Z0-9_]+$/.test(text) ? [{ variable: text }] : [{ text }];
  const pieces: Piece[] = [];
  const pattern = /\$(?:([$!])|\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))/g;
  let from = 0;
  for (const { 0: whole, 1: literal, 2: braced, 3: bare, index } of text.matchAll(pattern)) {
    pieces.push({ text: text.slice(from, index) + (literal ?? "") });
    const variable = braced ?? bare;
    if (variable !== undefined) pieces.push({ variable });
    from = index + whole.length;
  }
  return [...pieces, { text: text.slice(from) }];
}

const isCommand = (text: string): boolean => text.startsWith("!");
const variablesOf = (text: string): string[] => [
  ...new Set(piecesOf(text).flatMap((piece) => ("variable" in piece ? [piece.variable] : []))),
];

function isConfigured(config: Config): boolean {
  const key = config.apiKey;
  if (typeof key !== "string" || key === "") return false;
  const names = isCommand(key) || !hasTemplates ? [] : variablesOf(key);
  if (names.length === 0) return true;
  try {
    const { values } = callSync("env", "env", { op: "get", names }).output;
    return names.every((name) => Boolean(values?.[name]));
  } catch {
    // Refused: then the key cannot be had.
    return false;
  }
}

/** pi's `AuthStatus` of a provider that brings its key along. */
export function statusOf(config: Config): object | undefined {
  const { apiKey } = config;
  if (typeof apiKey !== "string") return undefined;
  if (isCommand(apiKey)) return { configured: true, source: "models_json_command" };
  const names = hasTemplates ? variablesOf(apiKey) : [];
  if (names.length === 0) return { configured: true, source: "fallback" };
  return isConfigured(config) ? { configured: true, source: "environment", label: names.join(", ") } : { configured: false };
}

async function valueOf(text: string): Promise<string | undefined> {
  if (isCommand(text)) {
    const answer = await call("exec", "exec", { command: "sh", args: ["-c", text.slice(1)], cwd: facts.cwd });
    return String(answer.output.stdout ?? "").trim() || undefined;
  }
  const names = variablesOf(text);
  if (names.length === 0) return piecesOf(text).map((piece) => ("text" in piece ? piece.text : "")).join("");
  const { values } = (await call("env", "env", { op: "get", names })).output;
  if (!hasTemplates) return values?.[names[0]!] ?? text;
  if (!names.every((name) => values?.[name])) return undefined;
  return piecesOf(text).map((piece) => ("text" in piece ? piece.text : values[piece.variable])).join("");
}

interface Credentials {
  apiKey: string | undefined;
  headers: Record<string, string>;
  /** Where the key is good, when that is another place than the model's. */
  baseUrl: string | undefined;
}

/** Key and headers of a request: those of all its models first, the key as one, then those of the model. */
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

/** The same for a provider that was registered here and brings its key. */
export async function ownAuth(name: string): Promise<ModelAuth | undefined> {
  const config = registered.get(name);
  if (config === undefined || !bringsKey(name)) return undefined;
  const { apiKey, headers } = await credentials(name, config);
  return { apiKey, headers };
}

/** What `getApiKeyAndHeaders` says of a provider that brings its key along, for one of its models. */
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

/** The stream function as the host calls it: events are updates of the callback. */
function streamThrough(name: string, config: Config) {
  return async function streamSimple(
    this: { update(value: unknown): void },
    { headers: ofModel, ...model }: any,
    context: any,
    options: any,
    signal?: AbortSignal,
  ): Promise<void> {
    const { apiKey, headers, baseUrl } = await credentials(name, config, ofModel);
    const ask = (question: object): Promise<unknown> =>
      new Promise((resolve) => {
        const number = ++questions;
        waiting.set(number, resolve);
        this.update({ ...question, reply: number });
      });
    const settings = {
      ...options,
      sessionId: state().set.session?.id,
      apiKey,
      headers: { ...headers, ...options?.headers },
      signal,
      async onPayload(payload: unknown): Promise<unknown> {
        const answer = await ask({ type: "payload", payload: plain(payload) });
        return answer ?? undefined;
      },
      async onResponse(response: { status?: number; headers?: object }): Promise<void> {
        await ask({ type: "response", status: response?.status ?? 200, headers: plain(response?.headers ?? {}) });
      },
    };
    streaming.set(name, (streaming.get(name) ?? 0) + 1);
    try {
      const moved = baseUrl === undefined ? {} : { baseUrl };
      const events = await config.streamSimple({ ...model, ...moved, headers: undefined }, context, settings);
      let counted: string | undefined;
      for await (const event of events) {
        // Only what is new crosses: the host keeps the rest itself.
        const usage = JSON.stringify(event?.partial?.usage);
        this.update(withoutPartial(event, usage !== counted));
        counted = usage;
      }
    } finally {
      streaming.set(name, streaming.get(name)! - 1);
    }
  };
}

function withoutPartial(event: any, counts: boolean): unknown {
  if (typeof event !== "object" || event === null) return event;
  const { partial, ...rest } = event;
  if (counts) rest.usage = partial?.usage;
  const block = partial?.content?.[event.contentIndex];
  const wanted = event.type?.startsWith("toolcall_") || event.type === "thinking_end";
  if (wanted && block !== undefined) rest.block = block;
  return plain(rest);
}

function plain(value: unknown): any {
  const text = JSON.stringify(value);
  return text === undefined ? undefined : JSON.parse(text);
}

/** Sends an update of a callback. */
export function updater(callbackId: string): { update(value: unknown): void } {
  return {
    update(value) {
      send({ type: "callback_update", payload: { callback_id: callbackId, value } });
    },
  };
}
