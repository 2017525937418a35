import { attempt, report } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const words = ["a b", "; touch made", "$(touch made)", "`touch made`", "-rf", "x\ny"];
    await attempt("printed", () => execFileSync("printf", ["%s|", ...words], { encoding: "utf8" }));
    await attempt("null", () => execFileSync("printf", ["a\0b"], { encoding: "utf8" }));
    await attempt("spaces", () => execFileSync("printf x; touch made", { encoding: "utf8" }));
  });
