/** Plugins that a session has without the user's; one of the user's that has the same name takes its place. */

import type { Source } from "../loader.ts";
import { Budget, Errors, File_, Instructions, Known, Log, Policy, Prompt, Unknown } from "./assembly.ts";
import { edit, patch } from "./edits.ts";
import type { Core } from "./shared.ts";
import { AskUser, Cp, Env, Get, Mv, Rm, Set_, Sh, Think, Update } from "./tools.ts";

/** Text utilities for plugins of other packages. */
class Hedberg {
  constructor(core: Core) {
    const expression = (pattern: string): RegExp | undefined => {
      const written = /^\/(.*)\/([a-z]*)$/s.exec(pattern);
      if (written) return new RegExp(written[1]!, written[2]!.replace("g", ""));
      if (!/[*?]/.test(pattern)) return undefined;
      const source = pattern.split(/(\*\*|\*|\?)/).map((part) => ({ "**": ".*", "*": "[^/]*", "?": "[^/]" })[part] ?? part.replace(/[.+^${}()|[\]\\]/g, "\\$&"));
      return new RegExp(`^${source.join("")}$`, "s");
    };
    Object.assign(core.hooks.hedberg, {
      match: (pattern: string, text: string) => expression(pattern)?.test(text) ?? pattern === text,
      search: (pattern: string, text: string) => expression(pattern)?.test(text) ?? text.includes(pattern),
      replace: (body: string, search: string, replacement: string) => edit(body, "", { search, replace: replacement }).body ?? null,
      generatePatch: patch,
    });
  }
}

const BUNDLED: [string, new (core: Core) => object][] = [
  ["ask_user", AskUser], ["budget", Budget], ["cp", Cp], ["env", Env], ["error", Errors], ["file", File_], ["get", Get],
  ["hedberg", Hedberg], ["instructions", Instructions], ["known", Known], ["log", Log], ["mv", Mv], ["policy", Policy],
  ["prompt", Prompt], ["rm", Rm], ["set", Set_], ["sh", Sh], ["think", Think], ["unknown", Unknown], ["update", Update],
];

/** The bundled plugins that no source of the user stands for. */
export function bundled(sources: readonly Source[]): Source[] {
  const taken = new Set(sources.map((source) => source.name));
  return BUNDLED.filter(([name]) => !taken.has(name))
    .map(([name, Plugin]) => ({ name, path: `pi:${name}`, load: async () => ({ default: Plugin }) }));
}
