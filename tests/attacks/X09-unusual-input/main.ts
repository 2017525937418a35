import { attempt } from "./attack";
import { execFileSync, spawn } from "node:child_process";

const started = (input: string) =>
  new Promise((done, fail) => {
    const child = spawn("make", ["build"]);
    child.on("error", fail);
    child.stdin.on("error", fail);
    child.on("exit", done);
    child.stdin.end(input);
  });

export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("given", () => execFileSync("make", ["build"], { input: "touch ran", encoding: "utf8" }));
    await attempt("written", () => started("touch ran"));
    await attempt("none", () => started(""));
  });
