/**
 * `pi:node/resolve`: `require.resolve`, which searches the file system as Node does.
 *
 * extc bundles code, so this only serves files that a package reads: templates, workers, data. An inaccessible file counts as
 * missing.
 */

import { importSync } from "pi:engine";
import { checkString, coded } from "pi:node/errors";

export const builtinModules = [
  "assert", "assert/strict", "async_hooks", "buffer", "child_process", "cluster", "console", "constants", "crypto", "dgram", "diagnostics_channel",
  "dns", "dns/promises", "domain", "events", "fs", "fs/promises", "http", "http2", "https", "inspector", "module", "net", "os", "path",
  "path/posix", "path/win32", "perf_hooks", "process", "punycode", "querystring", "readline", "readline/promises", "repl", "stream",
  "stream/consumers", "stream/promises", "stream/web", "string_decoder", "sys", "timers", "timers/promises", "tls", "trace_events", "tty",
  "url", "util", "util/types", "v8", "vm", "wasi", "worker_threads", "zlib",
];

export function isBuiltin(specifier: string): boolean {
  const bare = specifier.startsWith("node:") ? specifier.slice(5) : specifier;
  return builtinModules.includes(bare) || specifier === "node:sqlite" || specifier === "node:test";
}

export function notFound(specifier: string, from: string): Error {
  const error = coded(Error, "MODULE_NOT_FOUND", `Cannot find module '${specifier}'\nRequire stack:\n- ${from}`);
  return Object.assign(error, { requireStack: [from] });
}

export type Resolve = ((specifier: string) => string) & { paths(specifier: string): string[] | null };

const EXTENSIONS = [".js", ".json", ".node"];

/** Conditions of `exports` that apply to `require`. */
const CONDITIONS = ["node", "require", "module-sync", "default"];

const fs = () => importSync("node:fs");
const path = () => importSync("node:path");

function kind(name: string): "file" | "folder" | undefined {
  try {
    const found = fs().statSync(name, { throwIfNoEntry: false });
    return found?.isFile() ? "file" : found?.isDirectory() ? "folder" : undefined;
  } catch {
    return undefined;
  }
}

export function readJson(name: string): any {
  return JSON.parse(fs().readFileSync(name, "utf8").replace(/^\ufeff/, ""));
}

/** Returns the manifest of a folder, if it exists and is readable. */
function manifest(folder: string): any {
  try {
    return readJson(`${folder}/package.json`);
  } catch {
    return undefined;
  }
}

/** Returns the path of a file, of its variant with a suffix, or of the index of a folder. */
function fileAt(name: string): string | undefined {
  const is = kind(name);
  if (is === "file") return name;
  const extended = EXTENSIONS.map((extension) => name + extension).find((each) => kind(each) === "file");
  if (extended !== undefined || is !== "folder") return extended;
  const main = manifest(name)?.main;
  const named = typeof main === "string" ? path().resolve(name, main) : undefined;
  const found = named !== undefined && named !== name ? fileAt(named) : undefined;
  return found ?? EXTENSIONS.map((extension) => `${name}/index${extension}`).find((each) => kind(each) === "file");
}

/** Resolves a target of `exports` to a path in the package; undefined if none applies. */
function target(value: any, star: string): string | undefined {
  if (typeof value === "string") return value.replaceAll("*", star);
  if (typeof value !== "object" || value === null) return undefined;
  const choices = Array.isArray(value) ? value : Object.keys(value).filter((key) => CONDITIONS.includes(key)).map((key) => value[key]);
  for (const choice of choices) {
    const found = target(choice, star);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Resolves `exports` for `.` or `./sub`. */
function exported(exports: any, sub: string): string | undefined {
  const isMap = typeof exports === "object" && exports !== null && Object.keys(exports).some((key) => key.startsWith("."));
  if (!isMap) return sub === "." ? target(exports, "") : undefined;
  if (Object.hasOwn(exports, sub)) return target(exports[sub], "");
  const fits = (key: string) => {
    const [before, after] = key.split("*") as [string, string | undefined];
    return after !== undefined && sub.startsWith(before) && sub.endsWith(after) && sub.length >= before.length + after.length;
  };
  const key = Object.keys(exports).filter(fits).sort((a, b) => b.indexOf("*") - a.indexOf("*"))[0];
  if (key === undefined) return undefined;
  const [before, after] = key.split("*") as [string, string];
  return target(exports[key], sub.slice(before.length, sub.length - after.length));
}

/** Returns the path of a package's file in a folder of packages. */
function packaged(modules: string, specifier: string): string | undefined {
  const [, name, sub = ""] = /^((?:@[^/]+\/)?[^/]+)(\/.*)?$/.exec(specifier) ?? [];
  if (name === undefined) return undefined;
  const exports = manifest(`${modules}/${name}`)?.exports;
  if (exports === undefined || exports === null) return fileAt(`${modules}/${name}${sub}`);
  const inside = exported(exports, `.${sub}`);
  const found = inside === undefined ? undefined : path().resolve(modules, name, inside);
  return found !== undefined && kind(found) === "file" ? found : undefined;
}

/** Returns the folders of packages that apply to a folder, nearest first. */
function folders(from: string): string[] {
  const found: string[] = [];
  for (let folder = from; ; folder = path().dirname(folder)) {
    if (path().basename(folder) !== "node_modules") found.push(path().join(folder, "node_modules"));
    if (folder === path().dirname(folder)) return found;
  }
}

/**
 * Implements `require.resolve` for a file, a folder with a trailing slash, or a URL of either. `looks` selects the folders of
 * packages that are searched.
 */
export function resolver(from: string, looks: (modules: string) => boolean = () => true): Resolve {
  const folder = (): string => {
    const name: string = from.startsWith("file:") ? importSync("node:url").fileURLToPath(from) : from;
    return name.endsWith("/") ? name : path().dirname(name);
  };
  const isPath = (specifier: string) => /^\.{0,2}\/|^\.{1,2}$/.test(specifier);
  const resolve = (specifier: string): string => {
    checkString("request", specifier);
    if (isBuiltin(specifier)) return specifier;
    let found: string | undefined;
    if (isPath(specifier)) found = fileAt(path().resolve(folder(), specifier));
    else for (const modules of folders(folder()).filter(looks)) found ??= packaged(modules, specifier);
    if (found === undefined) throw notFound(specifier, from);
    return fs().realpathSync(found);
  };
  const paths = (specifier: string) => {
    checkString("request", specifier);
    return isBuiltin(specifier) ? null : isPath(specifier) ? [folder()] : folders(folder());
  };
  return Object.assign(resolve, { paths });
}
