/**
 * `pi:pi/connectors`: `pi.tool`, `pi.http`, `pi.fs`, `pi.env`, `pi.log` and `pi.session`, the
 * connector surface (docs/spec/hostcalls.md). Each method makes one hostcall; a refusal rejects with a
 * `HostcallError` whose `code` belongs to the taxonomy.
 */

import { attach, bytesOf, call, callSync, HostcallError } from "pi:hostcall";
import type { Answer, Params } from "pi:hostcall";
import { log as writeLog } from "pi:web/console";
import type { AbortSignal } from "pi:web/abort";

interface Options {
  signal?: AbortSignal;
  timeout?: number;
}

function options(given: Options | undefined, bytes?: Uint8Array[]): object {
  return { signal: given?.signal, timeoutMs: given?.timeout, bytes };
}

/** Capabilities of the built-in tools; any other tool needs `tool`. */
const TOOL_CAPABILITIES: Record<string, string> = {
  read: "read",
  grep: "read",
  find: "read",
  ls: "read",
  write: "write",
  edit: "write",
  bash: "exec",
};

/** Runs a tool of the host. */
export async function tool(name: string, input: object = {}, settings?: Options): Promise<unknown> {
  const capability = Object.hasOwn(TOOL_CAPABILITIES, name) ? TOOL_CAPABILITIES[name]! : "tool";
  return (await call("tool", capability, { name, input }, options(settings))).output;
}

export interface HttpRequest extends Options {
  url: string;
  method?: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  redirect?: string;
}

export interface HttpResponse {
  status: number;
  statusText: string;
  headers: [string, string][];
  url: string;
  redirected: boolean;
  body: Uint8Array;
}

/** Makes an HTTP request. The body of the response is decoded bytes. */
export async function http(request: HttpRequest): Promise<HttpResponse> {
  const { signal: _signal, timeout: _timeout, body, ...params } = request;
  const bytes: Uint8Array[] = [];
  const sent = body === undefined ? {} : { body: typeof body === "string" ? body : attach(bytes, body) };
  const answer = await call("http", "http", { ...params, decode: true, ...sent }, options(request, bytes));
  return { ...answer.output, body: bytesOf(answer, answer.output.body) ?? new Uint8Array() };
}

/** Returns environment variables by name; unset ones are missing in the result. */
export async function env(...names: string[]): Promise<Record<string, string>> {
  return (await call("env", "env", { op: "get", names })).output.values;
}

function fsCall(capability: string, op: Params<"fs">["op"], params: object, bytes?: Uint8Array[]): Promise<Answer> {
  return call("fs", capability, { op, ...params } as Params<"fs">, options(undefined, bytes));
}

/** File operations on paths relative to the working folder. */
export const fs = {
  async readFile(path: string): Promise<Uint8Array> {
    const answer = await fsCall("read", "readFile", { path });
    return bytesOf(answer, answer.output.data) ?? new Uint8Array();
  },
  async readText(path: string): Promise<string> {
    return (await fsCall("read", "readFile", { path, encoding: "utf8" })).output.text;
  },
  async writeFile(path: string, data: string | Uint8Array): Promise<void> {
    const bytes: Uint8Array[] = [];
    await fsCall("write", "writeFile", { path, data: typeof data === "string" ? data : attach(bytes, data) }, bytes);
  },
  async appendFile(path: string, data: string | Uint8Array): Promise<void> {
    const bytes: Uint8Array[] = [];
    await fsCall("write", "appendFile", { path, data: typeof data === "string" ? data : attach(bytes, data) }, bytes);
  },
  async exists(path: string): Promise<boolean> {
    return (await fsCall("read", "exists", { path })).output.exists;
  },
  async stat(path: string): Promise<Record<string, unknown>> {
    return (await fsCall("read", "stat", { path })).output;
  },
  async readdir(path: string): Promise<string[]> {
    return (await fsCall("read", "readdir", { path })).output.entries.map((entry: { name: string }) => entry.name);
  },
  async mkdir(path: string, settings: { recursive?: boolean } = {}): Promise<void> {
    await fsCall("write", "mkdir", { path, ...settings });
  },
  async remove(path: string, settings: { recursive?: boolean; force?: boolean } = {}): Promise<void> {
    await fsCall("write", "rm", { path, ...settings });
  },
};

type Level = "debug" | "info" | "warn" | "error";
const LEVELS: readonly string[] = ["debug", "info", "warn", "error"];

/** Writes to the extension's log, which the ledger contains. */
export function log(level: Level, event: string, data?: unknown): void {
  if (!LEVELS.includes(level)) {
    throw new TypeError(`pi.log: level must be one of ${LEVELS.join(", ")}, not ${String(level)}`);
  }
  const text = String(event);
  writeLog(level, text, text);
  const members = data === undefined ? {} : { data };
  try {
    // Synchronous, so that lines are in the ledger in the order of the calls.
    callSync("log", "log", { level, event: text, message: text, ...members });
  } catch (error) {
    // The ledger records a refusal. Data without a JSON form is the caller's mistake.
    if (!(error instanceof HostcallError)) throw error;
  }
}
