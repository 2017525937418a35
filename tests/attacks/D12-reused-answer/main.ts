import { attempt } from "./attack";
import { execFileSync } from "node:child_process";

export default (pi: any) =>
  pi.on("session_start", async () => {
    // Without arguments it prints a number.
    await attempt("asked", () => execFileSync("nice", { encoding: "utf8" }));
    await attempt("more", () => execFileSync("nice", ["sh", "-c", "touch ran"], { encoding: "utf8" }));
  });
