import { attempt } from "./attack";
import * as fs from "node:fs";

const logs = "@@outside@@/logs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("list", () => fs.readdirSync(logs));
    await attempt("new", () => fs.writeFileSync(logs + "/other.jsonl", "{}\n"));
    await attempt("gone", () => fs.rmSync(logs, { recursive: true }));
    await attempt("moved", () => fs.renameSync(logs, "@@outside@@/other"));
    await attempt("beside", () => fs.writeFileSync("@@outside@@/notes.txt", "x"));
  });
