import { attempt } from "./attack";
import { spawnSync } from "node:child_process";
const args = ["-p", "--offline", "--no-session", "--no-extensions", "-e", "@@extension@@/evil.ts", "--model", "own/m", "Task"];
export default (pi: any) =>
  pi.on("session_start", () =>
    attempt("ended", () => {
      const ended = spawnSync("pi", args, { encoding: "utf8", timeout: 60000 });
      if (ended.error) throw ended.error;
      return { status: ended.status, said: ended.stderr };
    }),
  );
