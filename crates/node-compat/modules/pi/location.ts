/**
 * `pi:pi/location`: the locations of the extension's modules. A bundle has no location, so `extc` turns `import.meta.url`,
 * `__dirname` and similar expressions into calls of the global that this module defines.
 *
 * The first loaded entry determines the package's folder; reading files in it needs no permission.
 */

import { importSync } from "pi:engine";

/** The global, which `pi:web` creates on first use. */
declare const URL: new (input: string, base: string) => { href: string };

interface Location {
  url: string;
  filename: string;
  dirname: string;
  /** CommonJS `module`, for an ES module of the package; its exports are ignored. */
  readonly module: object;
  resolve(specifier: string): string;
  /** `require.resolve` of a CommonJS module. */
  requireResolve: (specifier: string) => string;
  /**
   * Replaces `import` with a computed target; `load` calls the original `import`. `reach` returns the modules that the compiler
   * linked as possible targets, by specifiers relative to this module.
   */
  import(load: (target: string) => Promise<unknown>, reach?: () => Record<string, Opener>): (target: unknown) => Promise<unknown>;
}

/** Imports one module of the bundle. */
type Opener = () => Promise<unknown>;

/** The folder if the host specifies none. */
const NOWHERE = "/";

let root = NOWHERE;
/** Locations by file, so that each module has one object. */
const modules = new Map<string, object>();
/** Possible targets of computed imports, by file. */
const reached = new Map<string, Opener>();
/** Suffixes that the loader tries after a path, in order. */
const ENDINGS = [".ts", ".tsx", ".mts", ".cts", ".mjs", ".js", ".cjs", ".jsx", ".json"];

/** Sets the package's folder, before any of its modules runs. */
export function setRoot(folder: string | undefined): void {
  root = folder ?? NOWHERE;
}

/**
 * Returns the location of `file`, a name as `artifact.json` lists it: a path inside the package, `dep:NAME@VERSION/PATH` for a
 * dependency outside the package, or empty for the package itself. `place` is a dependency's path relative to the package:
 * `../NAME/PATH`.
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
    import(load, reach) {
      for (const [specifier, open] of Object.entries(reach?.() ?? {})) reached.set(pathOf(specifier, filename), open);
      return async (target) => {
        const specifier = String(target);
        const open = opener(specifier, filename);
        if (open) return open();
        if (isFile(specifier)) {
          const found = root === NOWHERE ? undefined : await importFile(specifier, filename);
          if (found) return found.module;
        } else if (!/^[a-z][a-z0-9+.-]*:/i.test(specifier) || specifier.startsWith("node:")) {
          try {
            return await load(canonical(specifier));
          } catch (error) {
            if ((error as { code?: unknown } | null)?.code !== "ERR_MODULE_NOT_FOUND") throw error;
          }
        }
        const where = file === "" ? "the package" : file;
        throw Object.assign(
          new Error(
            `Cannot import '${specifier}' from ${where}: a computed import() finds builtins, pi's packages, what a relative template names, and files of JavaScript. ` +
              `Name it literally, as in import("./file.js"), so that it is compiled with the extension.`,
          ),
          { code: "ERR_MODULE_NOT_FOUND" },
        );
      };
    },
  };
}

/** Returns whether a specifier names a file. */
function isFile(specifier: string): boolean {
  return /^(\.{1,2}(\/|$)|\/|file:)/.test(specifier);
}

/** Returns the canonical specifier of a pi package that has several. */
function canonical(specifier: string): string {
  return specifier.replace(/^@sinclair\/(?=typebox(?:\/|$))/, "").replace(/^@mariozechner\/(?=pi-)/, "@earendil-works/");
}

/** Imports a file that was not compiled with the extension. */
function importFile(specifier: string, from: string): Promise<{ module: unknown } | undefined> {
  const suffix = /[?#].*$/.exec(specifier.startsWith("/") ? "" : specifier)?.[0] ?? "";
  const resolve = (specifier: string, from: string) => new URL(specifier, fileUrl(from)).href;
  const files = { endings: ENDINGS, urlOf: fileUrl, bundle: opener, resolve };
  return importSync("pi:pi/dynamic-import").importFile(pathOf(specifier, from), suffix, files);
}

/** Returns the file that a specifier names, relative to another file. */
function pathOf(specifier: string, from: string): string {
  const url = new URL(specifier.startsWith("/") ? fileUrl(specifier) : specifier, fileUrl(from)).href;
  return decodeURIComponent(url.replace(/^file:\/\//, "").replace(/[?#].*$/, ""));
}

/** Returns the module of the bundle that a path or a `file:` URL names, by the loader's rules. */
function opener(specifier: string, from: string): Opener | undefined {
  if (reached.size === 0 || !isFile(specifier)) return undefined;
  const path = pathOf(specifier, from);
  const typed = /\.([mc]?)js$/.exec(path);
  const alias = typed ? [`${path.slice(0, -2)}ts`, ...(typed[1] === "" ? [`${path.slice(0, -2)}tsx`] : [])] : [];
  const candidates = [path, ...alias, ...ENDINGS.map((ending) => path + ending), ...ENDINGS.map((ending) => `${path}/index${ending}`)];
  for (const candidate of candidates) {
    const found = reached.get(candidate);
    if (found) return found;
  }
  return undefined;
}

/** Returns whether a folder's packages may be the extension's or the project's. A search in others would cause prompts. */
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

/** Returns the file URL of an absolute path, with Node's escapes. */
function fileUrl(path: string): string {
  return `file://${encodeURI(path).replace(/[?#]/g, encodeURIComponent)}`;
}

Object.defineProperty(globalThis, "__pi_module_location", { value: locate });
