/**
 * `pi:pi/names`: property names that most extensions and most messages share.
 *
 * The engine interns each name with a reference count. A worker is a fork, and a memory page that it writes to becomes
 * private: if these names were spread over many pages, each worker would copy all of them. This module is evaluated first,
 * so that the names are adjacent. It has no other purpose; a missing name only costs memory.
 */

/** Names in the messages of every realm come first, since the engine fills pages in order. */
const names = {
  // Names in the readable state
  session: 0, entries: 0, systemPrompt: 0, systemPromptOptions: 0, thinkingLevel: 0, projectTrusted: 0, contextUsage: 0,
  scopedModels: 0, activeTools: 0, toolsTaken: 0, commands: 0, models: 0, model: 0, tools: 0, cwd: 0, mode: 0, hasUI: 0,
  isIdle: 0, hasPendingMessages: 0, version: 0, timestamp: 0, persisted: 0, header: 0, dir: 0, file: 0, id: 0, leafId: 0,
  parentId: 0, absent: 0, count: 0, partial: 0, provider: 0, api: 0, baseUrl: 0, reasoning: 0, cost: 0, cacheRead: 0,
  cacheWrite: 0, contextWindow: 0, maxTokens: 0, active: 0, loading: 0, resolved: 0,
  // Names that almost every extension uses
  pi: 0, on: 0, ctx: 0, event: 0, args: 0, ui: 0, handler: 0, description: 0, registerCommand: 0, registerTool: 0,
  session_start: 0, session_shutdown: 0, turn_end: 0, turn_start: 0, agent_end: 0, agent_start: 0, tool_call: 0,
  tool_result: 0, before_agent_start: 0, notify: 0, setStatus: 0, exec: 0, name: 0, label: 0, parameters: 0, execute: 0,
  type: 0, path: 0, text: 0, content: 0, details: 0, message: 0, messages: 0, reason: 0, block: 0, toolName: 0, input: 0,
  command: 0, signal: 0, params: 0, onUpdate: 0, result: 0, n: 0, e: 0, i: 0, s: 0, op: 0, key: 0, value: 0, code: 0, root: 0,
  kind: 0, data: 0, role: 0, output: 0,
  // Other names in registrations, events and requests
  events: 0, emit: 0, off: 0, once: 0, default: 0, options: 0, shortcut: 0, renderCall: 0, renderResult: 0,
  promptSnippet: 0, promptGuidelines: 0, registerFlag: 0, getFlag: 0, registerShortcut: 0, registerMessageRenderer: 0,
  registerProvider: 0, sendMessage: 0, sendUserMessage: 0, appendEntry: 0, setSessionName: 0, getActiveTools: 0,
  getAllTools: 0, setActiveTools: 0, setModel: 0, getThinkingLevel: 0, setThinkingLevel: 0, sessionManager: 0,
  modelRegistry: 0, abort: 0, compact: 0, select: 0, confirm: 0, setWidget: 0, custom: 0, theme: 0, getEntries: 0,
  getBranch: 0, getSessionFile: 0, context: 0, session_before_compact: 0, session_compact: 0, session_before_switch: 0,
  message_start: 0, message_update: 0, message_end: 0, tool_execution_start: 0, tool_execution_update: 0,
  tool_execution_end: 0, model_select: 0, user_bash: 0, stream_text: 0, isError: 0, toolCallId: 0, prompt: 0, images: 0,
  action: 0, customType: 0, display: 0, settings: 0,
};

/** Keeps the names referenced. */
export function keep(): object {
  return names;
}
