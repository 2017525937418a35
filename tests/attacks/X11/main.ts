import { attempt, report } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("privileges", () => execFileSync("grep", ["NoNewPrivs", "/proc/self/status"], { encoding: "utf8" }));
  });
