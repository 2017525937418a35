/**
 * `pi:pi/stream`: handlers of `stream_text`, which may stop the model's reply.
 *
 * `stream` is called for every delta that the package subscribes to and is the hot path of a realm: it appends to the
 * accumulated text (the engine keeps the concatenation as a rope, so unread text is never joined) and calls the handlers in
 * order. The first `abort` ends the round.
 * A promise that is settled when the handler returns counts at once. A pending promise makes
 * `stream` return `false`: the engine drains the microtasks and calls `resume`, which continues with the
 * same handler. If the promise is still pending, it depends on an external event; the handler is reported as
 * late and counts as *continue*.
 *
 * Each mistake of a handler is sent as `stream_fault`; later handlers are called nevertheless.
 */

import { promiseState, send } from "pi:engine";
import { errorReport, sendError } from "pi:pi/errors";
import { issueHandle } from "pi:pi/handles";

export type StreamSource = "text" | "thinking" | "tool";

export interface StreamTextEvent {
  type: "stream_text";
  chunk: string;
  accumulated: string;
  source: StreamSource;
  toolName?: string | undefined;
  filePaths?: string[] | undefined;
}

type Handler = (event: StreamTextEvent, ctx: object) => unknown;

interface StreamHandler {
  readonly handle: number;
  readonly entry: number;
  readonly call: Handler;
  readonly ctx: object;
  readonly text: boolean;
  readonly thinking: boolean;
  readonly tool: boolean;
}

/** The result of a round: continue, *drain and resume*, or an abort. */
type RoundAnswer = undefined | false | { abort: { entry: number; handler: number; retry?: Injection } };

interface Injection {
  content: string;
  role: "system" | "user";
}

interface Waiting {
  handler: StreamHandler;
  promise: Promise<unknown>;
  /** Whether the round has continued without this handler. */
  isLate: boolean;
}

const SOURCES: readonly string[] = ["text", "thinking", "tool"];

/** Handlers in order of entries, then of registration. */
let handlers: StreamHandler[] = [];

let attempt = -1;
/** Accumulated text of the current attempt by source and stream. */
let texts = new Map<string, { text: string }>();
/** The text that grew last, which most deltas extend. */
let current = { text: "" };
let currentSource = "";
let currentStream = -1;

/** The current round: its event, and the index of the next handler. */
let event: StreamTextEvent;
let next = 0;
let waiting: Waiting | undefined;

/** Adds a handler. Returns its handle and sources. */
export function addStreamHandler(
  entry: number,
  call: Handler,
  ctx: object,
  wanted: unknown,
): { handle: number; sources: string[] } {
  const sources = wanted === undefined ? ["text"] : checkedSources(wanted);
  const handle = issueHandle(call);
  const handler: StreamHandler = {
    handle,
    entry,
    call,
    ctx,
    text: sources.includes("text"),
    thinking: sources.includes("thinking"),
    tool: sources.includes("tool"),
  };
  const at = handlers.findIndex((other) => other.entry > entry);
  // Creates a new list, since the current round keeps the one that it started with.
  handlers = handlers.toSpliced(at === -1 ? handlers.length : at, 0, handler);
  return { handle, sources };
}

/** Removes a handler that unsubscribed, belongs to a failed entry, or has used up its strikes. */
export function removeStreamHandler(handle: number): void {
  handlers = handlers.filter((handler) => handler.handle !== handle);
}

/** Removes every handler. */
export function removeStreamHandlers(): void {
  handlers = [];
}

function checkedSources(wanted: unknown): string[] {
  if (!Array.isArray(wanted) || wanted.some((source) => !SOURCES.includes(source))) {
    throw new TypeError(`stream_text: sources must be a list of ${SOURCES.map((name) => `"${name}"`).join(", ")}`);
  }
  return SOURCES.filter((source) => wanted.includes(source));
}

/** Processes a delta and calls the handlers. */
export function stream(
  chunk: string,
  source: StreamSource,
  streamIndex: number,
  attemptNumber: number,
  toolName: string | undefined,
  filePaths: string[] | undefined,
): RoundAnswer {
  if (attemptNumber !== attempt) begin(attemptNumber);
  if (source !== currentSource || streamIndex !== currentStream) select(source, streamIndex);
  current.text += chunk;
  event = { type: "stream_text", chunk, accumulated: current.text, source };
  if (source === "tool") {
    event.toolName = toolName;
    event.filePaths = filePaths ?? [];
  }
  next = 0;
  waiting = undefined;
  return ask(handlers);
}

