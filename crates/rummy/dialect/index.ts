/**
 * The rummy dialect in a realm: one hook tree, one tool registry and all plugins of a session.
 *
 * The module that `stage.rs` writes calls `dialect(options, sources)` and exports the result as the factory that the realm's
 * runtime calls. The factory registers the command `rummy`, whose handler receives the deliveries of the host:
 *
 * | op | members | value |
 * |---|---|---|
 * | `plugins` | | loaded plugins, tools, subscribers by hook |
 * | `init` | | the schemes for the store |
 * | `open` | `ref, facts, ticket` | creates a `rummy`, or updates the facts of an open one |
 * | `close` | `ref` | aborts its signal, and releases it with the objects that were shared in it |
 * | `emit` | `hook, args` | |
 * | `filter` | `hook, value, args` | the value |
 * | `call` | `path, args` | the result of the function that a plugin assigned; `absent` is set if there is none |
 * | `dispatch` | `scheme, entry, rummy` | `entry`, `stopped`, and `refused` if the store refused the handler |
 * | `view` | `rows` | a pair of views for each row |
 * | `toolset` | `mode, flags` | names |
 * | `rpc` | `method, params, context` | the method's result |
 * | `discover` | | methods and notifications |
 * | `foreign` | `tools, schemes, events, docs` | tools, handlers, subscribers and documentation of plugins in other realms |
 *
 * Arguments refer to objects of the realm: `{"$rummy": ref}`, `{"$shared": id, "value": ...}` (the same object for each
 * receiver of an id), `{"$set": [...]}`, `{"$db": true}`, `{"$entries": ticket}`. A request contains the `changes` of the host.
 * Each answer is `{value, faults, told}`, where `told` has the notifications of plugins to clients.
 *
 * Each plugin of another package has a separate realm with its own dialect. Then `emit`, `filter` and `dispatch` have `from` and
 * `to`, the priorities to call in this realm. An answer has `order`, the callable functions, if these changed, and `emitted`,
 * the events that plugins emitted and that other realms subscribe to.
 */

import type { Change } from "rummy:host";
import { bundled } from "./bundled/index.ts";
import { db, Entries, Refusal, storeOf } from "./entries.ts";
import { type Band, type Fault, HookRegistry } from "./hook_registry.ts";
import { createHooks, nodeAt } from "./hooks.ts";
import { Loader, type Loaded, type Source } from "./loader.ts";
import { profileOf } from "./profile.ts";
import { RummyContext, type TurnFacts } from "./rummy_context.ts";

export interface Options {
  profile: string;
  /** Passes errors of subscribers on, like rummy. */
  faithful?: boolean;
  /** Adds the bundled plugins. */
  bundled?: boolean;
  /** Names of plugins in other realms, which replace bundled ones of the same name. */
  taken?: string[];
  /** Name of the command that receives deliveries. */
  command?: string;
  /** Set when there are other realms. */
  isOneOfSeveral?: boolean;
}

/** The part of pi's API that the dialect uses. */
interface Api {
  registerCommand(name: string, options: { description: string; handler(request: any): unknown }): void;
}

interface Answer {
  value?: unknown;
  absent?: boolean;
  faults: Fault[];
  told?: Told[];
  order?: object;
  emitted?: { hook: string; args: unknown }[];
}

interface Told {
  hook: string;
  payload: unknown;
}

/** Events that plugins emit for clients. */
const FOR_CLIENTS = ["ui.render", "ui.notify", "stream.cancelled"];

