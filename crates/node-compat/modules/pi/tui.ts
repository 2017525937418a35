/**
 * `pi:pi/tui`: the `tui` and `keybindings` arguments of factories.
 *
 * The host owns the screen: `tui` reports its size, requests drawing, shows overlays and moves the focus. Members for a program
 * that owns its terminal (`start`, `stop`, raw writing) do nothing; a component that runs a program uses the host's `exec`.
 */

import { importSync, state } from "pi:engine";
import { focusPart, handleOf, screen, tellUi } from "pi:pi/components";
import type { Component } from "pi:pi/components";
import { listenToKeys } from "pi:pi/terminal_input";
import { hasOverlay, hideOverlay, showOverlay } from "pi:pi/overlays";

type Listener = (data: string) => { consume?: boolean; data?: string } | undefined;

const listeners = new Map<Listener, () => void>();

/** The `tui` argument of factories. */
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
  /** Focuses an overlay or a part of the component with the keys; `null` removes the focus from this realm. */
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

/** Returns a package if the extension has imported it. */
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

/** Actions that an editor forwards to pi. */
export const APP_ACTIONS: readonly string[] = Object.keys(APP_KEYS);

let bindings: object | undefined;

/** Returns the `keybindings` argument of factories: pi-tui's own manager with pi's keys, if the extension imports it. */
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

/** Registers pi's keys with pi-tui at the terminal, since hints of extensions name them even without a component. */
export function nameKeys(): void {
  if (state().set.mode === "tui") keybindings();
}
