/**
 * Loads plugins: all are imported first, then constructed one after another in the order of discovery.
 *
 * A plugin that cannot be imported or constructed is skipped with a warning. A module whose default export is neither a class
 * nor has a static `register` is not a plugin.
 */

import { type HookRegistry, messageOf } from "./hook_registry.ts";
import type { Hooks } from "./hooks.ts";
import { PluginContext } from "./plugin_context.ts";
import type { Profile, Scheme } from "./profile.ts";

/** A discovered plugin. */
export interface Source {
  name: string;
  path: string;
  load(): Promise<{ default?: any }>;
}

/** The outcome of loading a plugin. */
export interface Loaded {
  name: string;
  path: string;
  kind: "class" | "register" | "none" | "failed";
  error?: string;
  schemes: string[];
}

const LOAD_LIMIT_MS = 10_000;

async function inTime<T>(what: string, promise: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than ${LOAD_LIMIT_MS / 1000} s`)), LOAD_LIMIT_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

export class Loader {
  readonly contexts = new Map<string, PluginContext>();
  readonly #hooks: Hooks;
  readonly #profile: Profile;
  readonly #registry: HookRegistry;

  constructor(hooks: Hooks, profile: Profile, registry: HookRegistry) {
    this.#hooks = hooks;
    this.#profile = profile;
    this.#registry = registry;
  }

  async load(sources: readonly Source[]): Promise<Loaded[]> {
    const imported: { source: Source; Plugin?: any; error?: unknown }[] = [];
    for (const source of sources) {
      try {
        const module = await inTime(`importing ${source.path}`, source.load());
        imported.push({ source, Plugin: module.default });
      } catch (error) {
        imported.push({ source, error });
      }
    }
    const loaded: Loaded[] = [];
    for (const { source, Plugin, error } of imported) {
      const { name, path } = source;
      try {
        if (error !== undefined) throw error;
        const kind = await this.#construct(name, path, Plugin);
        loaded.push({ name, path, kind, schemes: this.contexts.get(name)?.schemes.map((scheme) => scheme.name) ?? [] });
      } catch (thrown) {
        const message = messageOf(thrown);
        console.warn(`[rummy] the plugin ${name} (${path}) is not loaded: ${message}`);
        loaded.push({ name, path, kind: "failed", error: message, schemes: [] });
      }
    }
    return loaded;
  }

  async #construct(name: string, path: string, Plugin: any): Promise<Loaded["kind"]> {
    this.#registry.registering = name;
    try {
      if (typeof Plugin?.register === "function") {
        await inTime(`register of ${path}`, Promise.resolve(Plugin.register(this.#hooks)));
        return "register";
      }
      if (typeof Plugin !== "function") return "none";
      const context = new PluginContext(name, this.#hooks, this.#profile, this.#registry);
      new Plugin(context);
      this.contexts.set(name, context);
      return "class";
    } finally {
      this.#registry.registering = "";
    }
  }

  /** Returns the schemes for the store: of the dialect, of plugins, and one for each tool of theirs without a scheme. */
  schemes(isOwn: (tool: string) => boolean = () => true): Scheme[] {
    const all = [...this.#profile.bootstrap];
    for (const context of this.contexts.values()) all.push(...context.schemes);
    const known = new Set(all.map((scheme) => scheme.name));
    for (const name of this.#hooks.tools.names.filter((name) => isOwn(name) && !known.has(name))) {
      all.push({ name, model_visible: 1, category: "logging", default_scope: "run", writable_by: ["model", "plugin"] });
    }
    return all;
  }
}
