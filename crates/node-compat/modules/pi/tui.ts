/**
 * `pi:pi/tui`: what factories get as `tui` and as `keybindings`.
 *
 * The screen is the host's: `tui` says how large it is, asks to be drawn again, floats overlays and moves the focus. What
 * belongs to a program that owns its terminal (`start`, `stop`, raw writing) does nothing here; a component that runs a
 * program has the host's `exec` for it.
 */

import { importSync, state } from "pi:engine";
import { focusPart, handleOf, screen, tellUi } from "pi:pi/components";
import type { Component } from "pi:pi/components";
import { listenToKeys } from "pi:pi/terminal_input";
import { hasOverlay, hideOverlay, showOverlay } from "pi:pi/overlays";

type Listener = (data: string) => { consume?: boolean; data?: string } | undefined;

const listeners = new Map<Listener, () => void>();

/** What factories get as `tui`. */
export const tui = {
  mode: "fullscreen",
  children: [] as Component[],
  fullRedraws: 0,
  terminal: {
    get columns(): number {
      return screen().width;
    },
    get rows(): number {
      return screen().height;
    },
    kittyProtocolActive: false,
    write(): void {},
    hideCursor(): void {},
    showCursor(): void {},
    clearLine(): void {},
    clearFromCursor(): void {},
    clearScreen(): void {},
    setProgress(): void {},
    setTitle(title: string): void {
      tellUi("set_title", { title: String(title).toWellFormed() });
    },
  },
  get width(): number {
    return screen().width;
  },
  get height(): number {
    return screen().height;
  },
  addChild(component: Component): void {
    tui.children.push(component);
  },
  removeChild(component: Component): void {
    tui.children = tui.children.filter((child) => child !== component);
  },
  clear(): void {
    tui.children = [];
  },
  /** The keys go to an overlay, to a part of the component that has them, or, with `null`, to none of this realm's. */
  setFocus(component: Component | null): void {
    const handle = component === null ? undefined : handleOf(component);
    if (component !== null && handle === undefined) return focusPart(component);
    focusPart(undefined);
    tellUi("overlay", { set: "focus", ...(handle === undefined ? {} : { component: handle }) });
  },
  showOverlay,
  hideOverlay,
  hasOverlay,
  getShowHardwareCursor: () => false,
  setShowHardwareCursor(): void {},
  getClearOnShrink: () => true,
  setClearOnShrink(): void {},
  start(): void {},
  stop(): void {},
  addInputListener(listener: Listener): () => void {
    if (!listeners.has(listener)) listeners.set(listener, listenToKeys(listener));
    return () => tui.removeInputListener(listener);
  },
  removeInputListener(listener: Listener): void {
    listeners.get(listener)?.();
    listeners.delete(listener);
  },
  onTerminalColorSchemeChange: () => () => {},
  setTerminalColorSchemeNotifications(): void {},
  queryTerminalBackgroundColor: async () => undefined,
  queryTerminalColorScheme: async () => undefined,
  requestRender(): void {
    if (state().set.mode === "tui") tellUi("redraw", {});
  },
  renderNow(): void {
    tui.requestRender();
  },
  invalidate(): void {
    tui.requestRender();
  },
};

/** A package that the extension may have. */
function optional(specifier: string): any {
  try {
    return importSync(specifier);
  } catch {
    return undefined;
  }
}

/** pi's own keys, with the names of its actions. */
const APP_KEYS: Record<string, { defaultKeys: string | string[]; description: string }> = {
  "app.interrupt": { defaultKeys: "escape", description: "Cancel or abort" },
  "app.clear": { defaultKeys: "ctrl+c", description: "Clear editor" },
  "app.exit": { defaultKeys: "ctrl+d", description: "Exit when editor is empty" },
  "app.suspend": { defaultKeys: "ctrl+z", description: "Suspend to background" },
  "app.thinking.cycle": { defaultKeys: "shift+tab", description: "Cycle thinking level" },
  "app.model.cycleForward": { defaultKeys: "ctrl+p", description: "Cycle to next model" },
  "app.model.cycleBackward": { defaultKeys: "shift+ctrl+p", description: "Cycle to previous model" },
  "app.model.select": { defaultKeys: "ctrl+l", description: "Open model selector" },
  "app.tools.expand": { defaultKeys: "ctrl+o", description: "Toggle tool output" },
  "app.thinking.toggle": { defaultKeys: "ctrl+t", description: "Toggle thinking blocks" },
  "app.editor.external": { defaultKeys: "ctrl+g", description: "Open external editor" },
  "app.message.copy": { defaultKeys: "ctrl+x", description: "Copy last assistant message" },
  "app.message.followUp": { defaultKeys: "alt+enter", description: "Queue follow-up message" },
  "app.message.dequeue": { defaultKeys: "alt+up", description: "Restore queued messages" },
  "app.clipboard.pasteImage": { defaultKeys: "ctrl+v", description: "Paste image from clipboard" },
  "app.session.new": { defaultKeys: [], description: "Start a new session" },
  "app.session.tree": { defaultKeys: [], description: "Open session tree" },
  "app.session.fork": { defaultKeys: [], description: "Fork current session" },
  "app.session.resume": { defaultKeys: [], description: "Resume a session" },
};

/** Actions that an editor hands back to pi. */
export const APP_ACTIONS: readonly string[] = Object.keys(APP_KEYS);

let bindings: object | undefined;

/** What factories get as `keybindings`: pi-tui's own manager with pi's keys, where the extension brings it. */
export function keybindings(): object {
  if (bindings) return bindings;
  const library = optional("@earendil-works/pi-tui");
  if (library?.KeybindingsManager && library.TUI_KEYBINDINGS) {
    bindings = new library.KeybindingsManager({ ...library.TUI_KEYBINDINGS, ...APP_KEYS }, {}) as object;
    library.setKeybindings?.(bindings);
  } else {
    bindings = { matches: () => false, getKeys: () => [], getEffectiveConfig: () => ({}) };
  }
  return bindings;
}

/** At the terminal, has pi-tui know pi's own keys: the hints of extensions name them, also in what no component draws. */
export function nameKeys(): void {
  if (state().set.mode === "tui") keybindings();
}
