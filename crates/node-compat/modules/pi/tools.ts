/**
 * `pi:pi/tools`: an extension's view of all tools, and of those that the model may call.
 *
 * The readable state has the tools of the agent's last update. This realm's newer registrations go to the host at the end of its
 * turn, but an extension that registers a tool and then looks it up or selects it finds it at once.
 */

import { state } from "pi:engine";
import { callSync } from "pi:hostcall";

export interface ToolInfo {
  name: string;
  description?: unknown;
  parameters?: unknown;
  promptGuidelines?: unknown;
  sourceInfo: { path: string; [member: string]: unknown };
}

interface Since {
  /** The agent's last update; from the next one on, the state is complete. */
  taken: unknown;
  registered: ToolInfo[];
  /** Names of the new tools that become active by themselves. */
  active: string[];
  /** Whether this realm selected tools, so that later registrations are added to the selection. */
  chosen: boolean;
}

let since: Since = { taken: undefined, registered: [], active: [], chosen: false };

function pending(): Since {
  const taken = state().set.toolsTaken;
  if (since.taken !== taken) since = { taken, registered: [], active: [], chosen: false };
  return since;
}

const known = (): ToolInfo[] => state().set.tools ?? [];

/** Returns all tools, active or not. A tool takes the position of an earlier one with its name. */
export function allTools(): ToolInfo[] {
  const { registered } = pending();
  const later = new Map(registered.map((tool) => [tool.name, tool]));
  const all = known().map((tool) => later.get(tool.name) ?? tool);
  return [...all, ...registered.filter(({ name }) => !all.some((tool) => tool.name === name))];
}

/** Returns names of the tools that the model may call. */
export function activeTools(): string[] {
  const { active } = pending();
  const said: string[] = state().set.activeTools ?? [];
  return [...said, ...active.filter((name) => !said.includes(name))];
}

/** Selects the active tools. Unknown names are ignored. */
export function chooseTools(names: string[]): void {
  const there = new Set(allTools().map(({ name }) => name));
  const since = pending();
  callSync("session", "session.control", { op: "set_active_tools", names: names.filter((name) => there.has(name)) });
  since.active = [];
  since.chosen = true;
}

/** Records a registered tool. One of another extension with its name is kept. */
export function noteTool(tool: ToolInfo): void {
  const { registered, active, chosen } = pending();
  const earlier = known().find(({ name }) => name === tool.name);
  const { path } = earlier?.sourceInfo ?? tool.sourceInfo;
  if (path !== tool.sourceInfo.path && path !== `<builtin:${tool.name}>`) return;
  const at = registered.findIndex(({ name }) => name === tool.name);
  if (at >= 0) registered[at] = tool;
  else registered.push(tool);
  if (earlier || at >= 0) return;
  if (chosen) chooseTools([...activeTools(), tool.name]);
  else active.push(tool.name);
}

/** Returns the source information for the tools of a file. */
export function sourceOf(path: string): ToolInfo["sourceInfo"] {
  const { tools, commands } = state().set;
  const found = [...(tools ?? []), ...(commands ?? [])].find((other) => other.sourceInfo?.path === path);
  return found?.sourceInfo ?? { path, source: "cli", scope: "temporary", origin: "top-level" };
}
