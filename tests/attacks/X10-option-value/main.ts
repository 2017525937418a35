import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
const uses: Record<string, string[]> = {
  code: ["-c", "open('ran', 'w')"],
  module: ["-mtimeit", "open('ran', 'w')"],
  script: ["tool.py", "-c"],
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, args] of Object.entries(uses)) {
      await attempt(name, () => execFileSync("python3", ["-W", "ignore", ...args], { encoding: "utf8", timeout: 9000 }));
    }
  });
