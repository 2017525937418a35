/**
 * Applies the edits of a `<set>`, in the form that the host's parser returns:
 *
 * | member | effect |
 * |---|---|
 * | `operations` | marker blocks in order: `new`, `replace`, `prepend`, `append`, `delete`, `search_replace` |
 * | `blocks` | pairs of `search` and `replace`; with `sed` the first is a regular expression with `flags` |
 * | `search`, `replace` | one such pair |
 * | none of them | the body is the new content |
 */

export interface Edited {
  body?: string;
  error?: string;
}

interface Operation {
  op: string;
  content?: string;
  search?: string;
  replace?: string;
  flags?: string;
  sed?: boolean;
}

function operationsOf(attributes: any): Operation[] | undefined {
  const { operations, blocks, search, replace = "", flags, sed } = attributes;
  if (Array.isArray(operations)) return operations;
  const pair = (one: any) => ({ ...one, op: "search_replace" });
  if (Array.isArray(blocks)) return blocks.map(pair);
  return typeof search === "string" && search !== "" ? [pair({ search, replace, flags, sed })] : undefined;
}

/** Applies the edits of a command to the current content; `before` is null if there is none. */
export function edit(before: string | null, body: string, attributes: any = {}): Edited {
  if (attributes.error) return { error: String(attributes.error) };
  const operations = operationsOf(attributes);
  if (!operations) return { body };
  let text = before ?? "";
  for (const { op, content = "", search = "", replace = "", flags = "", sed } of operations) {
    if (op === "prepend") text = `${content}${content.endsWith("\n") || text === "" ? "" : "\n"}${text}`;
    else if (op === "append") text = `${text}${text === "" || text.endsWith("\n") ? "" : "\n"}${content}`;
    else if (op === "delete" || op === "search_replace") {
      const wanted = op === "delete" ? content : search;
      const found = sed ? matched(text, wanted, flags) : find(text, wanted);
      if (!found) return { error: `not found: ${wanted.split("\n")[0]}` };
      text = sed ? text.replace(new RegExp(wanted, flags), replace) : text.slice(0, found[0]) + (op === "delete" ? "" : replace) + text.slice(found[1]);
    } else text = content;
  }
  return { body: text };
}

function matched(text: string, pattern: string, flags: string): [number, number] | undefined {
  const found = new RegExp(pattern, flags.replace("g", "")).exec(text);
  return found ? [found.index, found.index + found[0].length] : undefined;
}

/** Returns the range of `words` in a text: an exact match, otherwise one that ignores white space at the ends of lines. */
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

/** Returns a short unified diff of two texts. */
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
