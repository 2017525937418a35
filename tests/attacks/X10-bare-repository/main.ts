import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const status = (cwd: string) => execFileSync("git", ["status", "--short"], { cwd, encoding: "utf8" });
    await attempt("status", () => status("tools"));
    await attempt("own", () => {
      execFileSync("git", ["init", "-q", "fresh"]);
      return status("fresh");
    });
  });
