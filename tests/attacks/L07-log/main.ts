import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
const LOG = "@@project@@/log.jsonl";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("read", () => readFileSync(LOG, "utf8").length);
    await attempt("emptied", () => writeFileSync(LOG, ""));
    await attempt("moved", () => renameSync(LOG, `${LOG}.old`));
    await attempt("removed", () => rmSync(LOG));
    await attempt("shown", () => execFileSync("cat", [LOG], { encoding: "utf8" }).length);
  });
