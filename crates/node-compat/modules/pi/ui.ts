/**
 * `pi:pi/ui`: `ctx.ui`. The host decides whether a terminal, an RPC client or no user answers.
 *
 * Calls are synchronous and in order. A dialog opens synchronously, and its answer is awaited; without a user it has the result
 * of pi's print mode: `undefined`, or `false` for `confirm`. As in pi, a dialog never rejects; the ledger records refusals.
 */

import { call } from "pi:hostcall";
import { addProvider } from "pi:pi/completion";
import { draw, mounted, screen, showFirst, tellUi } from "pi:pi/components";
import type { Component } from "pi:pi/components";
import { editorFactory, leaveEditor, pasteToEditor, setEditor, setEditorText } from "pi:pi/editor";
import { floatsBy, handleFor, leaveOverlays } from "pi:pi/overlays";
import { sendError } from "pi:pi/errors";
import { plain } from "pi:pi/plain";
import { renewed } from "pi:pi/stale";
import { endKeys, listenToKeys } from "pi:pi/terminal_input";
import { currentTheme, Theme, theme, themeNamed, themes, useTheme } from "pi:pi/theme";
import { keybindings, tui } from "pi:pi/tui";
import { state } from "pi:engine";
import type { AbortSignal } from "pi:web/abort";

interface DialogOptions {
  signal?: AbortSignal;
  timeout?: number;
}

type Factory = (...args: any[]) => any;

/** Converts a value to text that can be sent. */
const textOf = (value: unknown): string => String(value).toWellFormed();

