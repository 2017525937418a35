/** `pi:node/util/table`: the box of console.table. */

import { inspect } from "pi:node/util/inspect";

/** Rows of an array, object, Map or Set as a table; only the named columns when given. */
export function table(rows: any, columns?: string[]): string {
  const entries: [string, unknown][] =
    rows instanceof Map || rows instanceof Set
      ? [...rows.values()].map((value, at) => [String(at), value])
      : Object.keys(rows).map((key) => [key, rows[key]]);
  const names: string[] = columns ? [...columns] : [];
  let plainValues = false;
  for (const [, value] of entries) {
    if (typeof value === "object" && value !== null) {
      if (!columns) for (const key of Object.keys(value)) if (!names.includes(key)) names.push(key);
    } else plainValues = true;
  }
  const shown = (value: unknown) => inspect(value, { maxArrayLength: 3, breakLength: Number.POSITIVE_INFINITY, depth: 0 });
  const head = ["(index)", ...names, ...(plainValues ? ["Values"] : [])];
  const body = entries.map(([key, value]) => {
    const record = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
    const cells = names.map((name) => (record && Object.hasOwn(record, name) ? shown(record[name]) : ""));
    return [key, ...cells, ...(plainValues ? [record ? "" : shown(value)] : [])];
  });
  const widths = head.map((title, at) => Math.max(title.length, ...body.map((row) => row[at]!.length)) + 2);
  const line = (cells: string[]) => `│${cells.map((cell, at) => ` ${cell}`.padEnd(widths[at]!)).join("│")}│`;
  const rule = (left: string, middle: string, right: string) => left + widths.map((width) => "─".repeat(width)).join(middle) + right;
  return [rule("┌", "┬", "┐"), line(head), rule("├", "┼", "┤"), ...body.map(line), rule("└", "┴", "┘")].join("\n");
}
