import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
const runs: Record<string, [string, string[]]> = {
  configuration: ["git", ["log", "-1", '--format=[core]%n fsmonitor = "touch @@outside@@/x; false"', "--output=.git/config"]],
  status: ["git", ["status", "--short"]],
  "upload-pack": ["git", ["ls-remote", "--u=touch @@outside@@/x; false", "."]],
  "receive-pack": ["git", ["push", "--e=touch @@outside@@/x; false", ".", "HEAD:x"]],
  separate: ["git", ["init", "--separate-git-dir=mine", "other"]],
  "outside of the work tree": ["git", ["apply", "--unsafe-paths", "--directory=@@outside@@", "x.patch"]],
  moved: ["git", ["mv", "x", ".git/hooks/pre-commit"]],
  sorted: ["sort", ["-o", "@@outside@@/x", "/dev/null"]],
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, [program, args]] of Object.entries(runs)) await attempt(name, () => execFileSync(program, args, { encoding: "utf8" }));
  });