/** Starts a new attempt with empty text. */
function begin(attemptNumber: number): void {
  attempt = attemptNumber;
  texts = new Map();
  currentSource = "";
  currentStream = -1;
}

function select(source: string, streamIndex: number): void {
  const key = `${source}:${streamIndex}`;
  let known = texts.get(key);
  if (!known) texts.set(key, (known = { text: "" }));
  current = known;
  currentSource = source;
  currentStream = streamIndex;
}

/** The handlers of the current round. */
let round: StreamHandler[] = [];

/** Continues after the microtasks were drained. */
export function resume(): RoundAnswer {
  const pending = waiting;
  if (!pending) return undefined;
  waiting = undefined;
  const { state, value } = promiseState(pending.promise);
  if (state === "pending") {
    pending.isLate = true;
    send({ type: "stream_fault", payload: { handler: pending.handler.handle } });
  } else if (state === "rejected") {
    fault(pending.handler, value);
  } else {
    const answer = verdict(pending.handler, value);
    if (answer !== undefined) return answer;
  }
  return ask(round);
}

function ask(list: StreamHandler[]): RoundAnswer {
  round = list;
  const source = event.source;
  while (next < list.length) {
    const handler = list[next++]!;
    if (!handler[source]) continue;
    let result: any;
    try {
      result = handler.call(event, handler.ctx);
    } catch (error) {
      fault(handler, error);
      continue;
    }
    if (result === undefined) continue;
    if (isThenable(result)) {
      const settled = awaited(handler, result);
      if (settled === PENDING) return false;
      result = settled;
    }
    const answer = verdict(handler, result);
    if (answer !== undefined) return answer;
  }
  return undefined;
}

const PENDING = Symbol("pending");
const then = Promise.prototype.then;

/** Returns the value of a settled promise. Otherwise stores the promise for `resume`. */
function awaited(handler: StreamHandler, thenable: PromiseLike<unknown>): unknown {
  const promise = thenable instanceof Promise ? thenable : Promise.resolve(thenable);
  const { state, value } = promiseState(promise);
  if (state === "fulfilled") return value;
  const record: Waiting = { handler, promise, isLate: false };
  // This module reports a rejection: as a fault if it is in time, and as an error later.
  then.call(promise, undefined, (error: unknown) => {
    if (record.isLate) sendError(error, "stream_text", handler.entry);
  });
  waiting = record;
  return PENDING;
}

function isThenable(value: any): value is PromiseLike<unknown> {
  try {
    return typeof value === "object" && value !== null && typeof value.then === "function";
  } catch {
    return false;
  }
}

/** Maximum length of a retry text, equal to `RETRY_BYTES` of the host. */
const LONGEST_RETRY = 1 << 20;

/** Reads a handler's result. `undefined` means *continue*; an invalid result is a fault. */
function verdict(handler: StreamHandler, result: any): RoundAnswer {
  try {
    if (result === undefined || result === null || result === false) return undefined;
    if (typeof result !== "object") throw nonsense(`it returned ${typeof result}`);
    if (result.abort === undefined || result.abort === null || result.abort === false) return undefined;
    if (result.abort !== true) throw nonsense(`abort is ${typeof result.abort}`);
    const abort: { entry: number; handler: number; retry?: Injection } = { entry: handler.entry, handler: handler.handle };
    const retry = result.retry;
    if (retry !== undefined && retry !== null) {
      const content = retry.content;
      const role = retry.role ?? "system";
      if (typeof content !== "string") throw nonsense("retry.content is no string");
      // The host counts bytes, but a text that exceeds the limit in UTF-16 units need not be sent.
      if (content.length > LONGEST_RETRY) throw nonsense(`retry.content is longer than ${LONGEST_RETRY} bytes`);
      if (role !== "system" && role !== "user") throw nonsense(`retry.role is ${String(role)}`);
      abort.retry = { content: content.toWellFormed(), role };
    }
    return { abort };
  } catch (error) {
    fault(handler, error);
    return undefined;
  }
}

function nonsense(what: string): TypeError {
  return new TypeError(`stream_text handlers return nothing or {abort, retry?: {content, role?}}; ${what}`);
}

function fault(handler: StreamHandler, thrown: unknown): void {
  send({
    type: "stream_fault",
    payload: { handler: handler.handle, error: errorReport(thrown, "stream_text", handler.entry) },
  });
}
