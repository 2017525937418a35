/**
 * `pi:runtime`: the entry points for the engine, one function per kind of task. None of them throws, whatever an extension does,
 * since an exception that leaves this module is a defect of the host.
 *
 * Every task answers through messages: `register` or `error` for `load`, `event_result` for
 * `event_hook`, and so on, in the turn in which the answer is known. If a handler answers without
 * waiting, the message is sent in the same turn.
 */

import "pi:pi/names";
import "pi:web";
import "pi:pi/constants";
import { send } from "pi:engine";
import { failure, onResult, onTimer } from "pi:hostcall";
import { createApi } from "pi:pi/api";
import { arrive, deafen } from "pi:pi/bus";
import { createCommandContext, createContext, withSystemPrompt } from "pi:pi/ctx";
import { Entry } from "pi:pi/entry";
import { errorReport, sendError } from "pi:pi/errors";
import { grown } from "pi:pi/growing-message";
import { byHandle, withHandles } from "pi:pi/handles";
import { setRoot } from "pi:pi/location";
import { forgetServers } from "pi:pi/mcp-servers";
import { forgetHandlers } from "pi:pi/own-handlers";
import { checksBashAnswers, promptOptions, withMembers } from "pi:pi/profile";
import { forgetAll, updater } from "pi:pi/providers";
import { abortSignal, signalOf } from "pi:pi/signals";
import { retire } from "pi:pi/stale";
import { removeStreamHandler, removeStreamHandlers, resume, stream } from "pi:pi/stream";
import { nameKeys } from "pi:pi/tui";
import { leaveScreen } from "pi:pi/ui";
import { TextDecoder } from "pi:web/encoding";
import { enter } from "pi:web/contexts";
import { runTicks } from "pi:web/ticks";
import { exiting, tellUncaught, tellUnhandled } from "pi:web/uncaught";

const loaded: ReturnType<typeof run>[] = [];

/** Id of the realm's extension. */
let extension = "";

/** Captured before an extension can replace it. */
const { stringify } = JSON;

/** Runs a function. Passes its value, or the value of its promise, to one callback, and its error to the other. */
function settle(run: () => unknown, onValue: (value: any) => void, onFailure: (error: unknown) => void): void {
  // A call that ends because pi exits has no answer, and has not failed.
  const onError = (error: unknown) => (error === exiting ? guardedAnswer(onValue, onFailure)(undefined) : onFailure(error));
  let result: any;
  try {
    result = run();
    if (typeof result === "object" && result !== null && typeof result.then === "function") {
      Promise.resolve(result).then(guardedAnswer(onValue, onError), onError);
      return;
    }
  } catch (error) {
    onError(error);
    return;
  }
  guardedAnswer(onValue, onError)(result);
}

/** Wraps a callback: an answer that cannot be sent (a cycle, a getter that throws) is an error of the extension. */
function guardedAnswer(onValue: (value: any) => void, onError: (error: unknown) => void): (value: any) => void {
  return (value) => {
    try {
      onValue(value);
    } catch (error) {
      onError(error);
    }
  };
}

/** Returns the default export. A CommonJS module has it one level deeper, with or without a mark by the compiler. */
function defaultOf(value: any): unknown {
  if (typeof value !== "object" || value === null) return value;
  return value.__esModule === true || typeof value.default === "function" ? value.default : value;
}

/** Creates the objects for one run of a factory. */
function run(index: number) {
  const entry = new Entry(index);
  const ctx = createContext(index);
  return { entry, ctx, commandCtx: createCommandContext(index), api: createApi(entry, ctx) };
}

/**
 * The objects of the first run, created in advance: workers are forked after this, and need not create them. Workers also
 * keep them, since freeing memory that processes share would copy it.
 */
let first: ReturnType<typeof run> | undefined = run(0);

