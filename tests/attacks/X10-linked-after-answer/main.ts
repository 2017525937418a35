import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
import { renameSync, symlinkSync } from "node:fs";

const remove = () => execFileSync("rm", ["-f", "data"], { cwd: "made", encoding: "utf8" });

export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("own", remove);
    await attempt("moved", () => renameSync("made", "old"));
    await attempt("replaced", () => symlinkSync("src", "made"));
    await attempt("linked", remove);
  });
