/** `core`: the argument of a plugin's constructor, for registrations. It lives as long as the plugin. */

import { type Callback, DEFAULT_PRIORITY, type HookRegistry } from "./hook_registry.ts";
import { type Hooks, nodeAt } from "./hooks.ts";
import type { Profile, Scheme } from "./profile.ts";

const CATEGORIES = Object.freeze(new Set(["data", "logging", "unknown", "prompt"]));
const SCOPES = Object.freeze(new Set(["run", "project", "global"]));
const WRITERS = Object.freeze(new Set(["system", "plugin", "client", "model"]));

const must = (what: string, value: string, known: ReadonlySet<string>): void => {
  if (!known.has(value)) throw new Error(`registerScheme: ${what} "${value}" is none of ${[...known].join(", ")}`);
};

export interface SchemeOptions {
  name?: string;
  modelVisible?: number;
  category?: string;
  scope?: string;
  writableBy?: string[];
  [later: string]: unknown;
}

export class PluginContext {
  static readonly CATEGORIES = CATEGORIES;
  static readonly SCOPES = SCOPES;
  static readonly WRITERS = WRITERS;
  readonly #name: string;
  readonly #hooks: Hooks;
  readonly #profile: Profile;
  readonly #registry: HookRegistry;
  readonly #schemes: Scheme[] = [];
  /** The database; null until the store is available. */
  db: any = null;
  entries: any = null;

  constructor(name: string, hooks: Hooks, profile: Profile, registry: HookRegistry) {
    this.#name = name;
    this.#hooks = hooks;
    this.#profile = profile;
    this.#registry = registry;
  }

  get name(): string {
    return this.#name;
  }

  get hooks(): Hooks {
    return this.#hooks;
  }

  get schemes(): Scheme[] {
    return this.#schemes;
  }

  registerScheme(options: SchemeOptions = {}): void {
    const { name = this.#name, modelVisible = 1, category = "logging", scope = "run", writableBy = ["model", "plugin"] } = options;
    if (typeof name !== "string" || name === "") throw new Error(`registerScheme: the name ${String(name)} is no text`);
    if (!Array.isArray(writableBy)) throw new Error(`registerScheme: writableBy is a list of ${[...WRITERS].join(", ")}`);
    must("category", category, CATEGORIES);
    must("scope", scope, SCOPES);
    for (const writer of writableBy) must("writer", writer, WRITERS);
    const own = this.#profile.bootstrap.find((one) => one.name === name);
    if (own?.writable_by.join() === "system" && writableBy.join() !== "system") {
      throw new Error(`registerScheme: only pi writes ${name}://, register a scheme of another name`);
    }
    this.#schemes.push({ name, model_visible: Number(modelVisible), category, default_scope: scope, writable_by: [...writableBy] });
  }

  ensureTool(): void {
    this.#hooks.tools.ensureTool(this.#name);
  }

  markHidden(): void {
    this.#hooks.tools.markHidden(this.#name);
  }

  /** Registers a handler, a view, or a subscriber of an event. An unknown name has no effect. */
  on(event: string, callback: Callback, priority: unknown = DEFAULT_PRIORITY): void {
    if (event === "handler") {
      this.ensureTool();
      this.#hooks.tools.onHandle(this.#name, callback, priority);
    } else if (this.#profile.views.includes(event)) {
      this.#hooks.tools.onView(this.#name, callback, event);
    } else {
      this.#as(() => nodeAt(this.#hooks, event)?.on?.(callback, priority));
    }
  }

  filter(name: string, callback: Callback, priority: unknown = DEFAULT_PRIORITY): void {
    this.#as(() => nodeAt(this.#hooks, name)?.addFilter?.(callback, priority));
  }

  /** Registers on behalf of this plugin, regardless of the running code. */
  #as(register: () => void): void {
    const before = this.#registry.registering;
    this.#registry.registering = this.#name;
    try {
      register();
    } finally {
      this.#registry.registering = before;
    }
  }
}
