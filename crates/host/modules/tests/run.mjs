/**
 * Runs the snippets against the host modules under Node, in a context without Node's globals and with a
 * stand-in for `pi:engine`: a quick look while editing. The same snippets run in the real engine in
 * `tests/tests/node_modules.rs`, which is what counts.
 *
 * `node --experimental-vm-modules --expose-internals tests/run.mjs [NAME...]`
 */

import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import vm from "node:vm";
import util from "node:util";
import crypto from "node:crypto";
import ts from "typescript";

const { getPromiseDetails: promiseDetails } = createRequire(import.meta.url)("internal/test/binding").internalBinding("util");
const root = new URL("../", import.meta.url);
const index = new Map(readFileSync(new URL("index.txt", root), "utf8").trim().split("\n").map((line) => line.split(" ")));
const sources = new Map([...index].map(([specifier, path]) => [
  specifier,
  ts.transpileModule(readFileSync(new URL(path, root), "utf8"), { compilerOptions: { target: "ES2022", module: "ESNext", verbatimModuleSyntax: true } }).outputText,
]));

/** Stand-ins for the engine's pure functions, by Node's own modules. */
const computing = (bare) => ({
  digest: (name, key) => {
    const wrap = (state) => (given) => (given === true ? wrap(state.copy()) : given ? void state.update(given) : bare(state.digest()));
    try { return wrap(key ? crypto.createHmac(name, key) : crypto.createHash(name)); } catch { return undefined; }
  },
  deriveKey: (kind, digest, password, salt, info, a, b, c, length) => {
    if (kind === "scrypt") return bare(crypto.scryptSync(password, salt, length, { N: a, r: b, p: c, maxmem: 2 ** 30 }));
    try { return bare(kind === "pbkdf2" ? crypto.pbkdf2Sync(password, salt, a, length, digest) : crypto.hkdfSync(digest, password, salt, info, length)); } catch { return undefined; }
  },
  cipher: (mode, encrypt, key, iv) => {
    let state;
    try { state = crypto[encrypt ? "createCipheriv" : "createDecipheriv"](`aes-${key.length * 8}-${mode}`, key, mode === "ecb" ? null : iv); } catch { return undefined; }
    return (operation, bytes) => {
      if (operation === "update") return bare(state.update(bytes));
      if (operation === "aad") return void state.setAAD(bytes);
      if (operation === "tag") return bare(state.getAuthTag());
      if (operation === "expect") return void state.setAuthTag(bytes);
      if (operation === "unpadded") return void state.setAutoPadding(false);
      try { return bare(state.final()); } catch (error) { return mode === "gcm" ? "auth" : /wrong final/.test(error.message) ? "length" : "decrypt"; }
    };
  },
  compressor: () => { throw new Error("compression runs in the real engine only"); },
  crc32: () => 0,
  prefilter: () => undefined,
});

