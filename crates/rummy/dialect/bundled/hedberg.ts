/** Text utilities that are available in every realm of plugins. */

import { edit, patch } from "./edits.ts";
import type { Core } from "./shared.ts";

/** Text utilities for plugins of other packages. */
export class Hedberg {
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
