/**
 * `pi:pi/native-providers`: providers of pi-ai, registered unchanged. They manage their own lists, and their `auth` finds the key.
 */

import { facts } from "pi:engine";
import { callSync } from "pi:hostcall";
import { storedFor } from "pi:pi/accounts";
import { AbortController } from "pi:web/abort";

type Config = Record<string, any>;

/** The environment in which a native provider searches its key. */
const surroundings = {
  async env(name: string): Promise<string | undefined> {
    try {
      return callSync("env", "env", { op: "get", names: [name] }).output.values?.[name] || undefined;
    } catch {
      // A refused read is treated as a missing variable.
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

/** Returns the argument of `auth`, which includes a stored credential if it is a key. */
export function asking(name: string): object {
  const known = storedFor(name);
  const credential = known?.type === "api_key" ? known : undefined;
  return { ctx: surroundings, credential, signal: new AbortController().signal };
}

/** Returns the current list of a native provider. */
function nativeModels(provider: Config): any {
  if (typeof provider.getModels === "function") return provider.getModels();
  return typeof provider.models === "function" ? provider.models() : provider.models;
}

/**
 * Returns the parts of a native provider's configuration that a realm supports: its models, its key and its stream
 * function.
 */
export function nativeConfig(provider: Config): Config {
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

/** Returns the function that refreshes a native provider, which manages its list itself. */
function looksUp(provider: Config): (context: object) => Promise<unknown> {
  return async (context) => {
    await provider.refreshModels(context);
    return nativeModels(provider);
  };
}
