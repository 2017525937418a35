/**
 * `pi:pi/overlays`: components that float above the rest of the screen, and their handles.
 *
 * The host owns the order, focus and positions, since overlays of several extensions share one screen; a handle calls the host.
 * Without a screen, an overlay exists and receives keys.
 */

import { draw, focusOnly, handleOf, mounted, screen, tellUi } from "pi:pi/components";
import type { Component, Mounted } from "pi:pi/components";
import { plain } from "pi:pi/plain";

/** The result of pi-tui's `showOverlay`. */
export interface OverlayHandle {
  hide(): void;
  setHidden(hidden: boolean): void;
  isHidden(): boolean;
  focus(): void;
  unfocus(options?: { target: unknown }): void;
  isFocused(): boolean;
  getBounds(): { row: number; col: number; width: number; height: number } | undefined;
}

/** Overlays that are not permanently hidden, newest last. */
const shown: OverlayHandle[] = [];

/** Returns a function that returns the options of an overlay as data, with `visible` evaluated for the terminal. */
export function floatsBy(options: any): () => object {
  return () => {
    const now = typeof options === "function" ? options() : options;
    const data = plain(now);
    const visible = typeof now?.visible !== "function" || now.visible(screen().width, screen().height) !== false;
    return { shown: visible, ...(data === undefined || data === null ? {} : { overlay: data }) };
  };
}

/** Returns the handle of the overlay at `spot`. `close` removes it permanently; `gone` reports its removal. */
export function handleFor(spot: Mounted, close: () => void): { handle: OverlayHandle; gone: () => void } {
  const ask = (set?: string, more: object = {}) => {
    const answer = tellUi("overlay", { component: spot.handle, ...(set === undefined ? {} : { set }), ...more });
    if (set !== undefined && "focus" in answer) focusOnly(answer.focus ?? undefined);
    return answer;
  };
  let isThere = true;
  const gone = () => {
    isThere = false;
    const at = shown.indexOf(handle);
    if (at >= 0) shown.splice(at, 1);
  };
  const handle: OverlayHandle = {
    hide() {
      if (!isThere) return;
      gone();
      close();
    },
    setHidden: (hidden) => void (isThere && ask(hidden ? "hidden" : "shown")),
    isHidden: () => isThere && ask().hidden === true,
    focus: () => void (isThere && ask("focus")),
    unfocus(options) {
      if (!isThere) return;
      if (!options) ask("unfocus");
      else ask("unfocus", { target: handleOf(options.target) ?? null });
    },
    isFocused: () => isThere && ask().focused !== false,
    getBounds: () => (isThere ? (ask().bounds ?? undefined) : undefined),
  };
  shown.push(handle);
  return { handle, gone };
}

/** Shows a component above the screen until it is hidden. It receives keys unless its options say otherwise. */
export function showOverlay(component: Component, options?: any): OverlayHandle {
  const floats = floatsBy(options);
  const spot = mounted({ floats });
  const close = () => {
    spot.unmount();
    tellUi("closed", { component: spot.handle });
  };
  const overlayOptions = plain(typeof options === "function" ? options() : options);
  const settings = { overlay: true, ...(overlayOptions === undefined ? {} : { overlayOptions }) };
  if (tellUi("custom", { component: spot.handle, options: settings }).draws === true) {
    spot.mount(component);
    tellUi("drawn", { component: spot.handle, ...draw(component, screen().width), ...floats() });
  }
  return handleFor(spot, close).handle;
}

/** Removes the newest overlay. */
export function hideOverlay(): void {
  shown.at(-1)?.hide();
}

/** Drops all overlays, after the host has removed them. */
export function leaveOverlays(): void {
  shown.length = 0;
}

/** Returns whether an overlay of this realm is visible. */
export function hasOverlay(): boolean {
  return shown.some((overlay) => !overlay.isHidden());
}
