/**
 * Registry of tools: their names, handlers, and the views of their entries for the model.
 *
 * Handlers of a scheme run in ascending priority until one returns exactly `false`. Tools that `resolveForLoop` leaves out are
 * not advertised, but a tag of such a tool that the model writes is still dispatched.
 */

import { type Band, type Callback, DEFAULT_PRIORITY, insertByPriority, placeOf, prioritiesOf } from "./hook_registry.ts";
import type { Profile } from "./profile.ts";

/** Order of the tools: gather, reason, act, communicate; `update` comes last. */
const ORDER = [
  "think", "unknown", "known", "get", "set", "env", "sh", "rm", "cp", "mv", "ask_user", "search",
];
const LAST = "update";

const rank = (name: string): number => {
  if (name === LAST) return ORDER.length + 1;
  const at = ORDER.indexOf(name);
  return at < 0 ? ORDER.length : at;
};

export interface LoopFlags {
  noInteraction?: boolean;
  noWeb?: boolean;
  noProposals?: boolean;
}

export class ToolRegistry {
  readonly #tools = new Map<string, object>();
  readonly #hidden = new Set<string>();
  readonly #handlers = new Map<string, { handler: Callback; priority: number }[]>();
  readonly #views = new Map<string, Map<string, Callback>>();
  readonly #profile: Profile;
  /** Schemes whose handlers run in another realm. */
  foreign: ReadonlySet<string> = new Set();
  /** Number of registrations. */
  version = 0;

  constructor(profile: Profile) {
    this.#profile = profile;
  }

  ensureTool(name: string): void {
    if (this.#tools.has(name)) return;
    this.#tools.set(name, Object.freeze({ name }));
    this.version += 1;
  }

  markHidden(name: string): void {
    this.#hidden.add(name);
    this.version += 1;
  }

  get(name: string): object | undefined {
    return this.#tools.get(name);
  }

  has(name: string): boolean {
    return this.#tools.has(name);
  }

  entries(): IterableIterator<[string, object]> {
    return this.#tools.entries();
  }

  onHandle(scheme: string, handler: Callback, priority: unknown = DEFAULT_PRIORITY): void {
    const place = placeOf(`handler of ${scheme}`, handler, priority);
    let list = this.#handlers.get(scheme);
    if (!list) this.#handlers.set(scheme, (list = []));
    insertByPriority(list, { handler, priority: place });
    this.version += 1;
  }

  hasHandler(scheme: string): boolean {
    return this.#handlers.has(scheme);
  }

  /** Sets the view of a scheme at one level. The last one that is set is used. */
  onView(scheme: string, view: Callback, level: string = this.#profile.views[0]): void {
    placeOf(`view of ${scheme}`, view, 0);
    let views = this.#views.get(scheme);
    if (!views) this.#views.set(scheme, (views = new Map()));
    views.set(level, view);
    this.version += 1;
  }

  hasView(scheme: string): boolean {
    return this.#views.has(scheme);
  }

  async view(scheme: string, entry: any): Promise<string> {
    const views = this.#views.get(scheme);
    if (!views && this.#profile.missingViewThrows) {
      throw new Error(`the scheme "${scheme}" has no view; register one with core.on("${this.#profile.views[0]}", ...)`);
    }
    const level = entry?.[this.#profile.viewMember] ?? this.#profile.views[0];
    const view = views?.get(level);
    const tags = this.#profile.viewFallback && level === this.#profile.views[1] ? attributesOf(entry)[this.#profile.viewFallback] : undefined;
    const shown = view ? await view(entry) : undefined;
    return [tags, shown].filter((part) => typeof part === "string" && part !== "").join("\n");
  }

  /** Runs the handlers of a scheme. A scheme without handlers is not an error. */
  async dispatch(scheme: string, entry: unknown, rummy: unknown): Promise<void> {
    if (this.foreign.has(scheme)) {
      throw new Error(`the handlers of "${scheme}" run in a realm of their own: write the entry with rummy.set, or have the model write the tag`);
    }
    await this.dispatchBand(scheme, {}, entry, rummy);
  }

  /** Runs the handlers of a band. Returns whether one of them stopped the chain. */
  async dispatchBand(scheme: string, { from, to }: Band, entry: unknown, rummy: unknown): Promise<boolean> {
    for (const { handler, priority } of this.#handlers.get(scheme) ?? []) {
      if (priority < (from ?? -Infinity) || priority > (to ?? Infinity)) continue;
      if ((await handler(entry, rummy)) === false) return true;
    }
    return false;
  }

  /** Returns the priorities of the handlers of each scheme, and the schemes with views. */
  registered(): { handlers: Record<string, number[]>; views: string[] } {
    const handlers = Object.fromEntries([...this.#handlers].map(([scheme, list]) => [scheme, prioritiesOf(list)]));
    return { handlers, views: [...this.#views.keys()] };
  }

  get names(): string[] {
    return [...this.#tools.keys()].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : Number(a > b)));
  }

  get advertisedNames(): string[] {
    return this.names.filter((name) => !this.#hidden.has(name));
  }

  /** Returns the tools that a loop advertises. */
  resolveForLoop(mode: string, { noInteraction = false, noWeb = false, noProposals = false }: LoopFlags = {}): Set<string> {
    const excluded = new Set<string>();
    if (mode === "ask") excluded.add("sh");
    if (noInteraction) excluded.add("ask_user");
    if (noWeb) excluded.add("search");
    if (noProposals) ["ask_user", "env", "sh"].forEach((name) => excluded.add(name));
    return new Set(this.advertisedNames.filter((name) => !excluded.has(name)));
  }
}

/** Returns the attributes of an entry, which the store passes as an object or as JSON. */
export function attributesOf(entry: any): Record<string, any> {
  const { attributes } = entry ?? {};
  if (typeof attributes !== "string") return attributes ?? {};
  try {
    return JSON.parse(attributes) ?? {};
  } catch {
    return {};
  }
}
