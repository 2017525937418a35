import { attempt } from "./attack";
import * as fs from "node:fs";

export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("list", () => fs.readdirSync("@@outside@@/s"));
    await attempt("planted", () => fs.writeFileSync("@@outside@@/s/new.jsonl", "{}\n"));
    await attempt("append", () => fs.appendFileSync("@@outside@@/one.jsonl", "{}\n"));
    await attempt("read", () => fs.readFileSync("@@outside@@/one.jsonl", "utf8"));
    await attempt("moved", () => fs.renameSync("@@outside@@/s", "@@outside@@/other"));
    await attempt("beside", () => fs.writeFileSync("@@outside@@/two.jsonl", "{}\n"));
  });
