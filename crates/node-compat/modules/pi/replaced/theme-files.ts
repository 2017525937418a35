/**
 * Replaces `node:fs` in `theme.js` of pi-coding-agent: the host provides the two bundled themes, which have no folder.
 */

import { readFileSync as read } from "node:fs";
import { basename, dirname } from "node:path";
import { getThemesDir } from "pi:pi/replaced/config";
import { themeDocument } from "pi:pi/theme";

export * from "node:fs";

export function readFileSync(path: string, options?: any): any {
  const document = dirname(path) === getThemesDir() ? themeDocument(basename(path, ".json")) : undefined;
  return document ? JSON.stringify(document) : read(path, options);
}
