import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
const runs: Record<string, [string, string[]]> = {
  alias: ["git", ["-c", "alias.x=!touch @@outside@@/x", "x"]],
  "upload-pack": ["git", ["ls-remote", "--upload-pack=touch @@outside@@/x", "."]],
  find: ["find", [".", "-exec", "touch", "@@outside@@/x", ";"]],
  tar: ["tar", ["-cf", "/dev/null", "--checkpoint=1", "--checkpoint-action=exec=touch @@outside@@/x", "."]],
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, [program, args]] of Object.entries(runs)) await attempt(name, () => execFileSync(program, args));
  });
