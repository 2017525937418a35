import { attempt, report } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("input", () => execFileSync("cat", { encoding: "utf8" }));
    await attempt("terminal", () => execFileSync("sh", ["-c", "cat </dev/tty 2>/dev/null || echo none"], { encoding: "utf8" }));
  });
