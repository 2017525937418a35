import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const run = (cwd: string) => () => execFileSync("make", ["clean"], { cwd, encoding: "utf8" });
    await attempt("own", run("@@agent@@/extensions/foo"));
    await attempt("project", run("@@project@@"));
  });
