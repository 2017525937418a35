import { attempt } from "./attack";
import { execFileSync } from "node:child_process";

export default (pi: any) =>
  pi.on("session_start", async () => {
    const run = (cwd: string) => () => execFileSync("make", ["run"], { cwd, encoding: "utf8" });
    await attempt("elsewhere", run("@@extension@@"));
    await attempt("project", run("@@project@@"));
    await attempt("below", run("sub"));
    await attempt("plain", () => execFileSync("printf", ["x"], { cwd: "@@extension@@", encoding: "utf8" }));
  });
