/**
 * `pi:pi/tools`: which tools there are, and which of them the model may call, as an extension sees it.
 *
 * The readable state says it as the agent last took it over. What this realm registered since then goes to the host with the
 * end of its turn; an extension that registers a tool and looks for it in the next line, or chooses it, finds it all the same.
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
  /** When the agent last took over what is registered: once it does so again, it says what is there. */
  taken: unknown;
  registered: ToolInfo[];
  /** Of these the new ones, which become active by themselves. */
  active: string[];
  /** Whether somebody chose here: what is registered after a choice is chosen, too. */
  chosen: boolean;
}

let since: Since = { taken: undefined, registered: [], active: [], chosen: false };

function pending(): Since {
  const taken = state().set.toolsTaken;
  if (since.taken !== taken) since = { taken, registered: [], active: [], chosen: false };
  return since;
}

const known = (): ToolInfo[] => state().set.tools ?? [];

/** Every tool, active or not. A tool stands where one of its name stood. */
export function allTools(): ToolInfo[] {
  const { registered } = pending();
  const later = new Map(registered.map((tool) => [tool.name, tool]));
  const all = known().map((tool) => later.get(tool.name) ?? tool);
  return [...all, ...registered.filter(({ name }) => !all.some((tool) => tool.name === name))];
}

/** Names of the tools that the model may call. */
export function activeTools(): string[] {
  const { active } = pending();
  const said: string[] = state().set.activeTools ?? [];
  return [...said, ...active.filter((name) => !said.includes(name))];
}

/** Chooses the active tools; names of no tool are ignored. */
export function chooseTools(names: string[]): void {
  const there = new Set(allTools().map(({ name }) => name));
  const since = pending();
  callSync("session", "session.control", { op: "set_active_tools", names: names.filter((name) => there.has(name)) });
  since.active = [];
  since.chosen = true;
}

/** A tool was registered in the session. One of another extension that has its name stays what it is. */
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

/** Where the tools of an extension's file come from. */
export function sourceOf(path: string): ToolInfo["sourceInfo"] {
  const { tools, commands } = state().set;
  const found = [...(tools ?? []), ...(commands ?? [])].find((other) => other.sourceInfo?.path === path);
  return found?.sourceInfo ?? { path, source: "cli", scope: "temporary", origin: "top-level" };
}
