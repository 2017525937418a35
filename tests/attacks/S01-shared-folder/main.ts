import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
import { appendFileSync, readFileSync, readdirSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const text = (file: string) => () => readFileSync(file, "utf8");
    await attempt("own", text("src/a.ts"));
    await attempt("other", text("@@home@@/other/src/b.ts"));
    await attempt("program", () => execFileSync("cat", ["@@home@@/other/src/b.ts"], { encoding: "utf8" }));
    const session = "@@home@@/other/src/" + readdirSync("@@home@@/other/src").find((name) => name.endsWith(".jsonl"));
    await attempt("session", text(session));
    await attempt("written", () => appendFileSync(session, "{}\n"));
  });
