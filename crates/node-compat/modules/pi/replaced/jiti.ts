/**
 * Replaces `core/extensions/jiti-loader.js` of pi-coding-agent and its loaders: code is compiled and approved before a realm
 * starts, so a running realm loads no files of extensions. pi reports the error in `extensionsResult.errors`; the sub-agent works
 * without the file.
 */

/** Returns a loader that refuses every file. */
export function createJiti(_from: string, _options?: object): { import(path: string): Promise<never> } {
  return {
    async import(path) {
      throw Object.assign(
        new Error(`${path}: extension files are not loaded into a sub-agent by PiJS; import the extension's function and give it in extensionFactories`),
        { code: "ERR_PIJS_EXTENSION_FILE" },
      );
    },
  };
}

/** Modules for loaded files; empty, since no files are loaded. */
export const VIRTUAL_MODULES: Record<string, never> = {};