/** Removes undefined members. */
function present(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

/** Returns the options of a dialog as data, without the signal. */
function dialogOptions(options: DialogOptions | undefined): Record<string, unknown> {
  if (!options) return {};
  const { signal, ...settings } = options;
  const shown = plain(settings);
  return present({
    settings: Object.keys(shown).length > 0 ? shown : undefined,
    timeout: options.timeout,
    aborted: signal?.aborted || undefined,
  });
}

/** Returns a dialog's answer; undefined if it was cancelled or refused, or if there is no user. */
async function ask(op: string, params: object, options?: DialogOptions): Promise<any> {
  const opened = tellUi(op, { ...params, ...dialogOptions(options) });
  if (typeof opened.dialog !== "number") return opened.value ?? undefined;
  try {
    const answer = await call("ui", "ui", { op: "answer", dialog: opened.dialog }, { signal: options?.signal });
    return answer.output?.value ?? undefined;
  } catch {
    return undefined;
  }
}

/** Components of this realm in fixed positions, by position. */
const placed = new Map<string, { unmount(): void; dispose(): void }>();

/** Shows a component in a fixed position, or removes the one there. */
function place(op: string, key: string, params: object, factory: unknown, more: () => unknown[] = () => []): void {
  leavePlace(op + key);
  if (typeof factory !== "function") {
    tellUi(op, params);
    return;
  }
  const spot = mounted(op === "set_footer" ? { floats: watchBranch } : {});
  if (tellUi(op, { ...params, component: spot.handle }).draws !== true) return;
  try {
    const component: Component = (factory as Factory)(tui, theme, ...more());
    placed.set(op + key, { unmount: spot.unmount, dispose: () => component?.dispose?.() });
    showFirst(spot, component);
  } catch (error) {
    tellUi("drawn", { component: spot.handle, error: (error instanceof Error ? error.message : String(error)).toWellFormed() });
  }
}

/** Removes the component in a position. */
function leavePlace(name: string): void {
  const before = placed.get(name);
  placed.delete(name);
  before?.unmount();
  try {
    before?.dispose();
  } catch (error) {
    sendError(error, "dispose");
  }
}

/** Drops this realm's components on the screen, after the host has removed them. */
export function leaveScreen(): void {
  for (const name of [...placed.keys()]) leavePlace(name);
  branchListeners.clear();
  endKeys();
  leaveEditor();
  leaveOverlays();
}

/** Listeners for the git branch, with the last reported one. A footer is drawn again when it changes. */
const branchListeners = new Set<() => void>();
let branch: unknown;

function watchBranch(): object {
  const now = state().set.footer?.branch;
  if (now !== branch) {
    branch = now;
    for (const listener of [...branchListeners]) {
      try {
        listener();
      } catch (error) {
        sendError(error, "branch_change");
      }
    }
  }
  return {};
}

/** Returns the data of a footer; each read returns the current value. */
function footerData(): object {
  const read = () => state().set.footer ?? {};
  return {
    getGitBranch: () => read().branch ?? null,
    getExtensionStatuses: () => new Map(Object.entries(read().statuses ?? {})),
    getAvailableProviderCount: () => read().providers ?? 0,
    onBranchChange(listener: () => void) {
      branchListeners.add(listener);
      return () => void branchListeners.delete(listener);
    },
  };
}

/** Shows a component that receives keys until it is done. */
async function custom(factory: Factory, options?: Record<string, any>): Promise<any> {
  let finished = false;
  let finish!: (value: unknown) => void;
  const result = new Promise<unknown>((resolve) => (finish = resolve));
  const floats = options?.["overlay"] ? floatsBy(options["overlayOptions"]) : undefined;
  const spot = mounted({ isClosed: () => finished, ...(floats ? { floats } : {}) });
  const data = plain(floats && typeof options?.["overlayOptions"] === "function" ? { ...options, overlayOptions: options["overlayOptions"]() } : options);
  const opened = tellUi("custom", { component: spot.handle, ...present({ options: data }) });
  if (opened.draws !== true) return undefined;
  const close = (value: unknown) => {
    finished = true;
    finish(value);
  };
  const floating = floats && handleFor(spot, () => close(undefined));
  let component: Component;
  try {
    component = await factory(tui, theme, keybindings(), close);
    if (!finished) {
      spot.mount(component);
      const ownWidth = (component as any)?.width;
      const own = floats && options?.["overlayOptions"] === undefined && typeof ownWidth === "number" && ownWidth > 0;
      tellUi("drawn", { component: spot.handle, ...draw(component, screen().width), ...floats?.(), ...(own ? { overlay: { width: ownWidth } } : {}) });
      if (floating && typeof options?.["onHandle"] === "function") options["onHandle"](floating.handle);
    }
  } catch (error) {
    floating?.gone();
    spot.unmount();
    tellUi("closed", { component: spot.handle });
    throw error;
  }
  call("ui", "ui", { op: "answer", component: spot.handle }).then(
    ({ output }) => close(output?.value ?? undefined),
    () => close(undefined),
  );
  const value = await result;
  floating?.gone();
  spot.unmount();
  try {
    component?.dispose?.();
  } catch (error) {
    sendError(error, "dispose");
  }
  tellUi("closed", { component: spot.handle, ...present({ value: plain(value) }) });
  return value;
}

/** Returns whether a scenario is played: it records the requested theme, has none, and shows everything unchanged. */
const isPlayed = () => state().set.played === true;

const ui = {
  /** Opens a selection. Options may be values other than strings; the selected one is returned unchanged. */
  async select(title: string, options: unknown[], settings?: DialogOptions): Promise<any> {
    const given = Array.from(options ?? []);
    const shown = given.map((option) => (typeof option === "string" ? textOf(option) : (plain(option) ?? null)));
    const answer = await ask("select", { title: textOf(title), options: shown }, settings);
    if (answer === undefined || typeof answer === "string") return answer;
    const text = JSON.stringify(answer);
    const at = shown.findIndex((option) => typeof option !== "string" && JSON.stringify(option) === text);
    return at < 0 ? answer : given[at];
  },
  async confirm(title: string, message: string, settings?: DialogOptions): Promise<boolean> {
    const answer = await ask("confirm", { title: textOf(title), ...present({ message: plain(message) }) }, settings);
    return answer === true;
  },
  input(title: string, placeholder?: string, settings?: DialogOptions): Promise<string | undefined> {
    return ask("input", { title: textOf(title), ...present({ placeholder: plain(placeholder) }) }, settings);
  },
  editor(title: string, prefill?: string): Promise<string | undefined> {
    return ask("editor", { title: textOf(title), ...present({ prefill: plain(prefill) }) });
  },
  notify(message: string, type?: "info" | "warning" | "error"): void {
    tellUi("notify", { message: plain(message) ?? null, ...present({ type: plain(type) }) });
  },
  /** Calls a handler for keys before the editor gets them. The handler may consume or change them. */
  onTerminalInput(handler: Factory): () => void {
    return listenToKeys(handler);
  },
  setStatus(key: string, text: string | undefined): void {
    tellUi("set_status", { key: textOf(key), ...present({ text: plain(text) }) });
  },
  setWorkingMessage(message?: string): void {
    tellUi("set_working_message", present({ message: plain(message) }));
  },
  setWorkingVisible(visible: boolean): void {
    tellUi("set_working_visible", present({ visible: plain(visible) }));
  },
  setWorkingIndicator(options?: object): void {
    tellUi("set_working_indicator", present({ options: plain(options) }));
  },
  setHiddenThinkingLabel(label?: string): void {
    tellUi("set_hidden_thinking_label", present({ label: plain(label) }));
  },
  setWidget(key: string, content: string[] | Factory | undefined, options?: object): void {
    const shown = typeof content === "function" ? undefined : plain(content);
    place("set_widget", String(key), { key: textOf(key), ...present({ content: shown, options: plain(options) }) }, content);
  },
  setFooter(factory: Factory | undefined): void {
    place("set_footer", "", {}, factory, () => [footerData()]);
  },
  setHeader(factory: Factory | undefined): void {
    place("set_header", "", {}, factory);
  },
  setTitle(title: string): void {
    tellUi("set_title", { title: plain(title) ?? null });
  },
  custom,
  pasteToEditor(text: string): void {
    tellUi("paste_to_editor", { text: plain(text) ?? null });
    pasteToEditor(String(text));
  },
  setEditorText(text: string): void {
    tellUi("set_editor_text", { text: plain(text) ?? null });
    setEditorText(String(text));
  },
  getEditorText(): string {
    return tellUi("get_editor_text", {}).text ?? "";
  },
  addAutocompleteProvider(factory: Factory): void {
    if (state().set.mode === "tui") addProvider(factory);
    else tellUi("add_autocomplete_provider", {});
  },
  setEditorComponent(factory: Factory | undefined): void {
    setEditor(factory);
  },
  getEditorComponent(): unknown {
    return editorFactory();
  },
  get theme(): Theme {
    return theme;
  },
  getAllThemes(): { name: string; path: string | undefined }[] {
    return state().set.mode === "tui" ? themes().map(({ name, sourcePath }) => ({ name: name ?? "", path: sourcePath })) : [];
  },
  getTheme(name: string): Theme | undefined {
    return state().set.mode === "tui" && !isPlayed() ? themeNamed(String(name)) : undefined;
  },
  setTheme(wanted: string | Theme): { success: boolean; error?: string } {
    const name = typeof wanted === "string" ? wanted : undefined;
    const answer = tellUi("set_theme", present({ theme: name ?? "<theme>" }));
    if (answer.success === true && !isPlayed()) {
      const found = name === undefined ? (wanted as Theme) : themeNamed(name);
      if (found) useTheme(found === theme ? currentTheme() : found);
    }
    return present({ success: answer.success === true, error: answer.error }) as { success: boolean; error?: string };
  },
  getToolsExpanded(): boolean {
    return state().set.toolsExpanded ?? false;
  },
  setToolsExpanded(expanded: boolean): void {
    tellUi("set_tools_expanded", { expanded: plain(expanded) ?? null });
  },
};

/** `ctx.ui` of the session. */
export const uiOfSession = renewed(ui);
