/**
 * `pi:pi/ctx`: the context of handlers, tools and commands. Getters are live: each read returns the current state.
 */

import { facts, state } from "pi:engine";
import { call, callSync, HostcallError } from "pi:hostcall";
import { sendError } from "pi:pi/errors";
import { modelRegistryOf } from "pi:pi/models";
import { compactionResult, ofThisPi, promptOptions, withMembers } from "pi:pi/profile";
import { jsonOf } from "pi:pi/plain";
import { managerOfSession } from "pi:pi/session";
import { signalOf } from "pi:pi/signals";
import { guarded } from "pi:pi/stale";
import { uiOfSession } from "pi:pi/ui";
import type { AbortSignal } from "pi:web/abort";

type Callback<T> = ((value: T) => unknown) | undefined;

interface ReplaceOptions {
  withSession?: Callback<object>;
}

/** Sends a request to the owner of the session. Refusals become errors with pi's messages. */
async function control(op: string, params: object = {}): Promise<any> {
  try {
    return (await call("session", op === "wait_for_idle" ? "session" : "session.control", { op, ...jsonOf(params) })).output;
  } catch (error) {
    throw worded(error);
  }
}

/** Converts a refusal due to the session's state to an Error with pi's message. */
function worded(error: unknown): unknown {
  const isState = error instanceof HostcallError && error.details?.reason === "state";
  return isState ? Object.assign(new Error(error.message), { cause: error }) : error;
}

function members(entry: number) {
  const read = (key: string) => state().set[key];
  return {
    ui: uiOfSession(),
    sessionManager: managerOfSession(),
    modelRegistry: modelRegistryOf(entry),
    get mode(): string {
      return read("mode") ?? "print";
    },
    get hasUI(): boolean {
      return read("hasUI") ?? false;
    },
    get cwd(): string {
      return read("cwd") ?? facts.cwd;
    },
    get model(): object | undefined {
      return read("model") ?? undefined;
    },
    get scopedModels(): readonly object[] {
      return read("scopedModels") ?? [];
    },
    get thinkingLevel(): string | undefined {
      return read("thinkingLevel") ?? undefined;
    },
    /** Returns the signal of the active run. */
    get signal(): AbortSignal | undefined {
      const number = read("signal");
      return typeof number === "number" ? signalOf(number) : undefined;
    },
    isIdle: (): boolean => read("isIdle") ?? true,
    isProjectTrusted: (): boolean => read("projectTrusted") ?? false,
    hasPendingMessages: (): boolean => read("hasPendingMessages") ?? false,
    getContextUsage: (): object | undefined => read("contextUsage") ?? undefined,
    getSystemPrompt: (): string => read("systemPrompt") ?? "",
    /** Aborts the run without waiting for its end. */
    abort(): void {
      call("session", "session.control", { op: "abort" }).then(undefined, (error) => sendError(error, "abort", entry));
    },
    /** Requests the end of the program. Print mode ends by itself. */
    shutdown(): void {
      callSync("session", "session.control", { op: "shutdown" });
    },
    /** Summarises the older part of the conversation, without waiting for the result. */
    compact(options: { customInstructions?: string; onComplete?: Callback<object>; onError?: Callback<Error> } = {}): void {
      options ??= {};
      const { customInstructions } = options;
      control("compact", { options: customInstructions === undefined ? {} : { customInstructions } }).then(
        (result) => options.onComplete?.(withMembers(compactionResult, result)),
        (error) => options.onError?.(error instanceof Error ? error : new Error(String(error))),
      ).then(undefined, (error) => sendError(error, "compact", entry));
    },
  };
}

function commandMembers(entry: number) {
  const replaced = async (output: { cancelled?: boolean }, options: ReplaceOptions | undefined) => {
    const cancelled = output.cancelled === true;
    if (!cancelled) await options?.withSession?.(replacedContext(entry));
    return { cancelled };
  };
  return {
    getSystemPromptOptions: (): object =>
      withMembers(promptOptions, JSON.parse(JSON.stringify(state().set.systemPromptOptions ?? { cwd: facts.cwd }))),

    /** Waits until no run is active or pending. */
    async waitForIdle(): Promise<void> {
      await control("wait_for_idle");
    },

    async newSession(
      options: ReplaceOptions & { parentSession?: string; setup?: (manager: object) => unknown } = {},
    ): Promise<{ cancelled: boolean }> {
      const { parentSession, setup } = options;
      const hold = typeof setup === "function";
      const output = await control("new_session", { hold, options: parentSession === undefined ? {} : { parentSession } });
      if (hold && output.cancelled !== true) {
        try {
          await setup(managerOfSession());
        } finally {
          await control("start_session");
        }
      }
      return replaced(output, options);
    },

    async fork(entryId: string, options?: ReplaceOptions & { position?: string }): Promise<{ cancelled: boolean }> {
      const position = options?.position;
      const output = await control("fork", { entryId: String(entryId), options: position === undefined ? {} : { position } });
      return replaced(output, options);
    },

    async switchSession(path: string, options?: ReplaceOptions): Promise<{ cancelled: boolean }> {
      return replaced(await control("switch_session", { path: String(path) }), options);
    },

    async navigateTree(targetId: string, options: Record<string, unknown> = {}): Promise<{ cancelled: boolean }> {
      const { summarize, customInstructions, replaceInstructions, label } = options;
      const settings = JSON.parse(JSON.stringify({ summarize, customInstructions, replaceInstructions, label }));
      const output = await control("navigate_tree", { targetId: String(targetId), options: settings });
      return { cancelled: output.cancelled === true };
    },

    async reload(): Promise<void> {
      await control("reload");
    },
  };
}

function together(...parts: object[]): object {
  const descriptors = parts.map((part) => Object.getOwnPropertyDescriptors(part));
  return Object.defineProperties({}, Object.assign({}, ...descriptors));
}

/** Returns the context of an entry. */
export function createContext(entry: number): object {
  return guarded(ofThisPi("ctx", members(entry)));
}

/** Returns a command's context, which has additional members. */
export function createCommandContext(entry: number): object {
  return guarded(together(ofThisPi("ctx", members(entry)), ofThisPi("command", commandMembers(entry))));
}

/** Returns the context for `withSession`: a command's context for the session that is open now. */
function replacedContext(entry: number): object {
  const inject = async (op: string, params: object): Promise<void> => {
    try {
      callSync("session", "session.inject", { op, ...jsonOf(params) });
    } catch (error) {
      throw worded(error);
    }
    await control("wait_for_idle");
  };
  return together(ofThisPi("ctx", members(entry)), ofThisPi("command", commandMembers(entry)), {
    sendMessage: (message: object, options: object = {}): Promise<void> => inject("send_message", { message, options }),
    sendUserMessage: (content: unknown, options: object = {}): Promise<void> =>
      inject("send_user_message", { content, options }),
  });
}

/** Returns the context in `before_agent_start`, whose prompt includes the changes that handlers have made so far. */
export function withSystemPrompt(context: object, prompt: () => string): object {
  return Object.defineProperties({}, {
    ...Object.getOwnPropertyDescriptors(context),
    getSystemPrompt: { value: prompt, enumerable: true, configurable: true, writable: true },
  });
}
