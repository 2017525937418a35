/**
 * `node:module`: `createRequire` for host modules.
 *
 * Packages and files are bundled by extc, so what is left for `require` at run time are builtins, pi's own
 * packages, and things that are not there: those throw MODULE_NOT_FOUND as Node's do.
 */

import { importSync } from "pi:engine";
import { checkString, coded } from "pi:node/errors";
import { absent, refuse } from "pi:node/refuse";

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

function notFound(specifier: string, from: string): Error {
  const error = coded(Error, "MODULE_NOT_FOUND", `Cannot find module '${specifier}'\nRequire stack:\n- ${from}`);
  return Object.assign(error, { requireStack: [from] });
}

interface Require {
  (specifier: string): any;
  resolve: ((specifier: string) => string) & { paths(specifier: string): string[] | null };
  cache: Record<string, unknown>;
  extensions: Record<string, unknown>;
  main: undefined;
}

export function createRequire(from: string | { href: string }): Require {
  const origin = typeof from === "string" ? from : from.href;
  const load = (specifier: string): any => {
    checkString("id", specifier);
    // Modules of the host are its own, as they are for `import`.
    if (specifier.startsWith("pi:")) throw notFound(specifier, origin);
    let namespace: any;
    try {
      namespace = importSync(isBuiltin(specifier) && !specifier.startsWith("node:") ? `node:${specifier}` : specifier);
    } catch (cause) {
      if (isBuiltin(specifier)) throw cause;
      throw Object.assign(notFound(specifier, origin), { cause });
    }
    return isBuiltin(specifier) && "default" in namespace ? namespace.default : namespace;
  };
  const resolve = (specifier: string) => {
    if (isBuiltin(specifier)) return specifier;
    throw notFound(specifier, origin);
  };
  return Object.assign(load, {
    resolve: Object.assign(resolve, { paths: () => null }),
    cache: Object.create(null) as Record<string, unknown>,
    extensions: Object.create(null) as Record<string, unknown>,
    main: undefined,
  });
}

/** Old code asks for `require("module")._load` and the like; only these exist. */
export class Module {
  static createRequire = createRequire;
  static builtinModules = builtinModules;
  static isBuiltin = isBuiltin;
  static Module = Module;
  id: string;
  exports: unknown = {};
  constructor(id: string = "") {
    this.id = id;
  }
}

export const register = absent("module.register", "extc compiles and links an extension before it runs");
export function findSourceMap(): undefined {
  return undefined;
}
export function syncBuiltinESMExports(): void {}
export function flushCompileCache(): void {}
export function getCompileCacheDir(): undefined {
  return undefined;
}
export function getSourceMapsSupport() {
  return { enabled: false, nodeModules: false, generatedCode: false };
}
export function setSourceMapsSupport(): void {}
export const constants = { compileCacheStatus: { FAILED: 0, ENABLED: 1, ALREADY_ENABLED: 2, DISABLED: 3 } };
export const enableCompileCache = () => ({ status: constants.compileCacheStatus.DISABLED });
export const globalPaths: string[] = [];

const refused = refuse("module", "extc compiles and links an extension before it runs", [
  "SourceMap", "findPackageJSON", "registerHooks", "runMain", "stripTypeScriptTypes",
]);
export const { SourceMap, findPackageJSON, registerHooks, runMain, stripTypeScriptTypes } = refused;

export default Object.assign(Module, refused, {
  register, constants, enableCompileCache, findSourceMap, flushCompileCache, getCompileCacheDir, getSourceMapsSupport, globalPaths,
  setSourceMapsSupport, syncBuiltinESMExports,
});
