/**
 * `pi:pi/ui`: `ctx.ui`. Dialogs and notices are hostcalls; who answers them (a terminal, an RPC
 * client, nobody) is the host's business.
 *
 * Without anybody to answer, a dialog gives what pi gives in print mode: `undefined`, or `false` for
 * `confirm`. Notices and status texts are sent and forgotten.
 */

import { call } from "pi:hostcall";
import { defineUnsupported, defineUnsupportedGetters } from "pi:pi/unsupported";
import type { AbortSignal } from "pi:web/abort";

interface DialogOptions {
  signal?: AbortSignal;
  timeout?: number;
}

/** A dialog's answer, or `undefined` when it was cancelled, refused or nobody is there. */
async function ask(op: string, params: object, options?: DialogOptions): Promise<any> {
  const timeout = options?.timeout;
  try {
    const answer = await call(
      "ui",
      "ui",
      { op, ...params, ...(timeout === undefined ? {} : { timeout }) },
      { signal: options?.signal },
    );
    return answer.output?.value ?? undefined;
  } catch {
    // Refusals are in the ledger; under pi a dialog never rejects.
    return undefined;
  }
}

function tell(op: string, params: object): void {
  call("ui", "ui", { op, ...params }).then(undefined, () => {});
}

export const ui = {
  select(title: string, options: string[], settings?: DialogOptions): Promise<string | undefined> {
    return ask("select", { title: String(title), options: Array.from(options, String) }, settings);
  },
  async confirm(title: string, message: string, settings?: DialogOptions): Promise<boolean> {
    const answer = await ask("confirm", { title: String(title), message: String(message) }, settings);
    return answer === true;
  },
  input(title: string, placeholder?: string, settings?: DialogOptions): Promise<string | undefined> {
    const params = placeholder === undefined ? {} : { placeholder: String(placeholder) };
    return ask("input", { title: String(title), ...params }, settings);
  },
  editor(title: string, prefill?: string): Promise<string | undefined> {
    return ask("editor", { title: String(title), ...(prefill === undefined ? {} : { prefill: String(prefill) }) });
  },
  notify(message: string, type: "info" | "warning" | "error" = "info"): void {
    tell("notify", { message: String(message), type });
  },
  setStatus(key: string, text: string | undefined): void {
    tell("set_status", { key: String(key), ...(text === undefined ? {} : { text: String(text) }) });
  },
};

defineUnsupported(ui, "ctx.ui", [
  "addAutocompleteProvider",
  "custom",
  "getAllThemes",
  "getEditorComponent",
  "getEditorText",
  "getTheme",
  "getToolsExpanded",
  "onTerminalInput",
  "pasteToEditor",
  "setEditorComponent",
  "setEditorText",
  "setFooter",
  "setHeader",
  "setHiddenThinkingLabel",
  "setTheme",
  "setTitle",
  "setToolsExpanded",
  "setWidget",
  "setWorkingIndicator",
  "setWorkingMessage",
  "setWorkingVisible",
]);
defineUnsupportedGetters(ui, "ctx.ui", ["theme"]);
