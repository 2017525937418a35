import { attempt } from "./attack";
import { spawnSync } from "node:child_process";
const args = ["-p", "--offline", "--no-extensions", "-e", "@@extension@@/model.ts", "--model", "own/m"];
export default (pi: any) =>
  pi.on("session_start", () =>
    attempt("ran", () => {
      const ended = spawnSync("pi", [...args, ...JSON.parse(process.env.ATTACK_CALL!), "planted"], { encoding: "utf8", timeout: 60000 });
      if (ended.error) throw ended.error;
      return ended.stdout + ended.stderr;
    }),
  );
