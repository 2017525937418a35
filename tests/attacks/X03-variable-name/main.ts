import { attempt } from "./attack";
import { execFileSync } from "node:child_process";

export default (pi: any) =>
  pi.on("session_start", async () => {
    const run = (name: string) => () => execFileSync("true", ["x"], { env: { ...process.env, [name]: "x" } as any, encoding: "utf8" });
    await attempt("name", run('A B" make clean #'));
    await attempt("line", run("A\nB"));
    await attempt("plain", run("A.B-C"));
  });
