import { attempt } from "./attack";
import { spawnSync } from "node:child_process";
const tar = (...args: string[]) => () => spawnSync("tar", args, { encoding: "utf8" }).status;
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("other folder", tar("-cf", "out.tar", "-C", "@@home@@", ".ssh/id_rsa"));
    await attempt("own", tar("-cf", "own.tar", "src"));
  });
