import { attempt, report } from "./attack";
import { readFileSync, writeFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("pipe", () => readFileSync("pipe", "utf8"));
    await attempt("socket", () => readFileSync("socket", "utf8"));
    await attempt("sparse", () => readFileSync("sparse"));
    await attempt("folder", () => readFileSync(".", "utf8"));
    await attempt("fill", () => writeFileSync("pipe", "x"));
  });
