/**
 * The hook tree that all plugins share: `hooks.turn.started.on(...)`, `hooks.assembly.user.addFilter(...)`, and objects that
 * plugins assign functions to (`hooks.hedberg`, `hooks.instructions.resolveSystemPrompt`). It is a single object in the realm,
 * so other plugins call the function that one plugin assigns.
 */

import { type Callback, HookRegistry } from "./hook_registry.ts";
import type { Profile } from "./profile.ts";
import { RpcRegistry } from "./rpc_registry.ts";
import { ToolRegistry } from "./tool_registry.ts";

export interface Hooks {
  tools: ToolRegistry;
  rpc: { registry: RpcRegistry; [hook: string]: any };
  llm: { providers: any[]; [hook: string]: any };
  [name: string]: any;
}

/** Creates the hook tree of a profile, on top of a registry. */
export function createHooks(profile: Profile, registry: HookRegistry): Hooks {
  const tree: any = {};
  for (const tag of profile.namespaces) place(tree, tag, {});
  for (const tag of profile.events) {
    place(tree, tag, {
      on: (callback: Callback, priority?: unknown) => registry.addEvent(tag, callback, priority),
      off: (callback: Callback) => registry.removeEvent(tag, callback),
      emit: (...args: unknown[]) => registry.emitEvent(tag, ...args),
    });
  }
  for (const tag of profile.filters) {
    place(tree, tag, {
      addFilter: (callback: Callback, priority?: unknown) => registry.addFilter(tag, callback, priority),
      removeFilter: (callback: Callback) => registry.removeFilter(tag, callback),
      filter: (value: unknown, ...args: unknown[]) => registry.applyFilters(tag, value, ...args),
    });
  }
  tree.tools = new ToolRegistry(profile);
  tree.rpc.registry = new RpcRegistry(tree.tools);
  tree.llm.providers = [];
  for (const name of ["onTurn", "processTurn", "addFilter", "applyFilters", "addEvent", "emitEvent"] as const) {
    tree[name] = (registry[name] as Callback).bind(registry);
  }
  return tree;
}

/** Returns the node at a dotted name; undefined if there is none. */
export function nodeAt(tree: any, tag: string): any {
  return tag.split(".").reduce((node, part) => (node !== null && typeof node === "object" && Object.hasOwn(node, part) ? node[part] : undefined), tree);
}

function place(tree: any, tag: string, node: object): void {
  const parts = tag.split(".");
  const last = parts.pop()!;
  let parent = tree;
  for (const part of parts) parent = parent[part] ??= {};
  parent[last] = Object.assign(parent[last] ?? {}, node);
}
