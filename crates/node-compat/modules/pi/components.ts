/**
 * `pi:pi/components`: components on the terminal, which this realm holds and draws.
 *
 * A component is an object with `render(width)` that returns lines, and optionally `handleInput(data)`, `invalidate()` and
 * `dispose()`. The host identifies it by a handle and sends requests:
 *
 * | request | does | answer |
 * |---|---|---|
 * | `{type: "render", width, focused, fresh?}` | draws, with `fresh` without cached lines | `{lines}`, of an overlay `{lines, shown, overlay?}` |
 * | `{type: "input", data}` | passes one key | `{closed}` |
 * | `{type: "text", text}` | for an editor: sets its text | `{}` |
 * | `{type: "dispose"}` | notifies it of its removal | `{}` |
 *
 * If `render` throws, the answer has a member `failed`, and the host removes the component.
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
  /** Whether the component has the focus; only components with a cursor have this member. */
  focused?: boolean;
}

/** A component's connection to the host. */
export interface Mounted {
  handle: number;
  /** Mounts the component when it has been created. */
  mount(component: Component): void;
  component(): Component | undefined;
  /** Unmounts a component that has ended or was not created. */
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

/** Returns the size of the terminal, as last reported by the host. */
export function screen(): Screen {
  return state().set.screen ?? { width: 80, height: 24 };
}

/** The result of drawing: lines, or the error. */
export interface Picture {
  lines: string[];
  failed?: string;
}

/** Draws a component. On a failure, returns a line with the error. */
export function draw(component: Component, width: number): Picture {
  try {
    return { lines: Array.from(component.render(width), (line) => String(line).toWellFormed()) };
  } catch (error) {
    const failed = error instanceof Error ? error.message : String(error);
    return { lines: [`<render error: ${failed}>`.toWellFormed()], failed: failed.toWellFormed() };
  }
}

/** Components of this realm on the screen, by handle. */
const onScreen = new Map<number, Component>();
/** The part of a mounted component that got the focus by `tui.setFocus`. */
let part: Component | undefined;

/** Returns the handle of a component on the screen. */
export function handleOf(component: unknown): number | undefined {
  for (const [handle, mounted] of onScreen) if (mounted === component) return handle;
  return undefined;
}

/** Focuses a part of the mounted component that receives keys. */
export function focusPart(component: Component | undefined): void {
  if (part) setFocused(part, false);
  part = component;
  if (part) setFocused(part, true);
}

/** Sets the focus state of a component, if it has one. */
function setFocused(component: Component, focused: boolean): void {
  if ("focused" in component && component.focused !== focused) component.focused = focused;
}

/** Focuses the component with this handle, and removes the focus from others of this realm. */
export function focusOnly(handle: number | undefined): void {
  focusPart(undefined);
  for (const [other, component] of onScreen) setFocused(component, other === handle);
}

/** Sequences of key release events. */
const RELEASE = /^\x1b\[[\d;:]*:3[u~A-HPQRS]$/;

/** Passes a key to a component. Only components that handle releases get them. */
function takeKey(component: Component | undefined, data: string): void {
  if (component?.wantsKeyRelease !== true && RELEASE.test(data)) return;
  component?.handleInput?.(data);
}

/** Issues a handle for a component that is about to be created. */
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

/** Calls the user interface synchronously, so that calls stay in order. Returns `{}` for a refusal, which the ledger records. */
export function tellUi(op: string, params: object): any {
  try {
    return callSync("ui", "ui", { op, ...params }).output ?? {};
  } catch {
    return {};
  }
}

/** Shows a component that was created synchronously, before the extension continues. */
export function showFirst(spot: Mounted, component: Component): void {
  spot.mount(component);
  tellUi("drawn", { component: spot.handle, ...draw(component, screen().width) });
}
