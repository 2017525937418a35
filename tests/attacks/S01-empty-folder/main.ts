import { attempt } from "./attack";
import { renameSync, writeFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("written", () => writeFileSync("@@home@@/other/x.jsonl", "{}\n"));
    writeFileSync("@@home@@/other/y.txt", "{}\n");
    await attempt("renamed", () => renameSync("@@home@@/other/y.txt", "@@home@@/other/y.jsonl"));
  });
