/**
 * `pi:pi/providers`: model providers that this extension registers.
 *
 * The configuration goes to the host as data; keys and functions stay here. When a request is made the
 * host asks for the key ({@link credentials}): a variable is read through the `env` hostcall and a
 * command runs through `exec`, so both need what any use of them needs. A stream function runs here, and
 * each of its events crosses by itself.
 */

import { facts, send } from "pi:engine";
import { call, callSync } from "pi:hostcall";
import { issueHandle, withHandles } from "pi:pi/handles";
import { refreshThrough } from "pi:pi/refreshing";
import type { AbortSignal } from "pi:web/abort";

type Config = Record<string, any>;

/** What was registered here and may not be in the catalogue yet. */
const registered = new Map<string, Config>();

/** Models of providers that were registered here, as pi completes them. */
export function localModels(): any[] {
  const models: any[] = [];
  for (const [provider, config] of registered) {
    for (const model of Array.isArray(config.models) ? config.models : []) {
      models.push({ ...plain(model), provider, api: model.api ?? config.api, baseUrl: model.baseUrl ?? config.baseUrl });
    }
  }
  return models;
}

/** Objects of pi-ai that were registered as they are. */
const natives = new Map<string, object>();

/** What was registered here under a name. */
export const configOf = (name: string): Config | undefined => (natives.has(name) ? undefined : registered.get(name));
export const nativeOf = (name: string): object | undefined => natives.get(name);

/** Sends what a provider is now. */
type Offer = (spec: { kind: string }) => void;

/** Offers a provider in either form, now and whenever its list changes: a name and its configuration, or a native one. */
export function offerProvider(provider: string | Config, config: Config, offer: Offer): void {
  if (typeof provider === "string") {
    natives.delete(provider);
    offer(providerSpec(provider, config, offer));
    return;
  }
  const name = String(provider?.id);
  natives.set(name, provider);
  offer(providerSpec(name, nativeConfig(provider), offer));
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
    apiKey: provider.apiKey ?? "native",
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

/** Takes a provider out again. */
export function forget(name: string): void {
  registered.delete(name);
  natives.delete(name);
}

/** Questions of stream functions that wait for the host. */
const waiting = new Map<number, (answer: unknown) => void>();
let questions = 0;

const reply = issueHandle((number: number, answer: unknown) => {
  const resolve = waiting.get(number);
  waiting.delete(number);
  resolve?.(answer);
});

/** What goes to the host for a provider. */
function providerSpec(name: string, config: Config, offer: Offer): { kind: string } {
  const known = registered.get(name);
  const merged = { ...known, ...Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined)) };
  registered.set(name, merged);
  const spec: Config = {
    kind: "provider",
    name,
    config: withHandles(shown(name, merged, offer)),
    configured: isConfigured(merged),
    credentials: issueHandle((model?: { headers?: Record<string, string> }) => credentials(merged, model?.headers)),
  };
  if (typeof merged.streamSimple === "function") {
    spec.stream = issueHandle(streamThrough(merged));
    spec.reply = reply;
  }
  return spec as { kind: string };
}

/** A configuration as the host gets it: what it calls itself is wrapped. */
function shown(name: string, config: Config, offer: Offer): Config {
  if (typeof config.refreshModels !== "function") return config;
  const refreshModels = refreshThrough({
    provider: name,
    run: (context) => config.refreshModels(context),
    async credential() {
      const { apiKey } = (await credentials(config)) as { apiKey?: string };
      return apiKey === undefined ? undefined : { type: "api_key", key: apiKey };
    },
    put(models) {
      // Withdrawn or registered anew meanwhile: then the list is of something that is gone.
      if (registered.get(name)?.refreshModels === config.refreshModels && Array.isArray(models)) offer(providerSpec(name, { models }, offer));
    },
  });
  return { ...config, refreshModels };
}

/** A variable that a key names: `$NAME` or `${NAME}`, or an upper-case name as pi 0.73 took it. */
function variableOf(key: string): string | undefined {
  const named = /^\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?$/.exec(key);
  if (named) return named[1];
  return /^[A-Z][A-Z0-9]*_[A-Z0-9_]+$/.test(key) ? key : undefined;
}

function isConfigured(config: Config): boolean {
  const key = config.apiKey;
  if (typeof key !== "string" || key === "") return false;
  const variable = variableOf(key);
  if (variable === undefined || !key.startsWith("$")) return true;
  try {
    return Boolean(callSync("env", "env", { op: "get", names: [variable] }).output.values?.[variable]);
  } catch {
    // Refused: then the key cannot be had.
    return false;
  }
}

async function valueOf(text: string): Promise<string | undefined> {
  if (text.startsWith("!")) {
    const answer = await call("exec", "exec", { command: "sh", args: ["-c", text.slice(1)], cwd: facts.cwd });
    return String(answer.output.stdout ?? "").trim() || undefined;
  }
  const variable = variableOf(text);
  if (variable === undefined) return text;
  const { values } = (await call("env", "env", { op: "get", names: [variable] })).output;
  return values?.[variable] ?? (text.startsWith("$") ? undefined : text);
}

/** Key and headers of a request; those of its model go before those of all. */
async function credentials(config: Config, ofModel: Record<string, string> = {}): Promise<object> {
  const apiKey = typeof config.apiKey === "string" ? await valueOf(config.apiKey) : undefined;
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries({ ...config.headers, ...ofModel })) {
    const resolved = await valueOf(String(value));
    if (resolved !== undefined) headers[name] = resolved;
  }
  if (config.authHeader && apiKey !== undefined) headers.Authorization = `Bearer ${apiKey}`;
  return { apiKey, headers };
}

/** The stream function as the host calls it: events are updates of the callback. */
function streamThrough(config: Config) {
  return async function streamSimple(
    this: { update(value: unknown): void },
    model: any,
    context: any,
    options: any,
    signal?: AbortSignal,
  ): Promise<void> {
    const { apiKey, headers } = (await credentials(config)) as { apiKey?: string; headers: Record<string, string> };
    const ask = (question: object): Promise<unknown> =>
      new Promise((resolve) => {
        const number = ++questions;
        waiting.set(number, resolve);
        this.update({ ...question, reply: number });
      });
    const settings = {
      ...options,
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
    const events = await config.streamSimple(model, context, settings);
    let counted: string | undefined;
    for await (const event of events) {
      // Only what is new crosses: the host keeps the rest itself.
      const usage = JSON.stringify(event?.partial?.usage);
      this.update(withoutPartial(event, usage !== counted));
      counted = usage;
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
