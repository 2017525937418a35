/**
 * `pi:node/fs/glob`: shell patterns over paths, for `path.matchesGlob` and `fs.glob`.
 *
 * After brace expansion, a pattern is a list of segments: `**` for any number of folders, or a regular
 * expression. As in Node, a wildcard at the start of a name does not match a leading dot, `dir/**` does not match `dir`
 * itself, and a backslash is a separator.
 */

type Segment = RegExp | typeof ANY;

export const ANY = "**";

/** Expands braces: `a{b,c{d,e}}` gives `ab`, `acd`, `ace`; `{1..3}` is a range; an unmatched brace is literal. */
export function expand(pattern: string): string[] {
  let depth = 0;
  let open = -1;
  const commas: number[] = [];
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern[at];
    if (char === "{" && depth++ === 0) open = at;
    else if (char === "," && depth === 1) commas.push(at);
    else if (char === "}" && depth > 0 && --depth === 0) {
      const [head, body, tail] = [pattern.slice(0, open), pattern.slice(open + 1, at), pattern.slice(at + 1)];
      const range = /^(-?\d+)\.\.(-?\d+)$/.exec(body);
      let parts: string[] | undefined;
      if (commas.length > 0) parts = [open, ...commas].map((from, index) => pattern.slice(from + 1, commas[index] ?? at)).flatMap(expand);
      else if (range) {
        const [from, to] = [Number(range[1]), Number(range[2])];
        parts = Array.from({ length: Math.abs(to - from) + 1 }, (_, step) => String(from + (to < from ? -step : step)));
      }
      if (parts) return parts.flatMap((part) => expand(tail).map((rest) => head + part + rest));
      return expand(tail).map((rest) => `${head}{${body}}${rest}`);
    }
  }
  return [pattern];
}

const escaped = (char: string) => char.replace(/[\\^$.*+?()[\]{}|/]/, "\\$&");

/** Returns the regular expression of one name, without the rule about leading dots. */
function source(text: string): string {
  let out = "";
  for (let at = 0; at < text.length; at++) {
    const char = text[at]!;
    const group = text[at + 1] === "(" && "?*+@!".includes(char) ? closing(text, at + 1) : -1;
    if (group > 0) {
      const inner = alternatives(text.slice(at + 2, group)).map(source).join("|");
      out += char === "!" ? `(?:(?!(?:${inner})${source(text.slice(group + 1))}$)[^/]*?)` : `(?:${inner})${char === "@" ? "" : char}`;
      at = group;
    } else if (char === "*") {
      while (text[at + 1] === "*") at++;
      out += "[^/]*?";
    } else if (char === "?") out += "[^/]";
    else if (char === "[") {
      const end = text.indexOf("]", at + 2);
      if (end < 0) out += "\\[";
      else {
        const body = text.slice(at + 1, end).replace(/^[!^]/, "^");
        out += `(?!/)[${body.replace(/\[/g, "\\[")}]`;
        at = end;
      }
    } else out += escaped(char);
  }
  return out;
}

function closing(text: string, open: number): number {
  let depth = 0;
  for (let at = open; at < text.length; at++) {
    if (text[at] === "(") depth++;
    else if (text[at] === ")" && --depth === 0) return at;
  }
  return -1;
}

function alternatives(text: string): string[] {
  const parts = [""];
  let depth = 0;
  for (const char of text) {
    if (char === "(") depth++;
    else if (char === ")") depth--;
    if (char === "|" && depth === 0) parts.push("");
    else parts[parts.length - 1] += char;
  }
  return parts;
}

export function segment(text: string): Segment {
  if (text === "**") return ANY;
  const wild = /^(?:[*?[]|[+@!]\()/.test(text);
  // `*` alone needs a character; `.` and `..` never match.
  return new RegExp(`^${wild ? "(?!\\.)(?=.)" : ""}${source(text)}$`, "s");
}

export type Compiled = Segment[];

export function compile(pattern: string): Compiled[] {
  return expand(pattern.replaceAll("\\", "/")).map((one) => one.split("/").map(segment));
}

export function follows(pattern: Compiled, at: number, names: readonly string[], from: number): boolean {
  for (; at < pattern.length; at++, from++) {
    const wanted = pattern[at]!;
    if (wanted === ANY) {
      // A final `**` matches the contents of the folder, not the folder.
      if (at === pattern.length - 1) return from < names.length && !names.slice(from).some((name) => name.startsWith("."));
      for (let next = from; next <= names.length; next++) {
        if (follows(pattern, at + 1, names, next)) return true;
        if (names[next]?.startsWith(".")) return false;
      }
      return false;
    }
    if (from >= names.length || !(wanted as RegExp).test(names[from]!)) return false;
  }
  return from === names.length;
}

export function matches(patterns: readonly Compiled[], path: string): boolean {
  const names = path.split("/");
  return patterns.some((pattern) => follows(pattern, 0, names, 0));
}

/** Returns whether a path below a folder can match a pattern. */
export function mayHold(patterns: readonly Compiled[], folder: string): boolean {
  const names = folder === "" ? [] : folder.split("/");
  return patterns.some((pattern) => {
    for (let at = 0; at < names.length; at++) {
      const wanted = pattern[at];
      if (wanted === undefined) return false;
      if (wanted === ANY) return !names.slice(at).some((name) => name.startsWith("."));
      if (!(wanted as RegExp).test(names[at]!)) return false;
    }
    return pattern.length > names.length;
  });
}
