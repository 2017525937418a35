/**
 * `pi:pi/tools`: an extension's view of the tools, and of those that the model may call.
 *
 * The readable state has them as of the agent's last update. This realm's newer registrations go to the host at the end of its
 * turn; an extension that registers a tool and looks it up, or selects it, in the next line finds it nevertheless.
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
  /** The agent's last update: after the next one the state is complete. */
  taken: unknown;
  registered: ToolInfo[];
  /** The new ones among these, which become active by themselves. */
  active: string[];
  /** Whether a selection was made here: later registrations are added to it. */
  chosen: boolean;
}

let since: Since = { taken: undefined, registered: [], active: [], chosen: false };

function pending(): Since {
  const taken = state().set.toolsTaken;
  if (since.taken !== taken) since = { taken, registered: [], active: [], chosen: false };
  return since;
}

const known = (): ToolInfo[] => state().set.tools ?? [];

/** Returns every tool, active or not. A tool takes the position of an earlier one of its name. */
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

/** Selects the active tools; unknown names are ignored. */
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

/** Returns the source information of a file's tools. */
export function sourceOf(path: string): ToolInfo["sourceInfo"] {
  const { tools, commands } = state().set;
  const found = [...(tools ?? []), ...(commands ?? [])].find((other) => other.sourceInfo?.path === path);
  return found?.sourceInfo ?? { path, source: "cli", scope: "temporary", origin: "top-level" };
}
