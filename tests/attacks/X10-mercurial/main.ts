import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", () =>
    attempt("skips the configuration", () => execFileSync("go", ["list", "-json"], { encoding: "utf8" })));
