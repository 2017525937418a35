/**
 * `pi:pi/completion`: completion providers of the editor.
 *
 * Providers form a stack over pi's own, each with the one below as `current`. They may be in several realms, so `current` calls
 * the host, which knows the stack; the selected item is applied here, as in pi.
 */

import { call } from "pi:hostcall";
import { tellUi } from "pi:pi/components";
import { issueHandle } from "pi:pi/handles";
import { AbortController } from "pi:web/abort";

interface Item {
  value: string;
  label: string;
  description?: string;
}

interface Applied {
  lines: string[];
  cursorLine: number;
  cursorCol: number;
}

export interface Provider {
  triggerCharacters?: string[];
  getSuggestions(lines: string[], line: number, col: number, options: object): Promise<{ items: Item[]; prefix: string } | null>;
  applyCompletion(lines: string[], line: number, col: number, item: Item, prefix: string): Applied;
  shouldTriggerFileCompletion?(lines: string[], line: number, col: number): boolean;
}

/** Replaces the prefix before the cursor with an item. A blank follows a command, and a file of an `@` mention. */
function applyCompletion(lines: string[], line: number, col: number, item: Item, prefix: string): Applied {
  const current = lines[line] ?? "";
  const head = current.slice(0, col - prefix.length);
  const isCommand = prefix.startsWith("/") && head.trim() === "" && !prefix.slice(1).includes("/");
  const isFolder = item.label.endsWith("/");
  let value = item.value;
  if (isCommand) value = `/${value.replace(/^\//, "")} `;
  else if (prefix.startsWith("@") && !isFolder) value = `${value} `;
  const changed = [...lines];
  changed[line] = head + value + current.slice(col);
  return { lines: changed, cursorLine: line, cursorCol: head.length + value.length };
}

/** Returns whether paths may be completed at the cursor, that is, not in the name of a command. */
function shouldTriggerFileCompletion(lines: string[], line: number, col: number): boolean {
  const head = (lines[line] ?? "").slice(0, col).trim();
  return !(head.startsWith("/") && !head.includes(" "));
}

/** Returns a provider that requests completions from those below `above`, or from all of them, through the host. */
export function provider(above?: number): Provider {
  return {
    async getSuggestions(lines, line, col, options: any) {
      const params = { op: "suggest", lines: Array.from(lines, (text) => String(text).toWellFormed()), line, col, force: options?.force === true };
      try {
        const { output } = await call("ui", "ui", above === undefined ? params : { ...params, below: above }, { signal: options?.signal });
        return Array.isArray(output?.items) ? { items: output.items, prefix: String(output.prefix ?? "") } : null;
      } catch {
        // Aborted by the next key, as editors do.
        return null;
      }
    },
    applyCompletion,
    shouldTriggerFileCompletion,
  };
}

/** Pushes a provider onto the stack. */
export function addProvider(factory: (current: Provider) => Provider): void {
  let made: Provider | undefined;
  const handle: number = issueHandle((request: any) => answer(made, request));
  const told = tellUi("add_autocomplete_provider", { provider: handle });
  if (told.draws !== true) return;
  made = factory(provider(handle));
  const triggers = Array.from(made?.triggerCharacters ?? [], String);
  if (triggers.length > 0) tellUi("add_autocomplete_provider", { provider: handle, triggers });
}

async function answer(made: Provider | undefined, request: any): Promise<unknown> {
  const { lines, line, col } = request;
  if (request.type === "apply") return made?.applyCompletion(lines, line, col, request.item, request.prefix);
  const options = { signal: new AbortController().signal, force: request.force === true };
  if (request.force === true && made?.shouldTriggerFileCompletion?.(lines, line, col) === false) return null;
  return (await made?.getSuggestions(lines, line, col, options)) ?? null;
}
