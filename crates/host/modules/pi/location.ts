/**
 * `pi:pi/location`: where a module of the extension lies. A bundle lies nowhere, so `extc` turns
 * `import.meta.url`, `__dirname` and their like into calls of the one global that is defined here.
 *
 * The package's folder is a fact of the realm (`packageRoot`); reading below it needs no asking.
 */

import { facts } from "pi:engine";

interface Location {
  url: string;
  filename: string;
  dirname: string;
  resolve(specifier: string): string;
}

/** What stands for a folder when the host named none. */
const NOWHERE = "/";

/**
 * `file` is a name as `artifact.json` lists it: a path inside the package, `dep:NAME@VERSION/PATH` for a
 * dependency beside the package, or nothing for the package itself.
 */
function locate(file: string): Location {
  const filename = absolute(file);
  return {
    filename,
    dirname: filename.slice(0, Math.max(filename.lastIndexOf("/"), 1)),
    url: fileUrl(filename),
    resolve(specifier: string): string {
      if (/^\.{1,2}(\/|$)/.test(specifier)) return new URL(specifier, fileUrl(filename)).href;
      if (/^(node|file|data|https?):/.test(specifier)) return specifier;
      throw Object.assign(
        new Error(`Cannot find package '${specifier}' imported from ${filename}: only relative paths are resolved at run time`),
        { code: "ERR_MODULE_NOT_FOUND" },
      );
    },
  };
}

function absolute(file: string): string {
  const root: string = facts.packageRoot ?? NOWHERE;
  const dependency = /^dep:((?:@[^/@]+\/)?[^/@]+)@[^/]+(\/.*)?$/.exec(file);
  if (!dependency) return file === "" ? root : `${root === "/" ? "" : root}/${file}`;
  const [, name, rest = ""] = dependency;
  // An installed package lies in a `node_modules` folder, and so do its dependencies.
  const at = root.lastIndexOf("/node_modules/");
  const folder = at === -1 ? `${root}/node_modules` : root.slice(0, at + "/node_modules".length);
  return `${folder}/${name}${rest}`;
}

/** The file URL of an absolute path, with Node's escapes. */
function fileUrl(path: string): string {
  return `file://${encodeURI(path).replace(/[?#]/g, encodeURIComponent)}`;
}

Object.defineProperty(globalThis, "__pi_module_location", { value: locate });
