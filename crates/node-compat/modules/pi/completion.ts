/**
 * `pi:pi/completion`: who completes what is typed.
 *
 * Providers are stacked over pi's own, each with the one below as `current`. They may live in several realms, so `current`
 * asks the host, which knows who is below; what is chosen is put into the text here, the way pi does.
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

/** Puts an item in the place of the prefix before the cursor. Behind a command, and a file that was named with `@`, a blank follows. */
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

/** Whether a path may be completed here: not the name of a command. */
function shouldTriggerFileCompletion(lines: string[], line: number, col: number): boolean {
  const head = (lines[line] ?? "").slice(0, col).trim();
  return !(head.startsWith("/") && !head.includes(" "));
}

/** The providers below `above`, or all of them: asked of the host. */
export function provider(above?: number): Provider {
  return {
    async getSuggestions(lines, line, col, options: any) {
      const params = { op: "suggest", lines: Array.from(lines, (text) => String(text).toWellFormed()), line, col, force: options?.force === true };
      try {
        const { output } = await call("ui", "ui", above === undefined ? params : { ...params, below: above }, { signal: options?.signal });
        return Array.isArray(output?.items) ? { items: output.items, prefix: String(output.prefix ?? "") } : null;
      } catch {
        // Called off by the next key, as editors do.
        return null;
      }
    },
    applyCompletion,
    shouldTriggerFileCompletion,
  };
}

/** Puts the provider that a factory makes on top of those there are. */
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
