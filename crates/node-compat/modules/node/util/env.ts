/** `pi:node/util/env`: parses a `.env` file to names and values, as Node does. */

import { checkString } from "pi:node/errors";

const ENTRY = /^[ \t]*(?:export[ \t]+)?([^=\n#]*?)[ \t]*=[ \t]*(?:(["'`])([\s\S]*?)\2[^\n]*|([^\n#]*)(?:#[^\n]*)?)$/gm;

export function parseEnv(content: string): Record<string, string> {
  checkString("content", content);
  const found: Record<string, string> = {};
  for (const [, name, quote, quoted, bare] of content.replaceAll("\r", "").matchAll(ENTRY)) {
    if (name === "" || name === undefined) continue;
    found[name] = quote === undefined ? bare!.trim() : quote === '"' ? quoted!.replaceAll("\\n", "\n") : quoted!;
  }
  return found;
}
