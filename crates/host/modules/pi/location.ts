/**
 * `pi:pi/location`: where a module of the extension lies. A bundle lies nowhere, so `extc` turns
 * `import.meta.url`, `__dirname` and their like into calls of the one global that is defined here.
 *
 * The package's folder comes with the first entry that is loaded; reading below it needs no asking.
 */

import { importSync } from "pi:engine";

/** The global, which `pi:web` makes when it is first used. */
declare const URL: new (input: string, base: string) => { href: string };

interface Location {
  url: string;
  filename: string;
  dirname: string;
  /** `module` in a module of the package that is no CommonJS; nobody reads what it exports. */
  readonly module: object;
  resolve(specifier: string): string;
  /** `require.resolve` of a CommonJS module. */
  requireResolve: (specifier: string) => string;
  /** What stands for `import` where its target is computed; `load` is that `import` itself. */
  import(load: (target: string) => Promise<unknown>): (target: unknown) => Promise<unknown>;
}

/** What stands for a folder when the host named none. */
const NOWHERE = "/";

let root = NOWHERE;
/** By file, so that each module meets one. */
const modules = new Map<string, object>();

/** Says where the package lies, before any of its modules runs. */
export function setRoot(folder: string | undefined): void {
  root = folder ?? NOWHERE;
}

/**
 * `file` is a name as `artifact.json` lists it: a path inside the package, `dep:NAME@VERSION/PATH` for a
 * dependency beside the package, or nothing for the package itself. `place` says where a dependency lies, seen from the
 * package: `../NAME/PATH`.
 */
function locate(file: string, place = file): Location {
  const filename = absolute(place);
  return {
    filename,
    dirname: filename.slice(0, Math.max(filename.lastIndexOf("/"), 1)),
    url: fileUrl(filename),
    get module() {
      let module = modules.get(filename);
      if (!module) modules.set(filename, (module = { id: filename, filename, exports: {}, loaded: true, children: [], paths: [] }));
      return module;
    },
    resolve(specifier: string): string {
      if (/^\.{1,2}(\/|$)/.test(specifier)) return new URL(specifier, fileUrl(filename)).href;
      if (/^(node|file|data|https?):/.test(specifier)) return specifier;
      const found: string = importSync("pi:node/resolve").resolver(filename, isNear)(specifier);
      return found.startsWith("/") ? fileUrl(found) : `node:${found.replace(/^node:/, "")}`;
    },
    get requireResolve() {
      return importSync("pi:node/resolve").resolver(filename) as (specifier: string) => string;
    },
    import(load) {
      return async (target) => {
        const specifier = String(target);
        const isPath = /^(\.{0,2}\/|\.{1,2}$|[a-z][a-z0-9+.-]*:)/i.test(specifier) && !specifier.startsWith("node:");
        if (!isPath) {
          try {
            return await load(specifier);
          } catch (error) {
            if ((error as { code?: unknown } | null)?.code !== "ERR_MODULE_NOT_FOUND") throw error;
          }
        }
        const where = file === "" ? "the package" : file;
        throw Object.assign(
          new Error(
            `Cannot import '${specifier}' from ${where}: a computed import() finds only builtins and pi's packages. ` +
              `Name it literally, as in import("./file.js"), so that it is compiled with the extension.`,
          ),
          { code: "ERR_MODULE_NOT_FOUND" },
        );
      };
    },
  };
}

/** Whether packages there may be the extension's own or the project's: nobody is asked about others only to look. */
function isNear(modules: string): boolean {
  const store = root.lastIndexOf("/node_modules/");
  const own = store < 0 ? root : root.slice(0, store);
  const project: string = importSync("node:process").cwd();
  return [own, project].some((folder) => modules.startsWith(folder.endsWith("/") ? folder : `${folder}/`));
}

function absolute(place: string): string {
  if (place === "") return root;
  const parts = root.split("/").filter(Boolean);
  let rest = place;
  for (; rest.startsWith("../"); rest = rest.slice(3)) parts.pop();
  return `/${[...parts, rest].join("/")}`;
}

/** The file URL of an absolute path, with Node's escapes. */
function fileUrl(path: string): string {
  return `file://${encodeURI(path).replace(/[?#]/g, encodeURIComponent)}`;
}

Object.defineProperty(globalThis, "__pi_module_location", { value: locate });
