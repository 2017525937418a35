/**
 * `@earendil-works/pi-coding-agent` and `@mariozechner/pi-coding-agent`: the values that extensions import from pi in addition to
 * its types. A missing name is `undefined`, and `extc` warns about it.
 */

import { absent } from "pi:node/refuse";

export { CONFIG_DIR_NAME, getAgentDir, getDocsPath, getExamplesPath, getPackageDir, getReadmePath, VERSION } from "pi:pi/replaced/config";
export { readStoredCredential } from "pi:pi/replaced/auth-storage";

/** Replaces members that start whole programs, since an extension already runs inside one. */
const program = (name: string, advice: string) => absent(`@earendil-works/pi-coding-agent.${name}`, advice);
export const InteractiveMode = program("InteractiveMode", "the terminal is the session's; draw with ctx.ui.custom, setWidget or setFooter");
export const runRpcMode = program("runRpcMode", "standard input is the session's; start `pi --mode rpc` with RpcClient");
export const main = program("main", "start `pi` with pi.exec or RpcClient, or a sub-agent with createAgentSession");

/** Limits on the output of built-in tools. */
export const DEFAULT_MAX_LINES = 2000;
export const DEFAULT_MAX_BYTES = 50 * 1024;

/** Returns the tool definition unchanged; its types are checked at compile time. */
export function defineTool<T>(tool: T): T {
  return tool;
}

interface ToolEvent {
  toolName: string;
}

export function isToolCallEventType(toolName: string, event: ToolEvent): boolean {
  return event.toolName === toolName;
}

export const isBashToolResult = (event: ToolEvent): boolean => event.toolName === "bash";
export const isPowerShellToolResult = (event: ToolEvent): boolean => event.toolName === "powershell";
export const isReadToolResult = (event: ToolEvent): boolean => event.toolName === "read";
export const isEditToolResult = (event: ToolEvent): boolean => event.toolName === "edit";
export const isWriteToolResult = (event: ToolEvent): boolean => event.toolName === "write";
export const isGrepToolResult = (event: ToolEvent): boolean => event.toolName === "grep";
export const isFindToolResult = (event: ToolEvent): boolean => event.toolName === "find";
export const isLsToolResult = (event: ToolEvent): boolean => event.toolName === "ls";
