/** Plugins that come with the program. A plugin of the user replaces the bundled one of the same name. */

import type { Source } from "../loader.ts";
import { Budget, Errors, File_, Instructions, Known, Log, Policy, Prompt, Unknown } from "./assembly.ts";
import { Hedberg } from "./hedberg.ts";
import type { Core } from "./shared.ts";
import { AskUser, Cp, Env, Get, Mv, Rm, Set_, Sh, Think, Update } from "./tools.ts";

const BUNDLED: [string, new (core: Core) => object][] = [
  ["ask_user", AskUser], ["budget", Budget], ["cp", Cp], ["env", Env], ["error", Errors], ["file", File_], ["get", Get],
  ["hedberg", Hedberg], ["instructions", Instructions], ["known", Known], ["log", Log], ["mv", Mv], ["policy", Policy],
  ["prompt", Prompt], ["rm", Rm], ["set", Set_], ["sh", Sh], ["think", Think], ["unknown", Unknown], ["update", Update],
];

/** Returns the bundled plugins that are not replaced by a source of the user, or by one of `others`, which have other realms. */
export function bundled(sources: readonly Source[], others: readonly string[] = []): Source[] {
  const taken = new Set([...sources.map((source) => source.name), ...others]);
  return BUNDLED.filter(([name]) => !taken.has(name))
    .map(([name, Plugin]) => ({ name, path: `pi:${name}`, load: async () => ({ default: Plugin }) }));
}