function load(payload: { entry: number; module: string; path: string; extension: string; root?: string }): void {
  extension = payload.extension;
  setRoot(payload.root);
  const loading = (payload.entry === 0 ? first : undefined) ?? run(payload.entry);
  first = undefined;
  loaded[payload.entry] = loading;
  const { entry, api } = loading;
  entry.path = payload.path;
  forgetServers(payload.path);
  const failed = (message: string, error?: unknown) => {
    entry.fail();
    const report = errorReport(error, "load", entry.index);
    send({ type: "error", payload: { ...report, message: message.toWellFormed() } });
  };
  const threw = (error: unknown) => failed(`Failed to load extension: ${errorReport(error, "load").message}`, error);
  settle(
    () => import(payload.module),
    (namespace: { default?: unknown }) => {
      const factory = defaultOf(namespace.default);
      if (typeof factory !== "function") {
        failed(`Extension does not export a valid factory function: ${payload.path}`);
        return;
      }
      settle(() => factory(api), () => entry.ready(), threw);
    },
    threw,
  );
}

/** Replaces each member `{"$signal": n}` with the signal. */
function revive(value: any): any {
  const isSignal = typeof value === "object" && value !== null && typeof value.$signal === "number";
  return isSignal ? signalOf(value.$signal) : value;
}

const NO_BASH_ANSWER =
  "Invalid user_bash handler result: return undefined for local execution or exactly one valid { operations } or { result } object";

/** Returns whether an answer decides about a command: by operations or by a result, but not by both. */
function decidesBash(value: any): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { operations, result } = value;
  if ((operations === undefined) === (result === undefined)) return false;
  if (operations !== undefined) return typeof operations?.exec === "function";
  const isOptional = (member: unknown, type: string) => member === undefined || typeof member === type;
  return (
    typeof result === "object" &&
    result !== null &&
    typeof result.output === "string" &&
    "exitCode" in result &&
    isOptional(result.exitCode, "number") &&
    typeof result.cancelled === "boolean" &&
    typeof result.truncated === "boolean" &&
    isOptional(result.fullOutputPath, "string")
  );
}

/** Converts a `user_bash` handler's answer: functions become handles, and `exec` reports its output. */
function withOperations(value: any, entry: number): unknown {
  const exec = value?.operations?.exec;
  if (typeof exec !== "function") return withHandles(value);
  const decoder = new TextDecoder();
  function run(this: { update(value: unknown): void }, command: string, cwd: string, signal: unknown): unknown {
    const onData = (data: Uint8Array | string) =>
      this.update(typeof data === "string" ? data : decoder.decode(data, { stream: true }));
    return exec.call(value.operations, command, cwd, { onData, signal });
  }
  return { operations: { exec: withHandles(run) }, $entry: entry, $extension: extension };
}

/** Events whose own object counts, rather than one that a handler returns instead: pi keeps the object. */
const HANDED_IN = new Set([
  "before_agent_start",
  "before_provider_headers",
  "before_provider_request",
  "context",
  "context_with_system",
  "tool_call",
]);

/**
 * Returns the changes inside a tool's result. pi passes its own lists and objects to handlers, so changes inside them count,
 * regardless of what a handler returns.
 */
function withChangesInside(event: Record<string, any>, value: unknown, before: { key: string; value: unknown; text: string }[]): unknown {
  const returned: Record<string, unknown> = typeof value === "object" && value !== null ? { ...value } : {};
  let counts = false;
  for (const { key, value: given, text } of before) {
    if (typeof given !== "object" || given === null || event[key] !== given || returned[key] !== undefined) continue;
    if (stringify(given) === text) continue;
    returned[key] = given;
    counts = true;
  }
  return counts ? returned : value;
}

/** Members of pi's events that may be undefined, in pi's order; JSON omits them. */
const MEMBERS: Record<string, string[]> = {
  before_agent_start: ["prompt", "images", "systemPrompt"],
  input: ["text", "images", "source", "streamingBehavior"],
  model_select: ["model", "previousModel", "source"],
  session_before_compact: ["preparation", "branchEntries", "customInstructions", "reason", "willRetry", "signal"],
  session_before_switch: ["reason", "targetSessionFile"],
  session_compact_failed: ["reason", "errorMessage", "aborted", "willRetry", "fromExtension"],
  session_tree: ["newLeafId", "oldLeafId", "summaryEntry", "fromExtension"],
  tool_result: ["toolName", "toolCallId", "input", "content", "details", "isError", "usage"],
};

