/**
 * `pi:pi/components`: components of the terminal, which live in this realm and are drawn here.
 *
 * A component is an object with `render(width)` that gives lines, and, where it wants them,
 * `handleInput(data)`, `invalidate()` and `dispose()`. The host knows it by a handle and asks it:
 *
 * | request | does | answer |
 * |---|---|---|
 * | `{type: "render", width, focused, fresh?}` | draws, `fresh` without what it kept | `{lines}`, of an overlay `{lines, shown, overlay?}` |
 * | `{type: "input", data}` | hands in one key | `{closed}` |
 * | `{type: "text", text}` | of an editor: holds this text now | `{}` |
 * | `{type: "dispose"}` | tells it that it is gone | `{}` |
 *
 * What a component throws while it draws is a member `failed` of the answer: the host takes it away.
 */

import { state } from "pi:engine";
import { callSync } from "pi:hostcall";
import { issueHandle } from "pi:pi/handles";

/** What an extension makes. */
export interface Component {
  render(width: number): string[];
  handleInput?(data: string): void;
  wantsKeyRelease?: boolean;
  invalidate?(): void;
  dispose?(): void;
  /** Whether it has the keys; only components that show a cursor have this. */
  focused?: boolean;
}

/** A component as the host knows it. */
export interface Mounted {
  handle: number;
  /** Puts the component in its place once it is made. */
  mount(component: Component): void;
  component(): Component | undefined;
  /** The component has ended, or was never made. */
  unmount(): void;
}

/** What a mounted component is beside lines. */
export interface Place {
  isClosed?: () => boolean;
  /** Members of an answer to `render` that say where it floats. */
  floats?: () => object;
}

interface Screen {
  width: number;
  height: number;
}

/** Size of the terminal, as the host last told it. */
export function screen(): Screen {
  return state().set.screen ?? { width: 80, height: 24 };
}

/** What a picture is: lines, and why there are none where drawing failed. */
export interface Picture {
  lines: string[];
  failed?: string;
}

/** What `render` gives, or a line that says why it gave nothing. */
export function draw(component: Component, width: number): Picture {
  try {
    return { lines: Array.from(component.render(width), (line) => String(line).toWellFormed()) };
  } catch (error) {
    const failed = error instanceof Error ? error.message : String(error);
    return { lines: [`<render error: ${failed}>`.toWellFormed()], failed: failed.toWellFormed() };
  }
}

/** Components of this realm that are on the screen, by their handle. */
const onScreen = new Map<number, Component>();
/** The part of a mounted component that `tui.setFocus` gave the keys to. */
let part: Component | undefined;

/** The handle of a component that is on the screen. */
export function handleOf(component: unknown): number | undefined {
  for (const [handle, mounted] of onScreen) if (mounted === component) return handle;
  return undefined;
}

/** Gives the keys of the mounted component that has them to a part of it. */
export function focusPart(component: Component | undefined): void {
  if (part) setFocused(part, false);
  part = component;
  if (part) setFocused(part, true);
}

/** Tells a component whether it has the keys, if it wants to know. */
function setFocused(component: Component, focused: boolean): void {
  if ("focused" in component && component.focused !== focused) component.focused = focused;
}

/** The component with this handle has the keys; of this realm no other. */
export function focusOnly(handle: number | undefined): void {
  focusPart(undefined);
  for (const [other, component] of onScreen) setFocused(component, other === handle);
}

/** A key that was let go of, in the forms that terminals have for it. */
const RELEASE = /^\x1b\[[\d;:]*:3[u~A-HPQRS]$/;

/** That a key was let go of is for components that want to know. */
function takeKey(component: Component | undefined, data: string): void {
  if (component?.wantsKeyRelease !== true && RELEASE.test(data)) return;
  component?.handleInput?.(data);
}

/** Takes a handle for a component that is about to be made. */
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

/** One call to the user interface, at once and in order. What is refused gives `{}`; it is in the ledger. */
export function tellUi(op: string, params: object): any {
  try {
    return callSync("ui", "ui", { op, ...params }).output ?? {};
  } catch {
    return {};
  }
}

/** Shows a component that was made at once, so that the screen has it when the extension goes on. */
export function showFirst(spot: Mounted, component: Component): void {
  spot.mount(component);
  tellUi("drawn", { component: spot.handle, ...draw(component, screen().width) });
}
