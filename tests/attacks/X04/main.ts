import { attempt, report } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const sh = (name: string, script: string) => attempt(name, () => execFileSync("sh", ["-c", script], { encoding: "utf8" }));
    await sh("files", "ls /proc/self/fd");
    await sh("mask", "grep SigBlk /proc/self/status");
    await sh("session", "[ $(cut -d' ' -f6 /proc/$$/stat) = $PPID ] && echo own || echo shared");
    await sh("terminal", "(: </dev/tty) 2>/dev/null && echo one || echo none");
    await sh("environment", "env");
  });
