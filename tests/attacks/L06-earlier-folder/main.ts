import { attempt } from "./attack";
import { readdirSync, writeFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("listed", () => readdirSync("@@outside@@/logs"));
    await attempt("emptied", () => writeFileSync("@@outside@@/logs/x.jsonl", ""));
  });
