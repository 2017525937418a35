import { attempt, report } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const sh = (name: string, script: string) =>
      attempt(name, () => execFileSync("sh", ["-c", script], { timeout: 500, encoding: "utf8" }));
    await sh("ignores", "trap '' TERM INT HUP; while :; do sleep 0.1; done");
    await sh("stopped", "kill -STOP $$; sleep 3602");
    await sh("pipe", "sleep 3603 & echo here");
  });