/** Members that may be undefined in events only if one session replaces another. */
const REPLACING: Record<string, string[]> = {
  session_shutdown: ["reason", "targetSessionFile"],
  session_start: ["reason", "previousSessionFile"],
};
const REPLACEMENTS = new Set(["fork", "new", "resume"]);

/** Members that may be undefined in an object inside an event. */
const INSIDE: Record<string, [member: string, names: readonly string[]]> = {
  before_agent_start: ["systemPromptOptions", promptOptions],
  session_before_compact: [
    "preparation",
    [
      "firstKeptEntryId", "messagesToSummarize", "turnPrefixMessages", "isSplitTurn", "tokensBefore", "previousSummary", "fileOps",
      "settings",
    ],
  ],
  session_before_tree: [
    "preparation",
    [
      "targetId", "oldLeafId", "commonAncestorId", "entriesToSummarize", "userWantsSummary", "customInstructions",
      "replaceInstructions", "label",
    ],
  ],
};

/** Members that may be undefined in a tool's result as a message. */
const RESULT = ["role", "toolCallId", "toolName", "content", "details", "usage", "isError", "timestamp"];

/** Returns a message in pi's form. */
const wholeMessage = (value: any) => (value?.role === "toolResult" ? withMembers(RESULT, value) : value);

function eventHook(payload: {
  event_id: string;
  entry: number;
  handle: number;
  event: string;
  payload: Record<string, any>;
  mutable?: string[];
}): void {
  const replacing = REPLACEMENTS.has(payload.payload.reason) ? REPLACING[payload.event] : undefined;
  const event = withMembers(["type", ...(replacing ?? MEMBERS[payload.event] ?? [])], { type: payload.event });
  const members = payload.event === "message_update" ? grown(payload.payload as Parameters<typeof grown>[0]) : payload.payload;
  for (const key of Object.keys(members)) event[key] = revive(members[key]);
  const [inside, names] = INSIDE[payload.event] ?? ["", []];
  if (event[inside]) event[inside] = withMembers(names, event[inside]);
  if ("message" in event) event.message = wholeMessage(event.message);
  if (Array.isArray(event.toolResults)) event.toolResults = event.toolResults.map(wholeMessage);
  const before = (payload.mutable ?? []).map((key) => ({ key, value: event[key], text: stringify(event[key]) }));
  const changed = () => {
    const changes: Record<string, unknown> = {};
    for (const { key, value, text } of before) {
      const now = HANDED_IN.has(payload.event) ? value : event[key];
      if (stringify(now) !== text) changes[key] = now;
    }
    return changes;
  };
  const { ctx } = loaded[payload.entry]!;
  const context =
    payload.event === "before_agent_start" ? withSystemPrompt(ctx, () => event.systemPrompt ?? "") : ctx;
  const answer = (members: object) => {
    send({ type: "event_result", payload: { event_id: payload.event_id, changed: changed(), ...members } });
  };
  const failed = (error: unknown) => {
    const report = errorReport(error, payload.event, payload.entry);
    try {
      answer({ error: report });
    } catch {
      // The changed members could not be sent.
      send({ type: "event_result", payload: { event_id: payload.event_id, error: report } });
    }
  };
  settle(
    () => byHandle(payload.handle)(event, context),
    (returned) => {
      const value = payload.event === "tool_result" ? withChangesInside(event, returned, before) : returned;
      if (value === undefined) answer({});
      // Null is a valid body, but as an answer it would count as none.
      else if (value === null && payload.event === "before_provider_request") answer({ changed: { payload: null } });
      else if (payload.event !== "user_bash") answer({ value });
      else if (!checksBashAnswers && !value) answer({});
      else if (checksBashAnswers && !decidesBash(value)) failed(new Error(NO_BASH_ANSWER));
      else answer({ value: withOperations(value, payload.entry) });
    },
    failed,
  );
}

