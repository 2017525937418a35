import { attempt } from "./attack";
import { execFileSync, spawn } from "node:child_process";

const run = (input: string) => execFileSync("sh", [], { input, encoding: "utf8" });

export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("first", () => run("echo first"));
    await attempt("again", () => run("echo first"));
    await attempt("second", () => run("touch ran"));
    await attempt("later", () =>
      new Promise((done, fail) => {
        const child = spawn("sh", []);
        child.on("error", fail);
        child.on("exit", done);
        child.stdin.end("touch ran");
      }),
    );
  });
