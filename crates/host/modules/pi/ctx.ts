/**
 * `pi:pi/ctx`: the context that handlers, tools and commands get. Getters are live: they read the
 * state as it is when they are read.
 */

import { facts, state } from "pi:engine";
import { call } from "pi:hostcall";
import { sendError } from "pi:pi/errors";
import { sessionManager } from "pi:pi/session";
import { signalOf } from "pi:pi/signals";
import { ui } from "pi:pi/ui";
import { defineUnsupported, defineUnsupportedGetters } from "pi:pi/unsupported";
import type { AbortSignal } from "pi:web/abort";

/** The context of an entry. */
export function createContext(entry: number): object {
  const read = (key: string) => state().set[key];
  const context = {
    ui,
    sessionManager,
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
    /** The active run's signal. */
    get signal(): AbortSignal | undefined {
      const number = read("signal");
      return typeof number === "number" ? signalOf(number) : undefined;
    },
    isIdle: (): boolean => read("isIdle") ?? true,
    isProjectTrusted: (): boolean => read("projectTrusted") ?? false,
    hasPendingMessages: (): boolean => read("hasPendingMessages") ?? false,
    getContextUsage: (): object | undefined => read("contextUsage") ?? undefined,
    getSystemPrompt: (): string => read("systemPrompt") ?? "",
    /** Stops the run; does not wait for it. */
    abort(): void {
      call("session", "session.control", { op: "abort" }).then(undefined, (error) => sendError(error, "abort", entry));
    },
  };
  defineUnsupported(context, "ctx", ["compact", "shutdown"]);
  defineUnsupportedGetters(context, "ctx", ["modelRegistry"]);
  return context;
}

/** The same for a command, with what only commands may do. */
export function createCommandContext(entry: number): object {
  const context = Object.defineProperties({}, Object.getOwnPropertyDescriptors(createContext(entry)));
  defineUnsupported(context, "ctx", [
    "fork",
    "getSystemPromptOptions",
    "navigateTree",
    "newSession",
    "reload",
    "switchSession",
    "waitForIdle",
  ]);
  return context;
}

/** The same inside `before_agent_start`, where the prompt is what the handlers so far made of it. */
export function withSystemPrompt(context: object, prompt: () => string): object {
  return Object.defineProperties({}, {
    ...Object.getOwnPropertyDescriptors(context),
    getSystemPrompt: { value: prompt, enumerable: true, configurable: true, writable: true },
  });
}
