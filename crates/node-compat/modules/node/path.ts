/**
 * `node:path`: both flavours; `facts.platform` selects the default one, usually POSIX.
 *
 * The functions only use their arguments and the working directory, which is a fact of the realm.
 */

import { facts, importSync } from "pi:engine";
import { checkString, invalidArgType } from "pi:node/errors";

export interface ParsedPath {
  root: string;
  dir: string;
  base: string;
  ext: string;
  name: string;
}

/** The differences between the two flavours, except for roots. */
interface Flavour {
  sep: string;
  isSep(character: string | undefined): boolean;
}

const POSIX: Flavour = { sep: "/", isSep: (character) => character === "/" };
const WINDOWS: Flavour = { sep: "\\", isSep: (character) => character === "/" || character === "\\" };

function cwd(): string {
  return facts.cwd ?? "/";
}

/** Removes empty and `.` segments, and resolves `..` against the segments before it. */
function squeeze(path: string, aboveRoot: boolean, flavour: Flavour): string {
  const out: string[] = [];
  for (const segment of path.split(flavour === POSIX ? "/" : /[\\/]/)) {
    if (segment === "" || segment === ".") continue;
    if (segment !== "..") out.push(segment);
    else if (out.length > 0 && out.at(-1) !== "..") out.pop();
    else if (aboveRoot) out.push("..");
  }
  return out.join(flavour.sep);
}

/** Returns the length of `path` without trailing separators, at least `root`. */
function trimmedEnd(path: string, root: number, flavour: Flavour): number {
  let end = path.length;
  while (end > root && flavour.isSep(path[end - 1])) end--;
  return end;
}

function lastSegmentStart(path: string, root: number, end: number, flavour: Flavour): number {
  let start = end;
  while (start > root && !flavour.isSep(path[start - 1])) start--;
  return start;
}

function basenameOf(path: string, suffix: string | undefined, root: number, flavour: Flavour): string {
  const end = trimmedEnd(path, root, flavour);
  const base = path.slice(lastSegmentStart(path, root, end, flavour), end);
  return suffix && base !== suffix && base.endsWith(suffix) ? base.slice(0, -suffix.length) : base;
}

/** Returns the extension of a file name: from the last dot that is neither first nor part of `..`. */
function extensionOf(base: string): string {
  const dot = base.lastIndexOf(".");
  return dot <= 0 || base === ".." ? "" : base.slice(dot);
}

function formatWith(sep: string, parts: Partial<ParsedPath>): string {
  if (parts === null || typeof parts !== "object") throw invalidArgType("pathObject", "of type object", parts);
  const dir = parts.dir || parts.root;
  const ext = parts.ext ? (parts.ext.startsWith(".") ? parts.ext : `.${parts.ext}`) : "";
  const base = parts.base || `${parts.name || ""}${ext}`;
  if (!dir) return base;
  return dir === parts.root ? `${dir}${base}` : `${dir}${sep}${base}`;
}

function parsed(path: string, root: string, dirname: string, base: string): ParsedPath {
  const ext = extensionOf(base);
  return { root, dir: dirname, base, ext, name: ext === "" ? base : base.slice(0, -ext.length) };
}

