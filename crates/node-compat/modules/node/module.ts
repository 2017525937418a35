/**
 * `node:module`: `createRequire` for host modules.
 *
 * extc bundles packages and files, so `require` at run time only serves builtins, pi's own packages and JSON files; for
 * other names it throws MODULE_NOT_FOUND, as Node does.
 */

import { importSync } from "pi:engine";
import { checkString, coded } from "pi:node/errors";
import { absent, refuse } from "pi:node/refuse";
import { type Resolve, builtinModules, isBuiltin, notFound, readJson, resolver } from "pi:node/resolve";

export { builtinModules, isBuiltin };

function attempt(run: () => string): string | undefined {
  try {
    return run();
  } catch {
    return undefined;
  }
}

interface Require {
  (specifier: string): any;
  resolve: Resolve;
  cache: Record<string, unknown>;
  extensions: Record<string, unknown>;
  main: undefined;
}

export function createRequire(from: string | { href: string }): Require {
  const origin = typeof from === "string" ? from : from?.href;
  if (typeof origin !== "string" || !/^(?:file:|\/)/.test(origin)) {
    const shown = typeof from === "string" ? `'${from}'` : typeof from === "object" && from !== null ? "{}" : String(from);
    throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'filename' must be a file URL object, file URL string, or absolute path string. Received ${shown}`);
  }
  const resolve = resolver(origin);
  const load = (specifier: string): any => {
    checkString("id", specifier);
    // The host's private modules cannot be required, just as they cannot be imported.
    if (specifier.startsWith("pi:")) throw notFound(specifier, origin);
    let namespace: any;
    try {
      namespace = importSync(isBuiltin(specifier) && !specifier.startsWith("node:") ? `node:${specifier}` : specifier);
    } catch (cause) {
      if (isBuiltin(specifier)) throw cause;
      // JSON files can be read at run time, since they are not code.
      const file = attempt(() => resolve(specifier));
      if (file?.endsWith(".json")) return readJson(file);
      throw Object.assign(notFound(specifier, origin), { cause });
    }
    return isBuiltin(specifier) && "default" in namespace ? namespace.default : namespace;
  };
  return Object.assign(load, {
    resolve,
    cache: Object.create(null) as Record<string, unknown>,
    extensions: Object.create(null) as Record<string, unknown>,
    main: undefined,
  });
}

/** Provides the members that old code uses, such as `require("module")._load`; no others exist. */
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
