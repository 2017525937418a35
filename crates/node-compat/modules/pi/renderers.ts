/**
 * `pi:pi/renderers`: wraps functions that render messages, entries and tool calls in the form in which the host calls them: their
 * arguments, then the width. The resulting component is drawn at once; without a component there is no answer.
 * The renderers of one tool call share a `state`, and each gets the component that it returned last as `lastComponent`.
 */

import { draw, tellUi } from "pi:pi/components";
import type { Component, Picture } from "pi:pi/components";
import { theme } from "pi:pi/theme";
import { nameKeys } from "pi:pi/tui";

type Callable = (...args: any[]) => any;

/** State that the renderers of one tool call share. */
interface Row {
  state: object;
  last: Record<string, Component | undefined>;
}

/** Maximum number of tool calls whose rows are kept; the oldest is dropped. A screen shows fewer. */
const MAX_ROWS = 500;
const rows = new Map<string, Row>();

function rowOf(id: string): Row {
  let row = rows.get(id);
  if (!row) {
    row = { state: {}, last: {} };
    rows.set(id, row);
    if (rows.size > MAX_ROWS) rows.delete(rows.keys().next().value!);
  }
  return row;
}

/** Draws a component of an extension; undefined without a component. */
function drawn(component: Component | undefined, width: number): Picture | undefined {
  return component ? draw(component, width) : undefined;
}

/** Wraps a message or entry renderer for the host, which passes `(value, options, width)`. */
export function asRenderer(renderer: Callable): Callable {
  return (value, options, width) => {
    nameKeys();
    return drawn(renderer(value, options, theme), width);
  };
}

/**
 * Wraps a function of a tool for the host. `renderCall` gets `(args, context, width)` and `renderResult` `(result, options,
 * context, width)`; others get their arguments unchanged.
 */
export function asToolFunction(name: string, callable: Callable): Callable {
  const render = (context: any, width: number, make: (context: object) => Component | undefined) => {
    nameKeys();
    const id = String(context.toolCallId);
    const row = rowOf(id);
    const invalidate = () => tellUi("redraw", { toolCallId: id });
    const made = make({ ...context, state: row.state, lastComponent: row.last[name], invalidate });
    row.last[name] = made;
    return drawn(made, width);
  };
  switch (name) {
    case "renderCall":
      return (args, context, width) => render(context, width, (live) => callable(args, theme, live));
    case "renderResult":
      return (result, options, context, width) => render(context, width, (live) => callable(result, options, theme, live));
    default:
      return callable;
  }
}
