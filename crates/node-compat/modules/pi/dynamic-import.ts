/**
 * `pi:pi/dynamic-import`: files of a computed import() that were not compiled with the extension.
 *
 * Such a file is read as by `fs`, and compiled as a module if the host permits it (capability `eval`); JSON is
 * only read. It is evaluated once for each URL. It can import Node's modules, pi's packages, modules of the bundle
 * that `bundle` knows, and files imported before; any other static import is refused before any code is evaluated.
 */

import { bridgeModule, compileModule, importSync } from "pi:engine";
import { HostcallError } from "pi:hostcall";
import { coded } from "pi:node/errors";
import { explain, systemError } from "pi:node/fs/error";
import { readFile, run } from "pi:node/fs/requests";
import { SafeMap } from "pi:web/safe";
import { dirname, extname } from "node:path";

/** Resolves the path and the relative imports of files. */
export interface Files {
  /** Suffixes that are tried in order for a path without one. */
  endings: readonly string[];
  urlOf(path: string): string;
  /** Imports the module of the bundle that a specifier names, relative to a file. */
  bundle(specifier: string, from: string): (() => Promise<unknown>) | undefined;
  resolve(specifier: string, from: string): string;
}

interface Source {
  path: string;
  kind: string;
  text: string;
}

const TYPED = [".ts", ".mts", ".cts", ".tsx", ".jsx"];

/** Imported modules by URL. */
const imported = new SafeMap<string, Promise<unknown>>();

/**
 * Returns the module at a path; undefined if no candidate file exists. `suffix` is the query of its URL, which distinguishes
 * modules.
 */
export async function importFile(path: string, suffix: string, files: Files): Promise<{ module: unknown } | undefined> {
  const before = imported.get(files.urlOf(path) + suffix);
  if (before) return { module: await before };
  const source = await find(path, files.endings);
  if (!source) return undefined;
  const url = files.urlOf(source.path) + suffix;
  let module = imported.get(url);
  // A refused or invalid file is not stored, so it may be tried again.
  if (!module) imported.set(url, (module = prepare(source, url, files)()));
  return { module: await module };
}

/** Returns the first existing candidate of a path. */
async function find(path: string, endings: readonly string[]): Promise<Source | undefined> {
  const candidates = endings.includes(extname(path)) ? [path] : endings.map((ending) => path + ending);
  for (const candidate of candidates) {
    try {
      return { path: candidate, kind: extname(candidate), text: await run(readFile(candidate, "utf8")) };
    } catch (error) {
      const code = (error as { code?: unknown }).code;
      if (code !== "ENOENT" && code !== "ENOTDIR" && code !== "EISDIR") throw error;
    }
  }
  return undefined;
}

/** Reads or compiles a file, and returns a function that evaluates it. */
function prepare(source: Source, url: string, files: Files): () => Promise<unknown> {
  const { path, kind, text } = source;
  if (kind === ".json") {
    const module = Object.freeze({ __proto__: null, default: parseJson(path, text) });
    return async () => module;
  }
  if (TYPED.includes(kind)) {
    const error = new TypeError(
      `Cannot import '${path}': it was not compiled with the extension, and a module that is found at run time has to be JavaScript. ` +
        `Write it as .mjs, or import it by a literal or a relative template, so that it is compiled at the next start.`,
    );
    throw Object.assign(error, { code: "ERR_UNKNOWN_FILE_EXTENSION" });
  }
  const isCommonJs = kind === ".cjs" || (kind === ".js" && !hasModuleSyntax(text));
  // Has its own name, so that other modules cannot import the wrapper.
  const name = isCommonJs ? `${url}#commonjs` : url;
  const imports = compile(source, name, isCommonJs, files);
  return async () => {
    for (const specifier of imports) {
      if (isFile(specifier) && files.resolve(specifier, path) !== url) bridgeModule(name, specifier, await opened(specifier, path, files));
    }
    const module = await import(name);
    return isCommonJs ? namespaceOf(exportsOf(module.default, path)) : module;
  };
}

function compile({ path, text }: Source, url: string, isCommonJs: boolean, files: Files): string[] {
  const meta = { filename: path, dirname: dirname(path), resolve: (specifier: string) => files.resolve(specifier, path) };
  try {
    return compileModule(url, path, text, isCommonJs, meta);
  } catch (failure) {
    const code = (failure as { code?: unknown } | null)?.code;
    if (typeof code !== "string") throw failure;
    const error = systemError("EACCES", "import", path);
    explain(error, new HostcallError(failure as { code: string }));
    throw error;
  }
}

/** Returns the namespace of a module of the bundle, or of a file imported before. */
function opened(specifier: string, from: string, files: Files): Promise<unknown> {
  const open = files.bundle(specifier, from);
  if (open) return open();
  const before = imported.get(files.resolve(specifier, from));
  if (before) return before;
  const message =
    `Cannot import '${specifier}' from ${from}: code that is compiled at run time imports Node's modules, pi's packages and what relative templates of the extension name. ` +
    `Put it into the same file, or have the extension import() it first.`;
  throw Object.assign(new Error(message), { code: "ERR_MODULE_NOT_FOUND" });
}

/** Runs the wrapper of a CommonJS module, and returns its exports. */
function exportsOf(wrapper: (...args: unknown[]) => void, path: string): unknown {
  const require = importSync("node:module").createRequire(path);
  const module = { id: path, filename: path, path: dirname(path), exports: {}, loaded: false, children: [], paths: [], require };
  Reflect.apply(wrapper, module.exports, [module.exports, require, module, path, dirname(path)]);
  module.loaded = true;
  return module.exports;
}

/** Returns a namespace for the exports of a CommonJS module. */
function namespaceOf(exported: unknown): object {
  const names = typeof exported === "object" || typeof exported === "function" ? exported : undefined;
  return Object.freeze({ __proto__: null, ...names, default: exported });
}

/** Returns whether a specifier names a file. */
function isFile(specifier: string): boolean {
  return /^(\.{1,2}(\/|$)|\/|file:)/.test(specifier);
}

function parseJson(path: string, text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\ufeff/, ""));
  } catch (error) {
    throw coded(SyntaxError, "ERR_INVALID_JSON", `${path}: ${(error as Error).message}`);
  }
}

/** Returns whether the text of a `.js` file looks like an ES module. */
function hasModuleSyntax(text: string): boolean {
  if (/^\s*(?:import\b\s*[\w*{"'$]|export\b\s*(?:[*{]|default\b|async\b|class\b|const\b|function\b|let\b|var\b))/m.test(text)) return true;
  return /\bimport\.meta\b/.test(text) || !/\b(?:require\s*\(|exports\b)/.test(text);
}
