/**
 * `pi:pi/asking`: model requests of an extension.
 *
 * A request goes through the host: the gate decides, the host adds the session's key, and the reply arrives event by event. Like
 * pi's stream functions, these do not throw for errors of the model: a failure, a refusal and an abort are replies too.
 */

import { call } from "pi:hostcall";
import { modelRegistry } from "pi:pi/models";
import { jsonOf } from "pi:pi/plain";
import { isStreaming } from "pi:pi/provider-streams";
import { isRegistered } from "pi:pi/providers";
import { withoutSystemMessages } from "pi:pi/transcript";
import type { Context } from "pi:pi/transcript";
import type { AbortSignal } from "pi:web/abort";

/** Prefix of the placeholder for a key of the session. */
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

/** An event of a reply, in pi-ai's form. */
export type ReplyEvent = { type: string; [member: string]: any };

/** A reply in flight: its events, and the final message. */
export interface Reply extends AsyncIterable<ReplyEvent> {
  result(): Promise<any>;
}

/** Returns the options that can be sent; functions and the signal stay in the realm. */
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

/** Returns the final message of a failed request, which has the partial content. */
function failure(partial: any, error: unknown, aborted: boolean): object {
  const said = error instanceof Error ? error.message : String(error);
  return { ...partial, stopReason: aborted ? "aborted" : "error", errorMessage: aborted ? "Request was aborted" : said };
}

/** Applies an event of the host to the partial message. */
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
 * Returns whether a model is the extension's own: with an explicit key, if the extension registered its provider or the session
 * does not know the model; without one, if its stream function uses a client of pi's.
 */
function isOwn({ provider, id }: Model, { apiKey }: AskOptions): boolean {
  if (typeof apiKey !== "string") return isStreaming(provider);
  if (apiKey.startsWith(KEY_NAME)) return false;
  return isRegistered(provider) || modelRegistry.find(provider, id) === undefined;
}

/** Sends a request. `onEvent` receives the events; without it, the reply arrives as a whole. */
async function ask(model: Model, context: Context, options: AskOptions, partial: any, onEvent?: (event: ReplyEvent) => void): Promise<any> {
  try {
    // A request to the extension's own server needs the capability of registering a provider.
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

/** Requests a reply from a model of the session. Returns it as an `AssistantMessage`. */
export async function complete(model: Model, context: Context, options: AskOptions = {}): Promise<any> {
  return ask(checked(model), context, options, emptyMessage(model));
}

/** Streams a reply: `for await` iterates its events, and `result()` returns the message. */
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
