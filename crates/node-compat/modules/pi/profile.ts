/**
 * `pi:pi/profile`: which pi an extension meets, where versions differ. The host says so in a fact; what differs between
 * realm and extension is asked for here and nowhere else.
 */

import { facts } from "pi:engine";

const isLegacy = facts.profile === "0.73.1";

/** pi's `VERSION`. */
export const version: string = isLegacy ? "0.73.1" : "0.87.1";

/** Whether `pi.on` returns a function that takes the handler away again. */
export const handlersCanBeRemoved = !isLegacy;

/** Whether what is registered is looked at: a tool's schema, a flag's default. */
export const checksRegistrations = !isLegacy;

/** Whether keys and headers of providers are written with `$NAME`; before, a text could be the name of a variable. */
export const hasTemplates = !isLegacy;

/** Whether an answer to `user_bash` has to decide what becomes of the command. */
export const checksBashAnswers = !isLegacy;

/** Whether listeners of the bus can all be forgotten by `pi.events.clear`. */
export const busCanBeCleared = isLegacy;

/** Members of `systemPromptOptions`, in pi's order. */
export const promptOptions: readonly string[] = isLegacy
  ? []
  : [
      "customPrompt", "forceSystemPrompt", "selectedTools", "toolSnippets", "toolGuidelines", "promptGuidelines", "appendSystemPrompt",
      "sections", "cwd", "contextFiles", "skills",
    ];

/** Members of what a compaction came to. */
export const compactionResult: readonly string[] = isLegacy
  ? ["summary", "firstKeptEntryId", "tokensBefore", "details"]
  : ["summary", "firstKeptEntryId", "tokensBefore", "estimatedTokensAfter", "usage", "details"];

/** An object with all members that pi's has, although nothing may stand in them: what came as JSON left such out. */
export function withMembers(names: readonly string[], value: Record<string, any>): Record<string, any> {
  const whole: Record<string, any> = {};
  for (const name of names) whole[name] = undefined;
  return Object.assign(whole, value);
}

/** Members that came after 0.73.1. */
const LATER = {
  pi: ["getMcpServers", "registerEntryRenderer", "registerMarkdownTransformer", "registerMcpServer", "unregisterMcpServer"],
  ctx: ["isProjectTrusted", "mode", "scopedModels", "thinkingLevel"],
  command: ["getSystemPromptOptions"],
  modelRegistry: [
    "complete", "completeSimple", "getProvider", "getProviderAuth", "getRegisteredNativeProvider", "getRegisteredProviderConfig",
    "getRegisteredProviderIds", "runtime", "stream", "streamSimple",
  ],
};

/** An object without the members that this pi does not have. */
export function ofThisPi<T extends object>(kind: keyof typeof LATER, object: T): T {
  if (isLegacy) for (const name of LATER[kind]) delete (object as Record<string, unknown>)[name];
  return object;
}
