import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const run = (...args: string[]) => void execFileSync("versions", args, { encoding: "utf8", timeout: 9000 });
    await attempt("alias", () => run("-c", "alias.x=!touch ran", "x"));
    await attempt("input", () => void execFileSync("mytool", [], { input: "touch ran", timeout: 9000 }));
    await attempt("version", () => run("--version"));
  });