async function realm(snippet) {
  const lines = [];
  const jobs = [];
  const timers = [];
  let order = 0;
  const context = vm.createContext({ DOMException });
  const modules = new Map();
  const parts = (url) => Object.fromEntries(["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"].map((key) => [key, url[key]]));
  let calls = 0;
  const engine = {
    callSync: () => { throw { code: "denied", message: "no host here", retryable: false, details: {} }; },
    send: (message) => {
      if (message.type === "log") lines.push(message.payload.message);
      if (message.type === "timer_set") timers.push({ ...message.payload, at: (order += 1) });
      if (message.type === "timer_clear") { const at = timers.findIndex((timer) => timer.timer === message.payload.timer); if (at >= 0) timers.splice(at, 1); }
    },
    epochMs: () => 0,
    elapsedMs: () => 0,
    random: Math.random,
    fillRandom: (target) => target.fill(7),
    facts: { cwd: process.cwd(), platform: "linux", env: {} },
    state: () => ({ version: 0, set: {}, entries: [] }),
    encodeUtf8: (text) => new context.Uint8Array(Buffer.from(text, "utf8")),
    decodeUtf8: (bytes, fatal, ignoreBOM) => new util.TextDecoder("utf-8", { fatal, ignoreBOM }).decode(bytes),
    decode: (label, bytes, fatal, ignoreBOM) => new util.TextDecoder(label, { fatal, ignoreBOM }).decode(bytes),
    parseUrl: (input, base) => (URL.canParse(input, base) ? parts(new URL(input, base)) : null),
    setUrlPart: (href, part, value) => { const url = new URL(href); url[part] = value; return parts(url); },
    promiseState: (promise) => {
      const [state, value] = promiseDetails(promise);
      return { state: ["pending", "fulfilled", "rejected"][state], value };
    },
    // Node's own ticks run when its microtasks are done.
    afterJobs: (job) => process.nextTick(job),
    ...computing((bytes) => new context.Uint8Array(bytes)),
    enqueueJob: (job) => context.Promise.resolve().then(job),
    nextCallId: () => `host-${++calls}`,
    importSync: (specifier) => {
      const module = modules.get(specifier);
      if (!module) throw new Error(`no module ${specifier}`);
      if (module.status === "linked") void module.evaluate();
      if (module.status === "errored") throw module.error;
      return module.namespace;
    },
  };
  context.Uint8Array = vm.runInContext("Uint8Array", context);
  context.ArrayBuffer = vm.runInContext("ArrayBuffer", context);
  context.ArrayBuffer.prototype.transfer ??= function () { return structuredClone(this, { transfer: [this] }); };
  context.Promise = vm.runInContext("Promise", context);
  for (const name of ["SharedArrayBuffer", "Atomics", "WeakRef", "FinalizationRegistry", "WebAssembly", "console"]) vm.runInContext(`delete globalThis.${name}`, context);
  modules.set("pi:engine", new vm.SyntheticModule(Object.keys(engine), function () { for (const key of Object.keys(engine)) this.setExport(key, engine[key]); }, { context }));
  for (const [specifier, code] of sources) modules.set(specifier, new vm.SourceTextModule(code, { identifier: specifier, context }));
  const link = (specifier, from) => modules.get(specifier) ?? (() => { throw new Error(`${from.identifier} imports ${specifier}`); })();
  for (const module of modules.values()) if (module.status === "unlinked") await module.link(link);
  await modules.get("pi:engine").evaluate();
  await modules.get("pi:web").evaluate();
  const main = new vm.SourceTextModule(snippet, { identifier: "snippet", context });
  await main.link(link);
  const { onTimer } = engine.importSync("pi:hostcall");
  const { runTicks } = engine.importSync("pi:web/ticks");
  const done = main.evaluate();
  runTicks();
  let now = 0;
  for (let turn = 0; turn < 1000; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    for (const timer of timers) timer.due ??= now + timer.delay_ms;
    timers.sort((a, b) => a.due - b.due || a.at - b.at);
    const timer = timers[0];
    if (!timer) break;
    now = Math.max(now, timer.due);
    if (timer.repeat) Object.assign(timer, { due: now + timer.delay_ms, at: (order += 1) });
    else timers.shift();
    onTimer(timer.timer);
  }
  await Promise.race([done, new Promise((_, reject) => setImmediate(() => reject(new Error("the snippet never ended"))))]);
  return `${lines.join("\n")}\n`;
}

const wanted = process.argv.slice(2);
let failed = 0;
for (const file of readdirSync(new URL("tests/", root)).filter((name) => name.endsWith(".snippet.js")).sort()) {
  const name = file.replace(".snippet.js", "");
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const expected = readFileSync(new URL(`tests/${name}.expected`, root), "utf8");
  let actual;
  try {
    actual = await realm(readFileSync(new URL(`tests/${file}`, root), "utf8"));
  } catch (error) {
    actual = `${error?.stack ?? error}\n`;
  }
  if (actual === expected) {
    console.log(`ok ${name}`);
    continue;
  }
  failed++;
  console.log(`FAILED ${name}`);
  const [a, b] = [actual.split("\n"), expected.split("\n")];
  let shown = 0;
  for (let at = 0; at < Math.max(a.length, b.length) && shown < 12; at++) {
    if (a[at] === b[at]) continue;
    console.log(`  line ${at + 1}\n    node ${b[at]}\n    ours ${a[at]}`);
    shown++;
  }
}
process.exitCode = failed > 0 ? 1 : 0;
