// Times a reply that breaks no rule, for the comparison with `replies.rs` beside this file; `cargo xtask bench` runs it.
//
//   node replies.mjs WORK.json SECONDS        plain expressions: each is tested on all text so far, as an extension does
//   bun replies.mjs WORK.json SECONDS OMP     oh-my-pi's TtsrManager of the installation in the folder OMP
//
// Stops after SECONDS, and prints the fraction of the reply that was read.

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const [file, seconds, omp] = process.argv.slice(2);
const { conditions, reply, step, hit } = JSON.parse(readFileSync(file, "utf8"));

const check = omp ? await ohMyPi(omp) : plain();
const start = performance.now();
let [at, hits] = [0, 0];
while (at < reply.length && performance.now() - start < seconds * 1000) {
  hits += check(reply.slice(at, at + step));
  at += step;
}
const ms = performance.now() - start;
const share = Math.min(1, at / reply.length);
if (hits !== 0) throw new Error("the reply breaks a rule");
if (check(hit) === 0) throw new Error("a rule that is broken does not fire");
console.log(JSON.stringify({ ms, share }));

function plain() {
  const expressions = conditions.map((condition) => {
    const [, flags, source] = /^(?:\(\?([ims]+)\))?(.*)$/s.exec(condition);
    return new RegExp(source, flags);
  });
  let text = "";
  return (delta) => {
    text += delta;
    return expressions.filter((expression) => expression.test(text)).length;
  };
}

// The native addon of oh-my-pi is not needed for regular expressions, and refuses to load with another version. So each of its
// functions is replaced by one that throws.
async function ohMyPi(folder) {
  const natives = dirname(Bun.resolveSync("@oh-my-pi/pi-natives", folder));
  const declared = readFileSync(join(natives, "index.d.ts"), "utf8");
  const names = declared.matchAll(/^export (?:declare )?(?:const )?(?:class|const|enum|function) (\w+)/gm);
  const stub = (name) => () => {
    throw new Error(`${name} is not there`);
  };
  const exports = Object.fromEntries(Array.from(names, ([, name]) => [name, stub(name)]));
  const setup = (build) => void build.module("@oh-my-pi/pi-natives", () => ({ exports, loader: "object" }));
  Bun.plugin({ name: "without the addon", setup });
  const { TtsrManager } = await import(Bun.resolveSync("@oh-my-pi/pi-coding-agent/export/ttsr", folder));
  const manager = new TtsrManager({ repeatMode: "once" });
  conditions.forEach((condition, number) => {
    const name = `rule-${number}`;
    const rule = { name, path: `/${name}.md`, content: "x", condition: [condition], _source: { provider: "native" } };
    if (!manager.addRule(rule)) throw new Error(`${name} is refused`);
  });
  return (delta) => manager.checkDelta(delta, { source: "text" }).length;
}
