/**
 * Writes `models.jsonl`: which models pi's catalogue has, and how their providers are reached.
 *
 *     node capture.mjs NODE_MODULES LOCK > models.jsonl
 *
 * NODE_MODULES holds `@earendil-works/pi-ai` and `@earendil-works/pi-coding-agent` of the versions that LOCK
 * (`fixtures/supply/lock.json`) pins. Facts are taken, no text and no code: names, addresses, prices, limits, names of
 * variables. The first line says where they are from; then each provider is a line, followed by one for each of its
 * models. A model leaves out what its provider's line says.
 */

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, lockFile] = process.argv.slice(2).map((path) => resolve(path));
const scope = join(folder, "@earendil-works");
const load = (path) => import(pathToFileURL(join(scope, path)));
const { builtinProviders } = await load("pi-ai/dist/providers/all.js");
const { findEnvKeys } = await load("pi-ai/dist/env-api-keys.js");
const { defaultModelPerProvider } = await load("pi-coding-agent/dist/core/model-resolver.js");

/** The pin of a package, which has to be the one that is here. */
function pinned(name) {
  const lock = JSON.parse(readFileSync(lockFile, "utf8"));
  const { version, integrity } = Object.values(lock.units).map((unit) => unit.packages[name]).find(Boolean);
  const here = JSON.parse(readFileSync(join(folder, name, "package.json"), "utf8")).version;
  if (here !== version) throw new Error(`${name} is ${here} in ${folder}, and ${version} in the lock`);
  return { package: name, version, integrity };
}

/** An environment where everything is set says which variables are asked for. */
const everything = new Proxy({}, { get: () => "set" });

/** Returns the most frequent value among the models. */
function usual(models, key) {
  const counts = new Map();
  for (const model of models) counts.set(model[key], (counts.get(model[key]) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0];
}

const line = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const sources = ["@earendil-works/pi-ai", "@earendil-works/pi-coding-agent"].map(pinned);
line({ sources });
for (const provider of builtinProviders()) {
  const models = [...provider.getModels()];
  const common = { api: usual(models, "api"), baseUrl: usual(models, "baseUrl") };
  line({
    provider: provider.id,
    name: provider.name,
    ...common,
    default: defaultModelPerProvider[provider.id],
    env: findEnvKeys(provider.id, everything) ?? [],
    ...(provider.auth.oauth ? { oauth: provider.auth.oauth.name } : {}),
  });
  for (const { provider: _, ...model } of models) {
    for (const [key, value] of Object.entries(common)) if (model[key] === value) delete model[key];
    line(model);
  }
}