const posixMembers = {
  sep: "/",
  delimiter: ":",

  resolve(...paths: string[]): string {
    let resolved = "";
    let absolute = false;
    for (let at = paths.length - 1; at >= -1 && !absolute; at--) {
      const path = at >= 0 ? paths[at]! : cwd();
      checkString(at >= 0 ? `paths[${at}]` : "cwd", path);
      if (path === "") continue;
      resolved = `${path}/${resolved}`;
      absolute = path.startsWith("/");
    }
    const squeezed = squeeze(resolved, !absolute, POSIX);
    return absolute ? `/${squeezed}` : squeezed || ".";
  },

  normalize(path: string): string {
    checkString("path", path);
    if (path === "") return ".";
    const absolute = path.startsWith("/");
    let out = squeeze(path, !absolute, POSIX);
    if (out === "" && !absolute) out = ".";
    if (out !== "" && path.endsWith("/")) out += out === "." ? "/" : "/";
    return absolute ? `/${out}` : out;
  },

  isAbsolute(path: string): boolean {
    checkString("path", path);
    return path.startsWith("/");
  },

  join(...paths: string[]): string {
    for (const path of paths) checkString("path", path);
    const joined = paths.filter((path) => path !== "").join("/");
    return joined === "" ? "." : posixMembers.normalize(joined);
  },

  relative(from: string, to: string): string {
    checkString("from", from);
    checkString("to", to);
    if (from === to) return "";
    const source = posixMembers.resolve(from).split("/").filter(Boolean);
    const target = posixMembers.resolve(to).split("/").filter(Boolean);
    let same = 0;
    while (same < source.length && same < target.length && source[same] === target[same]) same++;
    return [...source.slice(same).map(() => ".."), ...target.slice(same)].join("/");
  },

  toNamespacedPath<T>(path: T): T {
    return path;
  },

  dirname(path: string): string {
    checkString("path", path);
    if (path === "") return ".";
    const root = path.startsWith("/") ? 1 : 0;
    const end = trimmedEnd(path, root, POSIX);
    const start = lastSegmentStart(path, root, end, POSIX);
    if (start <= root) return root === 1 ? (path.startsWith("//") && start === 2 ? "//" : "/") : ".";
    return path.slice(0, start - 1) || "/";
  },

  basename(path: string, suffix?: string): string {
    if (suffix !== undefined) checkString("suffix", suffix);
    checkString("path", path);
    return suffix === path ? "" : basenameOf(path, suffix, 0, POSIX);
  },

  extname(path: string): string {
    checkString("path", path);
    return extensionOf(basenameOf(path, undefined, 0, POSIX));
  },

  format(parts: Partial<ParsedPath>): string {
    return formatWith("/", parts);
  },

  parse(path: string): ParsedPath {
    checkString("path", path);
    const root = path.startsWith("/") ? "/" : "";
    const end = trimmedEnd(path, root.length, POSIX);
    const start = lastSegmentStart(path, root.length, end, POSIX);
    const dir = start > root.length ? path.slice(0, start - 1) : root;
    return parsed(path, root, dir, path.slice(start, end));
  },

  matchesGlob(path: string, pattern: string): boolean {
    checkString("path", path);
    checkString("pattern", pattern);
    const { compile, matches } = importSync("pi:node/fs/glob");
    return matches(compile(pattern), path);
  },
};

/** The root of a Windows path: `C:`, `\\server\share` or nothing, and whether a separator follows. */
interface WindowsRoot {
  device: string;
  /** Length of the device and the separators after it. */
  length: number;
  absolute: boolean;
}

function windowsRoot(path: string): WindowsRoot {
  const isSep = WINDOWS.isSep;
  if (isSep(path[0])) {
    if (isSep(path[1])) {
      const share = /^[\\/]{2}([^\\/]+)[\\/]+([^\\/]+)(?:[\\/]|$)/.exec(path);
      if (share) {
        const device = `\\\\${share[1]}\\${share[2]}`;
        const special = share[1] === "." || share[1] === "?";
        if (special) return { device: `\\\\${share[1]}`, length: 4, absolute: true };
        return { device, length: share[0].length, absolute: true };
      }
    }
    return { device: "", length: 1, absolute: true };
  }
  if (/^[A-Za-z]:/.test(path)) {
    const absolute = isSep(path[2]);
    return { device: path.slice(0, 2), length: absolute ? 3 : 2, absolute };
  }
  return { device: "", length: 0, absolute: false };
}

