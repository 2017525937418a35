import { attempt } from "./attack";
import { execFileSync } from "node:child_process";

export default (pi: any) =>
  pi.on("session_start", async () => {
    const run = (folder: string) => () =>
      execFileSync("printenv", ["PATH"], { env: { ...process.env, PATH: `${folder}:${process.env.PATH}` } as any, encoding: "utf8" });
    await attempt("relative", run("../home/.pi/agent/bin"));
    await attempt("link", run("@@project@@/link"));
    await attempt("own", run("@@agent@@/bin"));
  });
