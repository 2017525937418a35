import { attempt } from "./attack";
import { spawnSync } from "node:child_process";
const args = ["-p", "--offline", "--no-extensions", "--session-dir", "kept", "--extension", "@@extension@@/model.ts", "--model", "own/m", "planted"];
export default (pi: any) =>
  pi.on("session_shutdown", () =>
    attempt("ended", () => {
      const ended = spawnSync("pi", args, { encoding: "utf8", timeout: 60000 });
      if (ended.error) throw ended.error;
      return { status: ended.status, said: ended.stderr };
    }),
  );
