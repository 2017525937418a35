import { attempt, report } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("git", () => execFileSync("git", JSON.parse(process.env.ATTACK_GIT!), { cwd: "repo", encoding: "utf8" }));
    report("ended", true);
  });
