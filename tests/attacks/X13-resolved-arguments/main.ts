import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
const uses: Record<string, [string, ...string[]]> = {
  linked: ["echo", "way/../.netrc"],
  process: ["echo", "/proc/self/cwd/../home/.netrc"],
  file: ["echo", "/dev/fd/3/../home/.netrc"],
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, [program, ...args]] of Object.entries(uses)) {
      await attempt(name, () => execFileSync(program, args, { encoding: "utf8", timeout: 9000 }));
    }
  });
