/**
 * `pi:pi/mcp-servers`: the MCP servers that extensions register, with pi 1.5's interface.
 *
 * A registration goes to the host, which connects the server under the extension's grants. The readable state omits the
 * variables and headers of other extensions' servers, but is complete for those of this realm.
 */

import { state } from "pi:engine";
import type { Entry } from "pi:pi/entry";
import { jsonOf } from "pi:pi/plain";

interface RegisteredServer {
  name: string;
  config: Record<string, unknown>;
  extensionPath: string;
}

const own = new Map<string, RegisteredServer>();

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isTexts = (value: unknown): boolean => isRecord(value) && Object.values(value).every((text) => typeof text === "string");
/** Returns the prefix of tool names. Servers whose names differ only in `-` and `_` would share it. */
const namespace = (name: string): string => name.replaceAll("-", "_");

const FIELDS: readonly (readonly [string, (value: unknown) => boolean, string])[] = [
  ["enabled", (value) => typeof value === "boolean", "enabled must be a boolean"],
  ["description", (value) => typeof value === "string", "description must be a string"],
  ["timeout", (value) => typeof value === "number" && value > 0, "timeout must be a positive number of seconds"],
  ["headers", isTexts, "headers must map names to strings"],
  ["oauth", isRecord, "oauth must be an object"],
  ["args", (value) => Array.isArray(value) && value.every((arg) => typeof arg === "string"), "args must be an array of strings"],
  ["env", isTexts, "env must map names to strings"],
  ["cwd", (value) => typeof value === "string", "cwd must be a string"],
];

/** Returns the error in an entry. The host checks the entry again. */
function problemOf(name: string, raw: unknown): string | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(name)) return `invalid server name "${name}" (use letters, digits, "_" and "-")`;
  if (!isRecord(raw)) return `server "${name}" must be an object`;
  const { type, url, command } = raw;
  if (type === "sse") return `server "${name}": legacy SSE transport is not supported; use the streamable HTTP URL`;
  for (const [field, fits, problem] of FIELDS) {
    if (raw[field] !== undefined && !fits(raw[field])) return `server "${name}": ${problem}`;
  }
  const isHttp = typeof url === "string" && (type === undefined || type === "http" || type === "streamable-http");
  if (isHttp) return /^https?:\/\//i.test(url) ? undefined : `server "${name}": url must be an http or https URL`;
  if (typeof command === "string" && (type === undefined || type === "stdio")) return undefined;
  return `server "${name}" needs either "command" (stdio) or "url" (streamable HTTP)`;
}

/** Returns all registered servers in registration order. */
export function registeredServers(): RegisteredServer[] {
  const told: RegisteredServer[] = state().set.mcpServers ?? [];
  const others = told.filter(({ name }) => !own.has(name));
  return jsonOf([...others, ...own.values()]) as RegisteredServer[];
}

/** Registers a server for an entry. Throws pi's error if it is invalid. */
export function registerServer(entry: Entry, name: string, config: unknown): void {
  const problem = problemOf(name, config);
  if (problem !== undefined) throw new Error(`Invalid MCP server registered by extension "${entry.path}": ${problem}`);
  const all = registeredServers();
  const owner = all.find((server) => server.name === name)?.extensionPath;
  if (owner !== undefined && owner !== entry.path) {
    throw new Error(`MCP server "${name}" is already registered by extension "${owner}"`);
  }
  const clash = all.find((server) => server.name !== name && namespace(server.name) === namespace(name));
  if (clash) throw new Error(`MCP server "${name}" conflicts with registered server "${clash.name}"`);
  const copy = jsonOf(config) as Record<string, unknown>;
  own.set(name, { name, config: copy, extensionPath: entry.path });
  entry.onFailure(() => own.delete(name));
  entry.register({ kind: "mcp_server", name, config: copy });
}

/** Removes a server that this entry registered; ignores others. */
export function withdrawServer(entry: Entry, name: string): void {
  if (own.get(name)?.extensionPath !== entry.path) return;
  own.delete(name);
  entry.register({ kind: "mcp_server_removed", name });
}

/** Drops the servers of an earlier run of the same entry. */
export function forgetServers(path: string): void {
  for (const [name, server] of own) if (server.extensionPath === path) own.delete(name);
}
