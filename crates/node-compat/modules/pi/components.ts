/**
 * `pi:pi/components`: components of the terminal, which live in this realm and are drawn here.
 *
 * A component is an object with `render(width)` that returns lines, and optionally `handleInput(data)`, `invalidate()` and
 * `dispose()`. The host identifies it by a handle and sends requests:
 *
 * | request | does | answer |
 * |---|---|---|
 * | `{type: "render", width, focused, fresh?}` | draws, `fresh` without what it kept | `{lines}`, of an overlay `{lines, shown, overlay?}` |
 * | `{type: "input", data}` | hands in one key | `{closed}` |
 * | `{type: "text", text}` | of an editor: holds this text now | `{}` |
 * | `{type: "dispose"}` | tells it that it is gone | `{}` |
 *
 * A component's exception in `render` is the member `failed` of the answer: the host removes the component.
 */

import { state } from "pi:engine";
import { callSync } from "pi:hostcall";
import { issueHandle } from "pi:pi/handles";

/** A component of an extension. */
export interface Component {
  render(width: number): string[];
  handleInput?(data: string): void;
  wantsKeyRelease?: boolean;
  invalidate?(): void;
  dispose?(): void;
  /** Whether it has the focus; only components with a cursor have this. */
  focused?: boolean;
}

/** A component in the host's view. */
export interface Mounted {
  handle: number;
  /** Mounts the component once it is made. */
  mount(component: Component): void;
  component(): Component | undefined;
  /** Unmounts a component that has ended, or was never made. */
  unmount(): void;
}

/** The position of a mounted component. */
export interface Place {
  isClosed?: () => boolean;
  /** Returns the members of an answer to `render` that position an overlay. */
  floats?: () => object;
}

interface Screen {
  width: number;
  height: number;
}

/** Returns the size of the terminal, as the host last reported it. */
export function screen(): Screen {
  return state().set.screen ?? { width: 80, height: 24 };
}

/** The result of drawing: lines, or the error. */
export interface Picture {
  lines: string[];
  failed?: string;
}

/** Draws a component; a failure gives a line with the error. */
export function draw(component: Component, width: number): Picture {
  try {
    return { lines: Array.from(component.render(width), (line) => String(line).toWellFormed()) };
  } catch (error) {
    const failed = error instanceof Error ? error.message : String(error);
    return { lines: [`<render error: ${failed}>`.toWellFormed()], failed: failed.toWellFormed() };
  }
}

/** Components of this realm on the screen, by their handle. */
const onScreen = new Map<number, Component>();
/** The part of a mounted component that has the focus by `tui.setFocus`. */
let part: Component | undefined;

/** Returns the handle of a component on the screen. */
export function handleOf(component: unknown): number | undefined {
  for (const [handle, mounted] of onScreen) if (mounted === component) return handle;
  return undefined;
}

/** Focuses a part of the mounted component that has the keys. */
export function focusPart(component: Component | undefined): void {
  if (part) setFocused(part, false);
  part = component;
  if (part) setFocused(part, true);
}

/** Notifies a component of its focus, if it supports that. */
function setFocused(component: Component, focused: boolean): void {
  if ("focused" in component && component.focused !== focused) component.focused = focused;
}

/** Focuses the component with this handle; others of this realm lose the focus. */
export function focusOnly(handle: number | undefined): void {
  focusPart(undefined);
  for (const [other, component] of onScreen) setFocused(component, other === handle);
}

/** Key release events, in the forms of terminals. */
const RELEASE = /^\x1b\[[\d;:]*:3[u~A-HPQRS]$/;

/** Passes a key to a component; releases only to components that handle them. */
function takeKey(component: Component | undefined, data: string): void {
  if (component?.wantsKeyRelease !== true && RELEASE.test(data)) return;
  component?.handleInput?.(data);
}

/** Issues a handle for a component that is about to be made. */
export function mounted(place: Place = {}): Mounted {
  let component: Component | undefined;
  const isClosed = place.isClosed ?? (() => false);
  const handle = issueHandle((request: any) => {
    switch (request?.type) {
      case "render":
        if (request.fresh === true) component?.invalidate?.();
        if (component && typeof request.focused === "boolean") setFocused(component, request.focused && part === undefined);
        return { ...(component ? draw(component, request.width) : { lines: [] }), ...place.floats?.() };
      case "input":
        if (!isClosed()) takeKey(part?.handleInput ? part : component, request.data);
        return { closed: isClosed() };
      case "text":
        (component as { setText?(text: string): void } | undefined)?.setText?.(request.text);
        return {};
      case "dispose":
        onScreen.delete(handle);
        component?.dispose?.();
        return {};
      default:
        throw new Error(`a component cannot ${String(request?.type)}`);
    }
  });
  return {
    handle,
    mount(made) {
      component = made;
      onScreen.set(handle, made);
      focusPart(undefined);
    },
    component: () => component,
    unmount() {
      component = undefined;
      onScreen.delete(handle);
      focusPart(undefined);
    },
  };
}

/** Calls the user interface, synchronously and in order. A refusal gives `{}`; the ledger has it. */
export function tellUi(op: string, params: object): any {
  try {
    return callSync("ui", "ui", { op, ...params }).output ?? {};
  } catch {
    return {};
  }
}

/** Shows a component that was made synchronously, before the extension continues. */
export function showFirst(spot: Mounted, component: Component): void {
  spot.mount(component);
  tellUi("drawn", { component: spot.handle, ...draw(component, screen().width) });
}
