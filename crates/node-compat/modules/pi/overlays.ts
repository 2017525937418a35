/**
 * `pi:pi/overlays`: components that float above the rest of the screen, and the handles that steer them.
 *
 * The host owns the order, the focus and the places, since overlays of several extensions share one screen; a handle asks
 * it. Where nobody draws, an overlay is simply there and has the keys.
 */

import { draw, focusOnly, handleOf, mounted, screen, tellUi } from "pi:pi/components";
import type { Component, Mounted } from "pi:pi/components";
import { plain } from "pi:pi/plain";

/** What pi-tui's `showOverlay` gives. */
export interface OverlayHandle {
  hide(): void;
  setHidden(hidden: boolean): void;
  isHidden(): boolean;
  focus(): void;
  unfocus(options?: { target: unknown }): void;
  isFocused(): boolean;
  getBounds(): { row: number; col: number; width: number; height: number } | undefined;
}

/** Overlays that were not hidden for good, the newest last. */
const shown: OverlayHandle[] = [];

/** The options of an overlay as data, and its `visible` asked for the terminal as it is. */
export function floatsBy(options: any): () => object {
  return () => {
    const now = typeof options === "function" ? options() : options;
    const data = plain(now);
    const visible = typeof now?.visible !== "function" || now.visible(screen().width, screen().height) !== false;
    return { shown: visible, ...(data === undefined || data === null ? {} : { overlay: data }) };
  };
}

/** The handle of an overlay that stands at `spot`; `close` takes it away for good, `gone` says that it is away. */
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

/** Floats a component over the screen until it is hidden. It has the keys unless its options say otherwise. */
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

/** Takes the newest overlay away. */
export function hideOverlay(): void {
  shown.at(-1)?.hide();
}

/** Forgets every overlay: the host has taken them away. */
export function leaveOverlays(): void {
  shown.length = 0;
}

/** Whether an overlay of this realm can be seen. */
export function hasOverlay(): boolean {
  return shown.some((overlay) => !overlay.isHidden());
}
