/**
 * `pi:pi/editor`: an extension's editor that replaces pi's.
 *
 * The editor runs in this realm and receives keys; the host keeps a copy of its text. The host accepts submissions and actions
 * only while the editor handles a corresponding key of the user.
 */

import { state } from "pi:engine";
import { call } from "pi:hostcall";
import { tellUi, mounted, showFirst } from "pi:pi/components";
import type { Component, Mounted } from "pi:pi/components";
import { provider } from "pi:pi/completion";
import { theme } from "pi:pi/theme";
import { APP_ACTIONS, keybindings, tui } from "pi:pi/tui";

interface Editor extends Component {
  getText(): string;
  setText(text: string): void;
  [member: string]: any;
}

type Factory = (tui: object, theme: object, keybindings: object) => Editor;

/** The last factory that was set, even if no editor is drawn. */
let given: Factory | undefined;
let active: { editor: Editor; spot: Mounted } | undefined;

/** Colours of editors. */
const editorTheme = {
  borderColor: (text: string) => theme.fg("borderMuted", text),
  selectList: {
    selectedPrefix: (text: string) => theme.fg("accent", text),
    selectedText: (text: string) => theme.fg("accent", text),
    description: (text: string) => theme.fg("muted", text),
    scrollInfo: (text: string) => theme.fg("muted", text),
    noMatch: (text: string) => theme.fg("muted", text),
  },
};

/** Returns the factory of the current editor. */
export function editorFactory(): unknown {
  return given;
}

/** Drops the editor that replaced pi's, after the host has removed it. */
export function leaveEditor(): void {
  active?.spot.unmount();
  active = given = undefined;
}

/** Replaces pi's editor, or restores it. */
export function setEditor(factory: Factory | undefined): void {
  const before = active;
  active = undefined;
  before?.spot.unmount();
  given = state().set.mode === "tui" && typeof factory === "function" ? factory : undefined;
  if (typeof factory !== "function") {
    tellUi("set_editor_component", { custom: false });
    return;
  }
  const spot = mounted();
  const answer = tellUi("set_editor_component", { custom: true, component: spot.handle });
  if (answer.draws !== true) return;
  try {
    const editor = factory(tui, editorTheme, keybindings());
    active = { editor, spot };
    wire(editor, spot);
    editor.setText(answer.text ?? "");
    showFirst(spot, editor);
  } catch (error) {
    active = given = undefined;
    spot.unmount();
    tellUi("set_editor_component", { custom: false });
    throw error;
  }
}

/** Connects an editor as pi does: change listeners, pi's actions, completion. */
function wire(editor: Editor, spot: Mounted): void {
  const component = spot.handle;
  editor["onChange"] = (text: string) => tellUi("editor_text", { component, text: String(text).toWellFormed() });
  editor["onSubmit"] = (text: string) => void submit(editor, component, String(text));
  if (editor["borderColor"] !== undefined) editor["borderColor"] = editorTheme.borderColor;
  editor["setPaddingX"]?.(0);
  editor["setAutocompleteMaxVisible"]?.(5);
  editor["setAutocompleteProvider"]?.(provider());
  // Recognises pi's class by its shape, since an extension may bundle a copy of it.
  if (!(editor["actionHandlers"] instanceof Map)) return;
  const act = (action: string) => () => {
    if (action === "app.message.followUp") void submit(editor, component, editor.getText(), true);
    else tellUi("editor_action", { component, action });
  };
  editor["onEscape"] ??= act("app.interrupt");
  editor["onCtrlD"] ??= act("app.exit");
  for (const action of APP_ACTIONS) {
    if (action !== "app.interrupt" && action !== "app.exit") editor["actionHandlers"].set(action, act(action));
  }
}

/** Returns the capability that submitting a line for the user needs. */
function capabilityOf(text: string): string {
  const said = text.trim();
  // The host decides about the command when it runs.
  if (said.startsWith("!")) return "ui";
  return said.startsWith("/") ? "session.control" : "session.inject";
}

async function submit(editor: Editor, component: number, text: string, later = false): Promise<void> {
  if (text.trim() === "") return;
  if (later) editor.setText("");
  try {
    await call("ui", capabilityOf(text), { op: "editor_submit", component, text: text.toWellFormed(), ...(later ? { later } : {}) });
    editor["addToHistory"]?.(text);
  } catch {
    // The ledger records the refusal, and the text is restored.
    if (editor.getText() === "") editor.setText(text);
  }
}

/** Sets the text of this realm's editor. Returns false if there is none. */
export function setEditorText(text: string): boolean {
  if (!active) return false;
  active.editor.setText(text);
  return true;
}

/** Pastes into this realm's editor. Returns false if there is none. */
export function pasteToEditor(text: string): boolean {
  if (!active) return false;
  active.editor["handleInput"]?.(`\u001b[200~${text}\u001b[201~`);
  return true;
}
