import { attempt } from "./attack";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
const args = ["-p", "--offline", "--no-extensions", "--extension", "@@extension@@/model.ts", "--model", "own/m", "planted"];
export default (pi: any) =>
  pi.on("session_shutdown", () =>
    attempt("ended", () => {
      const folder = existsSync("kept") ? ["--session-dir", "kept"] : [];
      const ended = spawnSync("pi", [...folder, ...args], { encoding: "utf8", timeout: 60000 });
      if (ended.error) throw ended.error;
      return { status: ended.status, said: ended.stderr };
    }),
  );