const windowsMembers = {
  sep: "\\",
  delimiter: ";",

  resolve(...paths: string[]): string {
    let device = "";
    let tail = "";
    let absolute = false;
    for (let at = paths.length - 1; at >= -1; at--) {
      let path: string;
      if (at >= 0) {
        path = paths[at]!;
        checkString(`paths[${at}]`, path);
        if (path === "") continue;
      } else {
        path = cwd();
      }
      const root = windowsRoot(path);
      if (root.device !== "") {
        if (device !== "" && root.device.toLowerCase() !== device.toLowerCase()) continue;
        device ||= root.device;
      }
      if (absolute) {
        if (device !== "") break;
      } else {
        tail = `${path.slice(root.length)}\\${tail}`;
        absolute = root.absolute;
        if (absolute && device !== "") break;
      }
    }
    const squeezed = squeeze(tail, !absolute, WINDOWS);
    return absolute ? `${device}\\${squeezed}` : `${device}${squeezed}` || ".";
  },

  normalize(path: string): string {
    checkString("path", path);
    if (path === "") return ".";
    const root = windowsRoot(path);
    let tail = squeeze(path.slice(root.length), !root.absolute, WINDOWS);
    if (tail === "" && !root.absolute) tail = ".";
    if (tail !== "" && WINDOWS.isSep(path.at(-1)) && path.length > root.length) tail += "\\";
    if (root.device === "") return root.absolute ? `\\${tail}` : tail;
    return root.absolute ? `${root.device}\\${tail}` : `${root.device}${tail}`;
  },

  isAbsolute(path: string): boolean {
    checkString("path", path);
    return WINDOWS.isSep(path[0]) || /^[A-Za-z]:[\\/]/.test(path);
  },

  join(...paths: string[]): string {
    for (const path of paths) checkString("path", path);
    const parts = paths.filter((path) => path !== "");
    if (parts.length === 0) return ".";
    let joined = parts.join("\\");
    // Two leading separators denote a share only if the first argument starts with them.
    const first = /^[\\/]*/.exec(parts[0]!)![0].length;
    const share = first === 2 && parts[0]!.length > 2;
    if (!share) joined = joined.replace(/^[\\/]{2,}/, "\\");
    return windowsMembers.normalize(joined);
  },

  relative(from: string, to: string): string {
    checkString("from", from);
    checkString("to", to);
    const source = windowsMembers.resolve(from);
    const target = windowsMembers.resolve(to);
    if (source.toLowerCase() === target.toLowerCase()) return "";
    const here = source.split("\\").filter(Boolean);
    const there = target.split("\\").filter(Boolean);
    let same = 0;
    while (same < here.length && same < there.length && here[same]!.toLowerCase() === there[same]!.toLowerCase()) same++;
    if (same === 0) return target;
    return [...here.slice(same).map(() => ".."), ...there.slice(same)].join("\\");
  },

  toNamespacedPath<T>(path: T): T | string {
    if (typeof path !== "string" || path === "") return path;
    const resolved = windowsMembers.resolve(path);
    if (/^\\\\[^?.]/.test(resolved)) return `\\\\?\\UNC\\${resolved.slice(2)}`;
    return /^[A-Za-z]:\\/.test(resolved) ? `\\\\?\\${resolved}` : path;
  },

  dirname(path: string): string {
    checkString("path", path);
    if (path === "") return ".";
    const root = windowsRoot(path).length;
    const end = trimmedEnd(path, root, WINDOWS);
    const start = lastSegmentStart(path, root, end, WINDOWS);
    if (start <= root) return root > 0 ? path.slice(0, root) : ".";
    return path.slice(0, start - 1);
  },

  basename(path: string, suffix?: string): string {
    if (suffix !== undefined) checkString("suffix", suffix);
    checkString("path", path);
    return suffix === path ? "" : basenameOf(path, suffix, /^[A-Za-z]:/.test(path) ? 2 : 0, WINDOWS);
  },

  extname(path: string): string {
    checkString("path", path);
    return extensionOf(windowsMembers.basename(path));
  },

  format(parts: Partial<ParsedPath>): string {
    return formatWith("\\", parts);
  },

  parse(path: string): ParsedPath {
    checkString("path", path);
    const length = windowsRoot(path).length;
    const end = trimmedEnd(path, length, WINDOWS);
    const start = lastSegmentStart(path, length, end, WINDOWS);
    const root = path.slice(0, length);
    return parsed(path, root, start > length ? path.slice(0, start - 1) : root, path.slice(start, end));
  },

  matchesGlob(path: string, pattern: string): boolean {
    checkString("path", path);
    return posixMembers.matchesGlob(path.replaceAll("\\", "/"), pattern);
  },
};

export type PlatformPath = typeof posixMembers & { posix: PlatformPath; win32: PlatformPath };

export const posix = posixMembers as PlatformPath;
export const win32 = windowsMembers as unknown as PlatformPath;
posix.posix = win32.posix = posix;
posix.win32 = win32.win32 = win32;

const native: PlatformPath = facts.platform === "win32" ? win32 : posix;
export default native;

export const { sep, delimiter, resolve, normalize, isAbsolute, join, relative, toNamespacedPath, dirname, basename, extname, format, parse, matchesGlob } = native;
