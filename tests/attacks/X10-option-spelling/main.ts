import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
const touch = "import { writeFileSync } from 'node:fs'; writeFileSync('@@outside@@/x', '')";
const runs: Record<string, [string, string[]]> = {
  underscore: ["node", [`--experimental_loader=data:text/javascript,${touch}`, "plain.js"]],
  debugger: ["node", ["inspect", "plain.js"]],
  "debugger behind a value": ["node", ["--title", "a.b", "inspect", "plain.js"]],
  command: ["bun", ["exec", "touch @@outside@@/x"]],
  "other name": ["fdfind", [".", "-x", "touch", "@@outside@@/x"]],
  stripped: ["install", ["-s", "--strip-program=touch", "plain.js", "@@outside@@/x"]],
  differs: ["diff3", ["--diff-program=touch", "plain.js", "@@outside@@/x", "plain.js"]],
  plain: ["node", ["plain.js"]],
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, [program, args]] of Object.entries(runs)) await attempt(name, () => execFileSync(program, args, { encoding: "utf8", timeout: 15000 }));
  });