export function dialect(options: Options, sources: readonly Source[]): (api: Api) => Promise<void> {
  const profile = profileOf(options.profile);
  const registry = new HookRegistry(options.faithful === true);
  const hooks = createHooks(profile, registry);
  const loader = new Loader(hooks, profile, registry);
  let loaded: Loaded[] = [];
  const foreign = { tools: new Set<string>(), events: new Set<string>(), docs: {} as Record<string, string> };
  const own = new Set(functionsOf(hooks));
  const { toolDocs } = hooks.instructions;
  toolDocs.filter = async (docs: object, ...args: unknown[]) => ({ ...(await registry.applyFilters("instructions.toolDocs", docs, ...args)), ...foreign.docs });
  const contexts = new Map<string, RummyContext>();
  const shared = new Map<string, any>();
  /** Notifications of changes, which are sent in order. They are not awaited. */
  let telling: Promise<void> = Promise.resolve();
  const changed = (change: Change) => {
    telling = telling.then(() => registry.emitBand("entry.changed", {}, [change])).catch(() => {});
  };

  /** Converts the host's references to objects of the realm. */
  function revive(value: any): any {
    if (value === null || typeof value !== "object") return value;
    if (Array.isArray(value)) return value.map(revive);
    if ("$rummy" in value) return contexts.get(value.$rummy);
    if ("$shared" in value) return sharedObject(value.$shared, value.value);
    if ("$set" in value) return new Set(value.$set);
    if ("$db" in value) return db;
    if ("$entries" in value) return storeOf(changed, value.$entries);
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, revive(member)]));
  }

  function sharedObject(id: string, value: any): any {
    const known = shared.get(id);
    if (known === undefined) {
      const made = revive(value) ?? {};
      shared.set(id, made);
      return made;
    }
    // The host's members replace earlier values; members that plugins added are kept.
    return value === undefined ? known : Object.assign(known, revive(value));
  }

  /** Converts a value for the host: objects of the realm become references. */
  function outgoing(value: any, above: object[] = []): any {
    if (value === null || typeof value !== "object") return typeof value === "function" ? undefined : value;
    if (value instanceof RummyContext || value === db || value === hooks || value instanceof Entries || above.includes(value)) return undefined;
    const within = [...above, value];
    if (value instanceof Set || Array.isArray(value)) return [...value].map((member) => outgoing(member, within) ?? null);
    if (value instanceof Map) return outgoing(Object.fromEntries(value), above);
    if (value instanceof Error) return { message: value.message };
    const members = Object.entries(value).map(([key, member]) => [key, outgoing(member, within)] as const);
    return Object.fromEntries(members.filter(([, member]) => member !== undefined));
  }

  async function views(rows: any[]): Promise<[string, string][]> {
    const shown: [string, string][] = [];
    for (const row of rows) {
      const named = row.scheme ?? "file";
      // Log entries of a tool without views are shown unchanged.
      const scheme = hooks.tools.hasView(named) || !String(row.path).startsWith("log://") ? named : "log";
      const at = (level: string) => registry.guarded(named, `view ${level}`, "", () =>
        hooks.tools.view(scheme, { ...row, [profile.viewMember]: level }));
      shown.push([await at(profile.views[0]), await at(profile.views[1])]);
    }
    return shown;
  }

  const ops: Record<string, (request: any) => unknown> = {
    plugins: () => ({ plugins: loaded, tools: hooks.tools.names, advertised: hooks.tools.advertisedNames, hooks: registry.counts() }),
    init: () => {
      for (const context of loader.contexts.values()) Object.assign(context, { db, entries: storeOf(changed) });
      return loader.schemes((name) => !foreign.tools.has(name));
    },
    open: ({ ref, facts, ticket }: { ref: string; facts: TurnFacts; ticket?: string }) => {
      const known = contexts.get(ref);
      const revived = revive(facts);
      if (known) known.adopt(revived);
      else contexts.set(ref, new RummyContext(revived, hooks, db, storeOf(changed, ticket)));
    },
    close: ({ ref }) => {
      contexts.get(ref)?.end();
      contexts.delete(ref);
      for (const id of [...shared.keys()]) if (id.startsWith(`${ref}/`)) shared.delete(id);
    },
    changes: () => null,
    emit: async ({ hook, args = [], ...band }) => {
      const revived = revive(args);
      await registry.emitBand(hook, band as Band, revived);
      // Only one realm forwards the host's notifications.
      if (options.command === undefined) tell(hook, revived[0]);
    },
    filter: ({ hook, value, args = [], ...band }) => registry.filterBand(hook, band as Band, revive(value), revive(args)),
    call: ({ path, args = [] }) => {
      const parent = nodeAt(hooks, path.split(".").slice(0, -1).join("."));
      const named = nodeAt(hooks, path);
      if (typeof named !== "function") return ABSENT;
      return Reflect.apply(named, parent, revive(args));
    },
    dispatch: async ({ scheme, entry, rummy, ...band }) => {
      const revived = revive(entry);
      try {
        const stopped = await hooks.tools.dispatchBand(scheme, band as Band, revived, revive(rummy));
        return { entry: revived, stopped };
      } catch (error) {
        // A refused handler has not crashed.
        if (!(error instanceof Refusal)) throw error;
        return { entry: revived, stopped: true, refused: { outcome: error.outcome, message: error.message } };
      }
    },
    view: ({ rows }) => views(rows),
    toolset: ({ mode, flags }) => hooks.tools.resolveForLoop(mode, flags),
    rpc: ({ method, params, context }) => {
      const found = hooks.rpc.registry.get(method);
      return found ? found.handler(params ?? {}, revive(context ?? {})) : ABSENT;
    },
    discover: () => hooks.rpc.registry.discover(),
    foreign: ({ tools = [], schemes = [], events = [], docs = {} }) => {
      for (const name of tools) {
        if (!hooks.tools.has(name)) foreign.tools.add(name);
        hooks.tools.ensureTool(name);
      }
      hooks.tools.foreign = new Set(schemes);
      foreign.events = new Set(events);
      foreign.docs = docs;
    },
  };

  let told: Told[] = [];
  const tell = (hook: string, payload: unknown) => {
    if (FOR_CLIENTS.includes(hook)) told.push({ hook, payload: outgoing(payload) ?? null });
  };

  const emitted: { hook: string; args: unknown }[] = [];
  registry.onEmit = (hook, args) => {
    tell(hook, args[0]);
    if (foreign.events.has(hook)) emitted.push({ hook, args: args.map((arg) => outgoing(arg) ?? null) });
  };

  /** Returns the callable functions, for a host that calls several realms in a single order. */
  const order = (): object => {
    const { names, advertisedNames } = hooks.tools;
    const isOwn = (name: string) => !foreign.tools.has(name);
    return {
      ...registry.priorities(), ...hooks.tools.registered(), tools: names.filter(isOwn), advertised: advertisedNames.filter(isOwn),
      calls: functionsOf(hooks).filter((name) => !own.has(name)),
    };
  };
  let said = -1;

  async function deliver(request: { op: string; changes?: Change[] }): Promise<Answer> {
    request.changes?.forEach(changed);
    const op = Object.hasOwn(ops, request.op) ? ops[request.op] : undefined;
    if (!op) throw new Error(`the dialect has no op "${request.op}"`);
    const value = await op(request);
    const answer: Answer = value === ABSENT ? { absent: true, faults: [] } : { value: outgoing(value) ?? null, faults: [] };
    answer.faults = registry.takeFaults();
    if (told.length > 0) [answer.told, told] = [told, []];
    if (emitted.length > 0) answer.emitted = emitted.splice(0);
    const version = registry.version + hooks.tools.version;
    if (options.isOneOfSeveral && (version !== said || request.op === "plugins")) {
      answer.order = order();
      said = version;
    }
    return answer;
  }

  return async (api) => {
    api.registerCommand(options.command ?? "rummy", { description: "Takes the deliveries of a rummy session.", handler: deliver });
    loaded = await loader.load(options.bundled ? [...bundled(sources, options.taken), ...sources] : sources);
  };
}

const ABSENT = Symbol("absent");

/** Returns the dotted names of the functions in the hook tree, three levels deep like the hooks. */
function functionsOf(tree: any, above = "", level = 0): string[] {
  if (tree === null || typeof tree !== "object" || level > 3 || Object.getPrototypeOf(tree) !== Object.prototype) return [];
  return Object.entries(tree).flatMap(([name, member]) =>
    typeof member === "function" ? [`${above}${name}`] : functionsOf(member, `${above}${name}.`, level + 1));
}
