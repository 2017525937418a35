/**
 * The bundled plugins of a realm that one plugin has for itself: text utilities, and nothing that needs files or programs, so
 * that its code asks for what the plugin asks for.
 */

import type { Source } from "../loader.ts";
import { Hedberg } from "./hedberg.ts";

/** The bundled plugins that no source stands for. */
export function bundled(sources: readonly Source[]): Source[] {
  const taken = sources.some((source) => source.name === "hedberg");
  return taken ? [] : [{ name: "hedberg", path: "pi:hedberg", load: async () => ({ default: Hedberg }) }];
}
