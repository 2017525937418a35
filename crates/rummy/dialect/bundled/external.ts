/**
 * The bundled plugins of a realm with a single external plugin: only text utilities, which need no files or programs, so that
 * the package requests only the capabilities of that plugin.
 */

import type { Source } from "../loader.ts";
import { Hedberg } from "./hedberg.ts";

/** Returns the bundled plugins that no source replaces. */
export function bundled(sources: readonly Source[]): Source[] {
  const taken = sources.some((source) => source.name === "hedberg");
  return taken ? [] : [{ name: "hedberg", path: "pi:hedberg", load: async () => ({ default: Hedberg }) }];
}
