/**
 * Edits of a `<set>` body: marker blocks `<<:::IDENT ... :::IDENT`, or the whole body as new content.
 *
 * | IDENT begins with | does |
 * |---|---|
 * | `SEARCH`, then `REPLACE` | replaces the first occurrence |
 * | `PREPEND`, `APPEND` | puts it before or after |
 * | `DELETE` | removes the first occurrence |
 * | `NEW`, `REPLACE`, anything else | is the new content |
 */

export interface Edited {
  body?: string;
  error?: string;
}

interface Block {
  kind: string;
  text: string;
}

function blocksOf(body: string): Block[] | string | undefined {
  const blocks: Block[] = [];
  let rest = body;
  while (true) {
    const open = /<<:::([A-Za-z][A-Za-z0-9_]*)[ \t]*\n?/.exec(rest);
    if (!open) break;
    const ident = open[1]!;
    const after = rest.slice(open.index + open[0].length);
    const end = after.indexOf(`:::${ident}`);
    if (end < 0) return `unclosed <<:::${ident}`;
    const kind = /^(SEARCH|REPLACE|PREPEND|APPEND|DELETE|NEW)/.exec(ident)?.[1] ?? "REPLACE";
    blocks.push({ kind, text: after.slice(0, end).replace(/\n$/, "") });
    rest = after.slice(end + ident.length + 3);
  }
  return blocks.length > 0 ? blocks : undefined;
}

/** Applies the edits of a body to what there is; `before` is null where there is nothing yet. */
export function edit(before: string | null, body: string): Edited {
  const blocks = blocksOf(body);
  if (typeof blocks === "string") return { error: blocks };
  if (blocks === undefined) return { body: body.replace(/^\n/, "") };
  let text = before ?? "";
  for (let at = 0; at < blocks.length; at += 1) {
    const { kind, text: words } = blocks[at]!;
    if (kind === "PREPEND") text = `${words}\n${text}`;
    else if (kind === "APPEND") text = text === "" || text.endsWith("\n") ? `${text}${words}` : `${text}\n${words}`;
    else if (kind === "SEARCH" || kind === "DELETE") {
      const next = blocks[at + 1];
      if (kind === "SEARCH" && next?.kind !== "REPLACE") return { error: "SEARCH must be immediately followed by REPLACE" };
      const found = find(text, words);
      if (!found) return { error: `not found: ${words.split("\n")[0]}` };
      text = text.slice(0, found[0]) + (kind === "SEARCH" ? next!.text : "") + text.slice(found[1]);
      if (kind === "SEARCH") at += 1;
    } else text = words;
  }
  return { body: text };
}

/** Where words stand in a text: exactly, else line by line without regard to white space at the ends of lines. */
function find(text: string, words: string): [number, number] | undefined {
  const exact = text.indexOf(words);
  if (words !== "" && exact >= 0) return [exact, exact + words.length];
  const wanted = words.split("\n").map((line) => line.trim());
  const lines = text.split("\n");
  for (let at = 0; at + wanted.length <= lines.length; at += 1) {
    if (!wanted.every((line, offset) => lines[at + offset]!.trim() === line)) continue;
    const start = lines.slice(0, at).reduce((sum, line) => sum + line.length + 1, 0);
    return [start, start + lines.slice(at, at + wanted.length).join("\n").length];
  }
  return undefined;
}

/** A short unified difference of two texts. */
export function patch(path: string, before: string, after: string): string {
  const [old, now] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old[old.length - 1 - end] === now[now.length - 1 - end]) end += 1;
  const removed = old.slice(start, old.length - end);
  const added = now.slice(start, now.length - end);
  const head = `--- a/${path}\n+++ b/${path}\n@@ -${start + 1},${removed.length} +${start + 1},${added.length} @@`;
  return [head, ...removed.map((line) => `-${line}`), ...added.map((line) => `+${line}`)].join("\n");
}
