/**
 * `pi:pi/profile`: differences between emulated versions of pi. The host sets the version as a fact; this module contains all
 * differences that an extension can observe.
 */

import { facts } from "pi:engine";

const isLegacy = facts.profile === "0.73.1";

/** Value of `VERSION` in pi. */
export const version: string = isLegacy ? "0.73.1" : "0.87.1";

/** Whether `pi.on` returns a function that removes the handler. */
export const handlersCanBeRemoved = !isLegacy;

/** Whether registrations are checked: a tool's schema, a flag's default. */
export const checksRegistrations = !isLegacy;

/** Whether keys and headers of providers use `$NAME`; in earlier versions, a string could be the name of a variable. */
export const hasTemplates = !isLegacy;

/** Whether an answer to `user_bash` must decide about the command. */
export const checksBashAnswers = !isLegacy;

/** Whether `pi.events.clear` removes all listeners of the bus. */
export const busCanBeCleared = isLegacy;

/** Members of `systemPromptOptions`, in pi's order. */
export const promptOptions: readonly string[] = isLegacy
  ? []
  : [
      "customPrompt", "forceSystemPrompt", "selectedTools", "toolSnippets", "toolGuidelines", "promptGuidelines", "appendSystemPrompt",
      "sections", "cwd", "contextFiles", "skills",
    ];

/** Members of the result of a compaction. */
export const compactionResult: readonly string[] = isLegacy
  ? ["summary", "firstKeptEntryId", "tokensBefore", "details"]
  : ["summary", "firstKeptEntryId", "tokensBefore", "estimatedTokensAfter", "usage", "details"];

/** Adds the members that pi's object has with the value undefined, which JSON omits. */
export function withMembers(names: readonly string[], value: Record<string, any>): Record<string, any> {
  const whole: Record<string, any> = {};
  for (const name of names) whole[name] = undefined;
  return Object.assign(whole, value);
}

/** Members that were added after 0.73.1. */
const LATER = {
  pi: ["getMcpServers", "registerEntryRenderer", "registerMarkdownTransformer", "registerMcpServer", "unregisterMcpServer"],
  ctx: ["isProjectTrusted", "mode", "scopedModels", "thinkingLevel"],
  command: ["getSystemPromptOptions"],
  modelRegistry: [
    "complete", "completeSimple", "getProvider", "getProviderAuth", "getRegisteredNativeProvider", "getRegisteredProviderConfig",
    "getRegisteredProviderIds", "runtime", "stream", "streamSimple",
  ],
};

/** Removes the members that the emulated version of pi does not have. */
export function ofThisPi<T extends object>(kind: keyof typeof LATER, object: T): T {
  if (isLegacy) for (const name of LATER[kind]) delete (object as Record<string, unknown>)[name];
  return object;
}
