/**
 * `pi:node/util/layout`: lays out formatted entries in one line, several lines, or columns.
 *
 * The rules are Node's: up to `compact` inner levels share a line while it stays below `breakLength`;
 * long arrays of short entries are set in columns.
 */

/** The part of an inspection that the layout reads. */
export interface Page {
  compact: number | boolean;
  breakLength: number;
  maxArrayLength: number;
  colors: boolean;
  indentation: number;
  /** Depth of the innermost object formatted so far. */
  deepest: number;
}

const ANSI = /\u001b\[[0-9;]*m/g;

function widthOf(text: string, colors: boolean): number {
  const plain = colors ? text.replace(ANSI, "") : text;
  let width = 0;
  for (const character of plain) width += wide(character.codePointAt(0)!) ? 2 : 1;
  return width;
}

/** Returns whether a character is wide: East Asian and emoji, approximately. */
function wide(code: number): boolean {
  return code >= 0x1100 && (code <= 0x115f || (code >= 0x2e80 && code <= 0xa4cf) || (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) || (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60) || (code >= 0x1f300 && code <= 0x1f64f) || (code >= 0x1f900 && code <= 0x1f9ff) || (code >= 0x20000 && code <= 0x3fffd));
}

/** Joins the entries of one value. `array` permits columns; `value` determines whether numbers are right-aligned. */
export function lay(page: Page, entries: string[], base: string, braces: [string, string], array: boolean, depth: number, value?: ArrayLike<unknown>): string {
  const [open, close] = braces;
  const indentation = `\n${" ".repeat(page.indentation)}`;
  if (page.compact === true) {
    if (fits(page, entries, 0, base)) return `${open}${base ? ` ${base}` : ""} ${entries.join(", ")} ${close}`;
    const gap = base === "" && open.length === 1 ? " " : `${base ? ` ${base}` : ""}${indentation}  `;
    return `${open}${gap}${entries.join(`,${indentation}  `)} ${close}`;
  }
  const head = base ? `${base} ` : "";
  const compact = Number(page.compact);
  if (compact >= 1) {
    const count = entries.length;
    const rows = array && count > 6 ? columns(page, entries, compact, value) : entries;
    if (page.deepest - depth < compact && count === rows.length) {
      const start = rows.length + page.indentation + open.length + base.length + 10;
      if (fits(page, rows, start, base)) {
        const joined = rows.join(", ");
        if (!joined.includes("\n")) return `${head}${open} ${joined} ${close}`;
      }
    }
    entries = rows;
  }
  return `${head}${open}${indentation}  ${entries.join(`,${indentation}  `)}${indentation}${close}`;
}

function fits(page: Page, entries: string[], start: number, base: string): boolean {
  let total = entries.length + start;
  if (total + entries.length > page.breakLength) return false;
  for (const entry of entries) {
    total += page.colors ? entry.replace(ANSI, "").length : entry.length;
    if (total > page.breakLength) return false;
  }
  return base === "" || !base.includes("\n");
}

const SEPARATOR = 2;
/** Approximate ratio of the height and width of a character; columns aim at a square. */
const HEIGHT = 2.5;

function columns(page: Page, entries: string[], compact: number, value: ArrayLike<unknown> | undefined): string[] {
  // The line "... n more items" is not part of the columns.
  const more = page.maxArrayLength < entries.length;
  const count = more ? entries.length - 1 : entries.length;
  const widths = entries.slice(0, count).map((entry) => widthOf(entry, page.colors));
  const total = widths.reduce((sum, width) => sum + width + SEPARATOR, 0);
  const longest = widths.reduce((longest, width) => Math.max(longest, width), 0);
  const cell = longest + SEPARATOR;
  const worthwhile = cell * 3 + page.indentation < page.breakLength && (total / cell > 5 || longest <= 6);
  if (!worthwhile) return entries;
  const biased = Math.max(cell - 3 - Math.sqrt(cell - total / entries.length), 1);
  const width = Math.min(
    Math.round(Math.sqrt(HEIGHT * biased * count) / biased),
    Math.floor((page.breakLength - page.indentation) / cell),
    compact * 4,
    15,
  );
  if (width <= 1) return entries;
  const columnWidths = Array.from({ length: width }, (_, column) => {
    let widest = 0;
    for (let at = column; at < count; at += width) widest = Math.max(widest, widths[at]!);
    return widest + SEPARATOR;
  });
  const right = value !== undefined && entries.every((_, at) => typeof value[at] === "number" || typeof value[at] === "bigint");
  const rows: string[] = [];
  for (let start = 0; start < count; start += width) {
    const end = Math.min(start + width, count);
    let row = "";
    for (let at = start; at < end; at++) {
      const last = at === end - 1;
      const text = last ? entries[at]! : `${entries[at]}, `;
      const room = columnWidths[at - start]! + entries[at]!.length - widths[at]!;
      if (right) row += text.padStart(last ? room - SEPARATOR : room);
      else row += last ? text : text.padEnd(room);
    }
    rows.push(row);
  }
  if (more) rows.push(entries[count]!);
  return rows;
}
