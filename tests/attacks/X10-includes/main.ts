import { attempt } from "./attack";
import { execFileSync } from "node:child_process";

export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("checkout", () => execFileSync("git", ["checkout", "-q", "-b", "other"], { encoding: "utf8" }));
    await attempt("status", () => execFileSync("git", ["status", "--short"], { encoding: "utf8" }));
  });
