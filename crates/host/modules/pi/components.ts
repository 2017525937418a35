/**
 * `pi:pi/components`: components of the terminal, which live in this realm and are drawn here.
 *
 * A component is an object with `render(width)` that gives lines, and, where it wants them,
 * `handleInput(data)`, `invalidate()` and `dispose()`. The host knows it by a handle and asks it:
 *
 * | request | does | answer |
 * |---|---|---|
 * | `{type: "render", width}` | draws | `{lines}` |
 * | `{type: "input", data}` | hands in one key | `{closed}` |
 * | `{type: "dispose"}` | tells it that it is gone | `{}` |
 */

import { importSync, state } from "pi:engine";
import { callSync } from "pi:hostcall";
import { issueHandle } from "pi:pi/handles";
import { plain } from "pi:pi/plain";
import { theme } from "pi:pi/theme";

/** What an extension makes. */
export interface Component {
  render(width: number): string[];
  handleInput?(data: string): void;
  invalidate?(): void;
  dispose?(): void;
}

/** A component as the host knows it. */
export interface Mounted {
  handle: number;
  /** Puts the component in its place once it is made. */
  mount(component: Component): void;
  component(): Component | undefined;
}

interface Screen {
  width: number;
  height: number;
}

/** Size of the terminal, as the host last told it. */
export function screen(): Screen {
  return state().set.screen ?? { width: 80, height: 24 };
}

/** What `render` gives, or a line that says why it gave nothing. */
export function draw(component: Component, width: number): string[] {
  try {
    return Array.from(component.render(width), (line) => String(line).toWellFormed());
  } catch (error) {
    return [`<render error: ${error instanceof Error ? error.message : String(error)}>`];
  }
}

/** Takes a handle for a component that is about to be made. `isClosed` says whether it has ended itself. */
export function mounted(isClosed: () => boolean = () => false): Mounted {
  let component: Component | undefined;
  const handle = issueHandle((request: any) => {
    switch (request?.type) {
      case "render":
        return { lines: component ? draw(component, request.width) : [] };
      case "input":
        if (!isClosed()) component?.handleInput?.(request.data);
        return { closed: isClosed() };
      case "dispose":
        component?.dispose?.();
        return {};
      default:
        throw new Error(`a component cannot ${String(request?.type)}`);
    }
  });
  return { handle, mount: (made) => void (component = made), component: () => component };
}

/** Lines of a component that an extension made; nothing when it made none. */
function drawn(component: Component | undefined, width: number): { lines: string[] } | undefined {
  return component ? { lines: draw(component, width) } : undefined;
}

/** A message or entry renderer as the host calls it: `(value, options, width)`. */
export function asRenderer(renderer: (...args: any[]) => any): (...args: any[]) => unknown {
  return (value, options, width) => drawn(renderer(value, options, theme), width);
}

/**
 * A function of a tool as the host calls it. `renderCall` gets `(args, context, width)` and `renderResult`
 * `(result, options, context, width)`; all others get what they are given.
 */
export function asToolFunction(name: string, callable: (...args: any[]) => any): (...args: any[]) => unknown {
  const live = (context: object) => ({ ...context, state: {}, lastComponent: undefined, invalidate() {} });
  switch (name) {
    case "renderCall":
      return (args, context, width) => drawn(callable(args, theme, live(context)), width);
    case "renderResult":
      return (result, options, context, width) => drawn(callable(result, options, theme, live(context)), width);
    default:
      return callable;
  }
}

/** pi-tui, where the extension has it. */
function piTui(): any {
  try {
    return importSync("@earendil-works/pi-tui");
  } catch {
    return undefined;
  }
}

/** What `showOverlay` gives: a hidden overlay is shown again where it was. */
interface Floating {
  hide(): void;
  setHidden(hidden: boolean): void;
  isHidden(): boolean;
  focus(): void;
  unfocus(): void;
  isFocused(): boolean;
}

/** Overlays that are shown, the topmost last. */
const floating: Floating[] = [];

/** Floats a component over the screen until it is hidden. It has the keys unless its options say otherwise. */
function showOverlay(component: Component, options?: object): Floating {
  const spot = mounted();
  spot.mount(component);
  let open = false;
  const close = () => {
    if (!open) return;
    open = false;
    floating.splice(floating.indexOf(overlay), 1);
    tellUi("closed", { component: spot.handle });
  };
  const show = () => {
    const overlayOptions = plain(options);
    open = tellUi("custom", { component: spot.handle, options: { overlay: true, ...(overlayOptions === undefined ? {} : { overlayOptions }) } }).draws === true;
    if (!open) return;
    floating.push(overlay);
    tellUi("drawn", { component: spot.handle, lines: draw(component, screen().width) });
  };
  const overlay: Floating = {
    hide: close,
    setHidden: (hidden) => (hidden ? close() : open || show()),
    isHidden: () => !open,
    focus: () => {},
    unfocus: () => {},
    isFocused: () => open && floating.at(-1) === overlay,
  };
  show();
  return overlay;
}

/** What factories get as `tui`: size, focus and the wish to be drawn again. */
export const tui = {
  children: [] as Component[],
  terminal: {
    get columns(): number {
      return screen().width;
    },
    get rows(): number {
      return screen().height;
    },
    kittyProtocolActive: false,
    write(): void {},
    setTitle(title: string): void {
      tellUi("set_title", { title: String(title) });
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
  setFocus(): void {},
  showOverlay,
  hideOverlay(): void {
    floating.at(-1)?.hide();
  },
  hasOverlay(): boolean {
    return floating.length > 0;
  },
  requestRender(): void {
    if (state().set.mode === "tui") tellUi("redraw", {});
  },
  invalidate(): void {
    tui.requestRender();
  },
};

let bindings: object | undefined;

/** What `custom` factories get as `keybindings`: pi-tui's own manager, where the extension brings it. */
export function keybindings(): object {
  if (bindings) return bindings;
  const library = piTui();
  if (library?.KeybindingsManager && library.TUI_KEYBINDINGS) {
    bindings = new library.KeybindingsManager(library.TUI_KEYBINDINGS, {}) as object;
  } else {
    bindings = { matches: () => false, getKeys: () => [], getEffectiveConfig: () => ({}) };
  }
  return bindings;
}

/** One call to the user interface, at once and in order. What is refused gives `{}`; it is in the ledger. */
export function tellUi(op: string, params: object): any {
  try {
    return callSync("ui", "ui", { op, ...params }).output ?? {};
  } catch {
    return {};
  }
}
