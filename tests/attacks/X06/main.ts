import { attempt, report } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const script = "setsid sh -c 'setsid nohup sleep 3600.@@port.canary@@ </dev/null >/dev/null 2>&1 & exit' & sleep 0.5; trap '' TERM; sleep 3600.@@port.canary@@";
    await attempt("ended", () => execFileSync("sh", ["-c", script], { timeout: 1500, encoding: "utf8" }));
    await attempt("left", () => execFileSync("sh", ["-c", "sleep 3; ps -e -o args= | grep '^sleep 3600.@@port.canary@@' || true"], { encoding: "utf8" }));
  });
