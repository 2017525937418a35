/**
 * `pi:pi/provider-streams`: stream functions of providers, which run in this realm and send each event separately.
 */

import { state } from "pi:engine";
import { issueHandle } from "pi:pi/handles";
import type { AbortSignal } from "pi:web/abort";

type Config = Record<string, any>;

/** The authorisation of a request. */
export interface Credentials {
  apiKey: string | undefined;
  headers: Record<string, string>;
  /** The server that the key is for, if it differs from the model's. */
  baseUrl: string | undefined;
}

/** Requests of stream functions to the host that are pending. */
const waiting = new Map<number, (answer: unknown) => void>();
let questions = 0;

/** Function that the host calls with an answer. */
export const reply = issueHandle((number: number, answer: unknown) => {
  const resolve = waiting.get(number);
  waiting.delete(number);
  resolve?.(answer);
});

/** Number of active stream functions by provider. */
const streaming = new Map<string, number>();
export const isStreaming = (name: string): boolean => (streaming.get(name) ?? 0) > 0;

/** Wraps the stream function for the host, which receives events as updates of the callback. */
export function streamThrough(name: string, config: Config, credentials: (ofModel?: Record<string, string>) => Promise<Credentials>) {
  return async function streamSimple(
    this: { update(value: unknown): void },
    { headers: ofModel, ...model }: any,
    context: any,
    options: any,
    signal?: AbortSignal,
  ): Promise<void> {
    const { apiKey, headers, baseUrl } = await credentials(ofModel);
    const ask = (question: object): Promise<unknown> =>
      new Promise((resolve) => {
        const number = ++questions;
        waiting.set(number, resolve);
        this.update({ ...question, reply: number });
      });
    const settings = {
      ...options,
      sessionId: state().set.session?.id,
      apiKey,
      headers: { ...headers, ...options?.headers },
      signal,
      async onPayload(payload: unknown): Promise<unknown> {
        const answer = await ask({ type: "payload", payload: copied(payload) });
        return answer ?? undefined;
      },
      async onResponse(response: { status?: number; headers?: object }): Promise<void> {
        await ask({ type: "response", status: response?.status ?? 200, headers: copied(response?.headers ?? {}) });
      },
    };
    streaming.set(name, (streaming.get(name) ?? 0) + 1);
    try {
      const moved = baseUrl === undefined ? {} : { baseUrl };
      const events = await config.streamSimple({ ...model, ...moved, headers: undefined }, context, settings);
      let counted: string | undefined;
      for await (const event of events) {
        // Only changes are sent, since the host keeps the other data.
        const usage = JSON.stringify(event?.partial?.usage);
        this.update(withoutPartial(event, usage !== counted));
        counted = usage;
      }
    } finally {
      streaming.set(name, streaming.get(name)! - 1);
    }
  };
}

function withoutPartial(event: any, counts: boolean): unknown {
  if (typeof event !== "object" || event === null) return event;
  const { partial, ...rest } = event;
  if (counts) rest.usage = partial?.usage;
  const block = partial?.content?.[event.contentIndex];
  const wanted = event.type?.startsWith("toolcall_") || event.type === "thinking_end";
  if (wanted && block !== undefined) rest.block = block;
  return copied(rest);
}

/** Returns a JSON copy, without functions. */
export function copied(value: unknown): any {
  const text = JSON.stringify(value);
  return text === undefined ? undefined : JSON.parse(text);
}
