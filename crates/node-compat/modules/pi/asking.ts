/**
 * `pi:pi/asking`: models that an extension asks by itself.
 *
 * A request goes through the host: the gate decides, the session's key is added there, and the reply
 * comes back event by event. Like pi's stream functions these never throw for the model's sake: a
 * failure, a refusal and an abort are replies too.
 */

import { call } from "pi:hostcall";
import { modelRegistry } from "pi:pi/models";
import { jsonOf } from "pi:pi/plain";
import { isStreaming } from "pi:pi/provider-streams";
import { isRegistered } from "pi:pi/providers";
import { withoutSystemMessages } from "pi:pi/transcript";
import type { Context } from "pi:pi/transcript";
import type { AbortSignal } from "pi:web/abort";

/** What stands for a key of the session's. */
export const KEY_NAME = "pijs-session-key:";

export interface Model {
  id: string;
  provider: string;
  api?: string;
  [member: string]: any;
}

export interface AskOptions {
  signal?: AbortSignal | undefined;
  onResponse?: (response: { status: number; headers: Record<string, string> }, model: Model) => unknown;
  [member: string]: any;
}

/** An event of a reply, as pi-ai has it. */
export type ReplyEvent = { type: string; [member: string]: any };

/** A reply on its way: its events, and the message they end in. */
export interface Reply extends AsyncIterable<ReplyEvent> {
  result(): Promise<any>;
}

/** Options of a request that cross; functions and the signal stay here. */
function plainOptions(options: AskOptions): Record<string, unknown> {
  const { apiKey, headers, maxTokens, reasoning, temperature } = options;
  return jsonOf({ apiKey, headers, maxTokens, reasoning, temperature });
}

function emptyMessage(model: Model): any {
  return {
    role: "assistant",
    content: [],
    api: model.api ?? "",
    provider: model.provider,
    model: model.id,
    usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } },
    stopReason: "pending",
    timestamp: Date.now(),
  };
}

/** What a request that went wrong ends in, with what had arrived. */
function failure(partial: any, error: unknown, aborted: boolean): object {
  const said = error instanceof Error ? error.message : String(error);
  return { ...partial, stopReason: aborted ? "aborted" : "error", errorMessage: aborted ? "Request was aborted" : said };
}

/** Adds an event of the host's to the message in the making. */
function take(partial: any, event: ReplyEvent): ReplyEvent {
  const { type, contentIndex } = event;
  const content = partial.content;
  if (type === "text_start") content[contentIndex] = { type: "text", text: "" };
  else if (type === "text_delta") content[contentIndex].text += event.delta;
  else if (type === "thinking_start") content[contentIndex] = { type: "thinking", thinking: "" };
  else if (type === "thinking_delta") content[contentIndex].thinking += event.delta;
  else if (type === "toolcall_start") content[contentIndex] = { type: "toolCall", ...event.toolCall, arguments: {} };
  else if (type === "toolcall_delta") content[contentIndex].arguments = event.arguments;
  else if (type === "toolcall_end") content[contentIndex] = event.toolCall;
  const { toolCall, arguments: _, ...rest } = event;
  return { ...rest, ...(type === "toolcall_end" ? { toolCall } : {}), partial };
}

/**
 * Whether a model is the extension's own. With a key that was given for it that is one of a provider that it registered, or
 * one that the session does not know; without, one whose stream function asks by a client of pi's.
 */
function isOwn({ provider, id }: Model, { apiKey }: AskOptions): boolean {
  if (typeof apiKey !== "string") return isStreaming(provider);
  if (apiKey.startsWith(KEY_NAME)) return false;
  return isRegistered(provider) || modelRegistry.find(provider, id) === undefined;
}

/** Sends a request. `onEvent` hears of the pieces; without it the reply comes in one. */
async function ask(model: Model, context: Context, options: AskOptions, partial: any, onEvent?: (event: ReplyEvent) => void): Promise<any> {
  try {
    // A server of its own needs what registering a provider needs.
    const [op, capability] = isOwn(model, options) ? ["ask_model_at", "provider"] : ["ask_model", "session.inject"];
    const params = {
      op,
      model: jsonOf(model),
      context: jsonOf(withoutSystemMessages(context)),
      options: plainOptions(options),
      pieces: onEvent !== undefined,
    };
    const answer = await call("session", capability, params, {
      signal: options.signal,
      onChunk: ({ output, isLast }) => {
        if (isLast) return;
        if (output.type === "response") {
          options.onResponse?.({ status: output.status, headers: output.headers }, model);
          onEvent?.({ type: "start", partial });
        } else {
          onEvent?.(take(partial, output));
        }
      },
    });
    return answer.output;
  } catch (error) {
    return failure(partial, error, options.signal?.aborted === true);
  }
}

function checked(model: Model): Model {
  if (typeof model?.id !== "string" || typeof model.provider !== "string") {
    throw new TypeError("a model has an id and a provider");
  }
  return model;
}

/** One reply of a model of the session's, as an `AssistantMessage`. */
export async function complete(model: Model, context: Context, options: AskOptions = {}): Promise<any> {
  return ask(checked(model), context, options, emptyMessage(model));
}

/** The same, event by event: `for await`, and `result()` for the message. */
export function stream(model: Model, context: Context, options: AskOptions = {}): Reply {
  const arrived: ReplyEvent[] = [];
  let wake: (() => void) | undefined;
  let ended = false;
  const push = (event: ReplyEvent): void => {
    arrived.push(event);
    wake?.();
  };
  const reply = ask(checked(model), context, options, emptyMessage(model), push).then((message) => {
    const failed = message.stopReason === "error" || message.stopReason === "aborted";
    push(failed ? { type: "error", reason: message.stopReason, error: message } : { type: "done", reason: message.stopReason, message });
    ended = true;
    return message;
  });
  return {
    async *[Symbol.asyncIterator](): AsyncGenerator<ReplyEvent> {
      while (!ended || arrived.length > 0) {
        if (arrived.length > 0) yield arrived.shift()!;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    },
    result: () => reply,
  };
}
