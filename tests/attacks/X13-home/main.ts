import { attempt } from "./attack";
import { spawnSync } from "node:child_process";
const run = (args: string[]) => spawnSync("tar", args, { encoding: "utf8" }).status;
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("packed", () => run(["-cf", "a.tar", "-C", "home", "."]));
    await attempt("unpacked", () => run(["--overwrite", "-xf", "a.tar", "-C", "@@home@@"]));
  });
