import { attempt } from "./attack";
import { spawnSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const run = (args: string[]) => () => {
      const ended = spawnSync("pi", ["-p", "--offline", "--no-extensions", ...args, "--version"], { encoding: "utf8", timeout: 60000 });
      if (ended.error) throw ended.error;
      return ended.stderr;
    };
    await attempt("ran", run(JSON.parse(process.env.ATTACK_CALL!)));
  });
