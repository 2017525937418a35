/**
 * Lists the names that modules of pi's packages or of Node export. The outputs are
 * `fixtures/api/exports-VERSION.json` and `fixtures/api/node-MAJOR.json`, against which coverage is counted.
 *
 *     node api-exports.mjs DIR_OF_PI_CODING_AGENT > fixtures/api/exports-0.87.1.json
 *     node api-exports.mjs > fixtures/api/node-22.json
 */

import { builtinModules } from "node:module";
import { readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

/** Modules that pi's loader provides to extensions in addition to Node's, and their files. */
const SUPPLIED = {
  "@earendil-works/pi-coding-agent": "pi-coding-agent/dist/index.js",
  "@earendil-works/pi-agent-core": "pi-agent-core/dist/index.js",
  "@earendil-works/pi-ai": "pi-ai/dist/compat.js",
  "@earendil-works/pi-ai/compat": "pi-ai/dist/compat.js",
  "@earendil-works/pi-ai/oauth": "pi-ai/dist/oauth.js",
  "@earendil-works/pi-ai/providers/all": "pi-ai/dist/providers/all.js",
  "@earendil-works/pi-tui": "pi-tui/dist/index.js",
  typebox: "../typebox/build/index.mjs",
  "typebox/compile": "../typebox/build/compile/index.mjs",
  "typebox/value": "../typebox/build/value/index.mjs",
};

/** Modules that have side effects on import, or that no extension imports. */
const LEFT_OUT = /^(?:_|node:test)|^(?:punycode|sys|trace_events|test|wasi)$/;

/** Returns the public names; a leading underscore marks Node's internal ones. */
function names(owner, keys = Object.keys(owner)) {
  return keys.filter((name) => !name.startsWith("_") && name !== "module.exports").sort();
}

async function ofPi(root) {
  const { version } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));
  const scope = path.dirname(root);
  const lists = {};
  for (const [specifier, file] of Object.entries(SUPPLIED)) {
    lists[specifier] = names(await import(pathToFileURL(path.join(scope, file)).href));
  }
  return { of: `pi ${version}`, modules: lists };
}

async function ofNode() {
  const lists = { globalThis: names(globalThis, Object.getOwnPropertyNames(globalThis)) };
  for (const name of [...builtinModules, "node:sqlite"].filter((name) => !LEFT_OUT.test(name)).sort()) {
    const specifier = name.startsWith("node:") ? name : `node:${name}`;
    lists[specifier] = names(await import(specifier));
  }
  return { of: `Node ${process.versions.node}`, modules: lists };
}

const root = process.argv[2];
console.log(JSON.stringify(root === undefined ? await ofNode() : await ofPi(path.resolve(root)), null, 1));
process.exit(0);
