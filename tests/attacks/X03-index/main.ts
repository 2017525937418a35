import { attempt } from "./attack";
import { execFileSync } from "node:child_process";

const runs: Record<string, string[]> = {
  checkout: ["checkout", "-q", "--", "."],
  reset: ["reset", "-q", "--hard"],
  "read-tree -u": ["read-tree", "-u", "HEAD"],
  "behind an option": ["--no-pager", "checkout", "-q", "--", "."],
  add: ["add", "a.txt"],
  diff: ["diff", "--stat"],
};

export default (pi: any) =>
  pi.on("session_start", async () => {
    const env: any = { ...process.env, GIT_INDEX_FILE: "@@project@@/idx" };
    for (const [name, args] of Object.entries(runs)) await attempt(name, () => execFileSync("git", args, { env, encoding: "utf8" }));
  });