function toolCall(payload: {
  tool_call_id: string;
  entry: number;
  handle: number;
  input: unknown;
  signal?: number;
}): void {
  const id = payload.tool_call_id;
  const signal = payload.signal === undefined ? undefined : signalOf(payload.signal);
  const onUpdate = (partial: unknown) => send({ type: "tool_update", payload: { tool_call_id: id, partial: partial ?? null } });
  settle(
    () => byHandle(payload.handle)(id, payload.input, signal, onUpdate, loaded[payload.entry]!.ctx),
    (output) => send({ type: "tool_result", payload: { tool_call_id: id, output: output ?? null, is_error: false } }),
    (error) =>
      send({
        type: "tool_result",
        payload: { tool_call_id: id, output: null, is_error: true, error: errorReport(error, "tool", payload.entry) },
      }),
  );
}

function slashCommand(payload: { slash_command_id: string; entry: number; handle: number; args: string }): void {
  const id = payload.slash_command_id;
  settle(
    () => {
      nameKeys();
      return byHandle(payload.handle)(payload.args, loaded[payload.entry]!.commandCtx);
    },
    () => send({ type: "slash_result", payload: { slash_command_id: id } }),
    (error) =>
      send({
        type: "slash_result",
        payload: { slash_command_id: id, error: errorReport(error, "command", payload.entry) },
      }),
  );
}

function callback(payload: { callback_id: string; entry: number; handle: number; args: unknown[] }): void {
  const id = payload.callback_id;
  settle(
    () => byHandle(payload.handle).apply(updater(id), payload.args.map(revive)),
    (value) => send({ type: "callback_result", payload: { callback_id: id, ...(value === undefined ? {} : { value }) } }),
    (error) =>
      send({
        type: "callback_result",
        payload: { callback_id: id, error: errorReport(error, "callback", payload.entry) },
      }),
  );
}

/** Retires the current code of this package, whose factories may run again for the next session. */
function retireAll(): void {
  // A component may still perform actions in its `dispose`.
  leaveScreen();
  retire();
  deafen();
  removeStreamHandlers();
  forgetHandlers();
  forgetAll();
}

const TASKS: Record<string, (payload: any) => void> = {
  load,
  event_hook: eventHook,
  tool_call: toolCall,
  slash_command: slashCommand,
  callback,
  timer_fired: ({ timer }) => onTimer(timer),
  signal_aborted: ({ signal }) => abortSignal(signal),
  bus_event: ({ channel, data }) => arrive(channel, data),
  retired: retireAll,
  handler_muted: ({ handler }) => removeStreamHandler(handler),
};

/** Phases in error reports for a task's own exception, which belongs to the extension for timers and listeners. */
const PHASES: Record<string, string> = { timer_fired: "timer", signal_aborted: "signal" };

function message({ type, payload }: { type: string; payload: any }): void {
  enter(undefined);
  try {
    TASKS[type]!(payload);
  } catch (error) {
    uncaught(error, PHASES[type] ?? type);
  }
  afterTask();
}

/** Handles the answer of an asynchronous hostcall, or a part of it. */
const result: typeof onResult = (callId, output, bytes, error, chunk) => {
  enter(undefined);
  try {
    onResult(callId, output, bytes, error, chunk);
  } catch (thrown) {
    uncaught(thrown, "hostcall");
  }
  afterTask();
};

function afterTask(): void {
  try {
    runTicks();
  } catch (error) {
    uncaught(error, "nextTick");
  }
}

function uncaught(error: unknown, phase: string): void {
  if (error === exiting) return;
  listeners(() => tellUncaught(error));
  sendError(error, phase, onlyEntry());
}

function unhandled(reason: unknown): void {
  if (reason === exiting) return;
  listeners(() => tellUnhandled(reason));
  sendError(reason, "unhandled_rejection", onlyEntry());
}

/** Runs listeners for uncaught errors. Failures of the listeners are reported to the host only. */
function listeners(tell: () => void): void {
  try {
    tell();
  } catch (error) {
    sendError(error, "uncaughtException", onlyEntry());
  }
}

/** Returns the only entry, if there is one, to which code outside of handlers is attributed. */
function onlyEntry(): number | undefined {
  return loaded.length === 1 ? 0 : undefined;
}

export default { message, result, failure, stream, streamResume: resume, unhandled };
