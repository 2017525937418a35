import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
const runs: Record<string, string[]> = {
  nothing: [],
  dash: ["-"],
  device: ["/dev/stdin"],
  climbing: ["../../../../../../../../dev/./stdin"],
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, args] of Object.entries(runs)) {
      await attempt(name, () => execFileSync("python3", args, { input: "open('@@outside@@/x', 'w')" }));
    }
  });
