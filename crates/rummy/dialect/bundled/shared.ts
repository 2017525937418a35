/** Helpers for several bundled plugins. */

import type { PluginContext } from "../plugin_context.ts";
import { attributesOf } from "../tool_registry.ts";

export type Core = PluginContext;
export type Rummy = any;
/** A recorded command of the model; `resultPath` is the path of its log entry. */
export interface Action {
  scheme: string;
  path: string;
  body: string;
  attributes: any;
  resultPath: string;
}

/** Returns whether a path names a file of the project, and not an entry of a scheme. */
export const isFile = (path: string): boolean => !/^[a-z][a-z0-9+.-]*:\/\//i.test(path);

export const isGlob = (path: string): boolean => /[*?[\]]/.test(path);

/** Splits a log path into its parts: `log://turn_3/set/a%2Fb` has the action `set` and the rest `a%2Fb`. */
export function loggedAction(path: string): { action: string; rest: string; turn: string } | undefined {
  const found = /^log:\/\/turn_(\d+)\/([^/]+)\/(.*)$/.exec(path);
  return found ? { turn: found[1]!, action: found[2]!, rest: found[3]! } : undefined;
}

export const attributes = (entry: any): Record<string, any> => attributesOf(entry);

/** Finalises the log entry of an action. The body is the result, or a description of the failure. */
export async function finish(rummy: Rummy, entry: Action, body: string, more: Record<string, unknown> = {}): Promise<void> {
  const { outcome = null, attributes: kept = {} } = more as { outcome?: string | null; attributes?: object };
  const state = (more.state as string | undefined) ?? (outcome === null ? "resolved" : "failed");
  const place = { runId: rummy.runId, turn: rummy.sequence, loopId: rummy.loopId, projectId: rummy.projectId };
  await rummy.entries.set({ ...place, path: entry.resultPath, body, state, outcome, visibility: "visible", attributes: { ...entry.attributes, ...kept } });
}

export const failed = (rummy: Rummy, entry: Action, outcome: string, body: string): Promise<void> => finish(rummy, entry, body, { outcome });

/** Escapes the value of an attribute in a tag. */
export const escaped = (text: unknown): string =>
  String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

const shownAttributes = (pairs: Record<string, unknown>): string =>
  Object.entries(pairs).map(([name, value]) => (value === undefined || value === null || value === "" ? "" : ` ${name}="${escaped(value)}"`)).join("");

/** Formats a tag with its body; a tag without a body is self-closing. */
export function tag(name: string, pairs: Record<string, unknown>, body = ""): string {
  const open = `<${name}${shownAttributes(pairs)}`;
  return body === "" ? `${open}/>` : `${open}>${body.includes("\n") ? `\n${body}\n` : body}</${name}>`;
}

/** Appends a block to the content of an assembly, unless the block is empty. */
export function block(content: string, name: string, tags: string[]): string {
  return tags.length === 0 ? content : `${content}${content === "" ? "" : "\n"}<${name}>\n${tags.join("\n")}\n</${name}>`;
}

/** Returns the HTTP status for a state, as the model sees it. */
export function statusOf(row: { state?: string; outcome?: string | null }): number {
  const named = /\b\d{3}\b/.exec(row.outcome ?? "")?.[0];
  if (named) return Number(named);
  return { resolved: 200, proposed: 202, streaming: 102, cancelled: 499 }[row.state ?? "resolved"] ?? 500;
}

/** Adds the documentation of a tool to the system prompt. */
export function documents(core: Core, lines: string[]): void {
  core.filter("instructions.toolDocs", async (docs: Record<string, string>) => {
    docs[core.name] = lines.join("\n");
    return docs;
  });
}

/** Registers a tool: the scheme of its log entries, views, handler and documentation. */
export function tool(core: Core, docs: string[], handler?: (entry: Action, rummy: Rummy) => unknown): void {
  core.ensureTool();
  core.registerScheme({ category: "logging" });
  core.on("visible", (entry: any) => entry.body);
  core.on("summarized", () => "");
  if (handler) core.on("handler", handler);
  if (docs.length > 0) documents(core, docs);
}
