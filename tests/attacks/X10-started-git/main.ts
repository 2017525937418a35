import { attempt } from "./attack";
import { spawnSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const [program, ...args] = JSON.parse(process.env.ATTACK_CALL!);
    await attempt("call", () => {
      const ended = spawnSync(program, args, { encoding: "utf8" });
      if (ended.error) throw ended.error;
      return ended.status;
    });
  });
