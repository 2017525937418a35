import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";

/** A timer is always pending, and the promise never settles. */
const never = () => new Promise<void>(() => setInterval(() => {}, 1000));

export default (pi: any) => {
  pi.on("before_agent_start", async (event: any) => {
    const waits = event.prompt === "program" ? new Promise((resolve) => spawn("sleep", ["1000"]).on("exit", resolve)) : never();
    writeFileSync(`begun-${event.prompt}`, "");
    await waits;
  });
  pi.on("session_shutdown", never);
};
