/** `pi:node/util/table`: formats the table of `console.table`. */

import { inspect } from "pi:node/util/inspect";

const isList = (value: unknown) => Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));

function shown(value: unknown): string {
  const isLarge = value !== null && typeof value === "object" && !isList(value) && Object.keys(value).length > 2;
  return inspect(value, { maxArrayLength: 3, breakLength: Number.POSITIVE_INFINITY, depth: isLarge ? -1 : 0 });
}

/** Returns the titles of the columns, and the rows below them. */
function cells(rows: any, columns: string[] | undefined): [string[], string[][]] {
  if (rows instanceof Map) return [["(iteration index)", "Key", "Values"], [...rows].map(([key, value], at) => [String(at), shown(key), shown(value)])];
  if (rows instanceof Set) return [["(iteration index)", "Values"], [...rows].map((value, at) => [String(at), shown(value)])];
  const names: string[] = [];
  const records: [string, Map<string, string>, string | undefined][] = [];
  for (const key of Object.keys(rows)) {
    const item = rows[key];
    const isPrimitive = item === null || (typeof item !== "function" && typeof item !== "object");
    const record = new Map<string, string>();
    if (!isPrimitive || columns !== undefined) {
      for (const name of columns ?? Object.keys(item)) {
        if (!names.includes(name)) names.push(name);
        if (!isPrimitive && Object.hasOwn(item, name)) record.set(name, shown(item[name]));
      }
    }
    records.push([key, record, isPrimitive && columns === undefined ? shown(item) : undefined]);
  }
  const hasValues = records.some(([, , value]) => value !== undefined);
  const head = ["(index)", ...names, ...(hasValues ? ["Values"] : [])];
  return [head, records.map(([key, record, value]) => [key, ...names.map((name) => record.get(name) ?? ""), ...(hasValues ? [value ?? ""] : [])])];
}

/** Formats the rows of an array, object, Map or Set as a table, with only the named columns if any are given. */
export function table(rows: any, columns?: string[]): string {
  const [head, body] = cells(rows, columns);
  const widths = head.map((title, at) => Math.max(title.length, ...body.map((row) => row[at]!.length)) + 2);
  const line = (cells: string[]) => `│${cells.map((cell, at) => ` ${cell}`.padEnd(widths[at]!)).join("│")}│`;
  const rule = (left: string, middle: string, right: string) => left + widths.map((width) => "─".repeat(width)).join(middle) + right;
  return [rule("┌", "┬", "┐"), line(head), rule("├", "┼", "┤"), ...body.map(line), rule("└", "┴", "┘")].join("\n");
}
